from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.sets import duplicates
from evalspec.stats.sets.duplicates import Search, exact_matches, near_rows


def words(*rows: tuple[int, int]) -> np.ndarray:
    return np.array(rows, np.uint64).reshape(-1, 2)


def test_exact_matches_give_the_first_train_row() -> None:
    train = words((5, 1), (3, 2), (5, 1), (3, 3))
    test = words((5, 1), (3, 9), (3, 3), (7, 7), (7, 7), (3, 2))
    assert exact_matches(train, test).tolist() == [0, -1, 3, -1, -1, 1]
    assert exact_matches(train, words()).tolist() == []
    assert exact_matches(words(), test).tolist() == [-1] * 6


def test_exact_matches_against_a_dictionary() -> None:
    rng = np.random.default_rng(0)
    train, test = rng.integers(0, 40, (500, 2)).astype(np.uint64), rng.integers(0, 40, (300, 2)).astype(np.uint64)
    first: dict[tuple[int, ...], int] = {}
    for index, row in enumerate(train.tolist()):
        first.setdefault(tuple(row), index)
    assert exact_matches(train, test).tolist() == [first.get(tuple(row), -1) for row in test.tolist()]


def brute(train: np.ndarray, test: np.ndarray, limits: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    near = (np.abs(test[:, None] - train[None]) <= limits * (1 + 1e-9)).all(axis=2)
    return np.asarray((near & (b[:, None] == a[None])).any(axis=1))


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_near_rows_miss_nothing_and_add_nothing(columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Values on a lattice of a tenth of the limit: many pairs lie exactly at it and on the borders of cells.
    train = rng.integers(-60, 60, (400, columns)) / 10.0
    test = rng.integers(-60, 60, (300, columns)) / 10.0
    a, b = rng.integers(0, 3, 400).astype(np.uint64), rng.integers(0, 3, 300).astype(np.uint64)
    limits = np.ones(columns)
    limits[-1] = 0.0 if columns > 2 else 1.0
    found = near_rows(train, test, limits, a, b)
    assert (found.found == brute(train, test, limits, a, b)).all()
    hits = np.flatnonzero(found.found)
    assert (np.abs(test[hits] - train[found.train_row[hits]]) <= limits * (1 + 1e-9)).all()
    assert found.recall == 1.0


def test_near_rows_with_only_keys() -> None:
    keys = np.array([1, 2, 3], np.uint64)
    found = near_rows(np.zeros((3, 0)), np.zeros((2, 0)), np.zeros(0), keys, np.array([3, 9], np.uint64))
    assert found.train_row.tolist() == [2, -1]


def test_near_rows_of_large_values() -> None:
    train = np.array([[1e300, 1.0], [-0.0, 5.0], [1e18, 2.0]])
    test = np.array([[1e300, 1.0], [0.0, 5.0], [1e18, 3.0]])
    keys = np.zeros(3, np.uint64)
    assert near_rows(train, test, np.array([1.0, 0.5]), keys, keys).train_row.tolist() == [0, 1, -1]
    assert near_rows(train, test, np.array([0.0, 0.0]), keys, keys).train_row.tolist() == [0, 1, -1]


def test_what_else_is_compared_counts() -> None:
    train, test = np.array([[1.0], [1.1]]), np.array([[1.0]])
    keys = np.zeros(2, np.uint64)
    found = near_rows(train, test, np.array([0.5]), keys, keys[:1], accept=lambda rows, others: others == 1)
    assert found.train_row.tolist() == [1]


def test_a_search_judges_each_pair_once_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "PAIRS_AT_A_TIME", 50)
    seen: list[tuple[int, int]] = []
    sizes: list[int] = []

    def judge(test: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes.append(len(test))
        seen.extend(zip(test.tolist(), train.tolist(), strict=True))
        return np.ones(len(test)), (test == 3) & (train == 120)

    search = Search(6, judge)
    train_keys = np.repeat(np.arange(3, dtype=np.uint64), 100)
    search.join(train_keys, np.array([0, 1, 2, 1, 7, 2], np.uint64), np.arange(300))
    assert search.train_row.tolist() == [-1, -1, -1, 120, -1, -1]
    assert max(sizes) <= 50
    assert len(seen) == len(set(seen))
    for row, key in ((0, 0), (1, 1), (2, 2), (5, 2)):
        assert {train for test, train in seen if test == row} == set(range(100 * key, 100 * key + 100))
    # Row 3 was settled long before its last candidate.
    assert len([1 for test, _ in seen if test == 3]) < 100
