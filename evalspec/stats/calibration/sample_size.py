"""Rows that would decide a calibration error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from evalspec.stats.calibration.finer_bins import FEWEST, crooked
from evalspec.stats.calibration.folded_normals import folded_mean, folded_mean_at, folded_sum_cdf, folded_sum_quantile
from evalspec.stats.calibration.gap import UNSEEN, GapDesign
from evalspec.stats.invert import POWER
from evalspec.stats.shares.proportion import binomial_power
from evalspec.stats.types import FloatArray

NULL = math.sqrt(2.0 / math.pi)
"""Mean of |z|."""
_MOST = 1e12


@dataclass(frozen=True)
class Truth:
    """Figures of the sample, taken for the truth.

    Args:
        fine: Groups of bins before merging, which stays inside a group: of more rows fewer are merged.
        error: The calibration error, in 0..1.
        gap: Accuracy - confidence over all rows, without noise.
        design: What clusters do to the gap.
        variance: Of (sign x difference) of a row.
        skewness: Of the same, at least 0.
    """

    fine: tuple[Bins, ...]
    error: float
    gap: float
    design: GapDesign
    variance: float
    skewness: float

    @property
    def n(self) -> int:
        """Rows of the sample."""
        return sum(group.n for group in self.fine)


def n_for_power(truth: Truth, threshold: float, alpha: float) -> int | None:
    """Rows at which the side on which the error lies is shown in 80 % of samples; None where no number is enough.

    PASS: the plug-in value must stay under what the error of ``threshold`` falls below with chance alpha. FAIL: the
    better of the two tests, each at half the level. The error is taken to be the same in all rows.

    Args:
        truth: Taken for the truth.
        threshold: What it is held against.
        alpha: One-sided level.
    """
    shows = _pass_power if truth.error < threshold else _fail_power

    def enough(n: float) -> bool:
        return shows(truth, n, threshold, alpha) >= POWER

    return power_search(enough)


def power_search(enough: Callable[[float], bool]) -> int | None:
    """The rows from which on a power is reached, to a thousandth; None where no number is enough."""
    low, high = 1.0, 16.0
    while not enough(high):
        low, high = high, 2.0 * high
        if high > _MOST:
            return None
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.ceil(high)


def bins_at(fine: Sequence[Bins], design_effect: float, times: float) -> Bins:
    """The bins that so many times the rows would be merged to; counts stay those of the sample."""
    return joined([merged(group, EXPECTED_WRONG * design_effect / times) for group in fine])


def _at(truth: Truth, n: float) -> tuple[Bins, float]:
    times = n / truth.n
    return bins_at(truth.fine, truth.design.effect, times), times


def _shifts(truth: Truth, bins: Bins, scales: FloatArray) -> FloatArray:
    """The error of each bin in its standard errors, shape (K,)."""
    shifts: FloatArray = truth.error * bins.weight / np.maximum(scales, 1e-12)
    return shifts


def _pass_power(truth: Truth, n: float, threshold: float, alpha: float) -> float:
    from scipy.special import ndtri

    bins, times = _at(truth, n)
    if len(bins.count) < FEWEST:
        whole = joined(truth.fine)
        bins = grouped(whole, finer_starts(whole, FEWEST))
    rows = n / truth.design.effect
    scales = scales_of(bins, truth.design.effect, times, smoothed(bins, times))
    level = truth.design.level(alpha, times)
    total = float(scales.sum())
    if total <= 0.0:
        # Always right and sure of it: what is left is the binomial tail of no wrong answer.
        return float((1.0 - threshold) ** rows <= level)
    score = float(ndtri(level))
    bent = crooked(score, truth.skewness / math.sqrt(rows)) / score
    mean = total * folded_mean_at(threshold / total)
    reach = (folded_sum_quantile(level, scales, threshold / total) - mean) * bent
    most = mean + reach * _wider(truth, rows, scales, threshold / total)
    shifts = _shifts(truth, bins, scales)
    centre = float(scales @ folded_mean(shifts))
    at = centre + (most - centre) / _wider(truth, rows, scales, truth.error / total)
    return min(folded_sum_cdf(at, scales, shifts), _overall_pass(truth, rows, threshold, level))


def _wider(truth: Truth, rows: float, scales: FloatArray, shift: float) -> float:
    """Factor by which drawn confidences widen the distribution of the plain error."""
    variance = float(np.sum(scales**2))
    folded = variance * max(1e-9, 1.0 + shift**2 - folded_mean_at(shift) ** 2)
    return math.sqrt(1.0 + max(0.0, truth.variance / rows - variance) / folded)


def _overall_pass(truth: Truth, rows: float, threshold: float, level: float) -> float:
    """Chance that the gap over all rows is shown to lie within the threshold, in the direction in which it lies."""
    from scipy.special import ndtr, ndtri

    bins = joined(truth.fine)
    confidence = float(np.sum(bins.weight * bins.confidence))
    accuracy = min(1.0, max(0.0, confidence + truth.gap))
    limit = confidence - threshold
    if truth.gap <= 0.0 and 0.0 < limit < 1.0:
        return float(binomial_power(np.array([max(1.0, rows)]), accuracy, limit, level)[0])
    error = math.sqrt(max(truth.variance, 1e-12) / rows)
    unseen = UNSEEN * (1.0 - level ** (1.0 / rows)) if rows >= 1.0 else 1.0
    return float(ndtr((threshold - abs(truth.gap) - 0.5 * unseen) / error + float(ndtri(level))))


def _fail_power(truth: Truth, n: float, threshold: float, alpha: float) -> float:
    from scipy.special import ndtri

    bins, times = _at(truth, n)
    rows = n / truth.design.effect
    reach = -float(ndtri(truth.design.level(alpha / 2.0, times)))
    variance = smoothed(bins, times)
    said = np.maximum(variance, bins.confidence * (1.0 - bins.confidence))
    scales, wider = (scales_of(bins, truth.design.effect, times, one) for one in (variance, said))
    error = math.sqrt(max(float(np.sum(wider**2)), truth.variance / rows))
    least = threshold + NULL * float(wider.sum()) + reach * error
    shifts = _shifts(truth, bins, scales)
    centre = float(scales @ folded_mean(shifts))
    total = max(float(scales.sum()), 1e-12)
    at = centre + (least - centre) / _wider(truth, rows, scales, truth.error / total)
    spread = 1.0 - folded_sum_cdf(at, scales, shifts)
    return max(spread, overall_power(truth, n, threshold, alpha / 2.0))


def overall_power(truth: Truth, n: float, threshold: float, alpha: float) -> float:
    """Chance that n rows show their overall gap to be over the threshold, in the direction in which it lies."""
    from scipy.special import ndtr, ndtri

    bins, rows = joined(truth.fine), n / truth.design.effect
    confidence = float(np.sum(bins.weight * bins.confidence))
    limit = confidence + math.copysign(threshold, truth.gap)
    accuracy = min(1.0, max(0.0, confidence + truth.gap))
    if not 0.0 < limit < 1.0:
        return 0.0
    level = truth.design.level(alpha, n / truth.n)
    error = math.sqrt(max(limit * (1.0 - limit), truth.variance) / rows)
    beyond = abs(truth.gap) - threshold + float(ndtri(level)) * error
    spread = math.sqrt(max(accuracy * (1.0 - accuracy), truth.variance) / rows)
    return float(ndtr(beyond / spread)) if spread > 0 else float(beyond > 0)
