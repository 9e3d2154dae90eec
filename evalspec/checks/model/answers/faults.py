"""Faults of texts: which rows have which, and why some can't be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.answers.loops import looping
from evalspec.checks.model.answers.refusals import flagged
from evalspec.checks.model.answers.spec import REFUSAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Predictions

CUT = ("length", "max_tokens", "model_length", "model_context_window_exceeded")
"""Reasons to stop by which servers say that the text goes on: OpenAI's, Anthropic's, Mistral's."""


@dataclass(frozen=True, slots=True)
class FaultyRows:
    """Rows of one model that have each fault.

    Args:
        texts: shape (n,), what was written.
        rows: Metric: rows that count, shape (n,).
        missing: Metric: why it can't be told.
    """

    texts: list[str]
    rows: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def faults(answers: Predictions, looked_for: tuple[str, ...] = ()) -> FaultyRows:
    """Rows of each fault, and reasons why some can't be told.

    Args:
        answers: Of a model that writes texts.
        looked_for: Patterns that find refusals; empty: nobody asks for them.

    Raises:
        InputError: A pattern takes too long on a text.
    """
    assert answers.texts is not None
    found = FaultyRows(answers.texts.tolist())
    if answers.finish_reasons is None:
        found.missing["truncated"] = (
            f"{answers.model} does not say why it stops; name the output that does: outputs: {{finish_reason: ...}}"
        )
    else:
        found.rows["truncated"] = np.array([one.lower() in CUT for one in answers.finish_reasons.tolist()])
    if answers.extracted is None:
        found.missing["unparsed"] = (
            f"the model does not say where in the texts of {answers.model} the answer is; add `answer:` to the model"
        )
    else:
        found.rows["unparsed"] = np.array([one is None for one in answers.extracted.tolist()])
    found.rows["empty"] = np.array([not text.strip() for text in found.texts])
    found.rows["repeated"] = looping(found.texts)
    if looked_for:
        found.rows[REFUSAL] = flagged(looked_for, found.texts)
    return found
