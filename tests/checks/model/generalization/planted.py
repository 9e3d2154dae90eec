"""Planted defects of `generalization`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.generalization.spec import Generalization
from tests.checks.planting import Case, Planted, confident
from tests.fakes import FakeInputs, classifier


def _elsewhere(folder: Path, share: float, rows: int = 3000) -> Case:
    """95 % right at home, and a share of the rows right elsewhere."""
    truth = np.arange(rows) % 2
    right = {"test": 0.95, "field": share}
    inputs = FakeInputs(
        evidence=folder,
        tables={name: pa.table({"x": np.arange(rows), "label": truth}) for name in right},
        labels=dict.fromkeys(right, "label"),
        origins={name: {"site": name} for name in right},
        answers={
            (name, "candidate"): classifier(confident(truth, np.arange(rows) < good * rows, 2), truth, dataset=name)
            for name, good in right.items()
        },
    )
    check = {"check": "generalization", "inside": "test", "outside": ["field"], "require": ["ood_gap <= 5 pp"]}
    return inputs, Generalization.model_validate(check)


PLANTED = (
    Planted(
        "generalization",
        "ood_gap",
        "ood_gap <= 5 pp",
        lambda f: _elsewhere(f, 0.94),
        lambda f: _elsewhere(f, 0.7),
        lambda f, n: _elsewhere(f, 0.94, n),
        "25 points worse at another site",
    ),
)
