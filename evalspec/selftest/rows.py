"""Defects of a dataset: cells that are missing, columns that moved, labels that are wrong, copied rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.language.defects import Defect
from evalspec.selftest.answers import share_of

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
                kept = pc.if_else(gone, pa.scalar(None, column.type), column) if _plain(column.type) else column
                rows = rows.set_column(index, pa.field(name, column.type), kept)
        return rows


@dataclass(frozen=True)
class MovedColumns(RowsDefect):
    """Numbers are far from where they were, texts are none that was there before."""

    share: float
    spared: tuple[str, ...]

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import pyarrow as pa
        import pyarrow.compute as pc

        moved = pa.array(share_of(rows.num_rows, self.share))
        for index, name in enumerate(rows.column_names):
            column = rows.column(index).combine_chunks()
            if name in self.spared:
                continue
            if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
                low, high = (pc.min_max(column)[end].as_py() for end in ("min", "max"))
                if low is None:
                    continue
                far = pc.add(pc.cast(column, pa.float64()), 3.0 * (high - low) + 1.0)
                other = pc.cast(far, column.type, safe=False)
            elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                other = pc.binary_join_element_wise(column, pa.scalar("never seen", column.type), " ")
            else:
                continue
            rows = rows.set_column(index, pa.field(name, column.type), pc.if_else(moved, other, column))
        return rows


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
class OneLabel(RowsDefect):
    """A share of the rows gets the label of the first."""

    label: str
    share: float

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = rows.column(self.label).combine_chunks()
        if not _plain(column.type):
            return rows
        changed = pc.if_else(pa.array(share_of(rows.num_rows, self.share)), column[0], column)
        return rows.set_column(rows.column_names.index(self.label), pa.field(self.label, column.type), changed)


@dataclass(frozen=True)
class LabelTold(RowsDefect):
    """Each column of numbers says which label a row has: its number among the labels in order."""

    label: str
    spared: tuple[str, ...]

    def change(self, rows: pa.Table) -> pa.Table:
        """The rows with the defect."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = rows.column(self.label).combine_chunks()
        if not _plain(column.type):
            return rows
        seen = pc.unique(column)
        told = pc.index_in(column, value_set=seen.take(pc.sort_indices(seen)))
        for index, field in enumerate(rows.schema):
            number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
            if number and field.name not in self.spared:
                rows = rows.set_column(index, field, pc.cast(told, field.type, safe=False))
        return rows


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

    @property
    def place(self) -> tuple[str, ...]:
        """The rows that are overwritten."""
        return ("rows", self.dataset)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """Those of this dataset, some of them overwritten."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        source = read(self.source) if dataset == self.dataset else None
        if source is None or not source.num_rows or not rows.num_rows:
            return rows
        others = source.take(np.arange(rows.num_rows) % source.num_rows)
        copied = pa.array(share_of(rows.num_rows, self.share))
        for index, field in enumerate(rows.schema):
            if field.name in others.column_names and others.schema.field(field.name).type == field.type:
                if not _plain(field.type):
                    continue
                mixed = pc.if_else(
                    copied, others.column(field.name).combine_chunks(), rows.column(index).combine_chunks()
                )
                rows = rows.set_column(index, field.with_nullable(True), mixed)
        return rows


def _plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
