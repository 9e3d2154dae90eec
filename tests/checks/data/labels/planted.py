"""Planted defects of `labels`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.data.labels.spec import Labels
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs


def _audited(folder: Path, anywhere: float, in_snow: float, rows: int = 2000) -> Case:
    """Wolves and dogs; one row in five is in snow. Half of the rows were looked at, and some labels are wrong."""
    rng = np.random.default_rng(6)
    number = np.arange(rows)
    wolf, snow = number % 2 == 0, number % 5 == 0
    truth = np.where(wolf, "wolf", "dog")
    swapped = (rng.random(rows) < anywhere) | (snow & wolf & (rng.random(rows) < in_snow))
    given = np.where(wolf == swapped, "dog", "wolf")
    table = pa.table(
        {
            "size": rng.normal(np.where(wolf, 2.0, -2.0), 1.0),
            "snow": snow,
            "label": given,
            "looked": pa.array(truth, mask=rng.random(rows) < 0.5),
        }
    )
    inputs = FakeInputs(
        evidence=folder, tables={"test": table}, labels={"test": "label"}, slices={("snow", "test"): snow}
    )
    check = Labels.model_validate(
        {
            "check": "labels", "dataset": "test", "audited": "looked", "features": ["size"], "by": ["snow"],
            "require": ["label_error_rate <= 5 %", "label_error_concentration <= 5x"],
            "warn": ["estimated_label_errors <= 6 %"],
        }
    )  # fmt: skip
    return inputs, check


PLANTED = (
    Planted(
        "labels",
        "label_error_rate",
        "label_error_rate <= 5 %",
        lambda f: _audited(f, 0.03, 0.0),
        lambda f: _audited(f, 0.2, 0.0),
        lambda f, n: _audited(f, 0.03, 0.0, n),
        "one label in five is wrong",
    ),
    Planted(
        "labels",
        "label_error_concentration",
        "label_error_concentration <= 5x",
        lambda f: _audited(f, 0.03, 0.0),
        lambda f: _audited(f, 0.02, 0.8),
        lambda f, n: _audited(f, 0.03, 0.0, n),
        "wolves in snow are labelled dogs",
    ),
    Planted(
        "labels",
        "estimated_label_errors",
        "estimated_label_errors <= 6 %",
        lambda f: _audited(f, 0.03, 0.0),
        lambda f: _audited(f, 0.3, 0.0),
        lambda f, n: _audited(f, 0.03, 0.0, n),
        "labels do not fit the rows like them",
    ),
)
