"""Calibration of every class's own probability, and its mean over the classes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.calibration.bins import (
    EXPECTED_WRONG,
    Bins,
    Scheme,
    cut_finely,
    flipped,
    in_range,
    joined,
    merged,
    scales_of,
    smoothed,
)
from evalspec.stats.calibration.expected_error import CalibrationError
from evalspec.stats.calibration.finer_bins import Spread, pooled
from evalspec.stats.calibration.folded_normals import folded_mean_at, without_noise
from evalspec.stats.calibration.gap import ConfidenceGap, GapDesign, design_of_gap, differences_by_row
from evalspec.stats.calibration.sample_size import NULL, bins_at, power_search
from evalspec.stats.invert import POWER, bound_from_p, bound_not_beyond, p_not_beyond
from evalspec.stats.types import BoolArray, FloatArray, IntArray

DEPENDENCE = 2.0
"""The variance of a sum of gaps over classes and bins, in any signs, is at most so many times that of independent gaps.

A row adds sum of s_k (y_k - p_k), with signs s_k and y_k = 1 for one class. With P the probability of the classes that
have a plus its variance is 4 P (1 - P), so never over 1; independent classes would add up to 1 - sum of p_k^2, which is
at least 2 P (1 - P).
"""


@dataclass(frozen=True)
class ClasswiseError(Estimate):
    """Mean over classes of the calibration error (L1) of each class's own probability.

    The plug-in value is a sum over classes and bins of weighted absolute gaps. Its mean needs no knowledge of how the
    classes depend on each other, and its variance is at most twice that of independent ones, or that of what rows add
    where confidences that were drawn vary more. Both sides are normal, and the share of rows whose class was given at
    most one half is heard beside it by its own tails. PASS also asks finer bins, as of one class (`finer_bins`).
    With two classes both have the same error, and it is that of the second.

    Args:
        classes: Errors of the classes, each against the rest; bins don't cross one half.
        low: How often a row's class is one that was given at most one half.
        second: Mean over rows of the squared sum of absolute differences over the classes. None in a row is larger:
            what it adds to the plug-in value, times the number of classes.
        shares: Of each class, its mean probability and its share of the rows, in 0..1; empty without rows.
    """

    classes: tuple[CalibrationError, ...]
    low: ConfidenceGap
    second: float
    shares: tuple[tuple[float, float], ...] = ()

    @property
    def n(self) -> int:
        """Rows."""
        return self.classes[0].n

    @cached_property
    def plug_in(self) -> float | None:
        """Mean absolute gap, noise included."""
        return sum(one.plug_in or 0.0 for one in self.classes) / len(self.classes) if self.n else None

    @cached_property
    def value(self) -> float | None:
        """The plug-in value less what noise adds to it."""
        if self._single is not None or self.plug_in is None:
            return None if self._single is None else self._single.value
        return without_noise(self.plug_in, float(self._scales.sum()))

    @property
    def reason(self) -> str | None:
        """Reason why there is no bound, or None."""
        return self.classes[0].reason

    @property
    def method(self) -> str:
        """Method of the bounds."""
        how = f"mean over {len(self.classes)} classes, folded-normal debiased; "
        if self.reason:
            return f"{how}no bound: {self.reason}"
        if self._single is not None:
            return f"{how}of the second class: {self._single.method}"
        return f"{how}test inversion at twice the variance of independent classes{self._design.words}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in 0..1."""
        if self._single is not None:
            return self._single.bound(confidence, side)
        if self.reason or self.value is None:
            return None
        if side == "lower" and confidence > 0.5 and self._p(0.0, "lower") > 1.0 - confidence:
            return 0.0
        bound = bound_from_p(self._p, confidence, side, self.value, (0.0, 1.0))
        return bound_not_beyond(bound, self.value, confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """PASS side by inversion at the least favourable spread of the error; FAIL side by the larger of two tests."""
        if self._single is not None:
            return self._single.p_value(threshold, side)
        return None if self.reason else p_not_beyond(self._p(threshold, side), self.value, threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows that decide with 80 % power, were the error spread over the bins in proportion to their noise."""
        if self._single is not None:
            return self._single.n_to_decide(threshold, alpha)
        if self.reason or self.value is None or self.value == threshold or not 0.0 < threshold < 1.0:
            return None
        return power_search(lambda n: self._shown(n / self.n, threshold, alpha) >= POWER)

    @property
    def _single(self) -> CalibrationError | None:
        return self.classes[-1] if len(self.classes) <= 2 else None

    def _p(self, threshold: float, side: Side) -> float:
        from scipy.special import ndtr

        if threshold < 0 or threshold > 1:
            return 0.0 if (threshold < 0) == (side == "lower") else 1.0
        assert self.plug_in is not None
        # Each row whose class was thought unlikely is wrong of two classes: of the one that was likelier, too.
        gap = 0.5 * threshold * len(self.classes)
        if side == "upper":
            spread = max(self._p_spread(threshold, times) for times in self._design.times)
            return max([self.low.within(gap), spread, *(one.within(threshold, self._design) for one in self._finer)])
        most = self._design.times[-1]
        scales = math.sqrt(most) * self._cautious
        error = self._error(scales, 1.0 / most)
        surplus = self.plug_in - NULL * float(scales.sum()) - threshold
        over = float(self._design.widened(ndtr(-surplus / error))) if error > 0 else 1.0
        return min(1.0, 2.0 * over, self.low.beyond(gap))

    def _p_spread(self, threshold: float, effect: float) -> float:
        """P(plug-in as small as this) at so many times the design effect."""
        from scipy.special import ndtr

        scales = math.sqrt(effect) * self._scales
        error = self._error(scales, 1.0 / effect)
        assert self.plug_in is not None
        below = float(ndtr((self.plug_in - _mean(scales, threshold)) / error)) if error > 0 else 0.0
        return float(self._design.widened(below))

    def _shown(self, times: float, threshold: float, alpha: float) -> float:
        """Chance that so many times the rows show the side on which the value lies."""
        from scipy.special import ndtr, ndtri

        assert self.value is not None
        scales, wider = self._scales_at(times)
        error = float(np.sqrt(np.sum(scales**2)))
        low, design = self.low.design.believable, self._design
        if error <= 0.0:
            # Always right and sure of it: what is left is the binomial tail of no row whose class was denied.
            right = 1.0 - min(1.0, 0.5 * threshold * len(self.classes))
            return float(right ** (times * self.low.n / low.effect) <= low.level(alpha, times))
        mean = _mean(scales, self.value)
        if self.value < threshold:
            most = _mean(scales, threshold) + float(ndtri(design.level(alpha, times))) * self._error(scales, times)
            return float(ndtr((most - mean) / error))
        reach = -float(ndtri(design.level(alpha / 2.0, times)))
        least = threshold + NULL * float(wider.sum()) + reach * self._error(wider, times)
        return max(float(ndtr((mean - least) / error)), self._overall_shown(times, threshold, alpha))

    def _overall_shown(self, times: float, threshold: float, alpha: float) -> float:
        """Of the test of all rows together."""
        from scipy.special import ndtr, ndtri

        design = self.low.design.believable
        share, rows = self.low.right / self.low.n, times * self.low.n / design.effect
        error = math.sqrt(max(share * (1.0 - share), 1e-12) / rows)
        distance = abs(share - self.low.said) - 0.5 * threshold * len(self.classes)
        return float(ndtr(distance / error + float(ndtri(design.level(alpha / 2.0, times)))))

    def _error(self, scales: FloatArray, times: float) -> float:
        """Standard error of the plug-in value of so many times the rows, at most."""
        effect = max(one.design_effect for one in self.classes)
        rows = times * self.n / effect
        most = 1.0 / (rows * len(self.classes) ** 2)
        return math.sqrt(max(min(DEPENDENCE * float(np.sum(scales**2)), most), self._drawn / rows))

    @cached_property
    def _drawn(self) -> float:
        """Variance of what a row adds to the plug-in value, were all gaps large."""
        return max(0.0, self.second / len(self.classes) ** 2 - (self.plug_in or 0.0) ** 2)

    @cached_property
    def _finer(self) -> tuple[Spread, ...]:
        """Over all other bins that PASS asks of each class."""
        return pooled([one.spreads for one in self.classes], lambda scales: self._error(scales, 1.0))[1:]

    @cached_property
    def _design(self) -> GapDesign:
        """Cluster design of all classes; a class counts for the degrees by its part of the variance."""
        first = self.classes[0].design
        if first.clusters is None:
            return first
        brought = [(float(np.sum(one.scales**2)), one.design.degrees) for one in self.classes]
        total, over = sum(variance for variance, _ in brought), sum(variance / degrees for variance, degrees in brought)
        return replace(
            first,
            effect=max(one.design_effect for one in self.classes),
            degrees=total / over if over > 0 else math.inf,
        )

    @cached_property
    def _scales(self) -> FloatArray:
        """Standard error of what each bin of each class adds to the plug-in value."""
        return np.concatenate([one.scales for one in self.classes]) / len(self.classes)

    @cached_property
    def _cautious(self) -> FloatArray:
        return np.concatenate([one.cautious_scales for one in self.classes]) / len(self.classes)

    def _scales_at(self, times: float) -> tuple[FloatArray, FloatArray]:
        """Both kinds of standard errors of so many times the rows, of which fewer bins are merged."""
        scales_of_kinds: tuple[list[FloatArray], list[FloatArray]] = ([], [])
        for one in self.classes:
            bins = bins_at(one.fine, one.design_effect, times)
            variance = smoothed(bins, times)
            said = np.maximum(variance, bins.confidence * (1.0 - bins.confidence))
            for scales, kind in zip(scales_of_kinds, (variance, said), strict=True):
                scales.append(scales_of(bins, one.design_effect, times, kind) / len(self.classes))
        return np.concatenate(scales_of_kinds[0]), np.concatenate(scales_of_kinds[1])


def _mean(scales: FloatArray, error: float) -> float:
    """Mean of the plug-in value where an error is spread in proportion to the standard errors."""
    total = float(scales.sum())
    return total * folded_mean_at(error / total) if total > 0 else error


def classwise_calibration_error(
    probabilities: FloatArray,
    truth: IntArray,
    *,
    bins: int = 10,
    scheme: Scheme = "equal_mass",
    clusters: IntArray | None = None,
) -> ClasswiseError:
    """Mean over classes of the L1 calibration error of that class's own probability.

    Each class is held against the rest. Its bins are cut on either side of one half apart, so that what it was sure
    of and what it denied never stand in one bin, where their gaps would cancel.

    Args:
        probabilities: shape (n, C), rows sum to 1.
        truth: shape (n,), class index.
        bins: Bins of each class, before merging.
        scheme: How they are cut.
        clusters: shape (n,), or None where rows are independent.

    Returns:
        The mean, with the classes' own errors in ``classes``.

    Raises:
        InputError: A probability is none.

    References:
        Kull et al. (2019), Beyond temperature scaling, NeurIPS.
    """
    p, t = np.asarray(probabilities, dtype=np.float64), np.asarray(truth, dtype=np.int64)
    in_range(p)
    count = p.shape[1]
    columns = np.ascontiguousarray(p.T)
    classes = []
    for k in range(count):
        true = t == k
        groups, cells = _sides(columns[k], true, bins, scheme)
        design = design_of_gap(columns[k], true, clusters)
        made = joined([merged(group, EXPECTED_WRONG * design.effect) for group in groups])
        wrong = float(np.sum(made.count * (1.0 - made.confidence)))
        classes.append(CalibrationError(made, wrong, design, "one class against the rest", groups, cells))
    low, second = _by_row(columns, t, clusters, float(np.mean([one.design_effect for one in classes])))
    shares = zip(columns.mean(axis=1), np.bincount(t, minlength=count) / len(t), strict=True) if len(t) else ()
    return ClasswiseError(tuple(classes), low, second, tuple((float(mean), float(share)) for mean, share in shares))


def _sides(said: FloatArray, true: BoolArray, bins: int, scheme: Scheme) -> tuple[tuple[Bins, ...], tuple[Bins, ...]]:
    """Bins on either side of one half, and what they are made of.

    What was given at most one half stands as what was denied.
    """
    high = said > 0.5
    above, n = int(np.count_nonzero(high)), len(said)
    asked = min(max(1, round(bins * above / max(1, n))), bins - 1)
    lower, upper = (bins - asked, asked) if 0 < above < n and scheme == "equal_mass" else (bins, bins)
    groups = []
    if above < n or not n:
        below = cut_finely(said[~high], true[~high], lower, scheme)
        groups.append((flipped(below[0]), flipped(below[1])))
    if above:
        groups.append(cut_finely(said[high], true[high], upper, scheme))
    return tuple(one for one, _ in groups), tuple(cells for _, cells in groups)


def _by_row(
    columns: FloatArray, truth: IntArray, clusters: IntArray | None, effect: float
) -> tuple[ConfidenceGap, float]:
    """Gap of how often a row's class is one that was given at most one half, and `ClasswiseError.second`.

    Few rows are denied, so that few clusters tell their design effect: it is never taken for less than ``effect``.
    """
    rows = len(truth)
    own = columns[truth, np.arange(rows)]
    said, came = np.where(columns > 0.5, 0.0, columns).sum(axis=0), own <= 0.5
    design = design_of_gap(said, came, clusters)
    design = replace(design, effect=max(design.effect, effect))
    differences = differences_by_row(np.clip(came - said, -1.0, 1.0))
    # The probabilities of the other classes, and what the row's own lacks of 1.
    absolute = columns.sum(axis=0) - own + np.abs(1.0 - own)
    second = float(np.mean(absolute**2)) if rows else 0.0
    return ConfidenceGap(float(came.sum()), max(1, rows), float(said.sum()) / max(1, rows), design, differences), second
