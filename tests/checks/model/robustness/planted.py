"""Planted defects of `robustness`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.robustness.spec import Robustness
from evalspec.language.inputs import Predictions
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs, classifier


def _noisy(folder: Path, pixels: int, rows: int = 600) -> Case:
    """Bright or dark pictures, judged by so many of their 64 pixels: noise averages out over many."""
    truth = np.arange(rows) % 2
    table = pa.table(
        {"pixels": np.repeat(np.where(truth == 1, 9.0, 7.0)[:, None], 64, axis=1).tolist(), "label": truth}
    )

    def told(asked: pa.Table, dataset: str, model: str) -> Predictions:
        seen = np.array(asked["pixels"].to_pylist(), dtype=np.float64).reshape(len(asked), 64)
        bright = (seen[:, :pixels].mean(axis=1) > 8).astype(np.int64) if len(asked) else np.zeros(0, dtype=np.int64)
        return classifier(np.eye(2)[bright] * 0.8 + 0.1, np.asarray(asked["label"]), model=model)

    inputs = FakeInputs(
        evidence=folder, tables={"test": table}, labels={"test": "label"}, answering=told,
        answers={("test", "candidate"): told(table, "test", "candidate")},
    )  # fmt: skip
    check = {
        "check": "robustness", "dataset": "test", "corruptions": ["gaussian_noise"], "severities": [5],
        "range": [0, 16], "require": ["worst_corruption_accuracy >= 90 %"],
    }  # fmt: skip
    return inputs, Robustness.model_validate(check)


PLANTED = (
    Planted(
        "robustness",
        "worst_corruption_accuracy",
        "worst_corruption_accuracy >= 90 %",
        lambda f: _noisy(f, 64),
        lambda f: _noisy(f, 1),
        lambda f, n: _noisy(f, 64, n),
        "decides by one pixel, which noise changes",
    ),
)
