"""Parquet files: one, a folder of them, or a glob."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.inputs import Header
from evalspec.language.parts import Access, Dataset
from evalspec.sources._files import check_format, many_files, reading
from evalspec.sources._table import choose, merged, tidy, type_texts

SUFFIXES = (".parquet", ".pq")


class Parquet(Dataset):
    """Rows in parquet files. Several files are read in the order of their names."""

    kind: Literal["parquet"] = "parquet"
    path: str = Field(description="A file, a folder with .parquet files (also in folders below), or a glob.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files, in the order of their names.

        Raises:
            InputError: There is none, or one is empty or outside.
        """
        return many_files(access, self.path, "parquet", SUFFIXES)

    def header(self, access: Access) -> Header:
        """Rows and columns from the files' footers; no row is read.

        Raises:
            InputError: Missing, empty, truncated or of another format.
        """
        files = self.files(access)
        rows, schemas = 0, []
        for path in files:
            check_format(access, path, "parquet")
            with reading(access, path, "parquet"), pq.ParquetFile(path) as file:
                rows += file.metadata.num_rows
                schemas.append(file.schema_arrow)
        schema = merged(schemas, repr(self.path))
        choose(None, schema.names, repr(self.path))
        return Header(rows=rows, columns=type_texts(schema))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        header = self.header(access)
        names = choose(columns, list(header.columns), repr(self.path))
        tables = []
        for path in self.files(access):
            with reading(access, path, "parquet"), pq.ParquetFile(path) as file:
                tables.append(file.read(columns=names).select(names).replace_schema_metadata(None))
        try:
            return tidy(pa.concat_tables(tables, promote_options="permissive"))
        except pa.ArrowException as error:
            raise InputError(f"the files of {self.path!r} don't go together: {error}") from error
