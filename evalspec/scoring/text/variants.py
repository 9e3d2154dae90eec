"""Answers in one form for texts and classes: what each comes to, and whether it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.language.predictions import all_answers
from evalspec.scoring.scored_rows import TextOptions, scored_answers
from evalspec.scoring.text.rows import exact_hits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Predictions


NO_ANSWER = "\0"
"""Stands for the answer of a text that has none."""


def said(answers: Predictions) -> NDArray[np.object_]:
    """The essence of each answer, shape (n,): the chosen class, the answer inside a text, or its words.

    A text without an answer is one of its own kind.
    """
    if answers.predicted is not None:
        return answers.predicted.astype(object)
    if answers.extracted is not None:
        return np.array([NO_ANSWER if one is None else one for one in answers.extracted.tolist()], dtype=object)
    assert answers.texts is not None
    return np.array([" ".join(text.split()) for text in answers.texts.tolist()], dtype=object)


def right(answers: Predictions, options: TextOptions | None = None) -> NDArray[np.bool_]:
    """Answers that are the label's: the class, or the text as ``exact_match`` compares it.

    Args:
        answers: With further ones to the same rows, which stand below these.
        options: How texts are read.
    """
    if answers.predicted is not None:
        answers = all_answers(answers)
        hits: NDArray[np.bool_] = np.asarray(answers.predicted == answers.truth)
        return hits
    return exact_hits(scored_answers(answers, answers.dataset, options=options or TextOptions()))
