"""Rows changed by a hair: other bytes, the same work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalspec.pipeline.cache_busting import altered, ranges


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_one_floating_number_of_each_row_moves_by_a_hair(kind: Any) -> None:
    rng = np.random.default_rng(1)
    rows = {"x": rng.normal(size=(50, 4, 3)).astype(kind), "ids": np.arange(50), "name": np.array(["a"] * 50)}
    rows["x"][0] = 0.0
    before = rows["x"].copy()
    found = altered(rows, ranges(rows), rng)
    assert found is not None and found["x"].dtype == kind and found["x"].shape == (50, 4, 3)
    changed = found["x"] != before
    assert (changed.reshape(50, -1).sum(axis=1) == 1).all()
    if kind is np.float64:
        assert (found["x"].astype(np.float32) != before.astype(np.float32)).any(axis=(1, 2)).all(), "in 32 bits too"
    hair = 5e-3 if kind is np.float16 else 3e-4
    np.testing.assert_allclose(found["x"].astype(float), before.astype(float), rtol=hair, atol=1e-5)
    np.testing.assert_array_equal(rows["x"], before)
    np.testing.assert_array_equal(found["ids"], rows["ids"])


def test_a_whole_number_stays_inside_of_what_the_dataset_has() -> None:
    rng = np.random.default_rng(2)
    rows = {"x": rng.integers(0, 4, size=(500, 6)).astype(np.uint8)}
    found = altered(rows, ranges(rows), rng)
    assert found is not None and found["x"].dtype == np.uint8
    off = found["x"].astype(int) - rows["x"]
    assert (np.abs(off).sum(axis=1) == 1).all() and found["x"].max() == 3 and found["x"].min() == 0


def test_text_and_constants_can_not_be_changed() -> None:
    rng = np.random.default_rng(3)
    assert altered({"x": np.array(["a", "b"])}, {}, rng) is None
    same = {"x": np.ones((5, 2), dtype=np.int64)}
    assert altered(same, ranges(same), rng) is None
