"""CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.header import Header
from evalspec.language.parts import Access, Dataset
from evalspec.sources._files import check_format, one_file, reading, shown
from evalspec.sources._table import choose, small_header, tidy, type_texts

HEAD_BYTES = 2**20
TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
}


class Csv(Dataset):
    """Rows in one CSV file with a header line, also compressed (.gz, .bz2, .zst).

    An empty cell is missing, in text columns too. In columns of numbers so are the usual spellings (NA, NaN, null);
    in text they stay text, since NA may be Namibia.
    """

    kind: Literal["csv"] = "csv"
    path: str = Field(description="The file.")
    delimiter: str = Field(",", min_length=1, max_length=1, description="What stands between cells.")
    encoding: str = Field("utf-8", description="How the file's text is encoded.")
    missing: tuple[str, ...] = Field((), description="More spellings of a missing cell, for all columns.")
    types: dict[str, Literal["text", "integer", "number", "bool", "time"]] = Field(
        default_factory=dict, description="Types that must not be guessed: `{zip: text}` keeps leading zeros."
    )

    def files(self, access: Access) -> tuple[Path, ...]:
        """The file.

        Raises:
            InputError: It is missing or empty.
        """
        return (one_file(access, self.path, "csv"),)

    def header(self, access: Access) -> Header:
        """Columns; rows too where the file is under 8 MiB. Of a larger one types are as its first MiB shows them.

        Raises:
            InputError: Missing, empty or of another format.
        """
        path = self._checked(access)
        small = small_header(self, access, path)
        if small is not None:
            return small
        try:
            with reading(access, path, "csv"), self._stream(path) as stream:
                schema = pacsv.open_csv(stream, self._read(True), self._parse(), self._convert(None)).schema
        except InputError:
            # Reading all of it finds the row and says which it is.
            return Header(rows=None, columns=type_texts(self.read(access).schema))
        choose(None, schema.names, repr(self.path))
        return Header(rows=None, columns=type_texts(schema))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns.

        Raises:
            InputError: As `header`, a row has too few or too many cells, or a column isn't there.
        """
        path = self._checked(access)
        names = choose(columns, self._names(access, path), repr(self.path))
        with reading(access, path, "csv"):
            table = self._table(access, path, names)
        if self._unclosed(path, table):
            raise InputError(f"{shown(access, path)} has a quote that is never closed: its rest was one cell")
        return tidy(pa.table([self._missing(column) for column in table.columns], names=names))

    def _checked(self, access: Access) -> Path:
        path = one_file(access, self.path, "csv")
        # Encodings of two bytes a letter are text with zero bytes.
        wide = self.encoding.lower().replace("-", "").startswith(("utf16", "utf32"))
        check_format(access, path, "csv", text=not wide)
        try:
            "".encode(self.encoding)
        except LookupError as error:
            raise InputError(f"there is no encoding {self.encoding!r}", remedy="write utf-8 or latin-1") from error
        return path

    def _names(self, access: Access, path: Path) -> list[str]:
        with reading(access, path, "csv"), self._stream(path) as stream:
            head = bytes(stream.read(HEAD_BYTES)).decode("utf-8-sig", errors="replace")
        try:
            lines = csv.reader(io.StringIO(head, newline=""), delimiter=self.delimiter)
            names = next((line for line in lines if line), [])
        except csv.Error as error:
            raise InputError(f"{shown(access, path)} can't be read as csv: its header line: {error}") from error
        if not names:
            raise InputError(f"{shown(access, path)} can't be read as csv: it has no header line")
        for name in self.types:
            choose([name], names, repr(self.path))
        return names

    def _table(self, access: Access, path: Path, names: list[str]) -> pa.Table:
        try:
            with self._stream(path) as stream:
                table = pacsv.read_csv(stream, self._read(True), self._parse(), self._convert(names))
        except pa.ArrowInvalid as error:
            raise self._located(access, path, names, error) from error
        for field in table.schema:
            if pa.types.is_binary(field.type):
                raise InputError(
                    f"column {field.name!r} of {shown(access, path)} is not text in {self.encoding}",
                    remedy="name the file's `encoding`, such as latin-1",
                )
        return table

    def _located(self, access: Access, path: Path, names: list[str], error: pa.ArrowInvalid) -> InputError:
        """The same error with the row's number, which only reading in one thread tells."""
        try:
            with self._stream(path) as stream:
                pacsv.read_csv(stream, self._read(False), self._parse(), self._convert(names))
        except pa.ArrowInvalid as again:
            error = again
        reason = str(error).removeprefix("CSV parse error: ").removeprefix("CSV conversion error: ")
        reason = reason.splitlines()[0].removeprefix("In ").rstrip(".")[:200]
        return InputError(f"{shown(access, path)} can't be read as csv: {reason.replace('Row #', 'row ')}")

    def _stream(self, path: Path) -> pa.NativeFile:
        stream = pa.input_stream(str(path), compression="detect")
        if self.encoding.lower() in ("utf-8", "utf8"):
            return stream
        return pa.transcoding_input_stream(stream, self.encoding, "utf-8")

    def _read(self, threads: bool) -> pacsv.ReadOptions:
        return pacsv.ReadOptions(use_threads=threads)

    def _parse(self) -> pacsv.ParseOptions:
        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)

    def _convert(self, names: list[str] | None) -> pacsv.ConvertOptions:
        usual = pacsv.ConvertOptions().null_values
        return pacsv.ConvertOptions(
            column_types={name: TYPES[kind] for name, kind in self.types.items()},
            null_values=[*usual, *self.missing],
            include_columns=names,
        )

    def _missing(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not pa.types.is_string(column.type):
            return column
        spellings = pa.array(["", *self.missing], pa.string())
        return pc.if_else(pc.is_in(column, value_set=spellings), pa.scalar(None, pa.string()), column)

    def _unclosed(self, path: Path, table: pa.Table) -> bool:
        """A quote that is opened and never closed: an odd number of them, and a last row that holds the file's end."""
        if not table.num_rows:
            return False
        last = [cell for cell in table.slice(table.num_rows - 1).to_pylist()[0].values() if isinstance(cell, str)]
        if not any("\n" in cell for cell in last):
            return False
        with self._stream(path) as stream:
            return bool(sum(block.count(b'"') for block in iter(lambda: stream.read(2**22), b"")) % 2)
