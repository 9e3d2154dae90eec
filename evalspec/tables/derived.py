"""Columns made from a column, each of its rows from one cell alone: what a picture, a list or a date looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

BRIGHTNESS, CONTRAST, SHARPNESS, SIZE = "brightness", "contrast", "sharpness", "size"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SMALLEST_SIDE = 4
"""Pixels; a tensor with a shorter side is no picture."""
_PIXELS_AT_A_TIME = 4_000_000


def picture_shape(kind: pa.DataType) -> tuple[int, int, int] | None:
    """Height, width and colours of a column of pictures; None: it holds none.

    Args:
        kind: Type of the column, before its storage is looked at.
    """
    if not isinstance(kind, pa.FixedShapeTensorType):
        return None
    shape = tuple(kind.shape)
    if len(shape) not in (2, 3) or min(shape[:2]) < SMALLEST_SIDE or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        return None
    return int(shape[0]), int(shape[1]), int(shape[2]) if len(shape) == 3 else 1


def of_pictures(array: pa.ExtensionArray) -> Mapping[str, pa.Array]:
    """Brightness, contrast, sharpness and size of pictures, by name.

    Args:
        array: n pictures, for which `picture_shape` says their shape.

    Returns:
        ``brightness``: mean of the grey pixels, in their own unit; ``contrast``: their standard deviation;
        ``sharpness``: standard deviation of what a pixel differs from the mean of its four neighbours (the Laplacian);
        ``size``: pixels. Null where the picture is missing, or a pixel is no finite number.

    References:
        Pech-Pacheco et al. (2000), Diatom autofocusing in brightfield microscopy, ICPR (variance of the Laplacian).
    """
    shape = picture_shape(array.type)
    assert shape is not None
    height, width, colours = shape
    storage, n = array.storage, len(array)
    present = np.flatnonzero(~np.asarray(storage.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_))
    statistics = np.full((3, n), np.nan)
    flat = storage.flatten().to_numpy(zero_copy_only=False)
    step = max(1, _PIXELS_AT_A_TIME // (height * width * colours))
    pixels = height * width * colours
    for start in range(0, len(present), step):
        rows = present[start : start + step]
        block = flat[start * pixels : (start + len(rows)) * pixels].reshape(len(rows), height, width, colours)
        grey = block[..., : min(colours, 3)].mean(axis=3, dtype=np.float32)
        statistics[0, rows], statistics[1, rows] = grey.mean(axis=(1, 2)), grey.std(axis=(1, 2))
        statistics[2, rows] = _laplacian(grey).std(axis=(1, 2))
    size = np.full(n, np.nan)
    size[present] = height * width
    named = zip((BRIGHTNESS, CONTRAST, SHARPNESS, SIZE), (*statistics, size), strict=True)
    return {name: _numbers(values) for name, values in named}


def _laplacian(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Differences of the inner pixels from the mean of their neighbours, shape (n, height - 2, width - 2)."""
    around = grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
    differences: NDArray[np.float32] = grey[:, 1:-1, 1:-1] - around / np.float32(4.0)
    return differences


def of_times(array: pa.Array) -> Mapping[str, pa.Array]:
    """The weekday of dates and times, by name; empty for times of a day and durations.

    Args:
        array: Of a temporal type; in a time zone, the weekday there.
    """
    if not (pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)):
        return {}
    days = pc.day_of_week(array)
    return {"weekday": pc.take(pa.array(WEEKDAYS), days)}


def has_weeks(first: float, last: float, kind: pa.DataType) -> bool:
    """True if dates span two weeks at least: weekdays of fewer days show only which days there were.

    Args:
        first: The earliest, as a number in its own unit.
        last: The latest.
        kind: Its type.
    """
    unit = "d" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    a_day = {"d": 1.0, "s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}[unit]
    return (last - first) / a_day >= 13.0


def of_lists(array: pa.Array) -> Mapping[str, pa.Array]:
    """Number of values of each list, as ``size``; empty for lists of one length.

    Args:
        array: Lists.
    """
    if pa.types.is_fixed_size_list(array.type):
        return {}
    return {SIZE: pc.list_value_length(array).cast(pa.float64())}


def _numbers(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))
