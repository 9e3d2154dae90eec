"""Types of skops files, read without scikit-learn."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.runtimes.guards.skops_types import ESTIMATORS, only_common_types


def saved(estimator: Any, path: Path) -> Path:
    import skops.io

    skops.io.dump(estimator, path)
    return path


def forged(path: Path, change: dict[str, object]) -> Path:
    """The file with its outermost node changed."""
    with zipfile.ZipFile(path) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    members["schema.json"] = json.dumps(json.loads(members["schema.json"]) | change).encode()
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return path


def fitted(estimator: Any) -> Any:
    rng = np.random.default_rng(0)
    return estimator.fit(rng.normal(size=(40, 3)), rng.integers(0, 2, 40))


def test_a_common_pipeline_needs_no_closer_look(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    path = saved(fitted(make_pipeline(StandardScaler(), LogisticRegression())), tmp_path / "m.skops")
    assert only_common_types(path)
    for change in (
        {"__module__": "os", "__class__": "system", "__loader__": "FunctionNode"},
        {"__module__": "builtins", "__class__": "eval", "__loader__": "TypeNode"},
        {"__module__": "sklearn.pipeline", "__class__": "Pipeline", "__loader__": "ReduceNode"},
        {"__module__": "sklearn.externals", "__class__": "Pipeline"},
        {"__loader__": None},
        {"more": [{"deeper": {"__loader__": "PartialNode", "__module__": "functools", "__class__": "partial"}}]},
    ):
        other = forged(saved(fitted(make_pipeline(StandardScaler(), LogisticRegression())), path), change)
        assert not only_common_types(other), change


def test_what_skops_leaves_to_its_user_needs_one(tmp_path: Path) -> None:
    from sklearn.preprocessing import FunctionTransformer

    assert not only_common_types(saved(FunctionTransformer(np.log1p), tmp_path / "f.skops"))


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive"])
def test_what_is_no_skops_file_is_left_to_skops(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.skops"
    path.write_bytes(data)
    assert not only_common_types(path)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("other.json", "{}")
    assert not only_common_types(path)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("schema.json", "[" * 100_000)
    assert not only_common_types(path) and not only_common_types(tmp_path / "missing.skops")


def test_skops_trusts_every_estimator_that_is_named() -> None:
    from skops.io._trusted_types import SKLEARN_ESTIMATOR_TYPE_NAMES

    assert set(SKLEARN_ESTIMATOR_TYPE_NAMES) >= ESTIMATORS
