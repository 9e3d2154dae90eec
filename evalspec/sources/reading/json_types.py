"""Types of JSON values that were read in parts, joined as if they had been read at once."""

from __future__ import annotations

import pyarrow as pa


def joined(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both; None: they don't go together.

    As Arrow's reader does over a whole file: whole numbers become numbers, times become text where other text stands
    among them, objects have the fields of both.
    """
    if first.equals(second) or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if pa.types.is_list(first) and pa.types.is_list(second):
        value = joined(first.value_type, second.value_type)
        return None if value is None else pa.list_(value)
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return _struct(first, second)
    both = (first, second)
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in both):
        return pa.float64()
    if all(pa.types.is_timestamp(kind) or pa.types.is_string(kind) for kind in both):
        return pa.string()
    return None


def _struct(first: pa.StructType, second: pa.StructType) -> pa.DataType | None:
    fields = {field.name: field.type for field in first}
    for field in second:
        kind = joined(fields.get(field.name, pa.null()), field.type)
        if kind is None:
            return None
        fields[field.name] = kind
    return pa.struct(list(fields.items()))
