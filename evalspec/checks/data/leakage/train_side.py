"""Training side of `leakage`: of each test entity, time and position the training row that gives it away.

Memory grows with the rows of the test set, however many training rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.checks.data.leakage.columns import Ids, Places, ids_of, places_of
from evalspec.stats.sets.lookup import Lookup
from evalspec.tables.shared_rows import Rows

if TYPE_CHECKING:
    from evalspec.checks.data.leakage.spec import Leakage
    from evalspec.stats.sets.hashing import Words


class Keys:
    """Distinct digests of test rows, asked for those of training rows.

    Args:
        words: shape (m, 2), digests of the test rows.
        of_row: shape (m,), key of each of them.
    """

    def __init__(self, words: Words) -> None:
        self._lookup = Lookup(words[:, 0])
        self.of_row: Rows = self._lookup.index(words[:, 0])
        self._second = np.zeros(len(self._lookup), np.uint64)
        self._second[self.of_row] = words[:, 1]

    def __len__(self) -> int:
        return len(self._lookup)

    def find(self, words: Words) -> tuple[Rows, Rows]:
        """Positions of those that have a known key, rising, and the key of each.

        Args:
            words: shape (n, 2).
        """
        at, keys = self._lookup.find(np.ascontiguousarray(words[:, 0]))
        same = self._second[keys] == words[at, 1]
        return at[same], keys[same]


class Firsts:
    """Of each of some keys the first training row that has it: its set and its number; -1: none.

    Args:
        keys: How many.
    """

    def __init__(self, keys: int) -> None:
        self.sets = np.full(keys, -1, np.int64)
        self.rows = np.full(keys, -1, np.int64)

    def update(self, keys: Rows, rows: Rows, number: int) -> None:
        """More rows of a set, in their order."""
        found, first = np.unique(keys, return_index=True)
        new = self.rows[found] < 0
        self.sets[found[new]], self.rows[found[new]] = number, rows[first[new]]


class Latest(Firsts):
    """Of each of some keys the training row with the largest value, the last one of these.

    Args:
        keys: How many.
        kind: Of the values.
    """

    def __init__(self, keys: int, kind: np.dtype[Any]) -> None:
        super().__init__(keys)
        self.values = np.zeros(keys, kind)

    def see(self, keys: Rows, values: NDArray[Any], rows: Rows, number: int) -> None:
        """More rows of a set, in their order."""
        order = np.lexsort((values, keys))
        ends = np.flatnonzero(np.diff(keys[order], append=-1))
        last = order[ends]
        newer = (self.rows[keys[last]] < 0) | (values[last] >= self.values[keys[last]])
        last = last[newer]
        at = keys[last]
        self.values[at], self.sets[at], self.rows[at] = values[last], number, rows[last]

    def carried(self) -> Rows:
        """Of each key itself, or the nearest one before it that has a row; -1: none."""
        places = np.where(self.rows >= 0, np.arange(len(self.rows)), -1)
        return np.maximum.accumulate(places)


@dataclass
class Gaps:
    """How many training rows stand between the positions of test rows.

    Args:
        points: shape (k,), rising, the distinct positions of the test set.
        counts: shape (k + 1,), training rows above the point before and up to this one; the last: above all.
        equal: shape (k,), a training row stands at the point itself.
        below: Of each gap the training row that stands last in it.
    """

    points: NDArray[Any]
    counts: Rows
    equal: NDArray[np.bool_]
    below: Latest

    @classmethod
    def of(cls, test: Places) -> Gaps:
        """Of a test set, without training rows yet."""
        points = np.unique(test.values[test.present])
        size = len(points)
        below = Latest(size + 1, points.dtype)
        return cls(points, np.zeros(size + 1, np.int64), np.zeros(size, np.bool_), below)

    def see(self, places: Places, first_row: int, number: int) -> None:
        """More training rows of a set."""
        at = np.flatnonzero(places.present)
        values = places.values[at]
        gap = np.searchsorted(self.points, values, side="left")
        self.counts += np.bincount(gap, minlength=len(self.counts))
        inside = np.flatnonzero(gap < len(self.points))
        hit = self.points[gap[inside]] == values[inside]
        self.equal[gap[inside][hit]] = True
        self.below.see(gap, values, at + first_row, number)


@dataclass
class _Absent:
    """Rows without an id, a time, either, or a position."""

    ids: int = 0
    times: int = 0
    either: int = 0
    positions: int = 0


Scales = tuple["pa.DataType | None", "pa.DataType | None"]
"""What times, and what positions, are compared as."""


@dataclass(frozen=True)
class TestRows:
    """Where and when the test rows are, and whose.

    Args:
        ids: None: no entity is named.
        times: None: no time is named.
        positions: None: no index is named.
        texts: The entity's texts, folded; None: not every set has texts.
        scales: Of times and of positions.
    """

    ids: Ids | None
    times: Places | None
    positions: Places | None
    texts: pa.ChunkedArray | None
    scales: Scales

    @classmethod
    def of(cls, check: Leakage, test: pa.Table, heads: Mapping[str, pa.Table], scales: Scales) -> TestRows:
        """Of the test set.

        Args:
            check: Its fields.
            test: Its rows.
            heads: Set: its first rows.
            scales: Of times and of positions.

        Raises:
            TooFar: A time is beyond nanoseconds.
        """
        texts = None
        if len(check.entity) == 1 and _are_texts([head.column(check.entity[0]).type for head in heads.values()]):
            texts = _folded(test.column(check.entity[0]))
        return cls(
            ids_of(test, check.entity) if check.entity else None,
            places_of(test.column(check.time), scales[0]) if check.time else None,
            places_of(test.column(check.index), scales[1]) if check.index else None,
            texts,
            scales,
        )


class Trained:
    """Goes through the training rows once.

    Args:
        check: Its fields.
        asked: The test side.
    """

    def __init__(self, check: Leakage, asked: TestRows) -> None:
        self._check, self.asked = check, asked
        self.keys = None if asked.ids is None else Keys(asked.ids.words)
        self.groups = Firsts(0 if self.keys is None else len(self.keys))
        size = 0 if self.keys is None or asked.times is None else len(self.keys)
        self.entities = Latest(size, np.dtype(np.int64) if asked.times is None else asked.times.values.dtype)
        self.last: tuple[Any, int, int] | None = None
        self.gaps = None if asked.positions is None else Gaps.of(asked.positions)
        self.absent: dict[str, _Absent] = {}
        self._texts = None if asked.texts is None else pc.unique(asked.texts).drop_null()
        self.alike = np.zeros(0 if self._texts is None else len(self._texts), np.bool_)

    @property
    def key_of_row(self) -> Rows:
        """Key of each test row, shape (m,)."""
        assert self.keys is not None
        return self.keys.of_row

    @property
    def texts(self) -> pa.Array | None:
        """Distinct texts of the test set's entities that training has but for case and white space."""
        return None if self._texts is None else self._texts.filter(pa.array(self.alike))

    def see(self, rows: pa.Table, name: str, number: int, first_row: int) -> None:
        """More rows of a training set.

        Raises:
            TooFar: A time is beyond nanoseconds.
        """
        check, absent = self._check, self.absent.setdefault(name, _Absent())
        known = ids_of(rows, check.entity) if self.keys is not None else None
        times = places_of(rows.column(check.time), self.asked.scales[0]) if check.time else None
        if known is not None and self.keys is not None:
            absent.ids += int(known.missing.sum())
            at, keys = self.keys.find(known.words)
            named = ~known.missing[at]
            at, keys = at[named], keys[named]
            self.groups.update(keys, at + first_row, number)
            if times is not None:
                absent.either += int((known.missing | times.missing).sum())
                timed = times.present[at]
                self.entities.see(keys[timed], times.values[at[timed]], at[timed] + first_row, number)
        if times is not None:
            absent.times += int(times.missing.sum())
            self._see_last(times, first_row, number)
        if self.gaps is not None and check.index is not None:
            positions = places_of(rows.column(check.index), self.asked.scales[1])
            absent.positions += int(positions.missing.sum())
            self.gaps.see(positions, first_row, number)
        if self._texts is not None:
            theirs = _folded(rows.column(check.entity[0]))
            self.alike |= np.asarray(pc.is_in(self._texts, value_set=pc.unique(theirs)))

    def _see_last(self, times: Places, first_row: int, number: int) -> None:
        at = np.flatnonzero(times.present)
        if not len(at):
            return
        row = int(at[np.argmax(times.values[at])])
        if self.last is None or times.values[row] > self.last[0]:
            self.last = (times.values[row], number, row + first_row)


def _folded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts in small letters, without white space at the ends."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(column))


def _are_texts(kinds: Sequence[pa.DataType]) -> bool:
    """All of these are plain texts."""
    return all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds)
