"""Pictures of rows: what is one, and that another program reads it."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evalspec.scoring.thumbnails import picture, png


@pytest.mark.parametrize(
    ("cell", "shape"),
    [
        (list(range(64)), (8, 8)),
        (np.arange(63), None),
        (list(range(16)), None),
        (np.zeros((5, 7)), (5, 7)),
        (np.zeros((5, 7, 3)), (5, 7, 3)),
        (np.zeros((3, 9, 7)), (9, 7, 3)),
        (np.zeros((1, 9, 7)), (9, 7)),
        (np.zeros((9, 7, 1)), (9, 7)),
        (np.zeros((9, 7, 4)), None),
        (np.zeros((500, 250)), (125, 63)),
        (np.full((9, 9), np.nan), None),
        ("a word", None),
        (3.5, None),
        ([["a", "b"], ["c", "d"]], None),
    ],
)
def test_what_is_a_picture(cell: Any, shape: tuple[int, ...] | None) -> None:
    pixels = picture(cell)
    assert (None if pixels is None else pixels.shape) == shape


@pytest.mark.parametrize("shape", [(8, 8), (5, 9), (6, 4, 3)])
def test_another_program_reads_the_same_pixels(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape)
    pixels.flat[0], pixels.flat[1] = 0, 255
    with Image.open(io.BytesIO(base64.b64decode(png(pixels.astype(float))))) as image:
        assert image.mode == ("L" if len(shape) == 2 else "RGB")
        assert np.array_equal(np.asarray(image), pixels)


def test_a_flat_picture_is_black_and_not_a_division_by_zero() -> None:
    with Image.open(io.BytesIO(base64.b64decode(png(np.full((4, 4), 7.0))))) as image:
        assert np.asarray(image).max() == 0
