"""The first match of each test row in each training set, as training rows stream past, and a few pairs to look at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.checks.data.contamination.detector import Level, Mask, RowPair, TestSide
from evalspec.checks.data.contamination.examples import PAIRS_SHOWN, example
from evalspec.language.states import State, Value
from evalspec.stats.sets.duplicates import Rows

MOST_SHOWN = 2 * PAIRS_SHOWN
"""Twice as many as are shown, since some of the near ones may turn out equal to a later row."""


class SetMatches:
    """The first match of each test row in one training set.

    Args:
        rows: Of the test set.
        train_row: shape (m,); -1: none.
        closeness: shape (m,); NaN: none.
        shown: A few: test row, training row, and a table of that row alone.
    """

    def __init__(self, rows: int) -> None:
        self.train_row = np.full(rows, -1, np.int64)
        self.closeness = np.full(rows, np.nan)
        self.shown: list[tuple[int, int, pa.Table]] = []

    def add(self, tests: Rows, trains: Rows, closeness: NDArray[np.float64], rows: pa.Table, first_row: int) -> None:
        """As `FirstMatches.add`."""
        fresh = np.flatnonzero(self.train_row[tests] < 0)
        found, first = np.unique(tests[fresh], return_index=True)
        first = fresh[first]
        self.train_row[found] = first_row + trains[first]
        self.closeness[found] = closeness[first]
        for test, train in zip(found.tolist(), trains[first].tolist(), strict=True):
            if len(self.shown) >= MOST_SHOWN:
                return
            # A copy of the row, so that the batch can go.
            self.shown.append((test, first_row + train, rows.take(pa.array([train]))))

    def leave_out(self, tests: Mask) -> None:
        """Forget the matches of these test rows, shape (m,)."""
        self.train_row[tests], self.closeness[tests] = -1, np.nan

    def merge(self, later: SetMatches) -> None:
        """Take over matches in rows that come after."""
        new = (self.train_row < 0) & (later.train_row >= 0)
        self.shown += [one for one in later.shown if new[one[0]]]
        del self.shown[MOST_SHOWN:]
        self.train_row[new], self.closeness[new] = later.train_row[new], later.closeness[new]

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        at = np.flatnonzero(self.train_row >= 0)
        return {
            "size": len(self.train_row), "at": at, "rows": self.train_row[at], "closeness": self.closeness[at],
            **shown_fields(self.shown),
        }  # fmt: skip

    @classmethod
    def of_fields(cls, fields: State) -> SetMatches:
        """The matches of which these are the fields."""
        matches, at = cls(fields.scalar("size")), fields.numbers("at")
        matches.train_row[at], matches.closeness[at] = fields.numbers("rows"), fields.numbers("closeness")
        matches.shown = shown_of(fields)
        return matches


def shown_fields(shown: Sequence[tuple[int, int, pa.Table]]) -> dict[str, Value]:
    """Rows that are shown, for `evalspec.language.states`."""
    if not shown:
        return {}
    tests, trains, rows = zip(*shown, strict=True)
    table, sink = pa.concat_tables(rows), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return {
        "shown tests": np.array(tests, np.int64), "shown trains": np.array(trains, np.int64), "shown": sink.getvalue(),
    }  # fmt: skip


def shown_of(fields: State) -> list[tuple[int, int, pa.Table]]:
    """The rows of which these are the fields."""
    if "shown" not in fields:
        return []
    table = pa.ipc.open_stream(fields.buffer("shown")).read_all()
    numbers = zip(fields.numbers("shown tests").tolist(), fields.numbers("shown trains").tolist(), strict=True)
    return [(test, train, table.slice(place, 1)) for place, (test, train) in enumerate(numbers)]


class FirstMatches:
    """Matches of one level. A match is always a pair; there is no closure over chains of them.

    Args:
        asked: The test side.
        title: Of the level: ``equal``, ``nearly equal``.
        sets: Training set: its matches.
    """

    def __init__(self, asked: TestSide, title: str) -> None:
        self._asked, self.title = asked, title
        self.sets: dict[str, SetMatches] = {}
        self._now = SetMatches(0)

    def begin(self, train_set: str) -> None:
        """Take what follows as rows of this training set."""
        self._now = self.sets[train_set] = SetMatches(len(self._asked.usable))

    def take(self, found: SetMatches) -> None:
        """Take over matches in the training set that goes by."""
        self.sets = {name: found if one is self._now else one for name, one in self.sets.items()}
        self._now = found

    @property
    def now(self) -> SetMatches:
        """Those in the training set that goes by."""
        return self._now

    @property
    def open(self) -> Mask:
        """Test rows without a match in this training set so far; shape (m,)."""
        return self._now.train_row < 0

    @property
    def anywhere(self) -> Mask:
        """Test rows with a match in any training set; shape (m,)."""
        return np.asarray(np.logical_or.reduce([one.train_row >= 0 for one in self.sets.values()]))

    def add(self, tests: Rows, trains: Rows, closeness: NDArray[np.float64], rows: pa.Table, first_row: int) -> None:
        """Keep the first match of each test row that has none yet.

        Args:
            tests: shape (p,), test rows.
            trains: shape (p,), the row of ``rows`` that each was found in.
            closeness: shape (p,).
            rows: Training rows, among others with the columns that examples show.
            first_row: Number of the first of them in its training set.
        """
        self._now.add(tests, trains, closeness, rows, first_row)

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
            for name, one in self.sets.items():
                one.leave_out(but.in_set[name])
        rows = {name: one.train_row for name, one in self.sets.items()}
        in_set = {name: row >= 0 for name, row in rows.items()}
        closeness = {name: one.closeness for name, one in self.sets.items()}
        return Level(kind, metric, self.title, self.anywhere, in_set, rows, closeness, method, recall)

    def pairs(self, kind: str) -> tuple[RowPair, ...]:
        """Some of them, to look at; after `level`."""
        made = []
        for name, one in self.sets.items():
            kept = [pair for pair in one.shown if one.train_row[pair[0]] >= 0]
            for test, train, row in sorted(kept, key=lambda pair: pair[0])[:PAIRS_SHOWN]:
                left = example(self._asked, self._asked.table, test, self.title)
                right = example(self._asked, row, 0, self.title, name=name, number=train)
                made.append(RowPair(kind, test, name, train, left, right))
        return tuple(made)
