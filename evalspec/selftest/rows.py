"""Defects of a dataset: cells that are missing, columns that moved, labels that are wrong, copied rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.language.defects import Defect, share_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RowsDefect(Defect):
    """Of the rows of one dataset."""

    dataset: str

    @property
    def place(self) -> tuple[str, ...]:
        """These rows."""
        return ("rows", self.dataset)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """Those of this dataset, changed."""
        return self.change(rows) if dataset == self.dataset and rows.num_rows else rows

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        raise NotImplementedError


@dataclass(frozen=True)
class MissingCells(RowsDefect):
    """A share of the cells of all columns but those that rows are known by."""

    share: float
    spared: tuple[str, ...]

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import pyarrow as pa
        import pyarrow.compute as pc

        gone = pa.array(share_of(rows.num_rows, self.share))
        for index, name in enumerate(rows.column_names):
            if name not in self.spared:
                column = rows.column(index).combine_chunks()
                kept = column.take(pc.if_else(gone, pa.scalar(None, pa.int64()), pa.array(range(len(column)))))
                rows = rows.set_column(index, pa.field(name, column.type), kept)
        return rows


@dataclass(frozen=True)
class MovedColumns(RowsDefect):
    """Numbers are far from where they were, texts are none that was there before."""

    share: float
    spared: tuple[str, ...]

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import numpy as np
        import pyarrow as pa

        own = np.arange(rows.num_rows)
        places = np.where(share_of(rows.num_rows, self.share), own + rows.num_rows, own)
        for index, name in enumerate(rows.column_names):
            column = rows.column(index).combine_chunks()
            other = None if name in self.spared else _far(column)
            if other is not None:
                mixed = pa.concat_arrays([column, other]).take(pa.array(places))
                rows = rows.set_column(index, pa.field(name, column.type), mixed)
        return rows


@dataclass(frozen=True)
class MovedColumn(MovedColumns):
    """The same of one column."""

    column: str = ""

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        if self.column not in rows.column_names:
            return rows
        spared = tuple(name for name in rows.column_names if name != self.column)
        return MovedColumns(self.what, self.dataset, self.share, spared).change(rows)


@dataclass(frozen=True)
class WrongLabels(RowsDefect):
    """A share of the labels is that of another row."""

    label: str
    share: float

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.label not in rows.column_names:
            return rows
        column = rows.column(self.label).combine_chunks()
        if not _plain(column.type):
            return rows
        seen = pc.unique(column)
        places = pc.index_in(column, value_set=seen)
        others = pc.if_else(pc.equal(pc.add(places, 1), len(seen)), 0, pc.add(places, 1))
        changed = pc.if_else(pa.array(share_of(rows.num_rows, self.share)), seen.take(others), column)
        return rows.set_column(rows.column_names.index(self.label), pa.field(self.label, column.type), changed)


@dataclass(frozen=True)
class OneValue(RowsDefect):
    """A share of the rows gets one value of a column, the label's or another's: that of the first row."""

    column: str
    share: float

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = rows.column(self.column).combine_chunks()
        if not _plain(column.type):
            return rows
        changed = pc.if_else(pa.array(share_of(rows.num_rows, self.share)), column[0], column)
        return rows.set_column(rows.column_names.index(self.column), pa.field(self.column, column.type), changed)


@dataclass(frozen=True)
class LabelTold(Defect):
    """A column of numbers says which label a row has, in every dataset: its number among the labels in order."""

    labels: Mapping[str, str]
    """Dataset: its label column."""
    spared: tuple[str, ...]
    place_of_column: int = 0
    """Among the columns of numbers, counted round and round."""

    @property
    def place(self) -> tuple[str, ...]:
        """The rows of the first of them."""
        return ("rows", next(iter(self.labels)))

    def __hash__(self) -> int:
        return hash((self.what, *self.labels, self.place_of_column))

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """Those of a dataset with a label, changed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        label = self.labels.get(dataset)
        if label is None or not rows.num_rows or not _plain(rows.schema.field(label).type):
            return rows
        column = rows.column(label).combine_chunks()
        seen = pc.unique(column)
        told = pc.index_in(column, value_set=seen.take(pc.sort_indices(seen)))
        numbers = [
            index for index, field in enumerate(rows.schema)
            if (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
            and field.name not in (label, *self.spared)
        ]  # fmt: skip
        if not numbers:
            return rows
        index = numbers[self.place_of_column % len(numbers)]
        field = rows.schema.field(index)
        return rows.set_column(index, field, pc.cast(told, field.type, safe=False))


@dataclass(frozen=True)
class RepeatedRows(RowsDefect):
    """A share of the rows are copies of the row before, but for the column that names rows."""

    share: float
    spared: tuple[str, ...]

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import numpy as np

        lost = share_of(rows.num_rows, self.share)
        own = np.arange(rows.num_rows)
        copies = rows.take(np.maximum.accumulate(np.where(lost, 0, own)))
        for name in self.spared:
            if name in rows.column_names:
                copies = copies.set_column(copies.column_names.index(name), rows.field(name), rows.column(name))
        return copies


@dataclass(frozen=True)
class RowsOfAnother(Defect):
    """A share of the rows of one dataset stand in another one too, but for the columns that this one has alone."""

    dataset: str
    source: str
    share: float
    column: str | None = None
    """The only one of which it is so."""
    near: bool = False
    """Copies are not exact: a number is a thousandth larger, or a text has a mark more."""

    @property
    def place(self) -> tuple[str, ...]:
        """The rows that are overwritten."""
        return ("rows", self.dataset)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """Those of this dataset, some of them overwritten."""
        import numpy as np
        import pyarrow as pa

        source = read(self.source) if dataset == self.dataset else None
        if source is None or not source.num_rows or not rows.num_rows:
            return rows
        others = source.take(np.arange(rows.num_rows) % source.num_rows)
        own = np.arange(rows.num_rows)
        places = np.where(share_of(rows.num_rows, self.share), own + rows.num_rows, own)
        if self.near:
            others = _nearly(others)
        for index, field in enumerate(rows.schema):
            if self.column not in (None, field.name):
                continue
            if field.name in others.column_names and others.schema.field(field.name).type == field.type:
                both = pa.chunked_array([*rows.column(index).chunks, *others.column(field.name).chunks])
                mixed = both.combine_chunks().take(places)
                rows = rows.set_column(index, field.with_nullable(True), mixed)
        return rows


def _nearly(rows: pa.Table) -> pa.Table:
    """The same rows, but for a little in one column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for index, field in enumerate(rows.schema):
        column = rows.column(index)
        if pa.types.is_floating(field.type):
            return rows.set_column(index, field, pc.multiply(column, pa.scalar(1.001, field.type)))
    for index, field in enumerate(rows.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            more = pc.binary_join_element_wise(rows.column(index), pa.scalar("!", field.type), "")
            return rows.set_column(index, field, more)
    return rows


def _far(column: pa.Array) -> pa.Array | None:
    """Cells of the same type, far from these; None: it can't be said what that would be."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        low, high = (pc.min_max(column)[end].as_py() for end in ("min", "max"))
        if low is None:
            return None
        # What the type has no room for begins again at its other end, which is far as well.
        return pc.cast(pc.add(pc.cast(column, pa.float64()), 3.0 * (high - low) + 1.0), kind, safe=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.binary_join_element_wise(column, pa.scalar("never seen", kind), " ")
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return None
    inner = None if column.null_count else _far(column.flatten())
    if inner is None:
        return None
    ends = pc.cumulative_sum(pc.list_value_length(column).cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    return pa.LargeListArray.from_arrays(offsets, inner).cast(kind)


def _plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
