"""Arrow IPC files and streams; feather is the same format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field

from evalspec.language.header import Header
from evalspec.language.parts import Access, Dataset
from evalspec.sources._files import check_format, many_files, reading
from evalspec.sources._table import choose, merged, tidy, type_texts

SUFFIXES = (".arrow", ".feather", ".ipc", ".arrows")


class Arrow(Dataset):
    """Rows in Arrow files (IPC file or stream, feather). Several are read in the order of their names."""

    kind: Literal["arrow"] = "arrow"
    path: str = Field(description="A file, a folder with .arrow, .feather or .ipc files, or a glob.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files, in the order of their names.

        Raises:
            InputError: There is none, or one is empty or outside.
        """
        return many_files(access, self.path, "arrow", SUFFIXES)

    def header(self, access: Access) -> Header:
        """Rows and columns. Batches are mapped, not copied.

        Raises:
            InputError: Missing, empty, truncated or of another format.
        """
        tables = [self._mapped(access, path) for path in self.files(access)]
        schema = merged([table.schema for table in tables], repr(self.path))
        choose(None, schema.names, repr(self.path))
        return Header(rows=sum(table.num_rows for table in tables), columns=type_texts(schema))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        tables = [self._mapped(access, path) for path in self.files(access)]
        schema = merged([table.schema for table in tables], repr(self.path))
        names = choose(columns, schema.names, repr(self.path))
        return tidy(pa.concat_tables([table.select(names) for table in tables], promote_options="permissive"))

    def _mapped(self, access: Access, path: Path) -> pa.Table:
        check_format(access, path, "arrow")
        with reading(access, path, "arrow"):
            source = pa.memory_map(str(path))
            with path.open("rb") as stream:
                is_file = stream.read(6) == b"ARROW1"
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            table = reader.read_all()
        return table.replace_schema_metadata(None)
