"""Parquet files: one, a folder of them, or a glob."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.header import Header, choose
from evalspec.language.parts import BATCH_ROWS, Access
from evalspec.sources.reading.files import check_format, many_files, reading
from evalspec.sources.reading.footer import Footer, read_footer
from evalspec.sources.reading.objects import Cursor, DataFile, ObjectFile, with_tails
from evalspec.sources.reading.pandas_index import without_index
from evalspec.sources.reading.partitions import Partitions, Scheme, partitions_of
from evalspec.sources.reading.stored import DataFiles, StoredDataset

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evalspec.language.parts.dataset import Between

BUFFER_BYTES = 2**20
"""Of a column's bytes that are held while batches are read; else all of a row group's would be."""


class Parquet(StoredDataset):
    """Rows in parquet files, or in objects of object storage. Several are read in the order of their names.

    An index without a name that pandas wrote (`__index_level_0__`) is not a column, unless the dataset's `key`,
    `label`,
    `cluster` or `where` names it.
    """

    by_number: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    only_files: ClassVar[bool] = True

    kind: Literal["parquet"] = "parquet"
    path: str = Field(
        description="A file, a folder with .parquet files (also in subfolders), or a glob; or the same in object "
        "storage: s3://BUCKET/PREFIX/, gs://, az://."
    )
    partitions: Scheme | None = Field(
        None,
        description="Whether folders such as dt=2026-11-01 are columns: hive (they are) or none. It must be said where "
        "the files lack such a column.",
    )

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files, in the order of their names; none where they lie in object storage.

        Raises:
            InputError: There is none, or one is empty or outside.
        """
        return () if self.place is not None else many_files(access, self.path, "parquet", self.suffixes)

    def header(self, access: Access) -> Header:
        """Rows and columns from the files' footers; no row is read."""
        found = self.data_files(access)
        return self._plain_header(access, found) or self._header(access, found)

    def _header(self, access: Access, found: DataFiles) -> Header:
        from evalspec.sources.reading.table import type_texts

        whole = self._whole(access, found)
        return Header(rows=sum(map(sum, whole.groups)), columns=type_texts(whole.schema))

    def _plain_header(self, access: Access, found: DataFiles) -> Header | None:
        """Without pyarrow, whose import takes longer than all the rest of reading a spec; None: it must be asked."""
        plain = _footers(access, found.files)
        if plain is None:
            return None
        partitions = partitions_of(found.inside, self.partitions, list(plain.columns), repr(self.path))
        return Header(rows=plain.rows, columns={**plain.columns, **partitions.types})

    def _whole(self, access: Access, found: DataFiles) -> _Whole:
        """Contents of the footers, each of which is read once: in object storage each takes a request."""
        import pyarrow as pa

        from evalspec.sources.reading.table import merged

        groups, schemas = [], []
        for path in with_tails(found.files):
            check_format(access, path, "parquet")
            with _opened(access, path) as file:
                metadata = file.metadata
                groups.append([metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)])
                schemas.append(without_index(file.schema_arrow, self))
        schema = merged(schemas, repr(self.path))
        partitions = partitions_of(found.inside, self.partitions, schema.names, repr(self.path))
        if partitions.types:
            schema = pa.schema([*schema, *partitions.fields()])
        choose(None, schema.names, repr(self.path))
        return _Whole(groups, schema, partitions)

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        import pyarrow as pa

        from evalspec.sources.reading.table import tidy

        found = self.data_files(access)
        whole = self._whole(access, found)
        partitions = whole.partitions
        names = choose(columns, whole.schema.names, repr(self.path))
        own = [name for name in names if name not in partitions.types]
        tables = []
        for number, path in enumerate(found.files):
            with _opened(access, path) as opened, _again(access, path, opened) as file:
                table = file.read(columns=own)
            table = partitions.filled(table, number) if partitions.types else table
            tables.append(table.select(names).replace_schema_metadata(None))
        try:
            return tidy(pa.concat_tables(tables, promote_options="permissive"))
        except pa.ArrowException as error:
            raise InputError(f"the files of {self.path!r} don't fit together: {error}") from error

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read`; memory holds a batch and a MiB of each column, of objects a row group."""
        from evalspec.sources.reading.table import tidied

        content, schema, _ = self._wanted(access, columns)

        def raw(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return content.all(wanted, rows)

        return tidied(raw, schema, repr(self.path), rows)

    def between(self, access: Access, columns: Sequence[str] | None = None) -> Between:
        """Reads the row groups in which the rows lie; lists are looked through once, when the reader is made."""
        from evalspec.sources.reading.table import lengths_of, tidied

        content, schema, groups = self._wanted(access, columns)
        lengths = lengths_of(lambda wanted: content.all(wanted, BATCH_ROWS), schema)

        def reader(start: int, stop: int) -> Iterator[pa.RecordBatch]:
            def raw(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
                first = 0
                for number, sizes in enumerate(groups):
                    yield from content.some(number, sizes, wanted, (start - first, stop - first))
                    first += sum(sizes)

            return tidied(raw, schema, repr(self.path), BATCH_ROWS, lengths)

        return reader

    def _wanted(
        self, access: Access, columns: Sequence[str] | None
    ) -> tuple[_Content, pa.Schema, Sequence[Sequence[int]]]:
        """The files, the columns wanted with the types that they have in all files together, and row groups."""
        import pyarrow as pa

        found = self.data_files(access)
        whole = self._whole(access, found)
        names = choose(columns, whole.schema.names, repr(self.path))
        chosen = pa.schema([whole.schema.field(name) for name in names])
        return _Content(access, found.files, whole.partitions), chosen, whole.groups


@dataclass(frozen=True, slots=True)
class _Whole:
    """Contents of the footers of all files together.

    Args:
        groups: Rows of each row group, file by file.
        schema: The types that columns have in all files together.
        partitions: The columns of the files' paths.
    """

    groups: Sequence[Sequence[int]]
    schema: pa.Schema
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class _Content:
    """Rows of files, and the columns of their paths."""

    access: Access
    files: Sequence[DataFile]
    partitions: Partitions

    def all(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """All rows of the files."""
        for number, path in enumerate(self.files):
            with _opened(self.access, path) as file:
                yield from self._batches(file, number, columns, rows, range(file.metadata.num_row_groups))

    def some(
        self, number: int, sizes: Sequence[int], columns: Sequence[str], wanted: tuple[int, int]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a file by their numbers, without the last; no more is read than their row groups."""
        ends = list(accumulate(sizes))
        groups = [place for place, end in enumerate(ends) if end > wanted[0] and end - sizes[place] < wanted[1]]
        if not groups:
            return
        first = ends[groups[0]] - sizes[groups[0]]
        with _opened(self.access, self.files[number]) as file:
            for batch in self._batches(file, number, columns, BATCH_ROWS, groups):
                skipped = max(0, wanted[0] - first)
                part = batch.slice(skipped, max(0, wanted[1] - first - skipped))
                if part.num_rows:
                    yield part
                first += batch.num_rows
                if first >= wanted[1]:
                    return

    def _batches(
        self, file: pq.ParquetFile, number: int, columns: Sequence[str], rows: int, groups: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        own = [name for name in columns if name not in self.partitions.types]
        for some in _portions(self.files[number], groups):
            with _again(self.access, self.files[number], file) as part:
                for batch in part.iter_batches(batch_size=rows, columns=own, row_groups=some):
                    filled = (
                        self.partitions.filled(batch, number).select(list(columns)) if self.partitions.types else batch
                    )
                    yield filled


def _portions(path: DataFile, groups: Sequence[int]) -> Iterator[list[int]]:
    """Row groups that are read together: of an object each by itself, for all that is asked for of them is held."""
    yield from ([group] for group in groups) if isinstance(path, ObjectFile) else (list(groups),)


@contextmanager
def _again(access: Access, path: DataFile, file: pq.ParquetFile) -> Iterator[pq.ParquetFile]:
    """The same file; an object is opened once more, so that what is held of a row group is let go with it."""
    if not isinstance(path, ObjectFile):
        yield file
        return
    with _opened(access, path, file.metadata) as part:
        yield part


@contextmanager
def _opened(access: Access, path: DataFile, metadata: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
    """The file; ``metadata``: its own, where they were read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(access, path, "parquet"), ExitStack() as stack:
        if isinstance(path, ObjectFile):
            source = stack.enter_context(pa.PythonFile(Cursor(path), mode="r"))
            # Columns that lie side by side come with one request.
            file = pq.ParquetFile(source, metadata=metadata, pre_buffer=metadata is not None)
        else:
            # What is buffered before stays in memory until the file is closed.
            file = pq.ParquetFile(path, metadata=metadata, buffer_size=BUFFER_BYTES, pre_buffer=False)
        yield stack.enter_context(file)


def _footers(access: Access, files: Sequence[DataFile]) -> Footer | None:
    """Columns of all files and their rows, as far as they are understood; None: they are not, or lie elsewhere."""
    footers = []
    for path in files:
        if isinstance(path, ObjectFile):
            return None
        check_format(access, path, "parquet")
        with reading(access, path, "parquet"):
            footers.append(read_footer(path))
    first = footers[0]
    if first is None or not first.columns or any(one is None or one.columns != first.columns for one in footers):
        return None
    return Footer(sum(one.rows for one in footers if one is not None), first.columns)
