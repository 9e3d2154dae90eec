"""Calibration error over finer bins, which shows opposite gaps that cancel inside a bin.

A gap of a bin is that of the mean over its rows, so that what is too sure and what is too modest cancel in it. The
error over finer bins is never smaller, and PASS asks it too. The more bins, the more noise: a good model of a small
sample would pass no more. So each number of bins is asked whether the error lies below the limit, or below the least
error that it can see: the limit from which on a model at half of it loses at most 5 points of its chance to pass.
One kind of bins is asked at any limit: those merged until each has, or expects, 5 wrong answers (a bin that is wrong
more often than it expects stands alone), parted at the quartiles where they are fewer than four: few bins show no
calibration error, only a gap of all rows. Where they are no more, four of equal mass are asked too: other cuts. Bins
that are no finer show nothing new, and would cost a chance to pass once more, so they are not asked. Larger p-values
need no correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from evalspec.stats.calibration.bins import (
    EXPECTED_WRONG,
    Bins,
    finer_starts,
    grouped,
    joined,
    merged,
    scales_of,
    smoothed,
)
from evalspec.stats.calibration.folded_normals import folded_mean, folded_mean_at, folded_sum_cdf
from evalspec.stats.calibration.gap import UNSEEN, Differences, GapDesign, differences_of
from evalspec.stats.types import FloatArray, IntArray

SIZES = (5, 10, 20, 40, 80, 160)
FEWEST = 4
"""Bins that are asked at any limit."""
WRONG = 1.0
"""Wrong answers that finer bins have or expect on average: with fewer their noise is not that of a normal."""
LOSS = 0.05
"""Most that finer bins may cost of the chance to pass, for a model at half the limit."""
FOLDED = 10
"""Bins up to which the distribution of the plain error is computed; that of more is taken for normal."""
_Z = 1.645
_LIMITS = np.geomspace(1e-4, 1.0, 400)
"""On which it is looked for what finer bins cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A plain calibration error (L1), and what noise adds to it.

    Args:
        plug_in: The plain error.
        scales: shape (K,), standard error of what each bin adds.
        drawn: Variance of the plain error were all gaps large, with confidences that were drawn: that of the mean over
            rows of (sign x difference). For any signs, those of the population's gaps too, the mean is no larger.
        skewness: Of that mean, at least 0: where few answers are wrong, a sample that has fewer of them shows less
            error and minus noise at once.
        least: The least error that is asked of these bins.
    """

    plug_in: float
    scales: FloatArray
    drawn: float
    skewness: float = 0.0
    least: float = 0.0

    def within(self, threshold: float, design: GapDesign) -> float:
        """p-value that the error lies below the threshold, or below the least that these bins can see.

        It is P(plain error as small as this) with the error spread over the bins in proportion to their standard
        errors. No other spread of the same total makes a small plain error likelier: the folded mean's slope is then
        the same in every bin.

        Args:
            threshold: In 0..1.
            design: What clusters do.
        """
        at = max(threshold, self.least)
        return float(max(design.widened(self._below(at, times)) for times in design.times))

    def _below(self, error: float, times: float) -> float:
        from scipy.special import ndtr

        scales = math.sqrt(times) * self.scales
        total, variance = float(scales.sum()), float(np.sum(scales**2))
        drawn = max(0.0, times * self.drawn - variance)
        if total <= 0.0 or len(scales) == 1:
            # The gap over all rows has tails of its own.
            return 0.0
        shift = error / total
        mean = folded_mean_at(shift)
        folded = variance * max(1e-9, 1.0 + shift**2 - mean**2)
        score = straightened((self.plug_in - total * mean) / math.sqrt(folded + drawn), self.skewness)
        if len(scales) > FOLDED:
            return float(ndtr(score))
        return folded_sum_cdf(total * mean + score * math.sqrt(folded), scales, shift)

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.scales)

    def room(self, limits: FloatArray) -> FloatArray:
        """Distance by which a model at half the limit passes, in standard errors, shape as ``limits``."""
        total = max(float(self.scales.sum()), 1e-12)
        gained = total * (folded_mean(limits / total) - folded_mean(0.5 * limits / total))
        error = math.sqrt(max(1e-24, self.drawn, float(np.sum(self.scales**2))))
        room: FloatArray = gained / error - _Z
        return room


def straightened(score: float, skewness: float) -> float:
    """A studentised mean as a normal score.

    Args:
        score: The mean less its expectation, in standard errors.
        skewness: Of the mean.

    References:
        Hall (1992), On the removal of skewness by transformation, JRSS B 54.
    """
    if skewness <= 0.0:
        return score
    return ((1.0 + skewness * score / 3.0) ** 3 - 1.0) / skewness + skewness / 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Squares:
    """A plain mean square of gaps, and what noise adds to it.

    Args:
        added: What each row adds to it, to first order: twice (gap of its bin x difference), less that gap's square.
        weights: shape (K,), what each bin's noise adds.
        variance: Of an answer over the rows, divided by them.
        least: The least root mean square that is asked of these bins.
    """

    added: Differences
    weights: FloatArray
    variance: float
    least: float = 0.0

    def within(self, threshold: float, design: GapDesign) -> float:
        """p-value that the root mean square lies below the threshold, or below the least that these bins can see."""
        noise = min(design.times) * float(self.weights.sum())
        return self.added.below(max(threshold, self.least) ** 2 + noise, design)

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.weights)

    def room(self, limits: FloatArray) -> FloatArray:
        """Distance by which a model at half the limit passes, in standard errors, shape as ``limits``."""
        error = np.sqrt(2.0 * float(np.sum(self.weights**2)) + 4.0 * limits**2 * self.variance)
        room: FloatArray = 0.75 * limits**2 / np.maximum(error, 1e-12) - _Z
        return room


Plain = TypeVar("Plain", Spread, Squares)
Make = Callable[[Bins, Bins, FloatArray, float], Plain]
"""Maker of a plain error from cells, bins, the variance of an answer in each bin, and the design effect."""


def crooked(score: float, skewness: float) -> float:
    """The inverse of `straightened`."""
    if skewness <= 0.0:
        return score
    return (
        3.0
        * (math.copysign(abs(part := 1.0 + skewness * (score - skewness / 6.0)) ** (1.0 / 3.0), part) - 1.0)
        / skewness
    )


def with_least(coarse: Plain, fine: Sequence[Plain]) -> tuple[Plain, ...]:
    """Finer bins, each asked from the limit on from which it costs a model at half of it little of its chance to pass.

    That is at most `LOSS`.
    """
    from scipy.special import ndtr

    chance = ndtr(coarse.room(_LIMITS))
    lost = [np.flatnonzero(chance - ndtr(one.room(_LIMITS)) > LOSS) for one in fine]
    return tuple(
        replace(one, least=float(_LIMITS[at[-1]]) if len(at) else 0.0) for one, at in zip(fine, lost, strict=True)
    )


def variance_of_cells(cells: Bins, bins: Bins) -> FloatArray:
    """Variance of an answer in each cell, were it off by as much as its bin, shape (m,).

    Args:
        cells: What the bins are made of, in their order.
        bins: The bins.
    """
    share = np.clip(cells.confidence + bins.gap[bin_of(cells, bins)], 0.0, 1.0)
    variance: FloatArray = share * (1.0 - share)
    return variance


def kinds(
    first: Plain, base: Bins, fine: tuple[Bins, ...], cells: tuple[Bins, ...], design_effect: float, make: Make[Plain]
) -> tuple[Plain, ...]:
    """The plain error over some bins, over at least `FEWEST` merged by what is wrong in them, and over ever more.

    Args:
        first: The plain error over ``base``.
        base: The bins that the error is over.
        fine: Groups of bins before merging; no bin lies in two of them.
        cells: Of each group, what its bins are made of.
        design_effect: Of clusters.
        make: `absolute` or `squared`.
    """
    whole = joined(cells)
    by_wrong = joined([merged(one, EXPECTED_WRONG * design_effect, observed=True) for one in fine])
    starts = parted(whole, np.flatnonzero(np.diff(bin_of(whole, by_wrong), prepend=-1)), FEWEST)
    second: Plain = (
        make(whole, by_wrong, smoothed(by_wrong), design_effect)
        if len(starts) == len(by_wrong.count)
        else _over(starts, whole, variance_of_cells(whole, base), design_effect, make)
    )
    always: tuple[Plain, ...] = (first, second)
    return always + finer(base, cells, design_effect, make, second.size, first)


def quarters(
    base: Bins, second: Plain, cells: tuple[Bins, ...], design_effect: float, make: Make[Plain]
) -> list[Plain]:
    """Four bins of equal mass, asked beside those merged by what is wrong where these are as few: other cuts.

    Args:
        base: The bins that the error is over.
        second: The second of `kinds`.
        cells: Of each group of rows, what its bins are made of.
        design_effect: Of clusters.
        make: `absolute` or `squared`.
    """
    if second.size > FEWEST:
        return []
    return [_of_size(FEWEST, cells, variance_of_cells(joined(cells), base), design_effect, make)]


def parted(cells: Bins, starts: IntArray, least: int) -> IntArray:
    """Bins that are parted at the cuts of as many bins of equal mass, that furthest from others first, shape (K,).

    Args:
        cells: What the bins are made of.
        starts: shape (k,), rising from 0: the lowest cell of each bin.
        least: Bins that are wanted; where rows share few confidences there may be fewer.
    """
    below = cells.reached - cells.count
    cuts = np.setdiff1d(finer_starts(cells, least), starts)
    while len(starts) < least and len(cuts):
        apart = np.abs(below[cuts][:, None] - np.append(below[starts], cells.n)).min(axis=1)
        starts = np.sort(np.append(starts, cuts[apart.argmax()]))
        cuts = np.setdiff1d(cuts, starts)
    return starts


def finer(
    base: Bins,
    cells: tuple[Bins, ...],
    design_effect: float,
    make: Make[Plain],
    beyond: int = 1,
    coarse: Plain | None = None,
) -> tuple[Plain, ...]:
    """The plain error over ever more bins, each asked for what it can see.

    Args:
        base: The bins that the error is over.
        cells: Of each group of rows, what its bins are made of.
        design_effect: Of clusters.
        make: `absolute` or `squared`.
        beyond: Bins that are asked at any limit: no more than so many see nothing new.
        coarse: The plain error over ``base``; None: it is made here.
    """
    whole = joined(cells)
    wrong = max(float(whole.n - whole.right.sum()), float(whole.count @ (1.0 - whole.confidence)))
    asked = [k for k in SIZES if k > beyond and k * WRONG * design_effect <= wrong]
    if not asked:
        return ()
    noise = variance_of_cells(whole, base)
    return with_least(
        make(whole, base, smoothed(base), design_effect) if coarse is None else coarse,
        [_of_size(k, cells, noise, design_effect, make) for k in asked],
    )


def pooled(classes: Sequence[tuple[Spread, ...]], error: Callable[[FloatArray], float]) -> tuple[Spread, ...]:
    """Mean plain error of several classes, as `kinds`; a class without finer bins keeps its finest.

    Args:
        classes: `kinds` of each.
        error: Standard error of the mean from the scales of all bins.
    """
    made = []
    for kind in range(max(len(one) for one in classes)):
        parts = [one[min(kind, len(one) - 1)] for one in classes]
        scales = np.concatenate([one.scales for one in parts]) / len(parts)
        made.append(Spread(float(np.mean([one.plug_in for one in parts])), scales, error(scales) ** 2))
    return (*made[:2], *with_least(made[0], made[2:]))


def absolute(cells: Bins, bins: Bins, variance: FloatArray, design_effect: float) -> Spread:
    """The mean absolute gap.

    Args:
        cells: What the bins are made of.
        bins: The bins.
        variance: Of an answer in each bin, shape (K,).
        design_effect: Of clusters.
    """
    differences = differences_of(cells, np.where(bins.gap >= 0.0, 1, -1)[bin_of(cells, bins)])
    rows = max(1.0, bins.n / design_effect)
    skewness = max(0.0, differences.skewness) / math.sqrt(rows)
    scales = scales_of(bins, design_effect, 1.0, variance)
    return Spread(differences.mean, scales, differences.variance / rows, skewness)


def squared(cells: Bins, bins: Bins, variance: FloatArray, design_effect: float) -> Squares:
    """The mean squared gap; as `absolute`."""
    gap = bins.gap[bin_of(cells, bins)]
    rows = max(1.0, bins.n / design_effect)
    added = differences_of(cells, 2.0 * gap)
    own = np.concatenate((gap, gap)) ** 2
    counts = np.concatenate((cells.right, cells.count - cells.right))
    added = Differences(added.values - own[counts > 0], added.counts, UNSEEN**2)
    return Squares(added, bins.weight * variance * design_effect / bins.count, float(bins.weight @ variance) / rows)


def _of_size(size: int, cells: tuple[Bins, ...], noise: FloatArray, design_effect: float, make: Make[Plain]) -> Plain:
    """Over so many bins of equal mass; ``noise`` is the variance of an answer in each cell."""
    whole = joined(cells)
    asked = [max(1, round(size * one.n / max(1, whole.n))) for one in cells]
    firsts = np.cumsum([0, *(len(one.count) for one in cells[:-1])])
    starts = np.concatenate([at + finer_starts(one, k) for at, one, k in zip(firsts, cells, asked, strict=True)])
    return _over(starts, whole, noise, design_effect, make)


def _over(starts: IntArray, cells: Bins, noise: FloatArray, design_effect: float, make: Make[Plain]) -> Plain:
    """Over the bins with these lowest cells."""
    bins = grouped(cells, starts)
    return make(cells, bins, np.add.reduceat(cells.count * noise, starts) / bins.count, design_effect)


def bin_of(cells: Bins, bins: Bins) -> IntArray:
    """The bin of each cell, shape (m,), for cells that bins are made of, in their order."""
    # Half a row keeps sums of whole numbers apart.
    return np.searchsorted(bins.reached, cells.reached - 0.5)
