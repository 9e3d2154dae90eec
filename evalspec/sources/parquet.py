"""Parquet files: one, a folder of them, or a glob."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.header import Header
from evalspec.language.parts import BATCH_ROWS, Access, Dataset
from evalspec.sources.reading.files import check_format, many_files, reading
from evalspec.sources.reading.footer import read_footer
from evalspec.sources.reading.pandas_index import without_index

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evalspec.language.parts.dataset import Between

SUFFIXES = (".parquet", ".pq")
BUFFER_BYTES = 2**20
"""Of a column's bytes that are held while batches are read; else all of a row group's would be."""


class Parquet(Dataset):
    """Rows in parquet files. Several files are read in the order of their names.

    An index without a name that pandas wrote (`__index_level_0__`) is not a column, unless the dataset's `key`,
    `label`,
    `cluster` or `where` names it.
    """

    by_number: ClassVar[bool] = True
    only_files: ClassVar[bool] = True

    kind: Literal["parquet"] = "parquet"
    path: str = Field(description="A file, a folder with .parquet files (also in subfolders), or a glob.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files, in the order of their names.

        Raises:
            InputError: There is none, or one is empty or outside.
        """
        return many_files(access, self.path, "parquet", SUFFIXES)

    def header(self, access: Access) -> Header:
        """Rows and columns from the files' footers; no row is read."""
        files = self.files(access)
        return _plain_header(access, files) or self._header(access, files)

    def _header(self, access: Access, files: Sequence[Path]) -> Header:
        from evalspec.sources.reading.table import type_texts

        rows, schema = self._schema(access, files)
        return Header(rows=rows, columns=type_texts(schema))

    def _schema(self, access: Access, files: Sequence[Path]) -> tuple[int, pa.Schema]:
        """Rows, and the types that columns have in all files together."""
        import pyarrow.parquet as pq

        from evalspec.sources.reading.table import choose, merged

        rows, schemas = 0, []
        for path in files:
            check_format(access, path, "parquet")
            with reading(access, path, "parquet"), pq.ParquetFile(path) as file:
                rows += file.metadata.num_rows
                schemas.append(without_index(file.schema_arrow, self))
        schema = merged(schemas, repr(self.path))
        choose(None, schema.names, repr(self.path))
        return rows, schema

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from evalspec.sources.reading.table import choose, tidy

        files = self.files(access)
        names = choose(columns, list(self._header(access, files).columns), repr(self.path))
        tables = []
        for path in files:
            with reading(access, path, "parquet"), pq.ParquetFile(path) as file:
                tables.append(file.read(columns=names).select(names).replace_schema_metadata(None))
        try:
            return tidy(pa.concat_tables(tables, promote_options="permissive"))
        except pa.ArrowException as error:
            raise InputError(f"the files of {self.path!r} don't fit together: {error}") from error

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read`; memory holds a batch and a MiB of each column."""
        from evalspec.sources.reading.table import tidied

        files, schema = self._wanted(access, columns)

        def raw(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return _rows_of(access, files, wanted, rows)

        return tidied(raw, schema, repr(self.path), rows)

    def between(self, access: Access, columns: Sequence[str] | None = None) -> Between:
        """Reads the row groups in which the rows lie; lists are looked through once, when the reader is made."""
        from evalspec.sources.reading.table import lengths_of, tidied

        files, schema = self._wanted(access, columns)
        groups = [_groups(access, path) for path in files]
        lengths = lengths_of(lambda wanted: _rows_of(access, files, wanted, BATCH_ROWS), schema)

        def reader(start: int, stop: int) -> Iterator[pa.RecordBatch]:
            def raw(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
                first = 0
                for path, sizes in zip(files, groups, strict=True):
                    yield from _some_of(access, path, sizes, wanted, (start - first, stop - first))
                    first += sum(sizes)

            return tidied(raw, schema, repr(self.path), BATCH_ROWS, lengths)

        return reader

    def _wanted(self, access: Access, columns: Sequence[str] | None) -> tuple[tuple[Path, ...], pa.Schema]:
        """The files, and the columns wanted with the types that they have in all files together."""
        import pyarrow as pa

        from evalspec.sources.reading.table import choose

        files = self.files(access)
        _, schema = self._schema(access, files)
        return files, pa.schema([schema.field(name) for name in choose(columns, schema.names, repr(self.path))])


def _rows_of(access: Access, files: Sequence[Path], columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """All rows of the files."""
    for path in files:
        with _opened(access, path) as file:
            yield from file.iter_batches(batch_size=rows, columns=list(columns))


def _some_of(
    access: Access, path: Path, sizes: Sequence[int], columns: Sequence[str], wanted: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    """Rows of a file by their numbers, the one after the last included; no more is read than their row groups."""
    ends = list(accumulate(sizes))
    groups = [place for place, end in enumerate(ends) if end > wanted[0] and end - sizes[place] < wanted[1]]
    if not groups:
        return
    first = ends[groups[0]] - sizes[groups[0]]
    with _opened(access, path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns), row_groups=groups):
            skipped = max(0, wanted[0] - first)
            part = batch.slice(skipped, max(0, wanted[1] - first - skipped))
            if part.num_rows:
                yield part
            first += batch.num_rows
            if first >= wanted[1]:
                return


def _groups(access: Access, path: Path) -> list[int]:
    """Rows of each row group of a file."""
    with _opened(access, path) as file:
        return [file.metadata.row_group(place).num_rows for place in range(file.metadata.num_row_groups)]


@contextmanager
def _opened(access: Access, path: Path) -> Iterator[pq.ParquetFile]:
    import pyarrow.parquet as pq

    # What is buffered before stays in memory until the file is closed.
    with reading(access, path, "parquet"), pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
        yield file


def _plain_header(access: Access, files: Sequence[Path]) -> Header | None:
    """Without pyarrow, whose import takes longer than all the rest of reading a spec; None: it must be asked."""
    footers = []
    for path in files:
        check_format(access, path, "parquet")
        with reading(access, path, "parquet"):
            footers.append(read_footer(path))
    first = footers[0]
    if first is None or not first.columns or any(one is None or one.columns != first.columns for one in footers):
        return None
    return Header(rows=sum(one.rows for one in footers if one is not None), columns=first.columns)
