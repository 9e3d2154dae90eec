from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.sets.hashing import mix
from evalspec.stats.sets.lookup import Lookup

TOP = 2**64 - 1


@pytest.mark.parametrize("size", [0, 1, 2, 100, 5000, 70_000])
def test_finds_what_is_there_and_nothing_else(size: int) -> None:
    rng = np.random.default_rng(size)
    values = mix(rng.integers(0, 2**63, size).astype(np.uint64))
    lookup = Lookup(np.concatenate([values, values[: size // 2]]))
    assert lookup.values.tolist() == sorted(set(values.tolist()))
    asked = np.concatenate([values[::3], mix(np.arange(1000, dtype=np.uint64)), np.array([0, TOP], np.uint64)])
    there = np.isin(asked, values)
    at, where = lookup.find(asked)
    assert at.tolist() == np.flatnonzero(there).tolist()
    assert (lookup.values[where] == asked[at]).all()
    assert lookup.maybe(asked)[there].all()
    if size:
        assert (lookup.values[lookup.index(values)] == values).all()


def test_most_of_what_is_not_there_is_ruled_out_at_once() -> None:
    lookup = Lookup(mix(np.arange(100_000, dtype=np.uint64)))
    assert lookup.maybe(mix(np.arange(10**6, 10**6 + 50_000, dtype=np.uint64))).mean() < 0.07


def test_values_that_are_not_spread_are_found_too() -> None:
    values = np.array([0, 1, 2, 3, 700, TOP - 1, TOP], np.uint64)
    lookup = Lookup(values)
    at, where = lookup.find(np.array([TOP, 4, 0, 700, TOP - 2], np.uint64))
    assert at.tolist() == [0, 2, 3]
    assert where.tolist() == [6, 0, 4]
