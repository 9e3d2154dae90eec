"""The arithmetic of preprocessing stages: batches in, batches out, rows first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError

Array = NDArray[Any]
Channels = Literal["first", "last"]
IMAGE_AXES = (3, 4)


def numbers(array: Array, stage: str) -> Array:
    """The array, if it holds numbers.

    Raises:
        InputError: It holds text or something else.
    """
    if array.dtype.kind not in "biuf":
        raise InputError(f"the preprocessing stage {stage!r} takes numbers but got {kind_of(array)}")
    return array


def kind_of(array: Array) -> str:
    """Type of an array's elements, for a sentence."""
    return "text" if array.dtype.kind in "OUST" else str(array.dtype)


def floating(array: Array) -> Array:
    """The array as floating point; whole numbers become float32, as in training frameworks."""
    return array if array.dtype.kind == "f" else array.astype(np.float32, copy=False)


def scale(array: Array, factor: float, offset: float) -> Array:
    """``array * factor + offset`` in the array's own floating type."""
    array = floating(array)
    scaled: Array = array * array.dtype.type(factor) + array.dtype.type(offset)
    return scaled


def spatial_axes(array: Array, channels: Channels, stage: str) -> tuple[int, int]:
    """Axes of height and width.

    Args:
        array: shape (n, h, w), (n, h, w, c) or (n, c, h, w).
        channels: Where the channels stand, if there are four axes.
        stage: Name for the error.

    Raises:
        InputError: Another number of axes.
    """
    if array.ndim not in IMAGE_AXES:
        raise InputError(
            f"the preprocessing stage {stage!r} takes images (rows, height, width[, channels]) but got shape "
            f"{array.shape}",
            remedy="put {reshape: [height, width]} before it if the column is flat",
        )
    return (2, 3) if array.ndim == max(IMAGE_AXES) and channels == "first" else (1, 2)


def normalize(array: Array, mean: Sequence[float], std: Sequence[float], channels: Channels) -> Array:
    """``(array - mean) / std``, one value for all or one for each channel.

    Raises:
        InputError: The number of means is not that of the channels.
    """
    array = floating(array)
    axis = 1 if channels == "first" else array.ndim - 1
    shape = [1] * array.ndim
    if len(mean) > 1 or len(std) > 1:
        width = array.shape[axis] if array.ndim > 1 else 1
        if {len(mean), len(std)} - {1, width}:
            raise InputError(
                f"the preprocessing stage 'normalize' has {len(mean)} means and {len(std)} deviations for "
                f"{width} channels (shape {array.shape}, channels {channels})"
            )
        shape[axis] = -1
    centre = np.asarray(mean, dtype=array.dtype).reshape(shape if len(mean) > 1 else [1] * array.ndim)
    spread = np.asarray(std, dtype=array.dtype).reshape(shape if len(std) > 1 else [1] * array.ndim)
    return np.asarray((array - centre) / spread)


def resize_weights(size_in: int, size_out: int, *, antialias: bool) -> NDArray[np.float64]:
    """Weights of bilinear resizing along one axis, pixels as areas (half-pixel centres).

    With ``antialias`` the triangle is as wide as the step when shrinking, as Pillow does it.

    Returns:
        shape (size_out, size_in), rows sum to 1.
    """
    step = size_in / size_out
    width = max(step, 1.0) if antialias else 1.0
    centre = (np.arange(size_out) + 0.5) * step
    if not antialias:
        centre = np.clip(centre, 0.5, size_in - 0.5)
    distance = np.abs(np.arange(size_in)[None, :] + 0.5 - centre[:, None])
    weights = np.clip(1.0 - distance / width, 0.0, None)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def resize(array: Array, size: tuple[int, int], channels: Channels, method: str, *, antialias: bool) -> Array:
    """Images of another size; whole numbers are rounded and clipped to their type again.

    Args:
        array: shape (n, h, w), (n, h, w, c) or (n, c, h, w).
        size: (height, width) wanted.
        channels: Where the channels stand.
        method: ``bilinear`` or ``nearest``.
        antialias: See `resize_weights`.
    """
    axes = spatial_axes(array, channels, "resize")
    if method == "nearest":
        for axis, wanted in zip(axes, size, strict=True):
            have = array.shape[axis]
            array = array.take(((np.arange(wanted) + 0.5) * have / wanted).astype(np.int64), axis=axis)
        return array
    out = array.astype(np.float64) if array.dtype.kind != "f" else array
    for axis, wanted in zip(axes, size, strict=True):
        weights = resize_weights(array.shape[axis], wanted, antialias=antialias).astype(out.dtype)
        out = np.moveaxis(np.tensordot(weights, out, axes=(1, axis)), 0, axis)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        out = np.clip(np.rint(out), limits.min, limits.max)
    return np.ascontiguousarray(out.astype(array.dtype if array.dtype.kind != "b" else np.float32))


def center_crop(array: Array, size: tuple[int, int], channels: Channels) -> Array:
    """The middle of each image.

    Raises:
        InputError: The images are smaller.
    """
    axes = spatial_axes(array, channels, "center_crop")
    have = tuple(array.shape[axis] for axis in axes)
    if have[0] < size[0] or have[1] < size[1]:
        raise InputError(f"the preprocessing stage 'center_crop' needs {list(size)}, but images have {list(have)}")
    window: list[slice] = [slice(None)] * array.ndim
    for axis, wanted in zip(axes, size, strict=True):
        start = round((array.shape[axis] - wanted) / 2)
        window[axis] = slice(start, start + wanted)
    return np.ascontiguousarray(array[tuple(window)])


def pad(array: Array, size: Sequence[int], value: float, fill: str, channels: Channels) -> Array:
    """Filled up to a size: one number for sequences (axis 1), two for height and width.

    Raises:
        InputError: The rows are larger.
    """
    axes: tuple[int, ...] = (1,) if len(size) == 1 else spatial_axes(array, channels, "pad")
    if array.ndim <= axes[-1]:
        raise InputError(f"the preprocessing stage 'pad' needs rows with {len(size)} axes but got shape {array.shape}")
    widths = [(0, 0)] * array.ndim
    for axis, wanted in zip(axes, size, strict=True):
        missing = wanted - array.shape[axis]
        if missing < 0:
            raise InputError(
                f"the preprocessing stage 'pad' pads to {list(size)}, but rows are larger: {array.shape[1:]}"
            )
        before = missing // 2 if fill == "around" else 0
        widths[axis] = (before, missing - before)
    return np.pad(array, widths, constant_values=value)


def layout(array: Array, before: str, after: str) -> Array:
    """Axes in another order, one letter each; letters only on the right become axes of size 1.

    Raises:
        InputError: The array has another number of axes than letters on the left.
    """
    if array.ndim != len(before):
        raise InputError(
            f"the preprocessing stage 'layout' reads {before!r} ({len(before)} axes) but got shape {array.shape}"
        )
    new = [letter for letter in after if letter not in before]
    letters = before + "".join(new)
    array = array.reshape(array.shape + (1,) * len(new))
    return np.ascontiguousarray(array.transpose([letters.index(letter) for letter in after]))


def reshape(array: Array, shape: Sequence[int]) -> Array:
    """Each row in another shape.

    Raises:
        InputError: The sizes do not fit.
    """
    try:
        return array.reshape((array.shape[0], *shape)) if array.shape[0] else array
    except ValueError as error:
        raise InputError(
            f"the preprocessing stage 'reshape' can't make {list(shape)} of rows of shape {list(array.shape[1:])}"
        ) from error


def softmax(array: Array, axis: int) -> Array:
    """Exponentials that sum to 1 along an axis, without overflow."""
    array = floating(array)
    exp = np.exp(array - array.max(axis=axis, keepdims=True))
    return np.asarray(exp / exp.sum(axis=axis, keepdims=True))
