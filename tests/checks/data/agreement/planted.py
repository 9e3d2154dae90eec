"""Planted defects of `agreement`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.data.agreement.spec import Agreement
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs


def _rated(folder: Path, careful: float, rows: int = 400) -> Case:
    """Three people say which of four kinds a row is; where they are not careful they guess."""
    rng = np.random.default_rng(8)
    kind = rng.integers(0, 4, rows)
    said = np.where(rng.random((3, rows)) < careful, kind, rng.integers(0, 4, (3, rows)))
    table = pa.table({name: said[place] for place, name in enumerate(("anna", "ben", "chidi"))})
    inputs = FakeInputs(evidence=folder, tables={"test": table})
    check = Agreement.model_validate(
        {
            "check": "agreement", "dataset": "test", "raters": ["anna", "ben", "chidi"],
            "require": ["kappa >= 0.7", "alpha >= 0.7"],
        }
    )  # fmt: skip
    return inputs, check


PLANTED = (
    Planted(
        "agreement",
        "kappa",
        "kappa >= 0.7",
        lambda f: _rated(f, 0.95),
        lambda f: _rated(f, 0.6),
        lambda f, n: _rated(f, 0.95, n),
        "people guess in four rows of ten",
    ),
    Planted(
        "agreement",
        "alpha",
        "alpha >= 0.7",
        lambda f: _rated(f, 0.95),
        lambda f: _rated(f, 0.6),
        lambda f, n: _rated(f, 0.95, n),
        "people guess in four rows of ten, however many judge a row",
    ),
)
