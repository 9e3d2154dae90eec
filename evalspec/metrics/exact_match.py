"""Exact matches of texts as a module of the `evaluate` library."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from evalspec.stats.sets.texts import is_exact

DESCRIPTION = "Share of texts that are one of their references, as the check `quality` counts it."
INPUTS = """
Args:
    predictions: shape (n,), texts.
    references: shape (n,), a text each, or a list of texts each.
    normalize: `none`: as written, but for white space at the ends and Unicode's form; `squad`: as SQuAD does.
"""


class ExactMatch(evaluate.Metric):  # type: ignore[misc]  # the library has no types
    """Share of exact matches by `evalspec.stats.sets.texts.is_exact`."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        several = datasets.Features({"predictions": text, "references": datasets.Sequence(text)})
        one = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(
            description=DESCRIPTION, citation="", inputs_description=INPUTS, features=[several, one]
        )

    def _compute(self, predictions: Any, references: Any, normalize: str = "none") -> dict[str, float]:
        pairs = zip(predictions, references, strict=True)
        hits = [is_exact(said, [true] if isinstance(true, str) else true, normalize) for said, true in pairs]
        return {"exact_match": sum(hits) / len(hits)}
