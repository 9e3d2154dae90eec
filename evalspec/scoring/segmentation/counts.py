"""Pixels of each picture by class: right, true, said; and what is made of their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.scoring.scored_rows import Scored, Undefined, over

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

_PIXELS = 4_000_000
"""Pixels that are counted at once."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """Judged pixels of each picture and class.

    Args:
        right: shape (n, C), true and said.
        true: shape (n, C).
        said: shape (n, C).
    """

    right: NDArray[np.int64]
    true: NDArray[np.int64]
    said: NDArray[np.int64]


def pixels(rows: Scored) -> Pixels:
    """Counts of a model's masks; where the truth is -1 nothing is judged.

    Args:
        rows: Rows with masks.

    Raises:
        Undefined: The model gives something else.
    """
    if rows.masks is None or rows.classes is None:
        raise Undefined(f"model {rows.model!r} gives no masks")
    count = len(rows.classes)
    size = int(np.prod(rows.truth.shape[1:]))
    step = max(1, _PIXELS // max(1, size))
    parts = [
        _counted(rows.truth[start : start + step], rows.masks[start : start + step], count)
        for start in range(0, rows.n, step)
    ]
    empty = np.zeros((0, count), dtype=np.int64)
    return Pixels(*(np.concatenate([empty, *(part[which] for part in parts)]) for which in range(3)))


def _counted(truth: NDArray[np.int64], said: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], ...]:
    # One column more: a pixel of no class counts as said of none.
    width = count + 1
    place = np.broadcast_to(np.arange(len(truth)).reshape(-1, 1, 1) * width, truth.shape)
    judged = truth >= 0
    place, true = place[judged], truth[judged]
    answer = np.where(said[judged] < 0, count, said[judged])
    size = len(truth) * width
    codes = (place + np.where(true == answer, true, count), place + true, place + answer)
    counts = [np.bincount(one, minlength=size).reshape(-1, width)[:, :count].astype(np.int64) for one in codes]
    return tuple(counts)


def seen_classes(found: Pixels) -> NDArray[np.bool_]:
    """Classes with a pixel, true or said, shape (C,)."""
    return np.asarray((found.true + found.said).any(axis=0))


def _thirds(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    right, true, said = np.split(sums, 3, axis=-1)
    return right, true, said


def iou_of(sums: FloatArray) -> FloatArray:
    """Mean intersection over union of the classes.

    Args:
        sums: shape (..., 3 x classes): right, true, said.
    """
    right, true, said = _thirds(sums)
    return np.asarray(over(right, true + said - right).mean(axis=-1))


def dice_of(sums: FloatArray) -> FloatArray:
    """Mean of the classes' 2 x right / (true + said).

    Args:
        sums: shape (..., 3 x classes): right, true, said.
    """
    right, true, said = _thirds(sums)
    return np.asarray(over(2.0 * right, true + said).mean(axis=-1))


def accuracy_of(sums: FloatArray) -> FloatArray:
    """Share of right pixels.

    Args:
        sums: shape (..., 3): right, true, said.
    """
    right, true, _ = _thirds(sums)
    return over(right, true)[..., 0]
