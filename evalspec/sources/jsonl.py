"""JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.json as pajson
from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.header import Header, choose
from evalspec.language.parts import BATCH_ROWS, Access
from evalspec.sources.reading.files import check_format, one_file, reading, shown
from evalspec.sources.reading.json_shape import check_shape
from evalspec.sources.reading.json_types import joined
from evalspec.sources.reading.objects import DataFile, size_of, stream_of
from evalspec.sources.reading.stored import StoredDataset
from evalspec.sources.reading.table import SMALL_BYTES, small_header, tidied, tidy, type_texts

BLOCK_BYTES = 64 * 2**20
PART_BYTES = 8 * 2**20
"""Read at a time, up to the end of a line, where rows are read in batches."""


class Jsonl(StoredDataset):
    """Rows in one file with a JSON object a line. A key that a line lacks is missing in that row."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    only_files: ClassVar[bool] = True

    kind: Literal["jsonl"] = "jsonl"
    path: str = Field(description="The file, or one object of object storage: s3://BUCKET/KEY, gs://, az://.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The file.

        Raises:
            InputError: It is missing or empty.
        """
        return () if self.place is not None else (one_file(access, self.path, "jsonl"),)

    def header(self, access: Access) -> Header:
        """Columns; rows too where the file is under 8 MiB. Of a larger one columns are as its first 8 MiB show them.

        Raises:
            InputError: Missing, empty or of another format.
        """
        path = self._checked(access)
        with reading(access, path, "jsonl"), path.open("rb") as stream:
            head = stream.read(SMALL_BYTES)
        check_shape(head, shown(access, path))
        small = small_header(self, access, path)
        if small is not None:
            return small
        cut = head.rfind(b"\n")
        if cut < 0:
            raise InputError(f"{shown(access, path)} can't be read as jsonl: its first line is longer than 8 MiB")
        with reading(access, path, "jsonl"):
            schema = self._parsed(access, path, pa.BufferReader(head[:cut]), cut).schema
        return Header(rows=None, columns=type_texts(schema))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns.

        Raises:
            InputError: As `header`, a line is broken (with its number), or a column isn't there.
        """
        path = self._checked(access)
        with reading(access, path, "jsonl"), stream_of(path) as stream:
            table = self._parsed(access, path, stream, size_of(path))
        return tidy(table.select(choose(columns, table.column_names, repr(self.path))))

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Of a file over 8 MiB memory holds some MiB, and it is read twice: types go by all lines."""
        path = self._checked(access)
        if size_of(path) <= SMALL_BYTES:
            return super().batches(access, columns, rows)
        schema = self._whole_schema(access, path)
        names = choose(columns, schema.names, repr(self.path))

        def raw(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
            chosen = pa.schema([schema.field(name) for name in wanted])
            for table in self._blocks(access, path, chosen):
                yield from table.select(list(wanted)).to_batches()

        return tidied(raw, pa.schema([schema.field(name) for name in names]), repr(self.path), rows)

    def _whole_schema(self, access: Access, path: DataFile) -> pa.Schema:
        """The types that columns have in all lines together."""
        types: dict[str, pa.DataType] = {}
        for table in self._blocks(access, path, None):
            for field in table.schema:
                kind = joined(types.get(field.name, pa.null()), field.type)
                if kind is None:
                    raise self._broken(access, path, f"{field.name!r} is {types[field.name]} and {field.type}")
                types[field.name] = kind
        return pa.schema(types)

    def _blocks(self, access: Access, path: DataFile, schema: pa.Schema | None) -> Iterator[pa.Table]:
        """Lines as tables, some MiB at a time; with a schema only its columns."""
        unexpected = "infer" if schema is None else "ignore"
        parse = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
        with reading(access, path, "jsonl"), path.open("rb") as stream:
            while block := stream.read(PART_BYTES):
                block += stream.readline()
                if not block.strip():
                    continue
                options = pajson.ReadOptions(block_size=len(block) + 1)
                try:
                    yield _named(pajson.read_json(pa.BufferReader(block), read_options=options, parse_options=parse))
                except pa.ArrowInvalid as error:
                    raise self._broken(access, path, str(error).splitlines()[0]) from error

    def _checked(self, access: Access) -> DataFile:
        path = self.one_file(access)
        check_format(access, path, "jsonl", text=True)
        return path

    def _parsed(self, access: Access, path: DataFile, stream: pa.NativeFile, size: int) -> pa.Table:
        block = min(max(size, 1) + 1, BLOCK_BYTES)
        try:
            return _named(pajson.read_json(stream, read_options=pajson.ReadOptions(block_size=block)))
        except pa.ArrowInvalid as error:
            raise self._broken(access, path, str(error).splitlines()[0]) from error

    def _broken(self, access: Access, path: DataFile, reason: str) -> InputError:
        """Why it can't be read: the first line that is wrong, or what the parser said."""
        with path.open("rb") as lines:
            reason = _first_broken(lines) or reason.removeprefix("JSON parse error: ")
        return InputError(f"{shown(access, path)} can't be read as jsonl: {reason}")


def _named(table: pa.Table) -> pa.Table:
    """The same.

    Raises:
        UnicodeError: A key is not text in UTF-8, which is known only when it is asked for.
    """
    names = table.column_names
    return table.rename_columns(names)


def _first_broken(lines: IO[bytes]) -> str | None:
    """The first line that can't be read, and why; None where each is fine by itself."""
    kinds: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            text = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            return f"line {number:,} is broken ({text})"
        if not isinstance(row, dict):
            return f"line {number:,} is {_kind(row)}, not an object: write one object per line"
        for name, kind in _kinds(row):
            before, at = kinds.setdefault(name, (kind, number))
            if before != kind:
                return f"line {number:,} has {kind} in {name!r} where line {at:,} has {before}"
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return row


def _kinds(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    return ((name, _kind(value)) for name, value in row.items() if value is not None)


def _kind(value: object) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")
