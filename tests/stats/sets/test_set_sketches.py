from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.sets import set_sketches
from evalspec.stats.sets.hashing import mix
from evalspec.stats.sets.packed_sets import Sets, jaccard
from evalspec.stats.sets.set_sketches import Sketches, cells_for


def sets(rows: list[np.ndarray]) -> Sets:
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    return Sets.of(mix(np.concatenate([np.zeros(0, np.uint64), *rows]).astype(np.uint64)), offsets)


def every_pair(ours: int, theirs: int) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(ours), theirs), np.tile(np.arange(theirs), ours)


@pytest.mark.parametrize("bits", [64, 512])
@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.7, 1.0])
def test_no_similar_pair_is_ruled_out(similarity: float, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few kinds of elements, so that many pairs lie just at the limit; in portions of one pair and of two sets."""
    monkeypatch.setattr(set_sketches, "WORDS_AT_A_TIME", 50)
    monkeypatch.setattr(set_sketches, "CELLS_AT_A_TIME", 2 * bits)
    rng = np.random.default_rng(bits)
    ours, theirs = ([rng.integers(0, 20, rng.integers(1, 25)) for _ in range(40)] for _ in range(2))
    theirs[:10] = ours[:10]
    mine = Sketches(sets(ours), bits)
    tests, trains = every_pair(40, 40)
    may = mine.may_share(mine.like(sets(theirs)), tests, trains, similarity)
    close = jaccard(sets(ours), sets(theirs), tests, trains) >= similarity
    assert close.any()
    assert may[close].all()


def test_what_differs_in_too_much_is_ruled_out() -> None:
    """A form of 80 elements with 30 of their own each: 0.57 alike."""
    rng = np.random.default_rng(0)
    rows = [np.concatenate([np.arange(80), rng.integers(1000, 2**40, 30)]) for _ in range(60)]
    one = sets(rows)
    assert cells_for(one) == 512
    tests, trains = every_pair(30, 30)
    sketches = Sketches(one, cells_for(one))
    may = sketches.may_share(sketches, tests, trains + 30, 0.7)
    assert may.mean() < 0.01
    assert sketches.may_share(sketches, tests[:30], tests[:30], 0.7).all()


def test_sizes_of_sketches_are_bounded() -> None:
    assert cells_for(sets([])) == cells_for(sets([np.arange(3)])) == 256
    assert cells_for(sets([np.arange(100_000)])) == 8192
