"""Columns of pictures, as arrays or as files in bytes, made comparable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.answers.arrays import column_array
from evalspec.sources.reading.open import missing_values
from evalspec.sources.reading.pictures import pixels_of
from evalspec.stats.sets.perceptual import SIDE, FloatPictures, Signatures, shrunk, signed
from evalspec.tables.comparable import CHANNELS, is_picture

BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*")
"""Of png, jpeg, gif, webp, bmp and tiff."""


def holds_pictures(column: pa.ChunkedArray) -> bool:
    """Arrays of at least 32 x 32 pixels; or bytes, plain or in a struct, whose first begins as a picture's file does.

    Args:
        column: Rows of the test set.
    """
    if is_picture(column.type):
        return True
    if not _is_bytes(column.type):
        return False
    some = _bytes(column).drop_null().slice(0, 1).to_pylist()
    return bool(some) and some[0].startswith(BEGINNINGS)


def sign(rows: pa.Table, column: str, span: float) -> tuple[Signatures, float]:
    """Signatures of all rows, those without a picture, or with a smaller one, as flat; and the range of values.

    Args:
        rows: n rows.
        column: Of pictures; of anything else none has a signature.
        span: The least that the range is taken for.

    Raises:
        InputError: Bytes are no picture that can be read.
    """
    small = np.zeros((rows.num_rows, 1, SIDE, SIDE), np.float32)
    there = ~missing_values(rows.column(column))
    if is_picture(rows.schema.field(column).type):
        if there.any():
            found = shrunk(_channels_last(column_array(rows.filter(pa.array(there)), column)))
            small = np.zeros((rows.num_rows, *found.shape[1:]), np.float32)
            small[there] = found
    elif _is_bytes(rows.schema.field(column).type):
        small, there = _decoded(_bytes(rows.column(column)), column)
    else:
        there[:] = False
    if there.any():
        span = max(span, float(small[there].max()) - float(small[there].min()))
    found_all = signed(small, span)
    return Signatures(found_all.hashes, small, found_all.flat | ~there), span


def shown_pixels(rows: pa.Table, column: str) -> NDArray[Any] | None:
    """Pixels of the first row where it holds a file in bytes, which examples don't draw; None: anything else."""
    if not _is_bytes(rows.schema.field(column).type):
        return None
    data = _bytes(rows.column(column)).to_pylist()[0]
    return None if data is None else pixels_of(data, f"in column {column!r}")


def _decoded(column: pa.ChunkedArray, name: str) -> tuple[FloatPictures, NDArray[np.bool_]]:
    """Small pictures in three colours, shape (n, 3, 32, 32), and which rows have one of at least 32 x 32."""
    small, there = np.zeros((len(column), 3, SIDE, SIDE), np.float32), np.zeros(len(column), bool)
    for row, scalar in enumerate(column):
        data = scalar.as_py()
        if not data:
            continue
        pixels = pixels_of(data, f"{row} of the batch in column {name!r}")
        if min(pixels.shape[:2]) >= SIDE:
            # A grey one has the same in all three colours.
            small[row], there[row] = shrunk(pixels[None])[0], True
    return small, there


def _is_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        index = kind.get_field_index("bytes")
        return index >= 0 and _is_bytes(kind.field(index).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_struct(column.type):
        return column
    index = column.type.get_field_index("bytes")
    parts = [chunk.flatten()[index] for chunk in column.chunks]
    return pa.chunked_array(parts, column.type.field(index).type)


def _channels_last(pixels: NDArray[Any]) -> NDArray[Any]:
    if pixels.ndim == 4 and pixels.shape[3] not in CHANNELS:
        return np.moveaxis(pixels, 1, 3)
    return pixels
