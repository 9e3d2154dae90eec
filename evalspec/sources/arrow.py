"""Arrow IPC files and streams; feather is the same format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field

from evalspec.language.header import Header
from evalspec.language.parts import BATCH_ROWS, Access, Dataset
from evalspec.sources.reading.files import check_format, many_files, reading
from evalspec.sources.reading.pandas_index import without_index
from evalspec.sources.reading.table import choose, merged, tidied, tidy, type_texts

FILE_MAGIC = b"ARROW1"
SUFFIXES = (".arrow", ".feather", ".ipc", ".arrows")


class Arrow(Dataset):
    """Rows in Arrow files (IPC file or stream, feather). Several are read in the order of their names.

    An index without a name that pandas wrote (`__index_level_0__`) is not a column, unless the dataset's `key`,
    `label`,
    `cluster` or `where` names it.
    """

    kind: Literal["arrow"] = "arrow"
    path: str = Field(description="A file, a folder with .arrow, .feather or .ipc files, or a glob.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files, in the order of their names.

        Raises:
            InputError: There is none, or one is empty or outside.
        """
        return many_files(access, self.path, "arrow", SUFFIXES)

    def header(self, access: Access) -> Header:
        """Rows and columns; of its batches no more than the first column is unpacked."""
        rows, schema = self._schema(access)
        return Header(rows=rows, columns=type_texts(schema))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        tables = [self._mapped(access, path) for path in self.files(access)]
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
            for path in self.files(access):
                with self._opened(access, path) as (_, batches):
                    for batch in batches:
                        yield batch.select(list(wanted))

        return tidied(raw, pa.schema([schema.field(name) for name in names]), repr(self.path), rows)

    def _schema(self, access: Access) -> tuple[int, pa.Schema]:
        """Rows, and the types that columns have in all files together."""
        rows, schemas = 0, []
        for path in self.files(access):
            with self._opened(access, path) as (schema, _):
                schemas.append(without_index(schema, self))
            with self._opened(access, path, included_fields=[0]) as (_, batches):
                rows += sum(batch.num_rows for batch in batches)
        schema = merged(schemas, repr(self.path))
        choose(None, schema.names, repr(self.path))
        return rows, schema

    @contextmanager
    def _opened(
        self, access: Access, path: Path, included_fields: Sequence[int] = ()
    ) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """A file's schema and its batches; of all columns where none is named."""
        options = pa.ipc.IpcReadOptions(included_fields=list(included_fields))
        check_format(access, path, "arrow")
        with reading(access, path, "arrow"), path.open("rb") as stream, pa.memory_map(str(path)) as source:
            if stream.read(len(FILE_MAGIC)) == FILE_MAGIC:
                file = pa.ipc.open_file(source, options=options)
                yield file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
            else:
                ipc = pa.ipc.open_stream(source, options=options)
                yield ipc.schema, iter(ipc)

    def _mapped(self, access: Access, path: Path) -> pa.Table:
        check_format(access, path, "arrow")
        with reading(access, path, "arrow"):
            source = pa.memory_map(str(path))
            with path.open("rb") as stream:
                is_file = stream.read(len(FILE_MAGIC)) == FILE_MAGIC
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            return reader.read_all()
