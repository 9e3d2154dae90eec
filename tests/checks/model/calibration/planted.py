"""Planted defects of `calibration`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.calibration.spec import Calibration
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs, classifier


def _confidence(folder: Path, sharper: float, rows: int = 2500) -> Case:
    """A calibrated model of five classes, or one whose logits are multiplied; beside the calibrated one."""
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 1.5, (rows, 5))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (rng.random(rows)[:, None] > true.cumsum(axis=1)).sum(axis=1)
    said = np.exp(sharper * logits)
    answers = {
        ("test", "candidate"): classifier(said / said.sum(axis=1, keepdims=True), truth),
        ("test", "baseline"): classifier(true, truth, model="baseline"),
    }
    check = Calibration.model_validate(
        {
            "check": "calibration", "dataset": "test", "threshold": 0.85, "baseline": "baseline",
            "require": [
                "ece <= 0.05", "rms_calibration <= 0.06", "classwise_ece <= 0.04",
                "routing_change <= 5 %",
            ],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, tables={"test": pa.table({"label": truth})}, answers=answers), check


PLANTED = (
    Planted(
        "calibration",
        "ece",
        "ece <= 0.05",
        lambda f: _confidence(f, 1.0),
        lambda f: _confidence(f, 2.5),
        lambda f, n: _confidence(f, 1.0, n),
        "sure of what is wrong",
    ),
    Planted(
        "calibration",
        "rms_calibration",
        "rms_calibration <= 0.06",
        lambda f: _confidence(f, 1.0),
        lambda f: _confidence(f, 2.5),
        lambda f, n: _confidence(f, 1.0, n),
        "sure of what is wrong, by squares",
    ),
    Planted(
        "calibration",
        "classwise_ece",
        "classwise_ece <= 0.04",
        lambda f: _confidence(f, 1.0),
        lambda f: _confidence(f, 2.5),
        lambda f, n: _confidence(f, 1.0, n),
        "sure of what is wrong, class by class",
    ),
    Planted(
        "calibration",
        "routing_change",
        "routing_change <= 5 %",
        lambda f: _confidence(f, 1.0),
        lambda f: _confidence(f, 2.5),
        lambda f, n: _confidence(f, 1.0, n),
        "one row in five is answered without a person now",
    ),
)
