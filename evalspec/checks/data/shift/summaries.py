"""Summaries of a dataset whose rows go by once: its columns, and rows drawn evenly.

Summaries of columns can be merged, so that parts of a dataset may be looked at apart from each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from evalspec.language.scans import Scan
from evalspec.language.states import State, Value, packed, under
from evalspec.stats.drift.columns import MOST_CHARACTERS, CategoryCounts, Numbers
from evalspec.stats.sets.hashing import mix
from evalspec.tables.columns import View, views
from evalspec.tables.row_bytes import row_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLE_ROWS = 20_000
"""Rows drawn, all of a smaller dataset."""
SAMPLE_BYTES = 256 * 2**20
"""Fewer are drawn where they are larger than this together."""


class TextSummary:
    """A column of strings: how often each occurs, and beyond too many different ones how long they are."""

    def __init__(self) -> None:
        self.categories = CategoryCounts()
        self._lengths = Numbers()

    def update(self, array: pa.Array) -> None:
        """More cells."""
        import pyarrow.compute as pc

        if not self.categories.overflown:
            found = pc.value_counts(array.drop_null())
            counts = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
            _count_lengths(self._lengths, self.categories.update(counts, array.null_count))
            return
        self.categories.update({"": len(array) - array.null_count}, array.null_count)
        lengths = pc.utf8_length(array.drop_null()).to_numpy(zero_copy_only=False)
        self._lengths.update(lengths.astype(np.float64))

    def merge(self, other: TextSummary) -> None:
        """Take over what another one has seen."""
        counted = [dict(one.categories.counts) for one in (self, other)]
        self.categories.merge(other.categories)
        self._lengths.merge(other._lengths)
        if self.categories.overflown:
            for counts in counted:
                _count_lengths(self._lengths, counts)

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return under("categories", self.categories.fields()) | under("lengths", self._lengths.fields())

    @classmethod
    def of_fields(cls, fields: State) -> TextSummary:
        """The summary of which these are the fields."""
        found = cls()
        found.categories = CategoryCounts.of_fields(fields.at("categories"))
        found._lengths = Numbers.of_fields(fields.at("lengths"))
        return found

    def lengths(self) -> Numbers:
        """Characters of each cell."""
        found = Numbers()
        found.merge(self._lengths)
        _count_lengths(found, self.categories.counts)
        found.missing = self.categories.missing
        return found


def _count_lengths(lengths: Numbers, counts: Mapping[str, int]) -> None:
    if counts:
        each = np.array([len(name) for name in counts], dtype=np.float64)
        lengths.update(np.repeat(each, np.fromiter(counts.values(), dtype=np.int64)))


class ColumnSummary:
    """One column.

    Args:
        name: Its name.
        type: Its type.
        rows: Cells so far.
        null: Cells without a value.
        views: What its cells are looked at as: view's name: summary.
    """

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name = name
        self.type = kind
        self.rows = self.null = 0
        self.views: dict[str, Numbers | TextSummary] = {}

    def update(self, array: pa.Array) -> None:
        """More cells."""
        self.rows += len(array)
        self.null += array.null_count
        for view in views(array):
            self._take(view)

    def _take(self, view: View) -> None:
        there = self.views.get(view.suffix)
        if there is None:
            there = self.views[view.suffix] = Numbers() if view.kind == "number" else TextSummary()
        if isinstance(there, Numbers):
            there.update(np.asarray(view.cells), view.missing)
        else:
            there.update(view.cells)

    def merge(self, other: ColumnSummary) -> None:
        """Take over what another one has seen."""
        self.rows += other.rows
        self.null += other.null
        for suffix, theirs in other.views.items():
            mine = self.views.setdefault(suffix, type(theirs)())
            if isinstance(mine, Numbers):
                assert isinstance(theirs, Numbers)
                mine.merge(theirs)
            else:
                assert isinstance(theirs, TextSummary)
                mine.merge(theirs)

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        schema = pa.schema([pa.field(self.name, self.type)]).serialize().to_pybytes()
        kinds = ["number" if isinstance(one, Numbers) else "text" for one in self.views.values()]
        fields: dict[str, Value] = {
            "schema": schema, "rows": self.rows, "null": self.null, "views": list(self.views), "kinds": kinds
        }  # fmt: skip
        for place, one in enumerate(self.views.values()):
            fields |= under(str(place), one.fields())
        return fields

    @classmethod
    def of_fields(cls, fields: State) -> ColumnSummary:
        """The summary of which these are the fields."""
        field = pa.ipc.read_schema(pa.py_buffer(fields.scalar("schema"))).field(0)
        found = cls(field.name, field.type)
        found.rows, found.null = fields.scalar("rows"), fields.scalar("null")
        views = zip(fields.texts("views"), fields.texts("kinds"), strict=True)
        for place, (suffix, kind) in enumerate(views):
            one = fields.at(str(place))
            found.views[suffix] = Numbers.of_fields(one) if kind == "number" else TextSummary.of_fields(one)
        return found


class RowSample:
    """Rows drawn evenly from rows that go by; a `Summary`.

    Each row has a key, made of its number in the dataset and the seed alone; the rows with the smallest keys are the
    sample, as many as there may be and as fit into `SAMPLE_BYTES`, but one at least.

    Args:
        seed: At least 0, below 2^64.
        most: Rows at most; fewer where they are large.
        seen: Rows that went by.
    """

    exact: ClassVar[bool] = True
    most_bytes: ClassVar[int] = SAMPLE_BYTES + 64 * SAMPLE_ROWS + 2**20

    def __init__(self, seed: int, most: int = SAMPLE_ROWS) -> None:
        self._seed = seed
        self._most = most
        self._limit: np.uint64 | None = None
        self.seen = 0
        self._kept: list[_Keyed] = []

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows."""
        numbers = np.arange(first_row, first_row + batch.num_rows, dtype=np.int64)
        # Mixed twice: seeds that differ in their last bits alone would draw the same numbers in another order.
        keys = mix(numbers.astype(np.uint64) ^ mix(np.array([self._seed], np.uint64)))
        self.seen += batch.num_rows
        chosen = np.arange(len(keys)) if self._limit is None else np.flatnonzero(keys < self._limit)
        if not len(chosen):
            return
        table = pa.Table.from_batches([batch])
        # A copy, so that the rest of the batch can go.
        rows = table if self._limit is None and batch.num_rows <= self._most else table.take(pa.array(chosen))
        self._kept.append(_Keyed(keys[chosen], numbers[chosen], row_bytes(rows), rows))
        self._thin_where_full()

    def merge(self, later: RowSample) -> None:
        """Take over what another one has seen."""
        self.seen += later.seen
        self._kept += later._kept
        limits = [one for one in (self._limit, later._limit) if one is not None]
        self._limit = min(limits) if limits else None
        self._thin_where_full()

    def _thin_where_full(self) -> None:
        rows, size = (sum(of(one) for one in self._kept) for of in (_Keyed.__len__, _Keyed.size))
        if rows > 2 * self._most or size > 2 * SAMPLE_BYTES:
            self._thin()

    def _thin(self) -> None:
        if len(self._kept) > 1:
            self._kept = [_joined(self._kept)]
        for one in self._kept:
            order = np.argsort(one.keys)
            fitting = int(np.searchsorted(np.cumsum(one.sizes[order]), SAMPLE_BYTES, side="right"))
            count = max(1, min(self._most, fitting))
            if count < len(order):
                self._limit = one.keys[order[count]]
            # A limit of what was merged may leave out more.
            within = len(order) if self._limit is None else int(np.count_nonzero(one.keys < self._limit))
            if within < len(order):
                self._kept = [one.some(np.sort(order[:within]))]

    def drawn(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """The rows in their order, and their numbers in the dataset, shape (k,)."""
        self._thin()
        (one,) = self._kept
        return one.rows, one.numbers

    def state(self) -> pa.Table:
        """One row: what is kept of all rows, and the rows themselves as an Arrow stream."""
        self._thin()
        fields: dict[str, Value] = {
            "seed": str(self._seed), "most": self._most, "seen": self.seen,
            "limit": None if self._limit is None else str(self._limit),
        }  # fmt: skip
        for one in self._kept:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, one.rows.schema) as writer:
                writer.write_table(one.rows)
            fields |= {"keys": one.keys, "numbers": one.numbers, "sizes": one.sizes, "rows": sink.getvalue()}
        return packed("row sample", 1, fields)

    @classmethod
    def restored(cls, state: pa.Table) -> RowSample:
        """The sample with this state."""
        fields = State.of(state, "row sample", 1)
        sample = cls(int(fields.scalar("seed")), fields.scalar("most"))
        sample.seen, limit = fields.scalar("seen"), fields.scalar("limit")
        sample._limit = None if limit is None else np.uint64(int(limit))
        if "rows" in fields:
            rows = pa.ipc.open_stream(fields.buffer("rows")).read_all()
            keys, numbers, sizes = (fields.numbers(name) for name in ("keys", "numbers", "sizes"))
            sample._kept = [_Keyed(keys, numbers, sizes, rows)]
        return sample


@dataclass(frozen=True, eq=False)
class _Keyed:
    """Rows of a sample, in their order.

    Args:
        keys: shape (k,).
        numbers: shape (k,), in the dataset.
        sizes: shape (k,), bytes.
        rows: k of them.
    """

    keys: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: pa.Table

    def __len__(self) -> int:
        return len(self.keys)

    def size(self) -> int:
        return int(self.sizes.sum())

    def some(self, chosen: NDArray[np.int64]) -> _Keyed:
        rows = self.rows.take(pa.array(chosen))
        return _Keyed(self.keys[chosen], self.numbers[chosen], self.sizes[chosen], rows)


def _joined(kept: Sequence[_Keyed]) -> _Keyed:
    keys, numbers, sizes = (
        np.concatenate([getattr(one, name) for one in kept]) for name in ("keys", "numbers", "sizes")
    )
    return _Keyed(keys, numbers, sizes, pa.concat_tables([one.rows for one in kept]))


class OneColumn:
    """A column while its rows go by; a `Summary`.

    Args:
        found: What is kept of it; None: no row was seen.
    """

    exact: ClassVar[bool] = False
    most_bytes: ClassVar[int] = 2 * MOST_CHARACTERS + 64 * 2**20

    def __init__(self) -> None:
        self.found: ColumnSummary | None = None

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows, of this column alone."""
        if self.found is None:
            self.found = ColumnSummary(batch.schema.field(0).name, batch.schema.field(0).type)
        self.found.update(batch.column(0))

    def merge(self, later: OneColumn) -> None:
        """Take over what another one has seen."""
        if self.found is None:
            self.found = later.found
        elif later.found is not None:
            self.found.merge(later.found)

    def state(self) -> pa.Table:
        """One row."""
        return packed("column", 1, {} if self.found is None else self.found.fields())

    @classmethod
    def restored(cls, state: pa.Table) -> OneColumn:
        """The summary with this state."""
        column, fields = cls(), State.of(state, "column", 1)
        column.found = ColumnSummary.of_fields(fields) if fields else None
        return column


@dataclass(frozen=True, eq=False)
class TableSummary:
    """All columns of a dataset, and a sample of its rows.

    Args:
        columns: By name.
        drawn: Rows drawn evenly.
    """

    columns: Mapping[str, ColumnSummary]
    drawn: RowSample

    @property
    def rows(self) -> int:
        """Of the dataset."""
        return self.drawn.seen

    def sample(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """Rows drawn evenly, in their order, and their numbers in the dataset, shape (k,)."""
        return self.drawn.drawn()


def summary_scans(dataset: str, names: Sequence[str], rng: np.random.Generator, whose: str) -> tuple[Scan, ...]:
    """Scans for the summary of a dataset: each column, and a sample of the rows.

    Args:
        dataset: Its name.
        names: Columns looked at.
        rng: Gives the seed of the sample.
        whose: The check's name: each has a sample of its own.
    """
    seed = int(rng.integers(2**63))
    columns = (Scan(dataset, f"summary of {name}", (name,), OneColumn) for name in names)
    sample = Scan(dataset, f"sample for {whose}", tuple(names), partial(RowSample, seed))
    return (*columns, sample)


def table_summary(watchers: Sequence[OneColumn | RowSample]) -> TableSummary:
    """The summary of a dataset.

    Args:
        watchers: Of `summary_scans`, in their order.
    """
    found = [one.found for one in watchers if isinstance(one, OneColumn)]
    (drawn,) = (one for one in watchers if isinstance(one, RowSample))
    return TableSummary({one.name: one for one in found if one is not None}, drawn)
