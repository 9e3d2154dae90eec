"""The first match of each test row in each training set, as training rows stream past, and a few pairs to look at."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.checks.data.contamination.detector import Level, Mask, RowPair, TestSide
from evalspec.checks.data.contamination.examples import PAIRS_SHOWN, example
from evalspec.stats.sets.duplicates import Rows


class FirstMatches:
    """Matches of one level. A match is always a pair; there is no closure over chains of them.

    Args:
        asked: The test side.
        title: Of the level: ``equal``, ``nearly equal``.
    """

    def __init__(self, asked: TestSide, title: str) -> None:
        self._asked, self._title = asked, title
        self._train_row: dict[str, Rows] = {}
        self._closeness: dict[str, NDArray[np.float64]] = {}
        self._pairs: dict[str, list[tuple[int, int, pa.Table]]] = {}
        self._set = ""

    def begin(self, train_set: str) -> None:
        """Take what follows as rows of this training set."""
        self._set = train_set
        self._train_row[train_set] = np.full(len(self._asked.usable), -1, np.int64)
        self._closeness[train_set] = np.full(len(self._asked.usable), np.nan)
        self._pairs[train_set] = []

    @property
    def open(self) -> Mask:
        """Test rows without a match in this training set so far; shape (m,)."""
        return self._train_row[self._set] < 0

    @property
    def anywhere(self) -> Mask:
        """Test rows with a match in any training set; shape (m,)."""
        return np.asarray(np.logical_or.reduce([rows >= 0 for rows in self._train_row.values()]))

    def add(self, tests: Rows, trains: Rows, closeness: NDArray[np.float64], rows: pa.Table, first_row: int) -> None:
        """Keep the first match of each test row that has none yet.

        Args:
            tests: shape (p,), test rows.
            trains: shape (p,), the row of ``rows`` that each was found in.
            closeness: shape (p,).
            rows: Training rows, among others with the columns that examples show.
            first_row: Number of the first of them in its training set.
        """
        fresh = np.flatnonzero(self.open[tests])
        found, first = np.unique(tests[fresh], return_index=True)
        first = fresh[first]
        self._train_row[self._set][found] = first_row + trains[first]
        self._closeness[self._set][found] = closeness[first]
        shown = self._pairs[self._set]
        for test, train in zip(found.tolist(), trains[first].tolist(), strict=True):
            # Twice as many, since some of the near ones may turn out equal to a later row.
            if len(shown) >= 2 * PAIRS_SHOWN:
                return
            # A copy of the row, so that the batch can go.
            shown.append((test, first_row + train, rows.take(pa.array([train]))))

    def level(self, kind: str, metric: str, method: str, recall: float = 1.0, but: Level | None = None) -> Level:
        """Matches so far.

        Args:
            kind: In evidence.
            metric: That it counts to.
            method: How it was looked for.
            recall: Share of what lies just at the limit that is found.
            but: A closer level: what it found in a training set doesn't count here.
        """
        if but is not None:
            for name, rows in self._train_row.items():
                closer = but.in_set[name]
                rows[closer], self._closeness[name][closer] = -1, np.nan
        in_set = {name: rows >= 0 for name, rows in self._train_row.items()}
        return Level(kind, metric, self._title, self.anywhere, in_set, self._train_row, self._closeness, method, recall)

    def pairs(self, kind: str) -> tuple[RowPair, ...]:
        """Some of them, to look at; after `level`."""
        made = []
        for name, shown in self._pairs.items():
            kept = [pair for pair in shown if self._train_row[name][pair[0]] >= 0]
            for test, train, row in sorted(kept, key=lambda pair: pair[0])[:PAIRS_SHOWN]:
                left = example(self._asked, self._asked.table, test, self._title)
                right = example(self._asked, row, 0, self._title, name=name, number=train)
                made.append(RowPair(kind, test, name, train, left, right))
        return tuple(made)
