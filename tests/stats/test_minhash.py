from __future__ import annotations

import math

import numpy as np
import pytest

from evalspec.stats import minhash
from evalspec.stats.minhash import Bands, Sets, jaccard, near_sets, solve_bands


def sets(rows: list[list[int]]) -> Sets:
    from evalspec.stats.hashing import mix

    flat = np.array([value for row in rows for value in row], np.uint64)
    return Sets.of(mix(flat), np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64))


def planted(rng: np.random.Generator, pairs: int, size: int, shared: int) -> tuple[list[list[int]], list[list[int]]]:
    """Pairs of sets that share so many of their elements, and nothing with any other."""
    train, test = [], []
    for pair in range(pairs):
        values = rng.permutation(2 * size - shared) + pair * 10_000
        train.append(values[:size].tolist())
        test.append(values[size - shared :].tolist())
    return train, test


def test_sets_are_of_distinct_elements() -> None:
    some = sets([[3, 1, 3], [], [7], [1, 2, 3, 4, 4]])
    assert some.sizes.tolist() == [2, 0, 1, 4]
    assert some.take(np.array([3, 1, 0])).sizes.tolist() == [4, 0, 2]
    again = sets([[1, 3], [7, 7]])
    assert some.digests()[0] == again.digests()[0]
    assert some.digests()[2] == again.digests()[1]


def test_jaccard_against_pythons_sets() -> None:
    rng = np.random.default_rng(0)
    left = [rng.integers(0, 30, rng.integers(0, 20)).tolist() for _ in range(60)]
    right = [rng.integers(0, 30, rng.integers(0, 20)).tolist() for _ in range(50)]
    a, b = rng.integers(0, 60, 2000), rng.integers(0, 50, 2000)
    found = jaccard(sets(left), sets(right), a, b)
    for i, j, value in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        x, y = set(left[i]), set(right[j])
        assert value == pytest.approx(len(x & y) / len(x | y) if x | y else 0.0)


@pytest.mark.parametrize("similarity", [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("recall", [0.9, 0.99])
def test_bands_reach_the_recall_they_are_solved_for(similarity: float, recall: float) -> None:
    bands = solve_bands(similarity, recall)
    # 1 - (1 - s^r)^b, Mining of Massive Datasets 3.4.2.
    assert bands.chance(similarity) == pytest.approx(1 - (1 - similarity**bands.hashes) ** bands.bands)
    assert bands.chance(similarity) >= recall
    assert bands.bands * bands.hashes <= minhash.MOST_HASHES


def test_bands_of_a_known_tool() -> None:
    # datatrove's 14 bands of 8: 0.924 at 0.8.
    assert Bands(14, 8).chance(0.8) == pytest.approx(0.924, abs=5e-4)


@pytest.mark.parametrize(("shared", "found"), [(35, True), (34, False)])
def test_the_limit_is_exact(shared: int, found: bool) -> None:
    # 35 shared of 50 distinct is 0.7; 34 of 51 is 0.667.
    rng = np.random.default_rng(1)
    size = (50 + shared) // 2 if found else (51 + shared) // 2
    train, test = planted(rng, 200, size, shared)
    exact = shared / (2 * size - shared)
    matches = near_sets(sets(train), sets(test), similarity=exact if found else 0.7, recall=0.99, rng=rng)
    if not found:
        assert not matches.found.any()
        return
    # Expected 0.99 x 200 = 198; under 192 has a chance below 1e-4.
    assert matches.found.sum() >= 192
    hits = np.flatnonzero(matches.found)
    assert (matches.train_row[hits] == hits).all()
    assert matches.closeness[hits] == pytest.approx(exact)


def test_recall_at_the_limit_is_what_is_printed() -> None:
    rng = np.random.default_rng(2)
    train, test = planted(rng, 3000, 17, 14)
    assert 14 / 20 == 0.7
    matches = near_sets(sets(train), sets(test), similarity=0.7, recall=0.9, rng=rng)
    bands = solve_bands(0.7, 0.9)
    assert matches.recall == bands.chance(0.7)
    # All pairs share the hash functions, so the spread is above binomial; five binomial standard deviations.
    spread = 5 * math.sqrt(matches.recall * (1 - matches.recall) / 3000)
    assert matches.found.mean() == pytest.approx(matches.recall, abs=spread)
    assert f"recall {matches.recall:.1%}" in matches.method


def test_recall_is_at_least_that_of_datasketch_with_the_same_bands() -> None:
    from datasketch import MinHash, MinHashLSH

    rng = np.random.default_rng(3)
    train, test = planted(rng, 400, 17, 14)
    bands = solve_bands(0.7, 0.9)
    index = MinHashLSH(num_perm=bands.bands * bands.hashes, params=(bands.bands, bands.hashes))

    def signature(row: list[int]) -> MinHash:
        one = MinHash(num_perm=bands.bands * bands.hashes, seed=5)
        one.update_batch([str(value).encode() for value in row])
        return one

    for number, row in enumerate(train):
        index.insert(number, signature(row))
    theirs = np.mean([number in index.query(signature(row)) for number, row in enumerate(test)])
    ours = near_sets(sets(train), sets(test), similarity=0.7, recall=0.9, rng=rng).found.mean()
    # Both estimate the same chance, 0.91: the difference of two has a standard deviation of 0.02.
    assert ours == pytest.approx(theirs, abs=0.08)
    assert ours >= 0.85


def test_default_threshold_of_datasketch_misses_what_this_finds() -> None:
    from datasketch import MinHashLSH

    index = MinHashLSH(threshold=0.8, num_perm=128)
    theirs = Bands(index.b, index.r).chance(0.8)
    assert theirs < 0.5
    assert solve_bands(0.8, 0.99).chance(0.8) >= 0.99


def test_large_and_empty_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minhash, "ELEMENTS_AT_A_TIME", 64)
    rng = np.random.default_rng(4)
    rows = [rng.integers(0, 10**9, size).tolist() for size in (1000, 0, 3, 64, 65, 1, 500)]
    matches = near_sets(sets(rows), sets(rows[::-1]), similarity=0.7, recall=0.99, rng=rng)
    assert matches.train_row.tolist() == [6, 5, 4, 3, 2, -1, 0]
    nothing = near_sets(sets([]), sets(rows), similarity=0.7, recall=0.99, rng=rng)
    assert not nothing.found.any()
    assert len(near_sets(sets(rows), sets([]), similarity=0.7, recall=0.99, rng=rng).train_row) == 0


def test_many_equal_train_sets_are_judged_once() -> None:
    rng = np.random.default_rng(5)
    copies = [list(range(100))] * 4_000
    # Shares 50 of 150: below the limit, but often a candidate of every copy.
    test = [list(range(50, 150))] * 50 + [list(range(100))]
    matches = near_sets(sets(copies), sets(test), similarity=0.7, recall=0.99, rng=rng)
    assert matches.found.tolist() == [False] * 50 + [True]


def test_what_else_is_compared_counts() -> None:
    rng = np.random.default_rng(6)
    rows = [[1, 2, 3]] * 40
    accept = lambda test, train: train == 33  # noqa: E731
    matches = near_sets(sets(rows), sets(rows[:2]), similarity=0.7, recall=0.99, rng=rng, accept=accept)
    assert matches.train_row.tolist() == [33, 33]
