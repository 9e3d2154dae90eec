"""Columns of a table as arrays, rows first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.arrow import array_of
from evalspec.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[Any]


def column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """One column.

    Raises:
        InputError: There is none of this name.
    """
    if name not in table.column_names:
        raise InputError(
            f"the dataset has no column {name!r}",
            choices=table.column_names,
            remedy=did_you_mean(name, table.column_names),
        )
    return table.column(name)


def column_array(table: pa.Table, name: str, first_row: int = 0) -> Array:
    """One column as an array.

    Args:
        table: Rows.
        name: The column.
        first_row: Index of the table's first row in its dataset, for sentences.

    Returns:
        shape (n,) of numbers or of str objects; (n, ...) for a column of lists of one length. A missing number is
        NaN, a missing text is None.

    Raises:
        InputError: No such column, lists of several lengths, or a type that is neither number, text nor list.
    """
    return _array(column(table, name), name, first_row)


def plain_array(values: pa.ChunkedArray, name: str) -> Array:
    """The same of a column that is at hand; ``name`` is for sentences."""
    return _array(values, name, 0)


def _array(values: pa.ChunkedArray, name: str, first_row: int) -> Array:
    import pyarrow as pa
    import pyarrow.types as types

    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        shape = tuple(getattr(kind, "shape", ()))
        storage = pa.chunked_array([chunk.storage for chunk in values.chunks], type=kind.storage_type)
        flat = _array(storage, name, first_row)
        return flat.reshape((len(flat), *shape)) if shape else flat
    if types.is_dictionary(kind):
        return _array(values.cast(kind.value_type), name, first_row)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(values, name, first_row)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return _numbers(values)
    if types.is_decimal(kind):
        return _numbers(values.cast(pa.float64()))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return np.array(values.to_pylist(), dtype=object)
    if types.is_null(kind):
        raise InputError(f"every value of the column {name!r} is missing")
    raise InputError(
        f"the column {name!r} holds {kind}, which can't be an input of a model: it takes numbers, text and lists of "
        "numbers"
    )


def _numbers(values: pa.ChunkedArray) -> Array:
    import pyarrow.types as types

    if not values.null_count:
        whole = array_of(values)
        return whole.copy() if whole.dtype == np.bool_ else whole
    # None has no place among numbers.
    array = np.full(len(values), np.nan, values.type.to_pandas_dtype() if types.is_floating(values.type) else float)
    array[array_of(values.is_valid())] = array_of(values.drop_null())
    return array


def _lists(values: pa.ChunkedArray, name: str, first_row: int) -> Array:
    """Lists of one length as one more axis."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.null_count:
        row = first_row + int(np.argmax(np.asarray(values.is_null())))
        raise InputError(f"row {row} (counted from 0) of the column {name!r} has no list")
    lengths = _numbers(pc.list_value_length(values))
    if len(lengths) == 0:
        return np.empty((0, 0), dtype=np.float64)
    other = lengths != lengths[0]
    if other.any():
        row = int(np.argmax(other))
        raise InputError(
            f"the column {name!r} has lists of several lengths: {lengths[0]} in row {first_row} and {lengths[row]} in "
            f"row {first_row + row} (counted from 0)",
            remedy="give them one length in the dataset",
        )
    flat = pa.chunked_array([chunk.flatten() for chunk in values.chunks], type=values.type.value_type)
    inner = _array(flat, name, first_row)
    return inner.reshape((len(lengths), int(lengths[0]), *inner.shape[1:]))


def stacked(table: pa.Table, names: Sequence[str], first_row: int = 0) -> Array:
    """Several columns of numbers side by side, in the order named.

    Returns:
        shape (n, len(names)), or (n, len(names), ...) for columns of lists.

    Raises:
        InputError: A column holds text, or their shapes differ.
    """
    arrays = [column_array(table, name, first_row) for name in names]
    for name, array in zip(names, arrays, strict=True):
        if array.dtype.kind not in "biuf":
            raise InputError(
                f"the column {name!r} holds text, so it can't be stacked with {len(names) - 1} other columns"
            )
        if array.shape != arrays[0].shape:
            raise InputError(
                f"columns of several shapes can't be stacked: {names[0]!r} has rows of {list(arrays[0].shape[1:])}, "
                f"{name!r} of {list(array.shape[1:])}"
            )
    return np.stack(arrays, axis=1)


def plain_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in a type that all functions take: no dictionary, no view."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values
