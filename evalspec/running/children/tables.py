"""Datasets as the children read them, each once a process; some columns of it, and all where more are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.language.header import choose
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.kept_rows import open_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.header import Header
    from evalspec.language.parts.dataset import Between
    from evalspec.pipeline.inputs import DatasetFacts


class Tables:
    """Rows of the spec's datasets; a draft sees only the first."""

    def __init__(self, parts: SpecParts) -> None:
        """``parts`` of the spec."""
        self._parts = parts
        self._read: dict[str, pa.Table] = {}
        self._some: dict[str, pa.Table] = {}
        self._headers: dict[str, Header] = {}

    def keep(self, kept: Mapping[str, Path]) -> None:
        """Take over files of rows that were read meanwhile, by dataset; nothing was read of them here."""
        self._parts = replace(self._parts, kept={**self._parts.kept, **kept})

    def get(self, dataset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows after ``where``, in the dataset's order.

        Raises:
            InputError: It can't be read, or a column isn't there.
        """
        if columns and not {dataset} & {*self._read, *self._some, *self._parts.kept}:
            wanted = choose(columns, self.names(dataset), f"dataset {dataset}")
            self._some[dataset] = self._open(dataset, wanted)
        table = self.having(dataset, columns)
        return table if columns is None else table.select(choose(columns, table.column_names, f"dataset {dataset}"))

    def having(self, dataset: str, columns: Sequence[str] | None) -> pa.Table:
        """All rows with at least these columns (None: all): as read before where that has them, else with all columns.

        Raises:
            InputError: It can't be read.
        """
        some = self._some.get(dataset)
        if some is not None and columns is not None and set(columns) <= set(some.column_names):
            return some
        if dataset not in self._read:
            self._read[dataset] = self._open(dataset, None)
            self._some.pop(dataset, None)
        return self._read[dataset]

    def _open(self, dataset: str, columns: Sequence[str] | None) -> pa.Table:
        from evalspec.sources.reading.open import open_dataset

        if dataset in self._parts.kept:
            return open_rows(self._parts.kept[dataset])
        table = open_dataset(self._parts.datasets[dataset], self._parts.access, columns)
        return table if self._parts.rows is None else table.slice(0, self._parts.rows)

    def batches(self, dataset: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of a dataset, some at a time; they come from its table where that was read before.

        Raises:
            InputError: It can't be read, or a column isn't there.
        """
        from evalspec.language.parts import BATCH_ROWS
        from evalspec.sources.reading.open import open_batches

        wanted = None if columns is None else choose(columns, self.names(dataset), f"dataset {dataset}")
        if dataset in self._read or dataset in self._parts.kept:
            yield from self.get(dataset, wanted).to_batches(max_chunksize=BATCH_ROWS)
            return
        left = self._parts.rows
        for batch in open_batches(self._parts.datasets[dataset], self._parts.access, wanted):
            batch = batch if wanted is None else batch.select(wanted)
            yield batch if left is None else batch.slice(0, left)
            if left is not None:
                left -= batch.num_rows
                if left <= 0:
                    return

    def between(self, dataset: str, columns: Sequence[str] | None) -> Between:
        """Reader of any of the rows of `batches`, by their numbers; of a dataset of which `countable` says how many.

        Raises:
            InputError: It can't be read, or a column isn't there.
        """
        from evalspec.language.parts import BATCH_ROWS
        from evalspec.sources.reading.open import open_between

        wanted = None if columns is None else choose(columns, self.names(dataset), f"dataset {dataset}")
        if dataset in self._parts.kept:
            table = self.get(dataset, wanted)
            return lambda start, stop: iter(table.slice(start, stop - start).to_batches(max_chunksize=BATCH_ROWS))
        reader = open_between(self._parts.datasets[dataset], self._parts.access, wanted)
        if wanted is None:
            return reader
        return lambda start, stop: (batch.select(wanted) for batch in reader(start, stop))

    def countable(self, dataset: str) -> int | None:
        """Rows of a dataset any of which can be read without those before; None: they can't.

        Raises:
            InputError: It can't be read.
        """
        part = self._parts.datasets[dataset]
        if self._parts.rows is not None or not part.rows_fit:
            return None
        if dataset in self._parts.kept:
            rows: int = self.get(dataset).num_rows
            return rows
        return self._header(dataset).rows if part.by_number and part.where is None else None

    def leaf_rows(self, dataset: str) -> int:
        """Rows of a leaf of a dataset, which hang on how many it has and on nothing else.

        Raises:
            InputError: It can't be read.
        """
        from evalspec.language.scans import LEAF_ROWS, leaf_rows

        known = self.get(dataset).num_rows if dataset in self._read or dataset in self._parts.kept else None
        if not self._parts.datasets[dataset].by_number or self._parts.rows is not None:
            return LEAF_ROWS
        return LEAF_ROWS if known is not None and known <= LEAF_ROWS else leaf_rows(self._header(dataset).rows)

    def least_bytes(self, dataset: str, columns: Sequence[str] | None) -> tuple[int, int]:
        """Rows of a dataset, and bytes that `get` would add to what is held, at least.

        0 bytes: its header doesn't tell, or it was read before.

        Raises:
            InputError: It can't be read.
        """
        part = self._parts.datasets[dataset]
        if self._parts.rows is not None or part.where is not None or dataset in {*self._read, *self._parts.kept}:
            return 0, 0
        header = self._header(dataset) if part.by_number else None
        return (0, 0) if header is None else (header.rows or 0, header.least_bytes(columns))

    def names(self, dataset: str) -> tuple[str, ...]:
        """Names of a dataset's columns, without reading rows where the format allows.

        Raises:
            InputError: It can't be read.
        """
        if dataset in self._read or dataset in self._parts.kept:
            return tuple(self.having(dataset, None).column_names)
        return tuple(self._header(dataset).columns)

    def _header(self, dataset: str) -> Header:
        if dataset not in self._headers:
            self._headers[dataset] = self._parts.datasets[dataset].header(self._parts.access)
        return self._headers[dataset]

    def column(self, dataset: str, name: str) -> pa.Table:
        """Table with one column of a dataset, all rows.

        Raises:
            InputError: It can't be read, or the column isn't there.
        """
        import pyarrow as pa

        choose([name], self.names(dataset), f"dataset {dataset}")
        return pa.Table.from_batches(self.batches(dataset, [name]))

    def reserved(self, dataset: str) -> tuple[str, ...]:
        """Columns that mean something else than an input: cluster, and what slices and ``where`` look at."""
        from evalspec.language.where import parse_where

        part = self._parts.datasets[dataset]
        named = [part.cluster] if part.cluster else []
        for where in (part.where, *self._parts.slices.values()):
            if where:
                named += parse_where(where).columns
        return tuple(dict.fromkeys(named))

    def facts(self, dataset: str) -> DatasetFacts:
        """Facts about a dataset that a model is told."""
        from evalspec.pipeline.inputs import DatasetFacts

        part = self._parts.datasets[dataset]
        return DatasetFacts(
            name=dataset,
            label=part.label,
            key=part.key,
            reserved=self.reserved(dataset),
            subset=part.where is not None or self._parts.rows is not None,
        )
