"""Rows grouped by confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evalspec.errors import InputError
from evalspec.stats._types import BoolArray, FloatArray, IntArray

Scheme = Literal["equal_mass", "equal_width"]
EXPECTED_WRONG = 5.0
"""Wrong answers that the confidences of each bin expect at least."""


@dataclass(frozen=True)
class Bins:
    """Rows grouped by confidence, lowest first; every array has shape (K,).

    Args:
        edges: shape (K + 1,), lowest and highest confidence of neighbouring bins.
        count: Rows.
        confidence: Mean confidence.
        accuracy: Share that is right.
        right: Rows that are right.
        asked: Bins asked for, before merging.
    """

    edges: FloatArray
    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray
    right: IntArray
    asked: int

    @property
    def weight(self) -> FloatArray:
        """Share of the rows in each bin."""
        return self.count / max(1, int(self.count.sum()))

    @property
    def gap(self) -> FloatArray:
        """Accuracy - confidence; negative where the model is over-confident."""
        return self.accuracy - self.confidence


def make_bins(
    confidences: FloatArray,
    correct: BoolArray,
    *,
    bins: int = 10,
    scheme: Scheme = "equal_mass",
    expected_wrong: float = EXPECTED_WRONG,
) -> Bins:
    """Bins cut from the confidences alone, merged from the top until each expects enough wrong answers.

    Args:
        confidences: shape (n,), in 0..1.
        correct: shape (n,).
        bins: How many to start from.
        scheme: ``equal_mass`` (as many rows in each) or ``equal_width``.
        expected_wrong: Wrong answers that each bin must expect; 0: no merging.

    Raises:
        InputError: The two differ in length, or a confidence lies outside 0..1 or is not a number.
    """
    c, y = checked(confidences, correct)
    order = np.argsort(c, kind="stable")
    c, y = c[order], y[order]
    cuts = _cuts(c, bins, scheme)
    expected = np.append(0.0, np.cumsum(1.0 - c))
    starts = _merge(cuts, expected, expected_wrong)
    count = np.diff(starts)
    filled = count > 0
    count, ends = count[filled], starts[1:][filled]
    sums, rights = np.append(0.0, np.cumsum(c)), np.append(0, np.cumsum(y))
    right = (rights[ends] - rights[ends - count]).astype(np.int64)
    edges = np.append(c[ends - count], c[-1]) if len(c) else np.empty(0)
    confidence = (sums[ends] - sums[ends - count]) / count
    return Bins(edges, count.astype(np.int64), confidence, right / count, right, bins)


def checked(confidences: FloatArray, correct: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Both as arrays.

    Raises:
        InputError: The two differ in length, or a confidence lies outside 0..1 or is not a number.
    """
    c, y = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    if c.shape != y.shape or c.ndim != 1:
        raise InputError(f"{c.size} confidences for {y.size} answers")
    wrong = ~((c >= 0.0) & (c <= 1.0))
    if wrong.any():
        raise InputError(f"confidences lie in 0..1, and {int(wrong.sum())} of {len(c)} do not, such as {c[wrong][0]}")
    return c, y


def _cuts(sorted_confidences: FloatArray, bins: int, scheme: Scheme) -> IntArray:
    """Places between bins, 0 and n included; rows of equal confidence are never parted."""
    n = len(sorted_confidences)
    if scheme == "equal_width":
        levels = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    else:
        at = np.round(np.arange(1, bins) * n / bins).astype(np.int64)
        levels = sorted_confidences[np.clip(at - 1, 0, max(0, n - 1))] if n else np.empty(0)
    inner = np.searchsorted(sorted_confidences, levels, side="right")
    return np.unique(np.concatenate(([0], inner, [n]))).astype(np.int64)


def _merge(cuts: IntArray, expected: FloatArray, least: float) -> IntArray:
    """Drops cuts, beginning at the highest confidence, until every bin expects ``least`` wrong and right answers."""
    kept = [int(cuts[-1])]
    for cut in cuts[-2:0:-1].tolist():
        wrong = expected[kept[-1]] - expected[cut]
        if min(wrong, kept[-1] - cut - wrong) >= least:
            kept.append(cut)
    lowest = expected[kept[-1]] - expected[0]
    if len(kept) > 1 and min(lowest, kept[-1] - lowest) < least:
        kept.pop()
    return np.array([0, *reversed(kept)], dtype=np.int64)
