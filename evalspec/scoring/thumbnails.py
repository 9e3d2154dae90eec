"""Small pictures of rows: grey or RGB pixels as a PNG in base64, without an image library."""

from __future__ import annotations

import base64
import struct
import zlib
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE_MIN = 4
FLAT_SIDE_MIN = 8
SIDE_MAX = 128


def picture(cell: Any) -> NDArray[np.float64] | None:
    """Pixels of a cell, shape (h, w) or (h, w, 3), or None where it isn't a picture.

    A cell is one where it is a nested list of numbers with two axes (or three, with 1 or 3 channels first or last),
    or a flat list whose length is a square of at least 64.

    Args:
        cell: A value of a table's column, as Python objects or an array.
    """
    if not isinstance(cell, (list, tuple, np.ndarray)):
        return None
    try:
        pixels = np.asarray(cell, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if pixels.ndim == 1:
        side = isqrt(len(pixels))
        if side * side != len(pixels) or side < FLAT_SIDE_MIN:
            return None
        pixels = pixels.reshape(side, side)
    pixels = _channels_last(pixels)
    fits = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)
    if not fits or min(pixels.shape[:2]) < SIDE_MIN or not np.isfinite(pixels).all():
        return None
    step = -(-max(pixels.shape[:2]) // SIDE_MAX)
    return pixels[::step, ::step]


def png(pixels: NDArray[np.float64], bounds: tuple[float, float] | None = None) -> str:
    """A picture as PNG in base64, stretched over the range of its own values.

    Args:
        pixels: shape (h, w) or (h, w, 3), any finite range.
        bounds: Black and white; None: the smallest and the largest value.

    References:
        ISO/IEC 15948 (PNG), 5.3 and 11.2: signature, IHDR, IDAT, IEND.
    """
    low, high = bounds or (float(pixels.min()), float(pixels.max()))
    scale = 255.0 / (high - low) if high > low else 0.0
    grey = np.round(np.clip((pixels - low) * scale, 0.0, 255.0)).astype(np.uint8)
    height, width = grey.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), np.uint8), grey.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if grey.ndim == 3 else 0, 0, 0, 0)
    body = (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )
    return base64.b64encode(body).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _channels_last(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    if pixels.ndim != 3:
        return pixels
    if pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3):
        pixels = np.moveaxis(pixels, 0, 2)
    return pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
