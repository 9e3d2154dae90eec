"""The footer of a parquet file, read without a library, for the sake of ``validate``.

Measured on suites/breast_cancer and suites/digits, 20 pairs each, with compiled modules: with pyarrow in place of this
module ``validate`` takes 1.31 and 1.29 times as long (medians 0.34 s and 0.44 s, 0.40 s and 0.53 s), for pyarrow's
import, and numpy's in it, take 0.1 s.

Only what is understood beyond doubt comes out: columns whose type parquet's own schema and the Arrow schema beside it
agree on. Everything else is left to pyarrow, errors too, so that each has one place where it is said.

References:
    Apache Parquet format 2.11, parquet.thrift (FileMetaData, SchemaElement, LogicalType), and Apache Thrift compact
    protocol.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.sources.reading.arrow_schema import ArrowField, arrow_fields
from evalspec.sources.reading.pandas_index import UNNAMED

MAGIC = b"PAR1"
LARGEST = 65_536
"""Bytes of a footer; a larger one is quicker read by pyarrow."""
_PLAIN = {0: "bool", 1: "int32", 2: "int64", 4: "float", 5: "double", 6: "binary"}
_STRING, _LIST, _INTEGER = 1, 3, 10
"""Members of LogicalType, by their field id."""
_UTF8 = 0
_OPTIONAL, _REPEATED = 1, 2
_UNDERSTOOD = {1, 3, 4, 5, 6, 9, 10}
"""Fields of SchemaElement: type, repetition, name, children, converted type, field id, logical type."""


class _NotUnderstood(Exception):
    """Pyarrow reads it."""


@dataclass(frozen=True, slots=True)
class Footer:
    """Rows, and columns with their types as `evalspec.sources.reading.table.type_texts` gives them."""

    rows: int
    columns: Mapping[str, str]


def read_footer(path: Path) -> Footer | None:
    """Facts in a file's footer; None: pyarrow must be asked.

    Raises:
        OSError: The file can't be read.
    """
    content = _content(path)
    try:
        return None if content is None else _footer(_Compact(content).struct())
    except (_NotUnderstood, *_DAMAGED):
        return None


def rows_in(path: Path) -> int | None:
    """Number of rows, whatever the columns hold; None: the footer can't be read.

    Raises:
        OSError: The file can't be read.
    """
    content = _content(path)
    try:
        return None if content is None else int(_Compact(content).struct()[3])
    except _DAMAGED:
        return None


_DAMAGED = (LookupError, TypeError, AttributeError, ValueError, RecursionError, struct.error)
"""What a damaged file ends in: pyarrow says what is wrong with it."""


def _content(path: Path) -> bytes | None:
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size < 12:
            return None
        stream.seek(size - 8)
        length, magic = struct.unpack("<I4s", stream.read(8))
        if magic != MAGIC or not 0 < length <= min(LARGEST, size - 12):
            return None
        stream.seek(size - 8 - length)
        return stream.read(length)


def _footer(metadata: dict[int, Any]) -> Footer:
    if 8 in metadata:
        raise _NotUnderstood
    elements, rows = metadata[2], metadata[3]
    stored = {pair[1]: pair.get(2) for pair in metadata.get(5, ())}
    fields = arrow_fields(base64.b64decode(stored[b"ARROW:schema"], validate=True))
    if fields is None or rows < 0:
        raise _NotUnderstood
    if any(UNNAMED.fullmatch(field.name) for field in fields):
        # Whether it is an index stands in what pandas wrote.
        raise _NotUnderstood
    columns: dict[str, str] = {}
    position = 1
    for field in fields:
        text, position = _column(elements, position, field)
        if field.name in columns:
            raise _NotUnderstood
        columns[field.name] = text
    if position != len(elements) or elements[0].get(5) != len(fields):
        raise _NotUnderstood
    return Footer(rows, columns)


def _column(elements: list[dict[int, Any]], position: int, field: ArrowField) -> tuple[str, int]:
    """A column's type as text, and where the next one stands."""
    element = elements[position]
    if element[4].decode() != field.name or not element.keys() <= _UNDERSTOOD:
        raise _NotUnderstood
    if not element.get(5):
        if element[3] == _REPEATED or field.list_of is not None or _leaf(element) != field.type:
            raise _NotUnderstood
        return field.type, position + 1
    group, leaf = elements[position + 1], elements[position + 2]
    is_list = set(element.get(10, ())) == {_LIST} and element[5] == 1 and group.get(5) == 1 and group[3] == _REPEATED
    if not is_list or leaf.get(5) or leaf[3] != _OPTIONAL or not leaf.keys() <= _UNDERSTOOD:
        raise _NotUnderstood
    if field.list_of is None or _leaf(leaf) != field.list_of:
        raise _NotUnderstood
    return field.type.format(f"{leaf[4].decode()}: {field.list_of}"), position + 3


def _leaf(element: dict[int, Any]) -> str:
    """The type of a column that holds plain values, by parquet's schema alone."""
    text, logical, converted = _PLAIN[element[1]], element.get(10), element.get(6)
    if logical is None:
        if converted is None:
            return text
        if text == "binary" and converted == _UTF8:
            return "string"
    elif set(logical) == {_STRING} and text == "binary":
        return "string"
    elif set(logical) == {_INTEGER} and text in ("int32", "int64"):
        width, signed = logical[_INTEGER][1], logical[_INTEGER][2]
        return f"{'' if signed else 'u'}int{width}"
    raise _NotUnderstood


class _Compact:
    """Reads structs of Thrift's compact protocol as mappings of field id to value."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.readers: dict[int, Callable[[], Any]] = {
            3: self.byte,
            4: self.integer,
            5: self.integer,
            6: self.integer,
            7: self.double,
            8: self.binary,
            9: self.list,
            10: self.list,
            12: self.struct,
        }

    def byte(self) -> int:
        self.position += 1
        return self.data[self.position - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def integer(self) -> int:
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def double(self) -> float:
        self.position += 8
        return float(struct.unpack_from("<d", self.data, self.position - 8)[0])

    def binary(self) -> bytes:
        length = self.unsigned()
        self.position += length
        if self.position > len(self.data):
            raise _NotUnderstood
        return self.data[self.position - length : self.position]

    def list(self) -> list[Any]:
        head = self.byte()
        kind, length = head & 0x0F, head >> 4
        if length == 15:
            length = self.unsigned()
        if length > len(self.data):
            raise _NotUnderstood
        # In a list a truth value is a byte of its own.
        read = self.byte if kind in (1, 2) else self.readers[kind]
        return [read() for _ in range(length)]

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        last = 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            last = last + (head >> 4) if head >> 4 else self.integer()
            kind = head & 0x0F
            fields[last] = kind == 1 if kind in (1, 2) else self.readers[kind]()
