"""Pictures made worse: noise, blur, light, compression, covering, turning. Pixels are in 0..1 here."""

from __future__ import annotations

from functools import cache
from math import ceil, cos, pi, radians, sin, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Pictures = NDArray[np.float64]
    Corrupt = Callable[[Pictures, int, np.random.Generator], Pictures]

NOISE_SD = (0.04, 0.08, 0.12, 0.18, 0.26)
BLUR_PIXELS = (0.4, 0.6, 0.8, 1.0, 1.4)
BLUR_SIDE = 32
BRIGHTER = (0.1, 0.2, 0.3, 0.4, 0.5)
CONTRAST = (0.75, 0.5, 0.4, 0.3, 0.15)
JPEG_QUALITY = (80, 60, 40, 25, 10)
COVERED = (0.05, 0.1, 0.15, 0.2, 0.3)
DEGREES = (5.0, 10.0, 15.0, 20.0, 30.0)
BLOCK = 8
TABLE = np.array([
    [16, 11, 10, 16, 24, 40, 51, 61], [12, 12, 14, 19, 26, 58, 60, 55], [14, 13, 16, 24, 40, 57, 69, 56],
    [14, 17, 22, 29, 51, 87, 80, 62], [18, 22, 37, 56, 68, 109, 103, 77], [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101], [72, 92, 95, 98, 112, 100, 103, 99],
], dtype=np.float64)  # fmt: skip
COLOUR_TABLE = np.full((BLOCK, BLOCK), 99.0)
COLOUR_TABLE[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]


def gaussian_noise(pictures: Pictures, severity: int, rng: np.random.Generator) -> Pictures:
    """Add independent normal noise to every value."""
    return pictures + NOISE_SD[severity - 1] * rng.standard_normal(pictures.shape)


def blur(pictures: Pictures, severity: int, rng: np.random.Generator) -> Pictures:
    """Blur by a Gaussian; beyond 32 pixels its width grows with the root of the picture's side."""
    side = sqrt(pictures.shape[1] * pictures.shape[2])
    sigma = BLUR_PIXELS[severity - 1] * sqrt(max(1.0, side / BLUR_SIDE))
    return _along(_along(pictures, 1, sigma), 2, sigma)


def brightness(pictures: Pictures, severity: int, rng: np.random.Generator) -> Pictures:
    """Add or subtract brightness, at random for each picture."""
    return pictures + BRIGHTER[severity - 1] * _either(pictures, rng)


def contrast(pictures: Pictures, severity: int, rng: np.random.Generator) -> Pictures:
    """Pull the values towards the picture's own mean."""
    mean = pictures.mean(axis=(1, 2, 3), keepdims=True)
    return np.asarray(mean + CONTRAST[severity - 1] * (pictures - mean))


def jpeg(pictures: Pictures, severity: int, rng: np.random.Generator) -> Pictures:
    """Round cosine coefficients of 8 x 8 blocks as JPEG does, by the tables of the standard's annex K.

    Colours are not subsampled, and nothing is encoded to a file.

    References:
        ISO/IEC 10918-1, A.3.3 (transform) and K.1 (tables).
    """
    quality = JPEG_QUALITY[severity - 1]
    scale = 50.0 / quality if quality < 50 else 2.0 - quality / 50.0
    n, height, width, channels = pictures.shape
    padded = np.pad(pictures, ((0, 0), (0, -height % BLOCK), (0, -width % BLOCK), (0, 0)), mode="edge")
    levels = padded * 255.0 - 128.0 if channels == 1 else _to_luma(padded * 255.0)
    rows, columns = levels.shape[1] // BLOCK, levels.shape[2] // BLOCK
    blocks = levels.reshape(n, rows, BLOCK, columns, BLOCK, channels)
    cosine = _cosines()
    coefficients = np.einsum("ui,nricsj,vs->nrucvj", cosine, blocks, cosine, optimize=True)
    steps = np.stack([np.clip(np.floor(_table(c) * scale + 0.5), 1, 255) for c in range(channels)], axis=-1)
    coefficients = np.round(coefficients / steps[:, None]) * steps[:, None]
    back = np.einsum("ui,nrucvj,vs->nricsj", cosine, coefficients, cosine, optimize=True)
    whole = back.reshape(levels.shape)
    pixels = whole + 128.0 if channels == 1 else _from_luma(whole)
    return np.asarray(pixels[:, :height, :width] / 255.0)


def occlusion(pictures: Pictures, severity: int, rng: np.random.Generator) -> Pictures:
    """Cover a share of the picture by a grey rectangle, at a random place."""
    n, height, width, _ = pictures.shape
    side = sqrt(COVERED[severity - 1])
    high, wide = max(1, round(side * height)), max(1, round(side * width))
    top, left = rng.integers(0, height - high + 1, n), rng.integers(0, width - wide + 1, n)
    rows, columns = np.arange(height)[None], np.arange(width)[None]
    across = (rows >= top[:, None]) & (rows < top[:, None] + high)
    along = (columns >= left[:, None]) & (columns < left[:, None] + wide)
    return np.where((across[:, :, None] & along[:, None, :])[..., None], 0.5, pictures)


def rotation(pictures: Pictures, severity: int, rng: np.random.Generator) -> Pictures:
    """Turn each picture to the left or to the right, at random; what comes in from outside repeats the edge."""
    way = _either(pictures, rng)[:, 0, 0, 0]
    turned = np.empty_like(pictures)
    for sign in (-1.0, 1.0):
        turned[way == sign] = _turned(pictures[way == sign], sign * DEGREES[severity - 1])
    return turned


PICTURES: dict[str, Corrupt] = {
    "gaussian_noise": gaussian_noise, "blur": blur, "brightness": brightness, "contrast": contrast, "jpeg": jpeg,
    "occlusion": occlusion, "rotation": rotation,
}  # fmt: skip


def _either(pictures: Pictures, rng: np.random.Generator) -> Pictures:
    """Random sign for each picture, -1 or 1, shape (n, 1, 1, 1)."""
    return rng.choice(np.array([-1.0, 1.0]), size=(len(pictures), 1, 1, 1))


def _along(pictures: Pictures, axis: int, sigma: float) -> Pictures:
    """Smooth by Gaussian weights along one axis, with the edge repeated."""
    reach = max(1, ceil(3.0 * sigma))
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    weights /= weights.sum()
    length = pictures.shape[axis]
    places = np.clip(np.arange(length)[:, None] + offsets, 0, length - 1)
    mixing = np.zeros((length, length))
    np.add.at(mixing, (np.arange(length)[:, None], places), weights)
    return np.moveaxis(np.moveaxis(pictures, axis, -1) @ mixing.T, -1, axis)


def _turned(pictures: Pictures, degrees: float) -> Pictures:
    """Rotate about the middle, with bilinear interpolation."""
    _, height, width, _ = pictures.shape
    angle = radians(degrees)
    middle_y, middle_x = (height - 1) / 2.0, (width - 1) / 2.0
    y, x = np.mgrid[:height, :width]
    from_y = np.clip(middle_y + cos(angle) * (y - middle_y) - sin(angle) * (x - middle_x), 0, height - 1)
    from_x = np.clip(middle_x + sin(angle) * (y - middle_y) + cos(angle) * (x - middle_x), 0, width - 1)
    top, left = np.floor(from_y).astype(np.int64), np.floor(from_x).astype(np.int64)
    bottom, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    down, across = (from_y - top)[..., None], (from_x - left)[..., None]
    above = pictures[:, top, left] * (1 - across) + pictures[:, top, right] * across
    below = pictures[:, bottom, left] * (1 - across) + pictures[:, bottom, right] * across
    return np.asarray(above * (1 - down) + below * down)


@cache
def _cosines() -> Pictures:
    """Matrix of the orthonormal cosine transform of 8 values, shape (8, 8): rows are frequencies."""
    frequency, place = np.mgrid[:BLOCK, :BLOCK]
    matrix = np.cos(pi * (2 * place + 1) * frequency / (2 * BLOCK)) * sqrt(2.0 / BLOCK)
    matrix[0] /= sqrt(2.0)
    return np.asarray(matrix)


def _table(channel: int) -> Pictures:
    return TABLE if channel == 0 else COLOUR_TABLE


_LUMA = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])


def _to_luma(pixels: Pictures) -> Pictures:
    """Convert colours to brightness and two colour differences, around 0."""
    return np.asarray(pixels @ _LUMA.T - np.array([128.0, 0.0, 0.0]))


def _from_luma(levels: Pictures) -> Pictures:
    return np.asarray((levels + np.array([128.0, 0.0, 0.0])) @ np.linalg.inv(_LUMA).T)
