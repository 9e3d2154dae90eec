"""Masks: a class for each pixel of a picture, as a model says it and as it is."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.arrays import column
from evalspec.answers.ragged import output_column
from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.parts import Access

    Mask = NDArray[np.int64]

NOT_JUDGED = -1
VOID = 255
"""Pascal VOC's and Cityscapes' word for pixels that are not judged; a class where there are more than 255."""
INDEXED = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B")
"""Modes of pictures that hold one number a pixel; a palette's colours do not matter."""


def said_masks(array: NDArray[Any], name: str, width: int, first_row: int) -> Mask:
    """Class index of each pixel, shape (n, H, W).

    Args:
        array: Indices, shape (n, H, W) or (n, 1, H, W); scores, shape (n, C, H, W), of which the largest counts (one
            logit for two classes: where it is over 0); or objects, each a picture's bytes.
        name: Of the output.
        width: Classes.
        first_row: Index of the first row in its dataset, for sentences.

    Raises:
        InputError: Another shape, scores that are not finite, or an index that no class has.
    """
    what = f"the mask output {name!r}"
    if array.dtype == object:
        array = _stacked([_of_cell(value, what, first_row + row, None) for row, value in enumerate(array)], what)
    if array.ndim == 4 and array.dtype.kind == "f":
        return _argmax(array, what, width, first_row)
    if array.ndim == 4 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 3 or array.dtype.kind not in "biu":
        raise InputError(
            f"{what} is {array.dtype} of shape {list(array.shape)}, not class indices (n, H, W) or scores (n, C, H, W)"
        )
    codes = array.astype(np.int64)
    _check(codes, (codes < 0) | (codes >= width), what, width, first_row)
    return codes


def true_masks(table: pa.Table, label: str, like: Mask, width: int, access: Access) -> Mask:
    """The label column of masks, shape (n, H, W): -1 where nothing is judged.

    Pixels that are -1, missing, or 255 (where there are no more than 255 classes) are not judged.

    Args:
        table: The rows.
        label: The column: lists of lists, flat lists, pictures' bytes, or their paths from the spec's folder.
        like: What the model says, shape (n, H, W).
        width: Classes.
        access: Where pictures may lie.

    Raises:
        InputError: No such column, another type or size than the model's, or an index that no class has.
    """
    what = f"the label column {label!r}"
    values = output_column(table, label)
    if values.dtype == object:
        values = _stacked([_of_cell(value, what, row, access) for row, value in enumerate(values)], what)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{what} holds {column(table, label).type} but the model gives masks")
    values = _shaped(values, like.shape, what)
    labels = np.where(np.isnan(values), NOT_JUDGED, values) if values.dtype.kind == "f" else values
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise InputError(f"{what} holds numbers that are not class indices")
    codes = labels.astype(np.int64)
    if width <= VOID:
        codes[codes == VOID] = NOT_JUDGED
    _check(codes, (codes < NOT_JUDGED) | (codes >= width), what, width, 0)
    return codes


def _argmax(scores: NDArray[Any], what: str, width: int, first_row: int) -> Mask:
    channels = scores.shape[1]
    if channels != width and not (channels == 1 and width == 2):
        raise InputError(
            f"{what} has {channels} channels, but there are {width} classes",
            remedy="make `classes` the label of each channel",
        )
    bad = ~np.isfinite(scores).all(axis=(1, 2, 3))
    if bad.any():
        raise InputError(f"{what} is NaN or infinite in row {first_row + int(np.argmax(bad))} (counted from 0)")
    return (scores[:, 0] > 0).astype(np.int64) if channels == 1 else scores.argmax(axis=1)


def _shaped(values: NDArray[Any], shape: tuple[int, ...], what: str) -> NDArray[Any]:
    if values.ndim == 4 and 1 in (values.shape[1], values.shape[3]):
        values = values[:, 0] if values.shape[1] == 1 else values[..., 0]
    if values.ndim == 2 and values.shape[1] == shape[1] * shape[2]:
        values = values.reshape(-1, *shape[1:])
    if values.shape[1:] != shape[1:]:
        theirs = " x ".join(str(size) for size in values.shape[1:])
        raise InputError(
            f"{what} has masks of {theirs} and the model gives {shape[1]} x {shape[2]} pixels (height x width)",
            remedy="give them the model's size in the dataset, with one class index per pixel",
        )
    return values


def _of_cell(value: Any, what: str, row: int, access: Access | None) -> NDArray[Any]:
    """One mask: lists of numbers, or a picture as bytes, as a path, or as a struct of both."""
    where = f"{what}, row {row} (counted from 0)"
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, str) and access is not None:
        path: Path = access.path(value)
        value = path.read_bytes()
    if isinstance(value, bytes):
        return _decoded(value, where)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise InputError(f"{where}: there is no mask")
    return value


def _decoded(data: bytes, where: str) -> NDArray[Any]:
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "reading masks from pictures needs pillow", remedy="pip install 'evalspec-gate[images]'"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as picture:
                picture.load()
                mode, pixels = picture.mode, np.asarray(picture)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"{where}: the picture is too large to be read: {error}") from error
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise InputError(f"{where}: the picture can't be read: it is truncated, damaged or not an image") from error
    if mode not in INDEXED:
        raise InputError(f"{where}: the picture is in colour ({mode})", remedy="a mask has one class index per pixel")
    return pixels


def _stacked(masks: list[NDArray[Any]], what: str) -> NDArray[Any]:
    sizes = {mask.shape for mask in masks}
    if len(sizes) > 1:
        shown = " and ".join(" x ".join(map(str, size)) for size in sorted(sizes)[:2])
        raise InputError(f"{what} has masks of several sizes: {shown}", remedy="give them one size in the dataset")
    return np.stack(masks)


def _check(codes: Mask, outside: NDArray[np.bool_], what: str, width: int, first_row: int) -> None:
    if outside.any():
        row = int(np.argmax(outside.reshape(len(codes), -1).any(axis=1)))
        worst = int(codes[row][outside[row]][0])
        raise InputError(
            f"{what} has the class index {worst} in row {first_row + row} (counted from 0) and there are {width} "
            "classes",
            remedy=f"indices are 0 to {width - 1}; pixels of labels that are not judged are 255 or -1",
        )
