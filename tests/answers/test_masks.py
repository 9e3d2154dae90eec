"""Masks: from indices, scores and pictures to a class for each pixel."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from evalspec.answers.from_outputs import map_outputs
from evalspec.answers.masks import true_masks
from evalspec.errors import InputError
from evalspec.language.parts import Access

CLASSES = ("road", "car", "sky")
MASK = np.array([[0, 1, 2], [2, 2, 0]])


def said(array: Any, classes: tuple[str, ...] = CLASSES) -> np.ndarray:
    masks = map_outputs({"y": np.asarray(array)}, {"mask": "y"}, classes, None, 40).masks
    assert masks is not None
    return masks


def png(mask: np.ndarray, mode: str = "L") -> bytes:
    picture = Image.fromarray(mask.astype(np.uint8), "L")
    if mode == "P":
        picture = Image.frombytes("P", picture.size, picture.tobytes())
        picture.putpalette([7, 8, 9] * 256)
    elif mode != "L":
        picture = picture.convert(mode)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def test_indices_and_scores() -> None:
    assert said(MASK[None]).tolist() == [MASK.tolist()]
    assert said(MASK[None, None].astype(np.uint8)).tolist() == [MASK.tolist()]
    scores = (np.arange(3)[None, :, None, None] == MASK[None, None]).astype(np.float32)
    assert said(scores).tolist() == [MASK.tolist()]
    one = said(np.array([[[[-1.0, 0.5]]]]), ("no", "yes"))
    assert one.tolist() == [[[0, 1]]]


def test_pictures_hold_indices_whatever_their_palette() -> None:
    cells = np.empty(2, dtype=object)
    cells[:] = [png(MASK), png(MASK, "P")]
    assert said(cells).tolist() == [MASK.tolist()] * 2


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (
            np.full((2, 2, 2), 3),
            r"class index 3 in row 40 \(counted from 0\) and there are 3 classes; indices are 0 to 2",
        ),
        (np.full((1, 2, 2), -1), r"class index -1 in row 40"),
        (np.zeros((1, 2, 2, 2), np.float32), r"has 2 channels, but there are 3 classes; make `classes`"),
        (np.full((1, 3, 2, 2), np.nan), r"NaN or infinite in row 40"),
        (np.zeros((1, 4)), r"is float64 of shape \[1, 4\], not class indices \(n, H, W\) or scores \(n, C, H, W\)"),
        (np.zeros((1, 2, 2)), r"not class indices"),
    ],
)
def test_what_is_no_mask(array: np.ndarray, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        said(array)


def truth(folder: Path, column: Any, like: np.ndarray = MASK[None], width: int = 3) -> np.ndarray:
    table = pa.table({"mask": column if isinstance(column, pa.Array) else pa.array(column)})
    return true_masks(table, "mask", np.repeat(like, len(table), axis=0), width, Access(folder=folder))


def test_labels_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "m.png").write_bytes(png(MASK, "P"))
    forms: list[Any] = [
        [MASK.tolist()],
        [MASK.reshape(-1).tolist()],
        [png(MASK)],
        ["m.png"],
        [{"bytes": png(MASK), "path": None}],
        [{"bytes": None, "path": "m.png"}],
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.repeat(MASK[None], 2, axis=0)),
    ]
    for form in forms:
        assert truth(tmp_path, form).tolist() == [MASK.tolist()] * len(form), form


def test_pixels_that_are_not_judged(tmp_path: Path) -> None:
    assert truth(tmp_path, [[[0, 255, -1], [2, None, 0]]]).tolist() == [[[0, -1, -1], [2, -1, 0]]]
    many = truth(tmp_path, [[[0, 255, -1], [2, 299, 0]]], width=300)
    assert many.tolist() == [[[0, 255, -1], [2, 299, 0]]]


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([[[0, 1], [2, 0]]], r"masks of 2 x 2 and the model gives 2 x 3 pixels \(height x width\); give them"),
        ([[0, 1, 2]], r"masks of 3 and the model gives 2 x 3"),
        ([[[0, 3, 0], [0, 0, 0]]], r"class index 3 in row 0 .* there are 3 classes"),
        ([[[0, 0.5, 0], [0, 0, 0]]], r"numbers that are not class indices"),
        ([png(MASK, "RGB")], r"row 0 \(counted from 0\): the picture is in colour \(RGB\); a mask has one"),
        ([b"no picture"], r"row 0 \(counted from 0\): the picture can't be read"),
        ([png(MASK), png(MASK[:1])], r"masks of several sizes: 1 x 3 and 2 x 3"),
        ([png(MASK), None], r"row 1 \(counted from 0\): there is no mask"),
        (["../m.png"], r"'../m.png' lies outside the spec's folder"),
    ],
)
def test_labels_that_are_no_masks(tmp_path: Path, column: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        truth(tmp_path, column)
