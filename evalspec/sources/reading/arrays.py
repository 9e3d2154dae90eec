"""Numpy arrays as columns: numbers and text of one axis, lists of numbers, tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.errors import InputError


def array_type(dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> pa.DataType:
    """The column type for rows of this dtype and shape.

    Raises:
        InputError: Rows of this dtype can't be a column.
    """
    if dtype.kind in "US":
        value: pa.DataType = pa.string() if dtype.kind == "U" else pa.binary()
    elif dtype.kind in "biufM" and dtype.itemsize <= 8:
        value = pa.from_numpy_dtype(_native(dtype))
    else:
        raise InputError(f"{what} has dtype {dtype}, which is neither a number, nor text, nor a time")
    if not shape:
        return value
    if dtype.kind not in "biuf":
        raise InputError(f"{what} has rows of text with shape {list(shape)}; text has one value per row")
    if 0 in shape:
        raise InputError(f"{what} has rows of shape {list(shape)}, which are empty")
    return pa.list_(value, shape[0]) if len(shape) == 1 else pa.fixed_shape_tensor(value, list(shape))


def array_column(values: NDArray[Any], what: str) -> pa.Array:
    """An array as a column.

    Args:
        values: shape (n, ...).
        what: What it is called in errors.

    Returns:
        n rows: plain values, a fixed-size list (one more axis), or a fixed-shape tensor (more axes).

    Raises:
        InputError: Its dtype can't be a column.
    """
    kind = array_type(values.dtype, values.shape[1:], what)
    native = np.ascontiguousarray(values, _native(values.dtype))
    if native.ndim == 1:
        return pa.array(native.astype(object) if native.dtype.kind == "S" else native, kind)
    flat = pa.array(native.reshape(-1))
    size = int(np.prod(native.shape[1:]))
    lists = pa.FixedSizeListArray.from_arrays(flat, size)
    return lists if native.ndim == 2 else pa.ExtensionArray.from_storage(kind, lists)


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "M":
        unit = np.datetime_data(dtype)[0]
        return np.dtype(f"datetime64[{unit if unit in ('D', 's', 'ms', 'us', 'ns') else 's'}]")
    return dtype.newbyteorder("=")
