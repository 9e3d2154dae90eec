"""The Arrow schema that writers leave in a parquet file's footer, read without a library.

References:
    Apache Arrow columnar format 1.5, Schema.fbs and Message.fbs, and FlatBuffers' binary layout.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_CONTINUATION = 0xFFFFFFFF
_SCHEMA = 1
_INT, _FLOAT, _BINARY, _UTF8, _BOOL, _LIST, _FIXED_SIZE_LIST = 2, 3, 4, 5, 6, 12, 16
_LARGE_UTF8, _UTF8_VIEW = 20, 24
_FLOATS = {1: "float", 2: "double"}


@dataclass(frozen=True, slots=True)
class ArrowField:
    """A column.

    Args:
        name: Its name.
        type: Its type as text; of a list with ``{}`` where its child stands.
        list_of: Of a list: the type of its values.
    """

    name: str
    type: str
    list_of: str | None = None


def arrow_fields(message: bytes) -> list[ArrowField] | None:
    """The columns of a schema message; None: one of them is of a type that is not understood here.

    Raises:
        struct.error: It is damaged.
        IndexError: The same.
        UnicodeError: The same.
    """
    start = 8 if struct.unpack_from("<I", message)[0] == _CONTINUATION else 4
    root = _Table(message, start + struct.unpack_from("<I", message, start)[0])
    if root.byte(1) != _SCHEMA:
        return None
    schema = root.table(2)
    if schema is None or schema.short(0):
        return None
    fields = [_field(field) for field in schema.tables(1)]
    return None if any(field is None for field in fields) else [field for field in fields if field is not None]


def _field(field: _Table) -> ArrowField | None:
    # Extension types stand in the field's own metadata.
    if field.has(6):
        return None
    name, kind, children = field.text(0), field.byte(2), field.tables(5)
    if kind not in (_LIST, _FIXED_SIZE_LIST):
        plain = _plain(field)
        return None if plain is None or children else ArrowField(name, plain)
    if len(children) != 1 or field.has(4) or children[0].has(4) or children[0].has(6) or children[0].tables(5):
        return None
    # Text in lists keeps its own name of text.
    value = _plain(children[0])
    if value in (None, "string") or children[0].byte(1) == 0:
        return None
    size = field.table(3)
    ending = f"[{size.integer(0)}]" if kind == _FIXED_SIZE_LIST and size is not None else ""
    return ArrowField(name, f"{'fixed_size_list' if ending else 'list'}<{{}}>{ending}", value)


def _plain(field: _Table) -> str | None:
    """The type of plain values; a dictionary's are those of its values."""
    kind, about = field.byte(2), field.table(3)
    if about is None:
        return None
    if kind == _INT:
        return f"{'int' if about.byte(1) else 'uint'}{about.integer(0)}"
    if kind == _FLOAT:
        return _FLOATS.get(about.short(0))
    return {_BINARY: "binary", _UTF8: "string", _LARGE_UTF8: "string", _UTF8_VIEW: "string", _BOOL: "bool"}.get(kind)


class _Table:
    """A table of a flatbuffer; fields by index, 0 where one is not there."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position
        self.fields = position - struct.unpack_from("<i", data, position)[0]
        if self.fields < 0:
            raise IndexError(self.fields)
        self.size = struct.unpack_from("<H", data, self.fields)[0]

    def offset(self, index: int) -> int:
        """Where a field's value stands; 0: it is not there."""
        place = 4 + 2 * index
        found = struct.unpack_from("<H", self.data, self.fields + place)[0] if place < self.size else 0
        return self.position + int(found) if found else 0

    def has(self, index: int) -> bool:
        return self.offset(index) > 0

    def byte(self, index: int) -> int:
        offset = self.offset(index)
        return self.data[offset] if offset else 0

    def short(self, index: int) -> int:
        offset = self.offset(index)
        return int(struct.unpack_from("<h", self.data, offset)[0]) if offset else 0

    def integer(self, index: int) -> int:
        offset = self.offset(index)
        return int(struct.unpack_from("<i", self.data, offset)[0]) if offset else 0

    def _target(self, index: int) -> int:
        offset = self.offset(index)
        return offset + int(struct.unpack_from("<I", self.data, offset)[0]) if offset else 0

    def table(self, index: int) -> _Table | None:
        target = self._target(index)
        return _Table(self.data, target) if target else None

    def text(self, index: int) -> str:
        target = self._target(index)
        if not target:
            return ""
        length = struct.unpack_from("<I", self.data, target)[0]
        return self.data[target + 4 : target + 4 + length].decode()

    def tables(self, index: int) -> list[_Table]:
        """The tables of a vector."""
        target = self._target(index)
        if not target:
            return []
        count = struct.unpack_from("<I", self.data, target)[0]
        if count * 4 > len(self.data):
            raise IndexError(count)
        places = [target + 4 + 4 * one for one in range(count)]
        return [_Table(self.data, place + struct.unpack_from("<I", self.data, place)[0]) for place in places]
