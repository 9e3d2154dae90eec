from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.sets import set_join
from evalspec.stats.sets.hashing import mix
from evalspec.stats.sets.packed_sets import Sets, jaccard
from evalspec.stats.sets.set_join import SetIndex, join_sets


def hashes(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    flat = mix(np.array([value for row in rows for value in row], np.uint64))
    return flat, np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)


def sets(rows: list[list[int]]) -> Sets:
    return Sets.of(*hashes(rows))


def found(index: SetIndex, train: Sets) -> set[tuple[int, int]]:
    pairs = [np.stack(part, axis=1) for part in index.candidates(train)]
    return {(int(a), int(b)) for a, b in np.concatenate([np.zeros((0, 2), np.int64), *pairs])}


def rows_of(rng: np.random.Generator, count: int, kinds: int, largest: int) -> list[list[int]]:
    return [rng.integers(0, kinds, rng.integers(0, largest)).tolist() for _ in range(count)]


@pytest.mark.parametrize("similarity", [0.1, 0.3, 0.5, 2 / 3, 0.7, 0.8, 0.9, 1.0])
def test_no_pair_is_missed(similarity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against all pairs of Python's sets: small sets of few elements, so that many pairs lie just at the limit."""
    monkeypatch.setattr(set_join, "PAIRS_AT_A_TIME", 50)
    rng = np.random.default_rng(round(100 * similarity))
    test, train = rows_of(rng, 120, 14, 12), rows_of(rng, 150, 16, 12)
    train[:40] = [[*row, 15] for row in test[:40]]
    every = {
        (i, j)
        for i, a in enumerate(map(set, test))
        for j, b in enumerate(map(set, train))
        if a and b and len(a & b) >= similarity * len(a | b) - 1e-12
    }
    candidates = found(SetIndex(sets(test), similarity), sets(train))
    assert every <= candidates
    assert every
    close = jaccard(sets(test), sets(train), *np.array(sorted(candidates)).T)
    assert {pair for pair, one in zip(sorted(candidates), close, strict=True) if one >= similarity - 1e-12} == every


@pytest.mark.parametrize("similarity", [0.3, 0.7, 0.9])
def test_what_is_not_promising_has_no_pair(similarity: float) -> None:
    rng = np.random.default_rng(3)
    test, train = rows_of(rng, 60, 500, 80), rows_of(rng, 100, 5000, 80)
    for row in range(40):
        # Copies with more of their own, some of it said many times over.
        train[row] = test[row] + rng.integers(500, 520, rng.integers(0, 60)).tolist()
    index = SetIndex(sets(test), similarity)
    elements, offsets = hashes(train)
    promising = index.promising(elements, np.repeat(np.arange(len(train)), np.diff(offsets)), len(train))
    every = found(index, sets(train))
    close = jaccard(sets(test), sets(train), *np.array(sorted(every)).T)
    near = {pair[1] for pair, one in zip(sorted(every), close, strict=True) if one >= similarity}
    assert near
    assert near <= set(promising.tolist())
    assert len(promising) < 80


def test_no_sets_and_empty_ones() -> None:
    for test in ([], [[]], [[1, 2]]):
        for train in ([], [[]], [[3]]):
            assert found(SetIndex(sets(test), 0.7), sets(train)) == set()
    nothing = np.zeros(0, np.int64)
    assert len(SetIndex(sets([]), 0.7).promising(nothing.astype(np.uint64), nothing, 3)) == 0


def test_join_finds_each_set_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In portions, and among many copies of the same; with what else must agree, too."""
    monkeypatch.setattr(set_join, "SETS_AT_A_TIME", 7)
    rng = np.random.default_rng(8)
    test, train = rows_of(rng, 90, 30, 15), rows_of(rng, 120, 30, 15)
    test[:30] = [list(range(10))] * 30
    train[5:50] = [list(range(1, 11))] * 45
    close = np.array([[jaccard_of(a, b) for b in train] for a in test])
    every = join_sets(sets(train), sets(test), similarity=0.7)
    assert every.found.tolist() == (close >= 0.7).any(axis=1).tolist()
    rows = np.flatnonzero(every.found)
    assert every.closeness[rows].tolist() == close[rows, every.train_row[rows]].tolist()
    odd = join_sets(sets(train), sets(test), similarity=0.7, accept=lambda _, trains: trains % 2 == 1)
    assert odd.found.tolist() == (close[:, 1::2] >= 0.7).any(axis=1).tolist()
    assert every.recall == 1.0


def jaccard_of(a: list[int], b: list[int]) -> float:
    return len(set(a) & set(b)) / len(set(a) | set(b)) if a and b else 0.0


def test_one_index_serves_one_training_set_after_the_other() -> None:
    test = sets([[1, 2, 3], [1, 2, 3], [1, 2, 3], [7, 8, 9]])
    index = SetIndex(test, 0.9)
    few = np.array([False, False, True, False])
    for wanted in (np.ones(4, bool), few, np.zeros(4, bool), np.ones(4, bool)):
        pairs = [row for tests, _ in index.candidates(sets([[1, 2, 3]]), wanted) for row in tests.tolist()]
        assert pairs == [row for row in range(3) if wanted[row]]


def of_one_form(rng: np.random.Generator, rows: int, kinds: int) -> Sets:
    """80 elements that all share, and 30 of so many kinds."""
    return sets([[*range(80), *rng.integers(100, 100 + kinds, 30).tolist()] for _ in range(rows)])


@pytest.mark.parametrize(("kinds", "most"), [(2**40, 0), (400, 0.01)])
def test_sets_of_one_form_are_no_candidates_of_each_other(kinds: int, most: float) -> None:
    """0.57 alike, all pairs of them: by what is left to share, and by sketches where they share something rare too."""
    rng = np.random.default_rng(4)
    test, train = of_one_form(rng, 300, kinds), of_one_form(rng, 200, kinds)
    close = jaccard(test, train, np.repeat(np.arange(300), 200), np.tile(np.arange(200), 300))
    assert 0.55 < close.mean() < 0.62
    assert len(found(SetIndex(test, 0.7), train)) <= most * len(close)


@pytest.mark.parametrize("similarity", [0.3, 0.7, 0.9])
def test_sketches_lose_no_pair(similarity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_join, "FEWEST_SKETCHED", 1)
    rng = np.random.default_rng(6)
    test, train = rows_of(rng, 100, 60, 50), rows_of(rng, 100, 60, 50)
    train[:50] = [[*row[: rng.integers(0, 50)], *rng.integers(0, 60, 3)] for row in test[:50]]
    tests, trains = np.repeat(np.arange(100), 100), np.tile(np.arange(100), 100)
    near = np.flatnonzero(jaccard(sets(test), sets(train), tests, trains) >= similarity)
    assert len(near) > 10
    assert {(int(tests[at]), int(trains[at])) for at in near} <= found(SetIndex(sets(test), similarity), sets(train))


def test_what_else_must_agree_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of one form whose other columns differ are many, and to verify each of them takes long."""
    judged: list[int] = []

    def counting(left: Sets, right: Sets, tests: np.ndarray, trains: np.ndarray) -> np.ndarray:
        judged.append(len(tests))
        return jaccard(left, right, tests, trains)

    monkeypatch.setattr(set_join, "jaccard", counting)
    same = sets([[1, 2, 3]] * 40)
    matches = join_sets(same, same, similarity=0.7, accept=lambda tests, trains: (tests == 3) & (trains == 5))
    assert np.flatnonzero(matches.found).tolist() == [3]
    assert matches.train_row[3] == 5
    assert sum(judged) == 1
