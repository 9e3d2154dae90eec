"""Overlap of words as a module of the `evaluate` library."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from evalspec.stats.sets.texts import overlap

DESCRIPTION = "Mean F1 of the words with the nearest reference, as SQuAD counts it (0 to 1)."
INPUTS = """
Args:
    predictions: shape (n,), texts.
    references: shape (n,), a text each, or a list of texts each.
"""


class TokenF1(evaluate.Metric):  # type: ignore[misc]  # the library has no types
    """Mean overlap by `evalspec.stats.sets.texts.overlap`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        several = datasets.Features({"predictions": text, "references": datasets.Sequence(text)})
        one = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(
            description=DESCRIPTION, citation="", inputs_description=INPUTS, features=[several, one]
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        pairs = zip(predictions, references, strict=True)
        scores = [
            max(overlap(said, one) for one in ([true] if isinstance(true, str) else true)) for said, true in pairs
        ]
        return {"token_f1": sum(scores) / len(scores)}
