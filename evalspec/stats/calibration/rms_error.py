"""Root mean squared calibration error (L2), debiased."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from evalspec.stats.calibration.binned_error import DebiasedError
from evalspec.stats.calibration.bins import EXPECTED_WRONG, Bins, Scheme, checked, cut_finely, merged, smoothed
from evalspec.stats.calibration.finer_bins import LOSS, Squares, kinds, squared
from evalspec.stats.calibration.folded_normals import without_noise
from evalspec.stats.calibration.gap import (
    INDEPENDENT,
    UNSEEN,
    ConfidenceGap,
    GapDesign,
    design_of_gap,
    overall_gap,
)
from evalspec.stats.calibration.sample_size import Truth, bins_at, overall_power, power_search
from evalspec.stats.calibration.squared_normals import quadratic_tails
from evalspec.stats.invert import POWER, Falling
from evalspec.stats.roots import brentq
from evalspec.stats.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RmsCalibrationError(DebiasedError):
    """Root of the mean squared gap over bins that were cut from the confidences.

    The sum of squared gaps is a weighted sum of squared normals. How a given error is spread over the bins does not
    move its mean, and its spread is largest with all of the error in the bin whose gap is known worst: both sides are
    taken there, wider where confidences that were drawn say so. PASS asks finer bins too, as `ece` does: gaps that
    cancel inside of a bin, or only vary, are seen there.

    Args:
        bins: The bins it is over.
        fine: The bins before merging, for what more rows would say.
        cells: What they are made of.
        design: What clusters do to the gap between confidence and accuracy.
    """

    bins: Bins
    fine: Bins
    cells: Bins
    design: GapDesign = INDEPENDENT

    @property
    def plug_in(self) -> float | None:
        """Root of the mean squared gap; too large, since noise never cancels in it."""
        return math.sqrt(self._squares) if self.n else None

    @property
    def squared(self) -> float | None:
        """The mean squared gap less what noise adds to it, unbiased: below 0 half of the time where there is none.

        References:
            Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS.
        """
        if not self.n:
            return None
        variance = self.bins.accuracy * (1.0 - self.bins.accuracy) * self.design_effect
        return self._squares - float(np.sum(self.bins.weight * variance / np.maximum(self.bins.count - 1, 1)))

    @cached_property
    def value(self) -> float | None:
        """Root of the unbiased mean square, 0 where that is below it; never less than the overall gap without noise."""
        if self.squared is None:
            return None
        return max(math.sqrt(max(0.0, self.squared)), abs(self._gap))

    @property
    def method(self) -> str:
        """Scheme, bins, and how the bounds are made."""
        count = len(self.bins.count)
        merged_to = f" merged to {count}" if count < self.bins.asked else ""
        how = ("Clopper-Pearson" if count == 1 else "test inversion") + self.design.words + "; PASS over finer bins too"
        below = (
            "; the mean square is below 0 without its noise" if self.squared is not None and self.squared < 0 else ""
        )
        end = f"no bound: {self.reason}" if self.reason else how
        return f"L2 over {self.bins.asked} bins{merged_to}, top label, debiased{below}; {end}"

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows that decide with 80 % power, were the error the same in all rows; of more rows fewer bins are merged."""
        if self.reason or self.value is None or self.value == threshold or not 0.0 < threshold < 1.0:
            return None
        # Finer bins cost some of the chance to pass.
        wanted = POWER + 0.5 * LOSS if self.value < threshold else POWER
        return power_search(lambda n: self._shown(n / self.n, threshold, alpha) >= wanted)

    def _beyond(self, threshold: float) -> float:
        beyond = self._overall.beyond(threshold)
        if len(self.bins.count) == 1:
            return beyond
        return min(1.0, beyond, 2.0 * self._tails(self._cautious, threshold)[1])

    @cached_property
    def _within(self) -> tuple[Falling, ...]:
        """p-values that all rows, and all kinds of bins, lie within a threshold."""
        # The mean square is never below the squared gap over all rows.
        p_values: list[Callable[[float], float]] = [self._overall.within]
        p_values += [partial(one.within, design=self.design) for one in self._kinds]
        if len(self.bins.count) > 1:
            p_values.append(self._p_spread)
        return tuple(Falling(one) for one in p_values)

    def _p_spread(self, threshold: float) -> float:
        return self._tails(smoothed(self.bins), threshold)[0]

    def _tails(self, variance: FloatArray, error: float) -> tuple[float, float]:
        weights = self._weights(variance)
        if not float(weights.max()) > 0.0:
            return float(self._squares <= error**2), float(self._squares >= error**2)
        tails = [self._tails_at(times * weights, error, times) for times in self.design.times]
        below, above = self.design.widened(np.max(tails, axis=0))
        return float(below), float(above)

    def _tails_at(self, weights: FloatArray, error: float, times: float) -> tuple[float, float]:
        """Both tails at so many times the design effect, at as many standard errors as with drawn confidences."""
        shifts = _worst_spread(weights, error)
        mean = float(weights @ (1.0 + shifts**2))
        variance = float(np.sum(2.0 * weights**2 * (1.0 + 2.0 * shifts**2)))
        narrower = math.sqrt(variance / max(variance, times * self._drawn))
        return quadratic_tails(mean + narrower * (self._squares - mean), weights, shifts)

    @cached_property
    def _drawn(self) -> float:
        """Variance of the mean square where all gaps are large, from what each row adds to it."""
        return self.design_effect * self._over_bins.added.variance / max(1, self.n)

    @cached_property
    def _over_bins(self) -> Squares:
        """The mean square over the bins of the value."""
        return squared(self.cells, self.bins, smoothed(self.bins), self.design_effect)

    @cached_property
    def _kinds(self) -> tuple[Squares, ...]:
        """The mean square over the other bins that PASS asks."""
        return kinds(self._over_bins, self.bins, (self.fine,), (self.cells,), self.design_effect, squared)[1:]

    def _shown(self, times: float, threshold: float, alpha: float) -> float:
        """Chance that so many times the rows show the side on which the value lies."""
        assert self.value is not None
        design = self.design.believable
        bins = bins_at((self.fine,), design.effect, times)
        variance = smoothed(bins, times)
        weights = _weights_of(bins, design.effect, times, variance)
        if not float(weights.max()) > 0.0:
            # Always right and sure of it: what is left is the tail of rows that are neither, of which there was none.
            rare = min(1.0, threshold**2 / UNSEEN**2)
            return float((1.0 - rare) ** (times * self.n / design.effect) <= design.level(alpha, times))
        here = self.value * np.sqrt(bins.weight / np.maximum(weights, 1e-300))
        if self.value < threshold:
            most = _quantile(design.level(alpha, times), weights, _worst_spread(weights, threshold))
            return quadratic_tails(most, weights, here)[0]
        said = np.maximum(variance, bins.confidence * (1.0 - bins.confidence))
        wider = _weights_of(bins, design.effect, times, said)
        least = _quantile(1.0 - design.level(alpha / 2.0, times), wider, _worst_spread(wider, threshold))
        truth = Truth((self.fine,), self.value, self._gap, design, self._overall.differences.variance, 0.0)
        return max(quadratic_tails(least, weights, here)[1], overall_power(truth, times * self.n, threshold, alpha / 2))

    @cached_property
    def _gap(self) -> float:
        """Accuracy - confidence over all rows, its noise taken off."""
        seen = float(np.sum(self.bins.weight * self.bins.gap))
        # Weights of the bins times their errors are what each adds to the overall gap.
        error = math.sqrt(float(np.sum(self.bins.weight * self._weights(smoothed(self.bins)))))
        return math.copysign(without_noise(abs(seen), error), seen)

    @property
    def _squares(self) -> float:
        return float(np.sum(self.bins.weight * self.bins.gap**2))

    @cached_property
    def _overall(self) -> ConfidenceGap:
        return overall_gap(self.bins, self.cells, self.design)

    @property
    def _cautious(self) -> FloatArray:
        return np.maximum(smoothed(self.bins), self.bins.confidence * (1.0 - self.bins.confidence))

    def _weights(self, variance: FloatArray) -> FloatArray:
        """Noise that each bin adds to the mean square, shape (K,)."""
        return _weights_of(self.bins, self.design_effect, 1.0, variance)


def _weights_of(bins: Bins, design_effect: float, times: float, variance: FloatArray) -> FloatArray:
    """Noise that each bin adds to the mean square with so many times the rows, shape (K,)."""
    weights: FloatArray = bins.weight * variance * design_effect / (times * bins.count)
    return weights


def _worst_spread(weights: FloatArray, error: float) -> FloatArray:
    """All of a mean squared error in the bin with the largest weight, in its standard errors, shape (K,)."""
    shifts = np.zeros_like(weights)
    worst = int(weights.argmax())
    shifts[worst] = error / math.sqrt(float(weights[worst]))
    return shifts


def _quantile(level: float, weights: FloatArray, shifts: FloatArray) -> float:
    """The inverse of the distribution function of the mean square."""
    high = float(weights @ (1.0 + shifts**2))
    while quadratic_tails(high, weights, shifts)[0] < level:
        high *= 2.0
    low = 1e-9 * high
    while quadratic_tails(low, weights, shifts)[0] > level:
        low, high = 1e-9 * low, low
    quantile = brentq(
        lambda total: quadratic_tails(total, weights, shifts)[0] - level, low, high, xtol=1e-3 * low, rtol=1e-4
    )
    return float(quantile)


def rms_calibration_error(
    confidences: FloatArray,
    correct: BoolArray,
    *,
    bins: int = 10,
    scheme: Scheme = "equal_mass",
    clusters: IntArray | None = None,
) -> RmsCalibrationError:
    """L2 calibration error over bins cut from the confidences, with bounds on either side.

    Args:
        confidences: shape (n,), in 0..1.
        correct: shape (n,).
        bins: Bins before merging.
        scheme: How they are cut.
        clusters: shape (n,), or None where rows are independent.

    Raises:
        InputError: Shapes differ, or a confidence is none.

    References:
        Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS.
    """
    c, y = checked(confidences, correct)
    design = design_of_gap(c, y, clusters)
    fine, cells = cut_finely(c, y, bins, scheme)
    return RmsCalibrationError(merged(fine, EXPECTED_WRONG * design.effect), fine, cells, design)
