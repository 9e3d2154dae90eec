"""Bytes of each row, by its values alone: the same in whatever batch, file or process it stands."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

OFFSET_BYTES = 4
"""Beside the values of a text or list."""
OTHER_BYTES = 64
"""Of a value whose type is none of those below."""


def row_bytes(table: pa.Table) -> NDArray[np.int64]:
    """Bytes of the values of each row, about as many as memory takes.

    Args:
        table: n rows.

    Returns:
        shape (n,).
    """
    total = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        sizes = [_sizes(chunk) for chunk in column.chunks]
        if sizes:
            total += np.concatenate(sizes)
    return total


def _sizes(array: pa.Array) -> NDArray[np.int64]:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _sizes(array.storage)
    if pa.types.is_dictionary(kind):
        return _sizes(array.dictionary_decode())
    if pa.types.is_map(kind):
        return _sizes(array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
    if pa.types.is_struct(kind):
        fields = [_sizes(field) for field in array.flatten()]
        return np.sum(fields, axis=0, dtype=np.int64) if fields else np.zeros(len(array), np.int64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_sizes(array)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
    if _is_text(array.type):
        return _whole(pc.binary_length(array)) + OFFSET_BYTES
    try:
        width = -(-kind.bit_width // 8)
    except ValueError:
        width = 0 if pa.types.is_null(kind) else OTHER_BYTES
    return np.full(len(array), width, np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _list_sizes(array: pa.Array) -> NDArray[np.int64]:
    lengths = _whole(pc.list_value_length(array))
    # What stands under missing lists is not among the elements.
    lengths[np.asarray(array.is_null())] = 0
    running = np.concatenate(([0], np.cumsum(_sizes(array.flatten()))))
    ends = np.cumsum(lengths)
    sizes: NDArray[np.int64] = running[ends] - running[ends - lengths] + OFFSET_BYTES
    return sizes


def _whole(array: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False)).astype(np.int64)
