"""Brier score of any number of classes as a module of the `evaluate` library."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np

DESCRIPTION = (
    "Mean squared error of the probabilities, as the check `quality` prints it: of the second class with two classes "
    "(0 to 1), summed over all classes with more (0 to 2)."
)
INPUTS = """
Args:
    predictions: shape (n, C), probabilities of each row.
    references: shape (n,), index of the true class.
"""


class Brier(evaluate.Metric):  # type: ignore[misc]  # the library has no types
    """Squared error of probabilities."""

    def _info(self) -> evaluate.MetricInfo:
        features = {"predictions": datasets.Sequence(datasets.Value("float64")), "references": datasets.Value("int64")}
        return evaluate.MetricInfo(
            description=DESCRIPTION, citation="", inputs_description=INPUTS, features=datasets.Features(features)
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
        errors = np.asarray(predictions, dtype=np.float64).copy()
        errors[np.arange(len(errors)), np.asarray(references)] -= 1.0
        total = float((errors**2).sum(axis=1).mean())
        return {"brier": total / 2.0 if errors.shape[1] == 2 else total}
