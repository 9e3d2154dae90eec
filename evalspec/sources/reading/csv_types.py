"""Types of a CSV file's columns, found with one block of it in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import pyarrow as pa

Stream = Callable[[Mapping[str, pa.DataType]], Iterator[pa.RecordBatch]]
"""Types that are known -> batches; the types of the others are as the first batch has them."""

_ORDER: tuple[pa.DataType, ...] = (
    pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"), pa.float64(), pa.string(), pa.binary(),
)  # fmt: skip
"""What Arrow's reader tries, one after the other, until all cells of a column fit."""
_COLUMN = re.compile(r"In CSV column #(\d+)")


def whole_types(stream: Stream, names: Sequence[str], declared: Container[str]) -> dict[str, pa.DataType]:
    """The types that a reader finds which has all cells at hand.

    All batches are read, and read again with the next type of a column where a cell does not fit.

    Args:
        stream: Reads the file from its beginning.
        names: All columns of the file, in its order.
        declared: Columns whose type is not found but given.

    Raises:
        pa.ArrowInvalid: A row is broken, whatever the types are.
    """
    types: dict[str, pa.DataType] = {}
    while True:
        shown = dict(types)
        try:
            for batch in stream(types):
                shown |= {field.name: field.type for field in batch.schema}
            return shown
        except pa.ArrowInvalid as error:
            column = _COLUMN.search(str(error))
            name = names[int(column[1])] if column is not None else ""
            later = None if name in declared else _next(shown.get(name))
            if later is None:
                raise
            types[name] = later


def _next(kind: pa.DataType | None) -> pa.DataType | None:
    place = next((index for index, one in enumerate(_ORDER) if kind is not None and one.equals(kind)), None)
    return None if place is None or place + 1 == len(_ORDER) else _ORDER[place + 1]
