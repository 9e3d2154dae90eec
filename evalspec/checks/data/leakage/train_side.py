"""Training side of `leakage`: of each test entity, time and position the training row that gives it away.

Memory grows with the rows of the test set, however many training rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.checks.data.leakage.columns import Ids, Places, TooFar, ids_of, places_of
from evalspec.language.states import State, Value, packed, under
from evalspec.sources.reading.rows import row_digests
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

    def merge(self, later: Firsts) -> None:
        """Take over rows that come after."""
        self.take(later, (self.rows < 0) & (later.rows >= 0))

    def take(self, other: Firsts, keys: NDArray[np.bool_]) -> None:
        """Take over the rows of these keys, shape (keys,)."""
        self.sets[keys], self.rows[keys] = other.sets[keys], other.rows[keys]

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        at = np.flatnonzero(self.rows >= 0)
        return {"size": len(self.rows), "keys": at, "sets": self.sets[at], "rows": self.rows[at]}

    @classmethod
    def of_fields(cls, fields: State) -> Self:
        """The rows of which these are the fields."""
        firsts = cls(fields.scalar("size"))
        at = fields.numbers("keys")
        firsts.sets[at], firsts.rows[at] = fields.numbers("sets"), fields.numbers("rows")
        return firsts


class Latest(Firsts):
    """Of each of some keys the training row with the largest value, the last one of these.

    Args:
        keys: How many.
        kind: Of the values.
    """

    def __init__(self, keys: int, kind: np.dtype[Any] | None = None) -> None:
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

    def merge(self, later: Firsts) -> None:
        """Take over rows that come after."""
        assert isinstance(later, Latest)
        newer = (later.rows >= 0) & ((self.rows < 0) | (later.values >= self.values))
        self.take(later, newer)
        self.values[newer] = later.values[newer]

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return super().fields() | {"values": self.values[self.rows >= 0]}

    @classmethod
    def of_fields(cls, fields: State) -> Self:
        """The rows of which these are the fields."""
        latest, values = super().of_fields(fields), fields.numbers("values")
        latest.values = np.zeros(len(latest.rows), values.dtype)
        latest.values[latest.rows >= 0] = values
        return latest

    def carried(self) -> Rows:
        """Of each key itself, or the nearest one before it that has a row; -1: none."""
        places = np.where(self.rows >= 0, np.arange(len(self.rows)), -1)
        return np.maximum.accumulate(places)


class FirstLabels:
    """Of each of some keys the first row that has it, with its label, and the first one with another label.

    Args:
        keys: How many.
    """

    def __init__(self, keys: int) -> None:
        self.first, self.other = Firsts(keys), Firsts(keys)
        self.first_label: Words = np.zeros((keys, 2), np.uint64)

    def see(self, keys: Rows, labels: Words, rows: Rows, number: int) -> None:
        """More rows of a set, in their order."""
        new = self.first.rows[keys] < 0
        found, first = np.unique(keys[new], return_index=True)
        self.first_label[found] = labels[new][first]
        self.first.update(keys, rows, number)
        unlike = (labels != self.first_label[keys]).any(axis=1)
        self.other.update(keys[unlike], rows[unlike], number)

    def merge(self, later: FirstLabels) -> None:
        """Take over rows that come after."""
        there = later.first.rows >= 0
        new = there & (self.first.rows < 0)
        unlike = there & ~new & (later.first_label != self.first_label).any(axis=1)
        lacking = self.other.rows < 0
        self.other.take(later.first, lacking & unlike)
        self.other.take(later.other, lacking & there & ~unlike)
        self.first.take(later.first, new)
        self.first_label[new] = later.first_label[new]

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        labels = self.first_label[self.first.rows >= 0]
        return under("first", self.first.fields()) | under("other", self.other.fields()) | {"labels": labels}

    @classmethod
    def of_fields(cls, fields: State) -> FirstLabels:
        """The rows of which these are the fields."""
        first, other = (Firsts.of_fields(fields.at(name)) for name in ("first", "other"))
        labels = cls(len(first.rows))
        labels.first, labels.other = first, other
        labels.first_label[first.rows >= 0] = fields.numbers("labels").reshape(-1, 2)
        return labels


class Gaps:
    """How many training rows stand between the positions of test rows.

    Args:
        points: shape (k,), rising, the distinct positions of the test set.
        counts: shape (k + 1,), training rows above the point before and up to this one; the last: above all.
        equal: shape (k,), a training row stands at the point itself.
        below: Of each gap the training row that stands last in it.
    """

    def __init__(self, points: NDArray[Any]) -> None:
        self.points = points
        self.counts = np.zeros(len(points) + 1, np.int64)
        self.equal = np.zeros(len(points), np.bool_)
        self.below = Latest(len(points) + 1, points.dtype)

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

    def merge(self, later: Gaps) -> None:
        """Take over rows that come after."""
        self.counts += later.counts
        self.equal |= later.equal
        self.below.merge(later.below)

    def fields(self) -> dict[str, Value]:
        """All that is kept but the points, for `evalspec.language.states`."""
        return {"counts": self.counts, "equal": np.flatnonzero(self.equal)} | under("below", self.below.fields())

    @classmethod
    def of_fields(cls, fields: State) -> Gaps:
        """The gaps of which these are the fields; where their points are nobody knows, so no row may come."""
        counts = fields.numbers("counts")
        gaps = cls(np.zeros(len(counts) - 1))
        gaps.counts, gaps.below = counts, Latest.of_fields(fields.at("below"))
        gaps.equal[fields.numbers("equal")] = True
        return gaps


@dataclass
class _Absent:
    """Rows without an id, a time, either, or a position."""

    ids: int = 0
    times: int = 0
    either: int = 0
    positions: int = 0

    def merge(self, later: _Absent) -> None:
        self.ids += later.ids
        self.times += later.times
        self.either += later.either
        self.positions += later.positions


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


class RowIndex:
    """The test rows as training rows are looked up in them.

    Args:
        check: Its fields.
        asked: The test rows.
        features: Columns in which rows can be equal, with other labels; none: nobody asks.
        labelled: Their keys.
    """

    def __init__(
        self, check: Leakage, asked: TestRows, features: tuple[str, ...] = (), labelled: Keys | None = None
    ) -> None:
        self.entity, self.time, self.index = check.entity, check.time, check.index
        self.scales = asked.scales
        self.keys = None if asked.ids is None else Keys(asked.ids.words)
        self.time_kind = None if asked.times is None else asked.times.values.dtype
        self.points = None if asked.positions is None else np.unique(asked.positions.values[asked.positions.present])
        self.texts = None if asked.texts is None else pc.unique(asked.texts).drop_null()
        self.features, self.labelled = features, labelled

    def columns(self, label: str | None) -> tuple[str, ...]:
        """Columns of a training set that are looked at.

        Args:
            label: Of the set; None: its rows are not held against labels.
        """
        placing = (*self.entity, *(one for one in (self.time, self.index) if one is not None))
        return tuple(dict.fromkeys((*placing, *(() if label is None else (*self.features, label)))))

    @property
    def size(self) -> int:
        """Keys and positions."""
        keys = sum(len(one) for one in (self.keys, self.labelled) if one is not None)
        return keys + (0 if self.points is None else len(self.points))


@dataclass(frozen=True)
class TrainingSet:
    """A training set that goes by.

    Args:
        name: Its name.
        number: Its number.
        label: Its label, where its rows are held against those of the test set; None: they are not.
        labelled: Its number among those that are; the test set is 0.
    """

    name: str
    number: int
    label: str | None = None
    labelled: int = 0


class Trained:
    """Findings about the test rows in training rows that go by; a `Summary`.

    Args:
        index: The test rows; None: no row will come.
        now: The training set; None: none of its rows will come.
        too_far: A time is beyond nanoseconds, and nothing else is known.
    """

    exact: ClassVar[bool] = True
    most_bytes: ClassVar[int] = 2**29

    def __init__(self, index: RowIndex | None = None, now: TrainingSet | None = None) -> None:
        self._index, self._now = index, now
        self.too_far = False
        self.absent: dict[str, _Absent] = {}
        self.last: tuple[Any, int, int] | None = None
        if index is None:
            return
        keys = 0 if index.keys is None else len(index.keys)
        self.groups = Firsts(keys)
        self.entities = Latest(0 if index.time_kind is None else keys, index.time_kind or np.dtype(np.int64))
        self.gaps = None if index.points is None else Gaps(index.points)
        self.labels = None if index.labelled is None else FirstLabels(len(index.labelled))
        self.alike = np.zeros(0 if index.texts is None else len(index.texts), np.bool_)

    @property
    def key_of_row(self) -> Rows:
        """Key of each test row, shape (m,)."""
        assert self._index is not None and self._index.keys is not None
        return self._index.keys.of_row

    @property
    def texts(self) -> pa.Array | None:
        """Distinct texts of the test set's entities that training has but for case and white space."""
        assert self._index is not None
        return None if self._index.texts is None else self._index.texts.filter(pa.array(self.alike))

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows of the training set."""
        assert self._index is not None and self._now is not None
        if not self.too_far:
            try:
                self._see(pa.Table.from_batches([batch]), self._index, self._now, first_row)
            except TooFar:
                self.too_far = True

    def _see(self, rows: pa.Table, index: RowIndex, now: TrainingSet, first_row: int) -> None:
        absent, number = self.absent.setdefault(now.name, _Absent()), now.number
        known = ids_of(rows, index.entity) if index.keys is not None else None
        times = places_of(rows.column(index.time), index.scales[0]) if index.time else None
        if known is not None and index.keys is not None:
            absent.ids += int(known.missing.sum())
            at, keys = index.keys.find(known.words)
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
        if self.gaps is not None and index.index is not None:
            positions = places_of(rows.column(index.index), index.scales[1])
            absent.positions += int(positions.missing.sum())
            self.gaps.see(positions, first_row, number)
        if index.texts is not None:
            theirs = _folded(rows.column(index.entity[0]))
            self.alike |= np.asarray(pc.is_in(index.texts, value_set=pc.unique(theirs)))
        if self.labels is not None and index.labelled is not None and now.label is not None:
            at, keys = index.labelled.find(row_digests(rows, index.features))
            self.labels.see(keys, label_digests(rows, now.label)[at], at + first_row, now.labelled)

    def _see_last(self, times: Places, first_row: int, number: int) -> None:
        at = np.flatnonzero(times.present)
        if not len(at):
            return
        row = int(at[np.argmax(times.values[at])])
        self._take_last((times.values[row], number, row + first_row))

    def _take_last(self, later: tuple[Any, int, int]) -> None:
        if self.last is None or later[0] > self.last[0]:
            self.last = later

    def merge(self, later: Trained) -> None:
        """Take over what another one has seen, of rows or of training sets that come after."""
        self.too_far |= later.too_far
        for name, absent in later.absent.items():
            self.absent.setdefault(name, _Absent()).merge(absent)
        if later.last is not None:
            self._take_last(later.last)
        self.groups.merge(later.groups)
        self.entities.merge(later.entities)
        self.alike |= later.alike
        if self.gaps is not None and later.gaps is not None:
            self.gaps.merge(later.gaps)
        if self.labels is not None and later.labels is not None:
            self.labels.merge(later.labels)

    def state(self) -> pa.Table:
        """One row."""
        fields: dict[str, Value] = {
            "too far": self.too_far, "sets": list(self.absent), "alike": np.flatnonzero(self.alike),
            "texts": len(self.alike),
            "absent": np.array([list(vars(one).values()) for one in self.absent.values()], np.int64),
        }  # fmt: skip
        if self.last is not None:
            fields |= {"last": np.array([self.last[0]]), "last row": np.array(self.last[1:], np.int64)}
        fields |= under("groups", self.groups.fields()) | under("entities", self.entities.fields())
        fields |= {} if self.gaps is None else under("gaps", self.gaps.fields())
        fields |= {} if self.labels is None else under("labels", self.labels.fields())
        return packed("trained", 1, fields)

    @classmethod
    def restored(cls, state: pa.Table) -> Trained:
        """The summary with this state."""
        fields, found = State.of(state, "trained", 1), cls()
        found.too_far = fields.scalar("too far")
        absent = fields.numbers("absent").reshape(-1, 4).tolist()
        found.absent = {name: _Absent(*one) for name, one in zip(fields.texts("sets"), absent, strict=True)}
        if "last" in fields:
            (number, row) = fields.numbers("last row").tolist()
            found.last = (fields.numbers("last")[0], number, row)
        found.groups = Firsts.of_fields(fields.at("groups"))
        found.entities = Latest.of_fields(fields.at("entities"))
        gaps, labels = fields.at("gaps"), fields.at("labels")
        found.gaps = Gaps.of_fields(gaps) if gaps else None
        found.labels = FirstLabels.of_fields(labels) if labels else None
        found.alike = np.zeros(fields.scalar("texts"), np.bool_)
        found.alike[fields.numbers("alike")] = True
        return found


def label_digests(rows: pa.Table, label: str) -> Words:
    """Digests of labels, shape (n, 2), whatever their columns are called."""
    return row_digests(pa.table({"label": rows.column(label)}))


def _folded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts in small letters, without white space at the ends."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(column))


def _are_texts(kinds: Sequence[pa.DataType]) -> bool:
    """All of these are plain texts."""
    return all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds)
