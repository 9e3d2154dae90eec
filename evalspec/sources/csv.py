"""CSV files."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from pydantic import Field, StringConstraints

from evalspec.arrow import column_of_texts
from evalspec.errors import InputError
from evalspec.language.header import Header, choose
from evalspec.language.parts import BATCH_ROWS, Access
from evalspec.sources.reading.csv_types import whole_types
from evalspec.sources.reading.files import COMPRESSED, check_format, one_file, reading, shown
from evalspec.sources.reading.objects import DataFile, size_of, stream_of
from evalspec.sources.reading.stored import StoredDataset
from evalspec.sources.reading.table import SMALL_BYTES, header_of_all, tidied, tidy, type_texts

HEAD_BYTES = 2**20
BLOCK_BYTES = 4 * 2**20
"""Read at a time where rows are read in batches."""
FIRST_BYTES = 64 * 2**20
"""Of a file's first rows, where they are read for its header alone."""
LARGEST_ROW = 2**30
PLAIN = "a,b\n1,2\n"
TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
}


class Csv(StoredDataset):
    """Rows in one CSV file with a header line, also compressed (.gz, .bz2, .zst).

    An empty cell is missing, in text columns too. In columns of numbers so are the usual spellings (NA, NaN, null);
    in text they stay text, since NA may be Namibia.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    only_files: ClassVar[bool] = True

    kind: Literal["csv"] = "csv"
    path: str = Field(description="The file, or one object of object storage: s3://BUCKET/KEY, gs://, az://.")
    delimiter: Annotated[str, StringConstraints(pattern=r"^[\t !#-~]$")] = Field(
        ",", description="Character between cells: one ASCII character, not a quote."
    )
    encoding: str = Field("utf-8", description="Encoding of the file.")
    missing: tuple[str, ...] = Field((), description="Further spellings of a missing cell, in all columns.")
    types: dict[str, Literal["text", "integer", "number", "bool", "time"]] = Field(
        default_factory=dict, description="Types that should not be guessed: `{zip: text}` keeps leading zeros."
    )

    def files(self, access: Access) -> tuple[Path, ...]:
        """The file.

        Raises:
            InputError: It is missing or empty.
        """
        return () if self.place is not None else (one_file(access, self.path, "csv"),)

    def header(self, access: Access) -> Header:
        """Columns; rows too where the file is under 8 MiB. Of a larger one types are as its first MiB shows them.

        Raises:
            InputError: Missing, empty or of another format.
        """
        path = self._checked(access)
        if self._is_small(access, path):
            return header_of_all(self, access)
        names = choose(None, self._names(access, path), repr(self.path))
        try:
            with reading(access, path, "csv"), self._stream(path) as stream:
                schema = pacsv.open_csv(stream, self._read(True), self._parse(), self._convert(None)).schema
        except InputError:
            schema = self._first_block(access, path, names)
        return Header(rows=None, columns=type_texts(schema))

    def _first_block(self, access: Access, path: DataFile, names: list[str]) -> pa.Schema:
        """The types that the first rows show, where one of them is longer than a MiB; or which row is broken.

        Raises:
            InputError: It is broken, or is longer than what is read of a file before a run.
        """
        read = pacsv.ReadOptions(use_threads=False, block_size=FIRST_BYTES)
        with reading(access, path, "csv"), self._stream(path) as stream:
            try:
                schema = pacsv.open_csv(stream, read, self._parse(), self._convert(names)).schema
            except pa.ArrowInvalid as error:
                raise self._located(access, path, error, lambda: None) from error
        self._refuse_binary(access, path, schema)
        return schema

    def _is_small(self, access: Access, path: DataFile) -> bool:
        """True if it is under 8 MiB, unpacked: a small file may hold any number of bytes."""
        if size_of(path) > SMALL_BYTES:
            return False
        if path.suffix.lower() not in COMPRESSED:
            return True
        left = SMALL_BYTES
        with reading(access, path, "csv"), stream_of(path, unpacked=True) as stream:
            while left >= 0 and (block := stream.read(2**20)):
                left -= len(block)
        return left >= 0

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
            raise InputError(
                f"{shown(access, path)} has a quote that is never closed, so the rest of the file is one cell"
            )
        return tidy(pa.table([self._missing(column) for column in table.columns], names=names))

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Of a file over 8 MiB memory holds some MiB, and it is read twice: types go by all cells."""
        path = self._checked(access)
        if self._is_small(access, path):
            return super().batches(access, columns, rows)
        there = self._names(access, path)
        names = choose(columns, there, repr(self.path))
        with reading(access, path, "csv"):
            types = self._types(access, path, there, names)

        def raw(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
            last = None
            with reading(access, path, "csv"):
                for batch in self._blocks(path, types, list(wanted)):
                    last = pa.Table.from_batches([batch])
                    yield pa.RecordBatch.from_arrays(
                        [self._missing(column).combine_chunks() for column in last.columns], names=list(wanted)
                    )
            if last is not None and self._unclosed(path, last):
                raise InputError(
                    f"{shown(access, path)} has a quote that is never closed, so the rest of the file is one cell"
                )

        return tidied(raw, pa.schema([(name, types[name]) for name in names]), repr(self.path), rows)

    def _types(self, access: Access, path: DataFile, there: list[str], names: list[str]) -> dict[str, pa.DataType]:
        """The types that `read` would give, which go by all cells."""
        try:
            types = whole_types(lambda known: self._blocks(path, known, names), there, self.types)
        except pa.ArrowInvalid as error:
            raise self._located(access, path, error, lambda: self._once_more(path, names)) from error
        self._refuse_binary(access, path, pa.schema(types))
        return types

    def _once_more(self, path: DataFile, names: list[str]) -> None:
        """Read all blocks in one thread, which tells the row of an error; as text, so that only that is one."""
        for _ in self._blocks(path, dict.fromkeys(names, pa.string()), names, threads=False):
            pass

    def _blocks(
        self, path: DataFile, types: Mapping[str, pa.DataType], names: list[str], threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        with self._stream(path) as stream:
            read = pacsv.ReadOptions(use_threads=threads, block_size=BLOCK_BYTES)
            yield from pacsv.open_csv(stream, read, self._parse(), self._convert(names, types))

    def _checked(self, access: Access) -> DataFile:
        path = self.one_file(access)
        # Encodings of two bytes a letter are text with zero bytes.
        wide = self.encoding.lower().replace("-", "").startswith(("utf16", "utf32"))
        check_format(access, path, "csv", text=not wide)
        if not _reads_text(self.encoding):
            message = f"there is no text encoding {self.encoding!r}"
            raise InputError(message, remedy="write the encoding in which the file was saved, such as utf-8 or latin-1")
        return path

    def _names(self, access: Access, path: DataFile) -> list[str]:
        with reading(access, path, "csv"), self._stream(path) as stream:
            head = bytes(stream.read(HEAD_BYTES)).decode("utf-8-sig", errors="replace")
        if len(head) > HEAD_BYTES // 4 and not {"\n", "\r"} & set(head):
            raise InputError(f"{shown(access, path)} can't be read as csv: its header line is longer than 1 MiB")
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

    def _table(self, access: Access, path: DataFile, names: list[str]) -> pa.Table:
        try:
            table = self._once(path, names, threads=True)
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error):
                raise self._located(access, path, error, lambda: self._once(path, names, threads=False)) from error
            table = self._huge(access, path, names)
        self._refuse_binary(access, path, table.schema)
        return table

    def _huge(self, access: Access, path: DataFile, names: list[str]) -> pa.Table:
        """A file with a row that no block holds: blocks as long as the file, up to 1 GiB."""
        block = min(max(size_of(path), HEAD_BYTES), LARGEST_ROW)
        try:
            with self._stream(path) as stream:
                read = pacsv.ReadOptions(block_size=block)
                return pacsv.read_csv(stream, read, self._parse(), self._convert(names))
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error):
                raise self._located(access, path, error, lambda: None) from error
            raise InputError(f"{shown(access, path)} has a row of more than {block:,} bytes") from error

    def _once(self, path: DataFile, names: list[str], *, threads: bool) -> pa.Table:
        with self._stream(path) as stream:
            return pacsv.read_csv(stream, self._read(threads), self._parse(), self._convert(names))

    def _refuse_binary(self, access: Access, path: DataFile, schema: pa.Schema) -> None:
        for field in schema:
            if pa.types.is_binary(field.type):
                raise InputError(
                    f"column {field.name!r} of {shown(access, path)} is not text in {self.encoding}",
                    remedy="name the file's `encoding`, such as latin-1",
                )

    def _located(
        self, access: Access, path: DataFile, error: pa.ArrowInvalid, once_more: Callable[[], object]
    ) -> InputError:
        """The same error with the row's number, which only reading in one thread tells."""
        try:
            once_more()
        except pa.ArrowInvalid as again:
            error = again
        reason = str(error).removeprefix("CSV parse error: ").removeprefix("CSV conversion error: ")
        reason = reason.splitlines()[0].removeprefix("In ").rstrip(".")[:200]
        return InputError(f"{shown(access, path)} can't be read as csv: {reason.replace('Row #', 'row ')}")

    def _stream(self, path: DataFile) -> pa.NativeFile:
        stream = stream_of(path, unpacked=True)
        if self.encoding.lower() in ("utf-8", "utf8"):
            return stream
        return pa.transcoding_input_stream(stream, self.encoding, "utf-8")

    def _read(self, threads: bool) -> pacsv.ReadOptions:
        return pacsv.ReadOptions(use_threads=threads)

    def _parse(self) -> pacsv.ParseOptions:
        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)

    def _convert(self, names: list[str] | None, types: Mapping[str, pa.DataType] | None = None) -> pacsv.ConvertOptions:
        usual = pacsv.ConvertOptions().null_values
        return pacsv.ConvertOptions(
            column_types={**(types or {}), **{name: TYPES[kind] for name, kind in self.types.items()}},
            null_values=[*usual, *self.missing],
            include_columns=names,
        )

    def _missing(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not pa.types.is_string(column.type):
            return column
        spellings = column_of_texts(["", *self.missing]).cast(pa.string())
        return pc.if_else(pc.is_in(column, value_set=spellings), pa.scalar(None, pa.string()), column)

    def _unclosed(self, path: DataFile, table: pa.Table) -> bool:
        """A quote that is opened and never closed: an odd number of them, and a last row that holds the file's end."""
        if not table.num_rows:
            return False
        last = [column[-1].as_py() for column in table.columns if pa.types.is_string(column.type)]
        if not any("\n" in cell for cell in last if cell is not None):
            return False
        with self._stream(path) as stream:
            return bool(sum(block.count(b'"') for block in iter(lambda: stream.read(2**22), b"")) % 2)


def _reads_text(encoding: str) -> bool:
    """Python knows it, and it turns bytes into text and back; some that are listed do neither."""
    try:
        decoder, letters = codecs.getincrementaldecoder(encoding)(), PLAIN.encode(encoding)
        # A file comes in blocks, which may end anywhere.
        read = "".join(decoder.decode(letters[place : place + 1]) for place in range(len(letters)))
        return read + decoder.decode(b"", True) == PLAIN
    except (LookupError, ValueError, AttributeError, TypeError):
        return False
