"""Rows that would decide a calibration error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evalspec.stats._bins import EXPECTED_WRONG, Bins, merged
from evalspec.stats._folded import folded_sum_cdf, folded_sum_quantile
from evalspec.stats._invert import POWER
from evalspec.stats._types import FloatArray

NULL = math.sqrt(2.0 / math.pi)
"""Mean of |z|."""
_MOST = 1e12


@dataclass(frozen=True)
class Truth:
    """What the sample says, taken for the truth.

    Args:
        fine: The bins before merging: of more rows fewer are merged.
        error: The calibration error, in 0..1.
        gap: Accuracy - confidence over all rows, without noise.
        design_effect: Of the gap; 1 without clusters.
    """

    fine: Bins
    error: float
    gap: float
    design_effect: float


def smoothed(bins: Bins, times: float = 1.0) -> FloatArray:
    """Variance of one answer in each bin, shape (K,); two answers are added that are as right as the confidence says.

    Args:
        bins: The bins.
        times: How many times their rows there would be.
    """
    share = (times * bins.right + 2.0 * bins.confidence) / (times * bins.count + 2.0)
    variance: FloatArray = share * (1.0 - share)
    return variance


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

    low, high = 1.0, 16.0
    while not enough(high):
        low, high = high, 2.0 * high
        if high > _MOST:
            return None
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.ceil(high)


def _at(truth: Truth, n: float) -> tuple[Bins, float]:
    """The bins that n rows would be merged to, and how many times the present rows that is."""
    times = n / float(truth.fine.count.sum())
    return merged(truth.fine, EXPECTED_WRONG * truth.design_effect / times), times


def _scales(truth: Truth, bins: Bins, times: float, variance: FloatArray) -> FloatArray:
    scales: FloatArray = bins.weight * np.sqrt(variance * truth.design_effect / (times * bins.count))
    return scales


def _shifts(truth: Truth, bins: Bins, scales: FloatArray) -> FloatArray:
    """The error of each bin in its standard errors, shape (K,)."""
    shifts: FloatArray = truth.error * bins.weight / np.maximum(scales, 1e-12)
    return shifts


def _pass_power(truth: Truth, n: float, threshold: float, alpha: float) -> float:
    bins, times = _at(truth, n)
    scales = _scales(truth, bins, times, smoothed(bins, times))
    total = float(scales.sum())
    most = folded_sum_quantile(alpha, scales, threshold / total)
    return folded_sum_cdf(most, scales, _shifts(truth, bins, scales))


def _fail_power(truth: Truth, n: float, threshold: float, alpha: float) -> float:
    from scipy.special import ndtri

    bins, times = _at(truth, n)
    reach = -float(ndtri(alpha / 2.0))
    variance = smoothed(bins, times)
    said = np.maximum(variance, bins.confidence * (1.0 - bins.confidence))
    scales, wider = _scales(truth, bins, times, variance), _scales(truth, bins, times, said)
    least = threshold + NULL * float(wider.sum()) + reach * math.sqrt(float(np.sum(wider**2)))
    spread = 1.0 - folded_sum_cdf(least, scales, _shifts(truth, bins, scales))
    return max(spread, _overall_power(truth, n / truth.design_effect, threshold, reach))


def _overall_power(truth: Truth, n: float, threshold: float, reach: float) -> float:
    """Of the test of all rows together, in the direction in which their gap lies."""
    from scipy.special import ndtr

    confidence = float(np.sum(truth.fine.weight * truth.fine.confidence))
    limit = confidence + math.copysign(threshold, truth.gap)
    accuracy = min(1.0, max(0.0, confidence + truth.gap))
    if not 0.0 < limit < 1.0:
        return 0.0
    beyond = abs(truth.gap) - threshold - reach * math.sqrt(limit * (1.0 - limit) / n)
    spread = math.sqrt(accuracy * (1.0 - accuracy) / n)
    return float(ndtr(beyond / spread)) if spread > 0 else float(beyond > 0)
