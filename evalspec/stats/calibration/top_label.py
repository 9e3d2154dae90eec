"""The most probable class of each row: how sure it is, and whether it is right."""

from __future__ import annotations

import numpy as np

from evalspec.stats.types import BoolArray, FloatArray, IntArray

_FEW_CLASSES = 16
_CELLS = 81_920


def top_label(probabilities: FloatArray, truth: IntArray) -> tuple[FloatArray, BoolArray]:
    """Confidence of the most probable class (the first of several), and whether it is right.

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index.

    Returns:
        Confidence, at most 1, and right answers; shape (n,) each.
    """
    n, classes = probabilities.shape
    if classes > _FEW_CLASSES:
        return _by_row(probabilities, truth)
    # A maximum over few columns is much faster across rows that lie side by side, a part of them at a time.
    confidence, correct = np.empty(n), np.empty(n, dtype=np.bool_)
    size = max(1, _CELLS // max(1, classes))
    for start in range(0, n, size):
        part = slice(start, min(n, start + size))
        columns, true = np.ascontiguousarray(probabilities[part].T), truth[part]
        largest = columns.max(axis=0, out=confidence[part])
        if np.count_nonzero(columns == largest) == len(true):
            places = np.multiply(true, len(true), dtype=np.int64) + np.arange(len(true))
            np.equal(columns.ravel().take(places), largest, out=correct[part])
        else:
            correct[part] = _by_row(probabilities[part], true)[1]
    return np.minimum(confidence, 1.0, out=confidence), correct


def _by_row(probabilities: FloatArray, truth: IntArray) -> tuple[FloatArray, BoolArray]:
    answer = probabilities.argmax(axis=1)
    correct: BoolArray = answer == truth
    return np.minimum(probabilities[np.arange(len(answer)), answer], 1.0), correct
