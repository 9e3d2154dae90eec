"""Summaries of a dataset whose rows go by once: its columns, and rows drawn evenly.

Summaries of columns can be merged, so that parts of a dataset may be looked at apart from each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evalspec.language.scans import Scan
from evalspec.stats.drift.columns import CategoryCounts, Numbers
from evalspec.tables.columns import View, views

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


class RowSample:
    """Rows drawn evenly from rows that go by; a `Watcher`.

    Args:
        rng: Draws them.
        most: Rows at most; fewer where they are large.
        seen: Rows that went by.
    """

    def __init__(self, rng: np.random.Generator, most: int = SAMPLE_ROWS) -> None:
        self._rng = rng
        self._most = most
        self._limit = 1.0
        self.seen = 0
        self._kept: list[tuple[NDArray[np.float64], NDArray[np.int64], pa.Table]] = []

    def update(self, batch: pa.RecordBatch) -> None:
        """More rows; each has a random key, and the rows with the smallest keys are the sample."""
        keys = self._rng.random(batch.num_rows)
        chosen = np.flatnonzero(keys < self._limit)
        if len(chosen):
            table = pa.Table.from_batches([batch])
            # A copy, so that the rest of the batch can go.
            rows = table if self._limit == 1.0 and batch.num_rows <= self._most else table.take(pa.array(chosen))
            self._kept.append((keys[chosen], chosen + self.seen, rows))
        self.seen += batch.num_rows
        if self._rows > 2 * self._most or self._bytes > 2 * SAMPLE_BYTES:
            self._thin()

    @property
    def _rows(self) -> int:
        return sum(len(keys) for keys, _, _ in self._kept)

    @property
    def _bytes(self) -> int:
        return sum(table.nbytes for _, _, table in self._kept)

    def _thin(self) -> None:
        keys, rows, table = self._joined()
        per_row = max(1, table.nbytes // max(1, len(keys)))
        self._most = max(1, min(self._most, SAMPLE_BYTES // per_row))
        if len(keys) > self._most:
            self._limit = float(np.partition(keys, self._most)[self._most])
            chosen = np.flatnonzero(keys < self._limit)
            self._kept = [(keys[chosen], rows[chosen], table.take(pa.array(chosen)))]

    def _joined(self) -> tuple[NDArray[np.float64], NDArray[np.int64], pa.Table]:
        keys = np.concatenate([keys for keys, _, _ in self._kept])
        rows = np.concatenate([rows for _, rows, _ in self._kept])
        return keys, rows, pa.concat_tables([table for _, _, table in self._kept])

    def drawn(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """The rows in their order, and their numbers in the dataset, shape (k,)."""
        self._thin()
        _, rows, table = self._joined()
        return table, rows


class OneColumn:
    """A column while its rows go by; a `Watcher`.

    Args:
        found: What is kept of it; None: no row was seen.
    """

    def __init__(self) -> None:
        self.found: ColumnSummary | None = None

    def update(self, batch: pa.RecordBatch) -> None:
        """More rows, of this column alone."""
        if self.found is None:
            self.found = ColumnSummary(batch.schema.field(0).name, batch.schema.field(0).type)
        self.found.update(batch.column(0))


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
    sample = Scan(dataset, f"sample for {whose}", tuple(names), lambda: RowSample(np.random.default_rng(seed)))
    return (*columns, sample)


def table_summary(watchers: Sequence[OneColumn | RowSample]) -> TableSummary:
    """The summary of a dataset.

    Args:
        watchers: Of `summary_scans`, in their order.
    """
    found = [one.found for one in watchers if isinstance(one, OneColumn)]
    (drawn,) = (one for one in watchers if isinstance(one, RowSample))
    return TableSummary({one.name: one for one in found if one is not None}, drawn)
