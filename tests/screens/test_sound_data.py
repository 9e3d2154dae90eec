"""Ten sound gates on real rows, through the front door: no screen says anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.language.yaml_text import write
from tests.commands import trains_classifiers
from tests.running.small import go
from tests.stories.defects import SIDES, Case, write_case

pytestmark = [pytest.mark.proof, trains_classifiers]

SUITES = (
    ("iris", "logistic", 0),
    ("wine", "logistic", 1),
    ("wine", "forest", 2),
    ("breast_cancer", "logistic", 3),
    ("breast_cancer", "forest", 4),
    ("digits", "logistic", 5),
    ("digits", "forest", 6),
    ("diabetes", "ridge", 7),
    ("diabetes", "trees", 8),
    ("digits", "logistic", 9),
)
"""Data, model, seed of the split."""


def _estimator(name: str) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # A bare forest is far less sure of ten digits than it is right (by more than 20 points), which is no sound model.
    return {
        "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=2000)),
        "forest": lambda: CalibratedClassifierCV(RandomForestClassifier(100, min_samples_leaf=2, random_state=0), cv=3),
        "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV()),
        "trees": lambda: RandomForestRegressor(100, min_samples_leaf=3, random_state=0),
    }[name]()


def _rows(name: str) -> tuple[NDArray[np.float64], NDArray[Any]]:
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    # Iris has flowers that are equal in all four measures.
    _, kept = np.unique(x, axis=0, return_index=True)
    kept = np.sort(kept)
    return x[kept], y[kept]


def sound(data: str, model: str, seed: int) -> Case:
    """A gate as an engineer writes it, whose limits are well kept."""
    x, y = _rows(data)
    parts = np.split(np.random.default_rng(seed).permutation(len(y)), [len(y) // 4, 5 * len(y) // 8])
    classes = () if model in ("ridge", "trees") else tuple(f"c{one}" for one in np.unique(y))
    labels = np.array([f"c{one}" for one in y]) if classes else y
    sides = {}
    for side, part in zip(SIDES, parts, strict=True):
        sides[side] = {f"m{index}": x[part, index] for index in range(x.shape[1])}
        sides[side] |= {"y": labels[part], "id": part}
    estimator = _estimator(model).fit(x[parts[0]], labels[parts[0]])
    give = estimator.predict_proba if classes else estimator.predict
    named: dict[str, Any] = {
        side: {"kind": "parquet", "path": f"{side}.parquet", "key": "id"}
        | ({} if side == "traffic" else {"label": "y"})
        for side in SIDES
    }
    spec = {
        "evalspec": 1, "name": data, "datasets": named,
        "models": {"candidate": {"kind": "predictions", "files": {"test": "candidate.parquet"},
                                 "artifact": "candidate.bin",
                                 "outputs": {"probabilities" if classes else "value": "p"}}
                   | ({"classes": list(classes)} if classes else {})},
        "model": [{"check": "quality", "dataset": "test"}
                  | ({"require": ["accuracy >= 50 %"]} if classes else {"report_only": True})],
        "data": [{"check": "shift", "reference": "test", "current": "traffic", "tolerance": 0.3,
                  "require": ["drifted_columns <= 50 %"]},
                 {"check": "contamination", "train": ["train"], "test": "test", "require": ["exact_duplicates == 0"]}],
    }  # fmt: skip
    return Case(sides, {"candidate": give(x[parts[1]])}, classes, spec, "m0", "")


@pytest.mark.parametrize(("data", "model", "seed"), SUITES)
def test_no_screen_says_anything(data: str, model: str, seed: int, tmp_path: Path) -> None:
    case = sound(data, model, seed)
    write_case(case, tmp_path)
    (tmp_path / "evalspec.yaml").write_text(write(case.spec))
    record, _ = go(tmp_path / "evalspec.yaml", tmp_path / "run")
    assert record.screens is not None
    assert record.screens.suspicions == ()
    assert record.screens.blind == {}
