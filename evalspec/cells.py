"""Values of cells for people and names: the same whether or not there is pandas.

For times in nanoseconds pyarrow needs pandas where a value has some, and gives other objects where there is pandas.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def in_nanoseconds(kind: pa.DataType) -> bool:
    """Times, durations and times of the day that count nanoseconds."""
    import pyarrow as pa

    temporal = pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind)
    return bool(temporal and kind.unit == "ns")


def values_of(cells: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python's values of cells, None where there is none; a text where a time has nanoseconds below a microsecond.

    Args:
        cells: Of any type.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    kind = cells.type
    coarse = _coarse(kind)
    if coarse == kind:
        values: list[Any] = cells.to_pylist()
        return values
    values = cells.cast(coarse, safe=False).to_pylist()
    if not in_nanoseconds(kind):
        return values
    counts = cells.cast(pa.int64()).to_pylist()
    if pa.types.is_duration(kind):
        return [_duration(count) if (count or 0) % 1000 else value for value, count in zip(values, counts, strict=True)]
    texts = cells.cast(pa.string()).to_pylist()
    return [text if (count or 0) % 1000 else value for value, count, text in zip(values, counts, texts, strict=True)]


def value_of(cell: pa.Scalar) -> Any:
    """As `values_of`, of one cell."""
    import pyarrow as pa

    if pa.types.is_dictionary(cell.type):
        cell = cell.value
    return cell.as_py() if _coarse(cell.type) == cell.type else values_of(pa.repeat(cell, 1))[0]


def _coarse(kind: pa.DataType) -> pa.DataType:
    """The type with microseconds in place of nanoseconds, at any depth."""
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if types.is_time64(kind) and kind.unit == "ns":
        return pa.time64("us")
    if types.is_struct(kind):
        return pa.struct([field.with_type(_coarse(field.type)) for field in kind])
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_coarse(kind.value_type)), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_coarse(kind.value_type)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_coarse(kind.value_type)))
    return kind


def _duration(nanoseconds: int) -> str:
    """As `str` of a timedelta, with nine digits of a second."""
    text = str(timedelta(microseconds=nanoseconds // 1000))
    return f"{text if '.' in text else f'{text}.000000'}{nanoseconds % 1000:03d}"
