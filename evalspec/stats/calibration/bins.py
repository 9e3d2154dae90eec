"""Rows grouped by confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from evalspec.errors import InputError
from evalspec.stats.types import BoolArray, FloatArray, IntArray

Scheme = Literal["equal_mass", "equal_width"]
EXPECTED_WRONG = 5.0
"""Wrong answers that the confidences of each bin expect at least."""
MANY = 50_000
"""Rows from which on they are not sorted, but dealt to cells of equal width first."""
CELLS = 65_536
FINEST = 160
"""Cells of equal mass that rows are dealt to beside the bins, so that finer bins and moments need no second look."""


@dataclass(frozen=True)
class Bins:
    """Rows grouped by confidence, lowest first; every array has shape (K,).

    Args:
        edges: shape (K + 1,), the lowest confidence, then the highest of each bin; empty where groups were joined.
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

    @cached_property
    def n(self) -> int:
        """Rows of all bins."""
        return int(self.count.sum())

    @cached_property
    def weight(self) -> FloatArray:
        """Share of the rows in each bin."""
        return self.count / max(1, self.n)

    @cached_property
    def gap(self) -> FloatArray:
        """Accuracy - confidence; negative where the model is over-confident."""
        return self.accuracy - self.confidence

    @cached_property
    def reached(self) -> IntArray:
        """Rows up to the end of each bin."""
        return np.cumsum(self.count)

    @cached_property
    def outcomes(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Differences of what came true and the confidence, and rows with each: of the right and the wrong of each bin.

        Without those that no row has; the third says which of both, shape (2 K,), are there.
        """
        counts = np.concatenate((self.right, self.count - self.right)).astype(np.float64)
        values, some = np.concatenate((1.0 - self.confidence, -self.confidence)), counts > 0
        return values[some], counts[some], some


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
    return cut(*checked(confidences, correct), bins, scheme)


def cut(c: FloatArray, y: BoolArray, bins: int, scheme: Scheme) -> Bins:
    """`fine_bins` of arrays that were looked at."""
    return cut_finely(c, y, bins, scheme)[0]


def cut_finely(c: FloatArray, y: BoolArray, bins: int, scheme: Scheme) -> tuple[Bins, Bins]:
    """The bins of `fine_bins`, and the cells that they are made of: no cell lies in two bins or over 1 / 160 of rows.

    Rows of equal confidence are never parted, so that such a cell may hold more.
    """
    if not len(c):
        none, zero = np.empty(0), np.empty(0, dtype=np.int64)
        empty = Bins(none, zero, none, none, zero, bins)
        return empty, empty
    cells = _cells(c) if len(c) >= MANY else None
    asked, finest = _levels(c, cells, bins, scheme)
    levels = np.union1d(asked, finest)
    place = np.searchsorted(levels, c) if cells is None else _placed(c, cells, levels)
    most = len(levels) + 1
    count = np.bincount(place, minlength=most)
    total = np.bincount(place, weights=c, minlength=most).astype(np.float64)
    right = np.bincount(place, weights=y, minlength=most).astype(np.int64)
    last = float(c.max())
    uppers = np.append(levels, last)
    kept = count > 0
    count, total, right, uppers = count[kept], total[kept], right[kept], uppers[kept]
    of_bin = np.searchsorted(asked, uppers)
    starts = np.flatnonzero(np.diff(of_bin, prepend=-1))
    ends = np.append(asked, last)[of_bin[starts]]
    first = float(c.min())
    return (
        _summed(count, total, right, starts, np.append(first, ends), bins),
        _summed(count, total, right, np.arange(len(count)), np.append(first, uppers), FINEST),
    )


def _summed(
    count: IntArray, total: FloatArray, right: IntArray, starts: IntArray, edges: FloatArray, asked: int
) -> Bins:
    rows, hits = np.add.reduceat(count, starts), np.add.reduceat(right, starts)
    confidence = np.minimum(np.add.reduceat(total, starts) / rows, 1.0)
    return Bins(edges, rows, confidence, hits / rows, hits, asked)


def flipped(bins: Bins) -> Bins:
    """The bins of the opposite claim: what was said with p was denied with 1 - p."""
    right = (bins.count - bins.right)[::-1]
    count = bins.count[::-1]
    return Bins((1.0 - bins.edges)[::-1], count, 1.0 - bins.confidence[::-1], right / count, right, bins.asked)


def joined(groups: Sequence[Bins]) -> Bins:
    """Join the bins of several groups of rows, without edges."""
    if len(groups) == 1:
        return groups[0]
    return Bins(
        np.empty(0),
        np.concatenate([group.count for group in groups]),
        np.concatenate([group.confidence for group in groups]),
        np.concatenate([group.accuracy for group in groups]),
        np.concatenate([group.right for group in groups]),
        sum(group.asked for group in groups),
    )


def picked(bins: Bins, places: Sequence[int] | IntArray) -> Bins:
    """Some of the bins, without edges."""
    at = np.asarray(places, dtype=np.int64)
    return Bins(np.empty(0), bins.count[at], bins.confidence[at], bins.accuracy[at], bins.right[at], len(at))


def merged(fine: Bins, expected_wrong: float, *, observed: bool = False) -> Bins:
    """The same rows in fewer bins, merged from the top until each expects enough wrong answers.

    Args:
        fine: Bins that none were merged of.
        expected_wrong: Wrong (and right) answers that each bin must expect; 0: no merging.
        observed: A bin that has so many wrong answers need not expect them.
    """
    if expected_wrong <= 0 or len(fine.count) < 2:
        return fine
    wrong = fine.count * (1.0 - fine.confidence)
    if observed:
        wrong = np.maximum(wrong, fine.count - fine.right)
    if min(wrong.min(), (fine.count - wrong).min()) >= expected_wrong:
        return fine
    return grouped(fine, np.array(_merge(fine.count.tolist(), wrong.tolist(), expected_wrong)))


def grouped(fine: Bins, starts: IntArray) -> Bins:
    """Neighbouring bins brought together.

    Args:
        fine: The bins.
        starts: shape (K,), rising from 0: the lowest bin of each group.
    """
    edges = np.append(fine.edges[starts], fine.edges[-1:]) if len(fine.edges) else fine.edges
    return _summed(fine.count, fine.count * fine.confidence, fine.right, starts, edges, fine.asked)


def smoothed(bins: Bins, times: float = 1.0) -> FloatArray:
    """Variance of one answer in each bin, shape (K,); two answers are added that are as right as the confidence says.

    Args:
        bins: The bins.
        times: How many times their rows there would be.
    """
    share = (times * bins.right + 2.0 * bins.confidence) / (times * bins.count + 2.0)
    variance: FloatArray = share * (1.0 - share)
    return variance


def scales_of(bins: Bins, design_effect: float, times: float, variance: FloatArray) -> FloatArray:
    """Standard error of what each bin adds to the plug-in error of so many times the rows, shape (K,)."""
    scales: FloatArray = bins.weight * np.sqrt(variance * design_effect / (times * bins.count))
    return scales


def finer_starts(cells: Bins, asked: int) -> IntArray:
    """The lowest cell of each of so many bins of about as many rows, shape (K,).

    Args:
        cells: Narrow bins.
        asked: How many.
    """
    place = np.floor((cells.reached - 0.5 * cells.count) * asked / max(1, cells.n))
    begins = np.ones(len(place), dtype=np.bool_)
    np.greater(place[1:], place[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def checked(confidences: FloatArray, correct: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Both as arrays.

    Raises:
        InputError: The two differ in length, or a confidence lies outside 0..1 or is not a number.
    """
    c, y = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    if c.shape != y.shape or c.ndim != 1:
        raise InputError(f"{c.size} confidences for {y.size} answers")
    in_range(c)
    return c, y


def in_range(confidences: FloatArray) -> None:
    """Stop where a confidence, of any number of them, is none.

    Raises:
        InputError: One lies outside 0..1 or is not a number.
    """
    # A maximum or minimum over something that is no number is none, and compares as False.
    c = confidences
    if c.size and not (c.min() >= 0.0 and c.max() <= 1.0):
        wrong = ~((c >= 0.0) & (c <= 1.0))
        raise InputError(f"confidences lie in 0..1, and {int(wrong.sum())} of {c.size} do not, such as {c[wrong][0]}")


def _levels(
    confidences: FloatArray, cells: IntArray | None, bins: int, scheme: Scheme
) -> tuple[FloatArray, FloatArray]:
    """Highest confidence of each bin but the last, and of each cell but the last, both in rising order.

    Rows of equal confidence are never parted.
    """
    ranks = _ranks(len(confidences), bins)
    quantiles = np.sort(confidences)[ranks] if cells is None else _ranked(confidences, cells, ranks)
    asked = np.linspace(0.0, 1.0, bins + 1)[1:-1] if scheme == "equal_width" else np.unique(quantiles[: bins - 1])
    return asked, np.unique(quantiles[bins - 1 :])


@lru_cache(maxsize=16)
def _ranks(n: int, bins: int) -> IntArray:
    """Ranks of the highest row of each of so many bins but the last, then of each cell but the last."""
    # The whole number nearest to k n / bins, from 0 on.
    each = [np.maximum((2 * n * np.arange(1, k) + k) // (2 * k) - 1, 0) for k in (bins, FINEST)]
    return np.concatenate(each)


def _ranked(values: FloatArray, cells: IntArray, ranks: IntArray) -> FloatArray:
    """Values in 0..1 at these ranks of their rising order, shape as ``ranks``: few of many rows are sorted."""
    below = np.cumsum(np.bincount(cells, minlength=CELLS + 1))
    holding = np.searchsorted(below, ranks, side="right")
    wanted = np.zeros(CELLS + 1, dtype=np.bool_)
    wanted[holding] = True
    count = np.diff(below, prepend=0)
    skipped = np.cumsum(np.where(wanted, 0, count))
    few: FloatArray = np.sort(values[wanted[cells]])
    order_statistics: FloatArray = few[ranks - skipped[holding]]
    return order_statistics


def _placed(values: FloatArray, cells: IntArray, levels: FloatArray) -> IntArray:
    """Number of levels below each value in 0..1, shape (n,)."""
    # Cells rise with the values, so where a cell holds no level its number alone tells.
    at = _cells(levels)
    place_of_cell = np.searchsorted(at, np.arange(CELLS + 1))
    place_of_cell[at] = -1
    place: IntArray = place_of_cell[cells]
    near = np.flatnonzero(place < 0)
    place[near] = np.searchsorted(levels, values[near])
    return place


def _cells(values: FloatArray) -> IntArray:
    """Number of the cell of equal width that holds each value in 0..1, shape (n,)."""
    return np.multiply(values, CELLS, out=np.empty(len(values), dtype=np.int64), casting="unsafe")


def _merge(count: list[int], wrong: list[float], least: float) -> list[int]:
    """Bins that others are merged into, from the highest confidence on, until each expects ``least`` wrong and right.

    Args:
        count: Rows of each bin.
        wrong: Wrong answers that each expects.
        least: Of either kind.

    Returns:
        The lowest bin of each group, in rising order.
    """
    starts: list[int] = []
    rows, expected = 0, 0.0
    for index in range(len(count) - 1, -1, -1):
        rows, expected = rows + count[index], expected + wrong[index]
        if min(expected, rows - expected) >= least:
            starts.append(index)
            rows, expected = 0, 0.0
    # What is left over at the lowest end joins the group above it.
    if not starts or starts[-1] != 0:
        starts = [*starts[:-1], 0]
    return starts[::-1]
