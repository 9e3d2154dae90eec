"""Rows that the calling program had in memory, as `evalspec.run` wrote them for the processes that measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Dataset
from evalspec.sources.reading.files import reading
from evalspec.sources.reading.pandas_index import without_index
from evalspec.sources.reading.table import merged, tidy, type_texts


class MemoryRows(Dataset):
    """Rows of the calling program: ``evalspec.run(spec, datasets={"test": frame})``. No file is read.

    A frame of pandas, a table of pyarrow, whatever exports Arrow, or a dict of arrays. `evalspec.run` writes kind and
    path itself; an entry of the spec has the other fields, such as `label`.
    """

    in_memory: ClassVar[bool] = True

    kind: Literal["memory"] = "memory"
    path: str = Field("", description="Set by `evalspec.run`: the copy in the run's folder.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The copy that was handed over."""
        return (access.handed_over(self.path),)

    def header(self, access: Access) -> Header:
        table = self._table(access)
        return Header(rows=table.num_rows, columns=type_texts(table.schema))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        table = self._table(access)
        names = choose(columns, table.column_names, "the rows passed in memory")
        return tidy(table.select(names).replace_schema_metadata(None))

    def _table(self, access: Access) -> pa.Table:
        (path,) = self.files(access)
        with reading(access, path, "arrow"):
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        schema = merged([without_index(table.schema, self)], "the rows passed in memory")
        choose(None, schema.names, "the rows passed in memory")
        return table.select(schema.names)
