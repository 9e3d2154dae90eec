"""Values of cells for people and names: the same whether or not there is pandas.

For times in nanoseconds pyarrow needs pandas where a value has some, and gives other objects where there is pandas.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def in_nanoseconds(kind: pa.DataType) -> bool:
    """Times, durations and times of the day that count nanoseconds."""
    import pyarrow as pa

    temporal = pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind)
    return bool(temporal and kind.unit == "ns")


def values_of(cells: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python's values of cells, None where there is none; a text where Python has no such time.

    So have nanoseconds below a microsecond, which are cut off inside of lists, structs and maps, and years beyond 9999.

    Args:
        cells: Of any type.
    """
    import pyarrow as pa

    if isinstance(cells, pa.ChunkedArray):
        return [value for chunk in cells.chunks for value in _values(chunk, exact=True)]
    return _values(cells, exact=True)


def value_of(cell: pa.Scalar) -> Any:
    """As `values_of`, of one cell."""
    import pyarrow as pa

    return values_of(pa.repeat(cell, 1))[0] if _holds_times(cell.type) else cell.as_py()


def _values(cells: pa.Array, exact: bool) -> list[Any]:
    """Values of cells; ``exact``: with their nanoseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = cells.type, pa.types
    if not _holds_times(kind):
        values: list[Any] = cells.to_pylist()
        return values
    if types.is_dictionary(kind):
        words = _values(cells.dictionary, exact)
        return [None if place is None else words[place] for place in cells.indices.to_pylist()]
    if types.is_run_end_encoded(kind):
        return _values(pc.run_end_decode(cells), exact)
    if isinstance(kind, pa.BaseExtensionType):
        return _values(cells.storage, exact)
    return _nested(cells) if types.is_nested(kind) else _times(cells, exact)


def _holds_times(kind: pa.DataType) -> bool:
    """Times or durations, at any depth."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _holds_times(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _holds_times(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_holds_times(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _nested(cells: pa.Array) -> list[Any]:
    """Values of structs, lists, maps and unions, made from those inside of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = cells.type, pa.types
    if types.is_union(kind):
        return [_values(pa.repeat(cell.value, 1), exact=False)[0] if cell.is_valid else None for cell in cells]
    if types.is_struct(kind):
        names = [field.name for field in kind]
        rows = zip(*(_values(field, exact=False) for field in cells.flatten()), strict=True)
        present = cells.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if there else None for there, row in zip(present, rows, strict=True)]
    if types.is_map(kind):
        lists = _nested(cells.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
        return [None if one is None else [(pair["key"], pair["value"]) for pair in one] for one in lists]
    inside = iter(_values(cells.flatten(), exact=False))
    lengths = pc.list_value_length(cells).to_pylist()
    return [None if length is None else list(islice(inside, length)) for length in lengths]


def _times(cells: pa.Array, exact: bool) -> list[Any]:
    import pyarrow as pa

    kind = cells.type
    values = _near(cells.cast(_coarse(kind), safe=False) if in_nanoseconds(kind) else cells)
    if not exact or not in_nanoseconds(kind):
        return values
    counts = cells.cast(pa.int64()).to_pylist()
    if pa.types.is_duration(kind):
        return [_duration(count) if (count or 0) % 1000 else value for value, count in zip(values, counts, strict=True)]
    texts = cells.cast(pa.string()).to_pylist()
    return [text if (count or 0) % 1000 else value for value, count, text in zip(values, counts, texts, strict=True)]


def _near(cells: pa.Array) -> list[Any]:
    """Values of times without nanoseconds; those that Python has no object for as a text."""
    try:
        values: list[Any] = cells.to_pylist()
    except (OverflowError, ValueError):
        values = [_value_or_text(cell) for cell in cells]
    return values


def _value_or_text(cell: pa.Scalar) -> Any:
    """As `_near`, of one cell."""
    import pyarrow as pa

    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        text = cell.cast(pa.string()).as_py()
        return f"{text} {cell.type.unit}" if pa.types.is_duration(cell.type) else text


def _coarse(kind: pa.DataType) -> pa.DataType:
    """The type with microseconds in place of nanoseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


def _duration(nanoseconds: int) -> str:
    """As `str` of a timedelta, with nine digits of a second."""
    text = str(timedelta(microseconds=nanoseconds // 1000))
    return f"{text if '.' in text else f'{text}.000000'}{nanoseconds % 1000:03d}"
