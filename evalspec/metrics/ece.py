"""Expected calibration error as a module of the `evaluate` library."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np

from evalspec.stats.calibration.expected_error import expected_calibration_error

DESCRIPTION = (
    "Expected calibration error of the predicted class (L1, bins of equal mass), minus what noise adds to it: the "
    "value that the check `calibration` prints. `plug_in` is the value with the noise."
)
INPUTS = """
Args:
    predictions: shape (n, C), probabilities of each row.
    references: shape (n,), index of the true class.
    bins: Bins before merging.
"""


class Ece(evaluate.Metric):  # type: ignore[misc]  # the library has no types
    """Error of `evalspec.stats.calibration.expected_error.expected_calibration_error`."""

    def _info(self) -> evaluate.MetricInfo:
        features = {"predictions": datasets.Sequence(datasets.Value("float64")), "references": datasets.Value("int64")}
        return evaluate.MetricInfo(
            description=DESCRIPTION, citation="", inputs_description=INPUTS, features=datasets.Features(features)
        )

    def _compute(self, predictions: Any, references: Any, bins: int = 10) -> dict[str, float | None]:
        shares, truth = np.asarray(predictions, dtype=np.float64), np.asarray(references)
        error = expected_calibration_error(shares.max(axis=1), shares.argmax(axis=1) == truth, bins=bins)
        return {"ece": error.value, "plug_in": error.plug_in}
