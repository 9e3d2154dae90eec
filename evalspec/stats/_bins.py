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
    return merged(fine_bins(confidences, correct, bins=bins, scheme=scheme), expected_wrong)


def fine_bins(confidences: FloatArray, correct: BoolArray, *, bins: int = 10, scheme: Scheme = "equal_mass") -> Bins:
    """Bins cut from the confidences alone, none merged.

    Args:
        confidences: shape (n,), in 0..1.
        correct: shape (n,).
        bins: How many.
        scheme: How they are cut.

    Raises:
        InputError: As `make_bins`.
    """
    c, y = checked(confidences, correct)
    order = np.argsort(c, kind="stable")
    c, y = c[order], y[order]
    ends = _cuts(c, bins, scheme)
    starts, ends = ends[:-1], ends[1:]
    count = ends - starts
    sums, rights = np.append(0.0, np.cumsum(c)), np.append(0, np.cumsum(y))
    right = (rights[ends] - rights[starts]).astype(np.int64)
    edges = np.append(c[starts], c[-1]) if len(c) else np.empty(0)
    return Bins(edges, count, (sums[ends] - sums[starts]) / count, right / count, right, bins)


def merged(fine: Bins, expected_wrong: float) -> Bins:
    """The same rows in fewer bins, merged from the top until each expects enough wrong answers.

    Args:
        fine: Bins that none were merged of.
        expected_wrong: Wrong (and right) answers that each bin must expect; 0: no merging.
    """
    if expected_wrong <= 0 or len(fine.count) < 2:
        return fine
    wrong = fine.count * (1.0 - fine.confidence)
    starts = _merge(np.append(0, np.cumsum(fine.count)), np.append(0.0, np.cumsum(wrong)), expected_wrong)
    count, right = np.add.reduceat(fine.count, starts), np.add.reduceat(fine.right, starts)
    confidence = np.add.reduceat(fine.count * fine.confidence, starts) / count
    return Bins(np.append(fine.edges[starts], fine.edges[-1]), count, confidence, right / count, right, fine.asked)


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


def _merge(ends: IntArray, expected: FloatArray, least: float) -> IntArray:
    """Bins that others are merged into, from the highest confidence on, until each expects ``least`` wrong and right.

    Args:
        ends: shape (K + 1,), rows below each border between bins.
        expected: shape (K + 1,), wrong answers that they expect.
        least: Of either kind.

    Returns:
        The lowest bin of each group, in rising order.
    """
    kept = [len(ends) - 1]
    for cut in range(len(ends) - 2, 0, -1):
        wrong = expected[kept[-1]] - expected[cut]
        if min(wrong, ends[kept[-1]] - ends[cut] - wrong) >= least:
            kept.append(cut)
    lowest = expected[kept[-1]] - expected[0]
    if len(kept) > 1 and min(lowest, ends[kept[-1]] - lowest) < least:
        kept.pop()
    return np.array([0, *reversed(kept[1:])], dtype=np.int64)
