"""Answers of a language model that is asked again: for more samples of each row, and with its other templates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.language.inputs import Variant
from evalspec.scoring.scored_rows import Scored, TextOptions, scored_answers
from evalspec.scoring.text.rows import exact_hits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs, Predictions


NO_ANSWER = "\0"
"""Stands for the answer of a text that has none."""


def _count(inputs: Inputs, model: str, fact: str) -> int:
    value = inputs.model_facts(model).get(fact)
    return value if isinstance(value, int) else 1


def samples(inputs: Inputs, dataset: str, model: str) -> tuple[Predictions, ...]:
    """Answers to each row, as often as ``generate: {samples: k}`` says; the first are those that every check sees.

    Args:
        inputs: Where answers come from; the others are asked for now.
        dataset: Its rows.
        model: A language model, at a temperature.
    """
    count = _count(inputs, model, "samples")
    more = []
    for sample in range(1, count):
        inputs.progress(sample, count, f"{model}: sample {sample + 1} of {count}")
        name = f"sample {sample + 1}"
        more.append(inputs.predict(inputs.table(dataset), dataset, name, model, variant=Variant(sample=sample)))
    return (inputs.predictions(dataset, model), *more)


def templates(inputs: Inputs, dataset: str, model: str) -> tuple[Predictions, ...]:
    """Answers to each row by each text of ``prompt: {user: [...]}``; the first are those that every check sees.

    Args:
        inputs: Where answers come from; the others are asked for now.
        dataset: Its rows.
        model: A language model.
    """
    count = _count(inputs, model, "templates")
    more = []
    for template in range(1, count):
        inputs.progress(template, count, f"{model}: template {template + 1} of {count}")
        name = f"template {template + 1}"
        more.append(inputs.predict(inputs.table(dataset), dataset, name, model, variant=Variant(template=template)))
    return (inputs.predictions(dataset, model), *more)


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
    """Answers that are the label's, shape (n,): the class, or the text as ``exact_match`` compares it."""
    if answers.predicted is not None:
        hits: NDArray[np.bool_] = answers.predicted == answers.truth
        return hits
    return exact_hits(scored_answers(answers, answers.dataset, options=options or TextOptions()))


def as_questions(several: tuple[Predictions, ...], options: TextOptions) -> Scored | None:
    """All samples as rows, each row of the dataset a question; None: there is one sample of each.

    Args:
        several: Of one model to the same n rows.
        options: As texts are compared.
    """
    if len(several) < 2:
        return None
    parts = [scored_answers(one, one.dataset, options=options) for one in several]
    first = parts[0]

    def joined(name: str) -> Any:
        arrays = [getattr(one, name) for one in parts]
        return None if any(array is None for array in arrays) else np.concatenate(arrays)

    rows: dict[str, Any] = {name: joined(name) for name in ("truth", "clusters", "texts", "extracted")}
    return replace(first, **rows, queries=np.tile(np.arange(first.n), len(parts)))
