"""Rows of one set that occur in another: exactly, or within a tolerance. Arrays in, matches out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.sets.hashing import Words, keys, mix
from evalspec.stats.sets.lookup import Lookup

Rows = NDArray[np.int64]
Judge = Callable[[Rows, Rows], tuple[NDArray[np.float64], NDArray[np.bool_]]]
"""(test rows, train rows), pair by pair -> closeness of each pair, and whether it is a duplicate; shape (pairs,)."""
Accept = Callable[[Rows, Rows], NDArray[np.bool_]]
"""(test rows, train rows), pair by pair -> whether what else is compared agrees; shape (pairs,)."""

PAIRS_AT_A_TIME = 1 << 17
FIRST_LOOK, WIDEST_LOOK = 4, 4096
GRID_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Matches:
    """For each test row one train row that it duplicates. There is no closure over chains of matches.

    Args:
        train_row: shape (m,), -1 where there is none.
        closeness: shape (m,), Jaccard similarity or distance, as the method says; NaN where there is none.
        recall: Share of duplicates just at the limit that the search finds (closer ones are found more often).
        method: How they were looked for.
    """

    train_row: Rows
    closeness: NDArray[np.float64]
    recall: float
    method: str

    @property
    def found(self) -> NDArray[np.bool_]:
        """Test rows that have one; shape (m,)."""
        return self.train_row >= 0


def exact_matches(train: Words, test: Words) -> Rows:
    """The first train row with the same digest as each test row.

    Args:
        train: shape (n, 2), digests of rows.
        test: shape (m, 2).

    Returns:
        shape (m,), -1 where there is none.
    """
    n = len(train)
    both = np.concatenate([train, test])
    # Stable: within a group of equal digests train rows come first, in their order.
    order = np.lexsort((both[:, 1], both[:, 0]))
    ordered = both[order]
    starts = np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1))) if len(both) else np.zeros(0, bool)
    first = order[starts][np.cumsum(starts) - 1] if len(both) else np.zeros(0, np.int64)
    row = np.empty(len(both), np.int64)
    row[order] = first
    return np.where(row[n:] < n, row[n:], -1)


class Search:
    """Collects the first duplicate of each test row, and judges only pairs of rows that have none yet.

    Args:
        rows: Number of test rows.
        judge: Decides over pairs.
    """

    def __init__(self, rows: int, judge: Judge) -> None:
        self.train_row = np.full(rows, -1, np.int64)
        self.closeness = np.full(rows, np.nan)
        self._judge = judge

    def pairs(self, test: Rows, train: Rows) -> None:
        """Judge these pairs, in portions of bounded size."""
        for start in range(0, len(test), PAIRS_AT_A_TIME):
            some_test, some_train = test[start : start + PAIRS_AT_A_TIME], train[start : start + PAIRS_AT_A_TIME]
            closeness, accepted = self._judge(some_test, some_train)
            hits = np.flatnonzero(accepted & (self.train_row[some_test] < 0))
            rows, first = np.unique(some_test[hits], return_index=True)
            self.train_row[rows] = some_train[hits[first]]
            self.closeness[rows] = closeness[hits[first]]

    def join(self, train_keys: Words, test_keys: Words, order: Rows) -> None:
        """Judge all pairs with equal keys until each test row has a duplicate or no candidate is left.

        Args:
            train_keys: shape (n,), sorted.
            test_keys: shape (m,), of every test row.
            order: shape (n,), the train row of each sorted key.
        """
        pending = np.flatnonzero(self.train_row < 0)
        at = np.searchsorted(train_keys, test_keys[pending], side="left")
        end = np.searchsorted(train_keys, test_keys[pending], side="right")
        width = FIRST_LOOK
        while True:
            left = (self.train_row[pending] < 0) & (at < end)
            pending, at, end = pending[left], at[left], end[left]
            if not len(pending):
                return
            look = np.minimum(end - at, width)
            self._look(pending, at, look, order)
            at = at + look
            width = min(width * 4, WIDEST_LOOK)

    def _look(self, rows: Rows, at: Rows, look: Rows, order: Rows) -> None:
        bounds = np.cumsum(look)
        portions = np.searchsorted(bounds, np.arange(PAIRS_AT_A_TIME, bounds[-1] + 1, PAIRS_AT_A_TIME), side="right")
        for part in np.split(np.arange(len(rows)), np.unique(portions)):
            counts = look[part]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            self.pairs(np.repeat(rows[part], counts), order[np.repeat(at[part], counts) + within])


def near_rows(
    train: NDArray[np.float64],
    test: NDArray[np.float64],
    limits: NDArray[np.float64],
    train_keys: Words,
    test_keys: Words,
    accept: Accept | None = None,
) -> Matches:
    """Rows of numbers that differ by no more than a limit in every column, and have equal keys.

    Rows are looked up in a grid over the columns with the most cells, cells as wide as the limit, neighbouring cells
    too; each candidate is verified. No duplicate is missed.

    Args:
        train: shape (n, k), finite.
        test: shape (m, k), finite.
        limits: shape (k,), the largest difference in each column; 0: equal.
        train_keys: shape (n,), what must be equal besides.
        test_keys: shape (m,).
        accept: What else must agree.

    Returns:
        Closeness is the largest difference, in limits.
    """
    same = limits == 0
    # A hair wider than the limit, so that rounding leaves no pair two cells apart.
    scale = np.where(same, 1.0, limits * (1 + 2e-9))

    def judge(test_rows: Rows, train_rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        apart = np.abs(test[test_rows] - train[train_rows])
        good: NDArray[np.bool_] = np.asarray((apart <= limits * (1 + 1e-9)).all(axis=1))
        if accept is not None:
            good[good] = accept(test_rows[good], train_rows[good])
        return (apart / scale).max(axis=1, initial=0.0), good

    search = Search(len(test), judge)
    for column in np.flatnonzero(same):
        train_keys = mix(train_keys ^ _cell_key(train[:, column], int(column)))
        test_keys = mix(test_keys ^ _cell_key(test[:, column], int(column)))
    cells_train, cells_test = np.floor(train[:, ~same] / scale[~same]), np.floor(test[:, ~same] / scale[~same])
    fine = np.argsort([-len(np.unique(column)) for column in cells_train.T], kind="stable")[:GRID_COLUMNS]
    keyed = _grid_keys(cells_train[:, fine], train_keys)
    order = np.argsort(keyed, kind="stable")
    keyed = keyed[order]
    # Same cell first: most duplicates are there.
    for step in sorted(product((-1, 0, 1), repeat=len(fine)), key=lambda step: sum(map(abs, step))):
        search.join(keyed, _grid_keys(cells_test[:, fine] + np.array(step), test_keys), order)
    method = "every column within its limit, found in a grid and verified (recall 100 %)"
    return Matches(search.train_row, search.closeness, 1.0, method)


def _grid_keys(cells: NDArray[np.float64], row_keys: Words) -> Words:
    keyed = row_keys
    for column in range(cells.shape[1]):
        keyed = mix(keyed ^ _cell_key(cells[:, column], column))
    return keyed


def _cell_key(values: NDArray[np.float64], column: int) -> Words:
    # Adding 0.0 makes -0.0 to 0.0.
    return mix((values + 0.0).view(np.uint64)) * keys(np.array([column], np.uint64), 5)


class DigestIndex:
    """Digests of test rows, asked for those of train rows that stream past.

    Args:
        test: shape (m, 2), digests of test rows.
        usable: shape (m,), rows that are looked for.
    """

    def __init__(self, test: Words, usable: NDArray[np.bool_]) -> None:
        self._rows = np.flatnonzero(usable)
        self._lookup = Lookup(test[self._rows, 0])
        self._ids = self._lookup.index(test[self._rows, 0])
        self._second = np.zeros(len(self._lookup), np.uint64)
        self._second[self._ids] = test[self._rows, 1]

    def find(self, train: Words) -> tuple[Rows, Rows]:
        """Test rows with the digest of one of these train rows, and the first such train row.

        Args:
            train: shape (n, 2).

        Returns:
            Test rows, rising, and the train row of each.
        """
        at, ids = self._lookup.find(np.ascontiguousarray(train[:, 0]))
        same = self._second[ids] == train[at, 1]
        first = np.full(len(self._lookup), -1, np.int64)
        # Backwards, so that the first one is what stays.
        first[ids[same][::-1]] = at[same][::-1]
        first_rows = first[self._ids]
        return self._rows[first_rows >= 0], first_rows[first_rows >= 0]
