from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.sets.packed_sets import Sets, jaccard


def sets(rows: list[list[int]]) -> Sets:
    from evalspec.stats.sets.hashing import mix

    flat = np.array([value for row in rows for value in row], np.uint64)
    return Sets.of(mix(flat), np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64))


def test_sets_are_of_distinct_elements() -> None:
    some = sets([[3, 1, 3], [], [7], [1, 2, 3, 4, 4]])
    assert some.sizes.tolist() == [2, 0, 1, 4]
    assert some.take(np.array([3, 1, 0])).sizes.tolist() == [4, 0, 2]


def test_jaccard_against_pythons_sets() -> None:
    rng = np.random.default_rng(0)
    left = [rng.integers(0, 30, rng.integers(0, 20)).tolist() for _ in range(60)]
    right = [rng.integers(0, 30, rng.integers(0, 20)).tolist() for _ in range(50)]
    a, b = rng.integers(0, 60, 2000), rng.integers(0, 50, 2000)
    found = jaccard(sets(left), sets(right), a, b)
    for i, j, value in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        x, y = set(left[i]), set(right[j])
        assert value == pytest.approx(len(x & y) / len(x | y) if x | y else 0.0)
