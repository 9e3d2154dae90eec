"""Outputs as finite numbers of the width that they must have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.words import plural

EDGE_TOLERANCE = 1e-6


def matrix(
    array: NDArray[Any], name: str, width: int, first_row: int, *, one_for_two: bool = True
) -> NDArray[np.float64]:
    """Finite scores, one column for each class.

    Args:
        array: shape (n, C), or (n,) for one column.
        name: Of the output.
        width: C.
        first_row: Index of the first row in its dataset, for sentences.
        one_for_two: One column may stand for two classes.

    Raises:
        InputError: Another width, or numbers that are not finite.
    """
    array = np.asarray(array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"the output {name!r} has shape {shape_text(array)}, not one row of scores for each row")
    if array.shape[1] != width and not (one_for_two and array.shape[1] == 1 and width == 2):
        raise InputError(
            f"the output {name!r} has {plural(array.shape[1], 'column')} and there are {width} classes",
            remedy="make `classes` the label of each output index",
        )
    return finite(array, name, first_row)


def shares(scores: NDArray[np.float64], name: str, first_row: int) -> NDArray[np.float64]:
    """Scores that are within 0..1, but for rounding.

    Raises:
        InputError: One is not.
    """
    outside = ((scores < -EDGE_TOLERANCE) | (scores > 1 + EDGE_TOLERANCE)).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        worst = scores[row][np.argmax(np.abs(scores[row] - 0.5))]
        raise InputError(
            f"the output {name!r} is not a probability in row {first_row + row} (counted from 0): {worst:.6g} is not "
            "within 0..1",
            remedy="if these are scores before softmax, write outputs: {logits: ...}",
        )
    return np.clip(scores, 0.0, 1.0)


def one_column(array: NDArray[Any], kind: str, first_row: int) -> NDArray[np.float64]:
    """One finite value a row, shape (n,).

    Raises:
        InputError: Several a row, or numbers that are not finite.
    """
    array = np.asarray(array)
    flat = array.reshape(len(array), -1)
    if flat.shape[1] != 1:
        raise InputError(f"the output for {kind!r} has shape {shape_text(array)}, not one value per row")
    return finite(flat[:, 0], kind, first_row)


def finite(array: NDArray[Any], name: str, first_row: int) -> NDArray[np.float64]:
    """The same as float64.

    Raises:
        InputError: No numbers, or some that are not finite.
    """
    if array.dtype.kind not in "biuf":
        raise InputError(f"the output {name!r} holds {array.dtype}, not numbers")
    numbers = array.astype(np.float64)
    bad = ~np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1)
    if bad.any():
        raise InputError(
            f"the output {name!r} is NaN or infinite in row {first_row + int(np.argmax(bad))} (counted from 0) and in "
            f"{int(bad.sum()) - 1} other rows of this batch"
        )
    return numbers


def shape_text(array: NDArray[Any]) -> str:
    """A shape as it stands in a sentence."""
    return str(list(array.shape))


def softmax64(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities from logits, shape (n, C), without overflow."""
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exp / exp.sum(axis=1, keepdims=True))


def sigmoid(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability from one logit, any shape, without overflow."""
    small = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, small) / (1.0 + small)


def two_columns(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of both classes from that of the second, shape (n, 2)."""
    return np.stack([1.0 - positive, positive], axis=1)
