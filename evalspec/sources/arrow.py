"""Arrow IPC files and streams; feather is the same format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from evalspec.language.header import Header, choose
from evalspec.language.parts import BATCH_ROWS, Access
from evalspec.sources.reading.files import check_format, many_files, reading
from evalspec.sources.reading.objects import Cursor, DataFile, ObjectFile, head_of
from evalspec.sources.reading.pandas_index import without_index
from evalspec.sources.reading.stored import StoredDataset
from evalspec.sources.reading.table import merged, tidied, tidy, type_texts

FILE_MAGIC = b"ARROW1"


class Arrow(StoredDataset):
    """Rows in Arrow files (IPC file or stream, feather). Several are read in the order of their names.

    An index without a name that pandas wrote (`__index_level_0__`) is not a column, unless the dataset's `key`,
    `label`,
    `cluster` or `where` names it.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc", ".arrows")

    kind: Literal["arrow"] = "arrow"
    path: str = Field(
        description="A file, a folder with .arrow, .feather or .ipc files, or a glob; or the same in object storage: "
        "s3://BUCKET/PREFIX/, gs://, az://."
    )

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files, in the order of their names.

        Raises:
            InputError: There is none, or one is empty or outside.
        """
        return () if self.place is not None else many_files(access, self.path, "arrow", self.suffixes)

    def header(self, access: Access) -> Header:
        """Rows and columns; of its batches no more than the first column is unpacked."""
        rows, schema = self._schema(access)
        return Header(rows=rows, columns=type_texts(schema))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        tables = [self._mapped(access, path) for path in self.data_files(access).files]
        schema = merged([without_index(table.schema, self) for table in tables], repr(self.path))
        names = choose(columns, schema.names, repr(self.path))
        return tidy(
            pa.concat_tables(
                [table.select(names) for table in tables], promote_options="permissive"
            ).replace_schema_metadata(None)
        )

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read`; memory holds one of the file's own batches."""
        _, schema = self._schema(access)
        names = choose(columns, schema.names, repr(self.path))

        def raw(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
            for path in self.data_files(access).files:
                with self._opened(access, path) as (_, batches):
                    for batch in batches:
                        yield batch.select(list(wanted))

        return tidied(raw, pa.schema([schema.field(name) for name in names]), repr(self.path), rows)

    def _schema(self, access: Access) -> tuple[int, pa.Schema]:
        """Rows, and the types that columns have in all files together."""
        rows, schemas = 0, []
        for path in self.data_files(access).files:
            with self._opened(access, path) as (schema, _):
                schemas.append(without_index(schema, self))
            with self._opened(access, path, included_fields=[0]) as (_, batches):
                rows += sum(batch.num_rows for batch in batches)
        schema = merged(schemas, repr(self.path))
        choose(None, schema.names, repr(self.path))
        return rows, schema

    @contextmanager
    def _opened(
        self, access: Access, path: DataFile, included_fields: Sequence[int] = ()
    ) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """A file's schema and its batches; of all columns where none is named."""
        options = pa.ipc.IpcReadOptions(included_fields=list(included_fields))
        check_format(access, path, "arrow")
        with reading(access, path, "arrow"), _source(path) as source:
            if _is_file(path):
                file = pa.ipc.open_file(source, options=options)
                yield file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
            else:
                ipc = pa.ipc.open_stream(source, options=options)
                yield ipc.schema, iter(ipc)

    def _mapped(self, access: Access, path: DataFile) -> pa.Table:
        check_format(access, path, "arrow")
        with reading(access, path, "arrow"):
            source = _source(path)
            reader = pa.ipc.open_file(source) if _is_file(path) else pa.ipc.open_stream(source)
            return reader.read_all()


def _source(path: DataFile) -> pa.NativeFile:
    return pa.PythonFile(Cursor(path), mode="r") if isinstance(path, ObjectFile) else pa.memory_map(str(path))


def _is_file(path: DataFile) -> bool:
    """Of the two formats the one that can be read from anywhere."""
    return head_of(path, len(FILE_MAGIC)) == FILE_MAGIC
