"""Calibration: whether a model that says 0.9 is right in 9 of 10 cases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from evalspec.evidence.estimate import Side
from evalspec.stats._bins import EXPECTED_WRONG, Bins, Scheme, checked, fine_bins, make_bins, merged
from evalspec.stats._calibration_n import NULL, Truth, n_for_power, smoothed
from evalspec.stats._clusters import cluster_codes, design_effect
from evalspec.stats._folded import folded_mean, folded_sum_cdf
from evalspec.stats._invert import bound_from_p, n_by_scaling
from evalspec.stats._temperature import apply_temperature, fit_temperature, halves
from evalspec.stats._types import BoolArray, FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

__all__ = [
    "Bins",
    "CalibrationError",
    "MaximumCalibrationError",
    "apply_temperature",
    "classwise_calibration_error",
    "ece_band",
    "expected_calibration_error",
    "fit_temperature",
    "halves",
    "make_bins",
    "maximum_calibration_error",
    "temperature_estimate",
]

CLUSTERS = 20
"""Clusters below which there is no bound."""


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error (L1) over bins that were cut from the confidences. Implements `Estimate`.

    Args:
        bins: The bins it is over.
        expected_wrong: Wrong answers that all confidences together expect.
        design_effect: Of the gap between confidence and accuracy; 1 without clusters.
        clusters: How many there are, or None.
        name: What it is an error of, for the method.
        fine: The bins before merging, for what more rows would say; None: as ``bins``.
    """

    bins: Bins
    expected_wrong: float
    design_effect: float = 1.0
    clusters: int | None = None
    name: str = "top label"
    fine: Bins | None = None

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.bins.count.sum())

    @property
    def plug_in(self) -> float | None:
        """Mean absolute gap; too large, since noise never cancels in it."""
        return float(np.sum(self.bins.weight * np.abs(self.bins.gap))) if self.n else None

    @cached_property
    def value(self) -> float | None:
        """The plug-in value less what noise adds to it, and never less than the overall gap without its noise."""
        if self.plug_in is None:
            return None
        return max(_without_noise(self.plug_in, float(self._scales_pass.sum())), abs(self._gap))

    @cached_property
    def _gap(self) -> float:
        """Accuracy - confidence over all rows, its noise taken off."""
        seen = float(np.sum(self.bins.weight * self.bins.gap))
        return math.copysign(_without_noise(abs(seen), math.sqrt(float(np.sum(self._scales_pass**2)))), seen)

    @property
    def reason(self) -> str | None:
        """Why there is no bound, or None."""
        if not self.n:
            return "there are no rows"
        if self.clusters is not None and self.clusters < CLUSTERS:
            return f"{self.clusters} clusters are too few, {CLUSTERS} are needed"
        return None

    @property
    def method(self) -> str:
        """Scheme, bins, and how the bounds are made."""
        count = len(self.bins.count)
        merged = f" merged to {count}" if count < self.bins.asked else ""
        how = "Clopper-Pearson" if count == 1 else "test inversion"
        if self.clusters is not None:
            how += f", design effect {self.design_effect:.2f}"
        end = f"no bound: {self.reason}" if self.reason else how
        return f"L1 over {self.bins.asked} bins{merged}, {self.name}, folded-normal debiased; {end}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in 0..1."""
        if self.reason or self.value is None:
            return None
        if side == "lower" and confidence > 0.5 and self._p(0.0, "lower") > 1.0 - confidence:
            return 0.0
        return bound_from_p(self._p, confidence, side, self.value, (0.0, 1.0))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """PASS side by inversion at the least favourable spread of the error; FAIL side by the larger of two tests."""
        return None if self.reason else self._p(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows that decide with 80 % power; of more rows fewer bins are merged."""
        if self.reason or self.value is None or self.value == threshold or not 0.0 < threshold < 1.0:
            return None
        truth = Truth(self.fine or self.bins, self.value, self._gap, self.design_effect)
        return n_for_power(truth, threshold, alpha)

    def _p(self, threshold: float, side: Side) -> float:
        if threshold < 0 or threshold > 1:
            return 0.0 if (threshold < 0) == (side == "lower") else 1.0
        if len(self.bins.count) == 1:
            return self._p_one_bin(threshold, side)
        return self._p_pass(threshold) if side == "upper" else self._p_fail(threshold)

    def _p_pass(self, threshold: float) -> float:
        """P(plug-in as small as this) with the error spread over the bins in proportion to their standard errors.

        No other spread of the same total makes a small plug-in likelier: the folded mean's slope is then the same
        in every bin. Where all bins lie a little to the same side the gap over all rows may say more, and is heard too:
        else the bound could lie below the value.
        """
        from scipy.special import ndtr

        scales = self._scales_pass
        assert self.plug_in is not None
        error = math.sqrt(float(np.sum(scales**2)))
        gap = abs(float(np.sum(self.bins.weight * self.bins.gap)))
        overall = float(ndtr((gap - threshold) / error) - ndtr((-gap - threshold) / error)) if error > 0 else 0.0
        return max(overall, folded_sum_cdf(self.plug_in, scales, threshold / float(scales.sum())))

    def _p_fail(self, threshold: float) -> float:
        """Twice the smaller p-value of plug-in and overall gap, both normal."""
        from scipy.special import ndtr

        assert self.plug_in is not None
        scales = self._scales_fail
        spread = (self.plug_in - NULL * scales.sum() - threshold) / math.sqrt(float(np.sum(scales**2)))
        overall = min(self._overall(threshold))
        return min(1.0, 2.0 * min(float(ndtr(-spread)), overall))

    def _p_one_bin(self, threshold: float, side: Side) -> float:
        if side == "lower":
            return min(1.0, 2.0 * min(self._overall(threshold)))
        low, high = self._limits(threshold)
        # An accuracy can't leave 0..1, so a limit there needs no evidence.
        above = float(_at_least(*self._counts, low)) if low > 0 else 0.0
        below = float(_at_most(*self._counts, high)) if high < 1 else 0.0
        return max(above, below)

    def _overall(self, threshold: float) -> tuple[float, float]:
        """p-values of: mean confidence is over the accuracy by more than ``threshold``, and: below it by more."""
        low, high = self._limits(threshold)
        over = float(_at_most(*self._counts, low)) if low > 0 else 1.0
        under = float(_at_least(*self._counts, high)) if high < 1 else 1.0
        return over, under

    def _limits(self, threshold: float) -> tuple[float, float]:
        confidence = float(np.sum(self.bins.weight * self.bins.confidence))
        return confidence - threshold, confidence + threshold

    @property
    def _counts(self) -> tuple[FloatArray, FloatArray]:
        """Right answers and rows, divided by the design effect."""
        return np.array(self.bins.right.sum() / self.design_effect), np.array(self.n / self.design_effect)

    def _scales(self, variance: FloatArray) -> FloatArray:
        scales: FloatArray = self.bins.weight * np.sqrt(variance * self.design_effect / self.bins.count)
        return scales

    @cached_property
    def _scales_pass(self) -> FloatArray:
        return self._scales(smoothed(self.bins))

    @cached_property
    def _scales_fail(self) -> FloatArray:
        said = self.bins.confidence * (1.0 - self.bins.confidence)
        return self._scales(np.maximum(smoothed(self.bins), said))


def expected_calibration_error(
    confidences: FloatArray,
    correct: BoolArray,
    *,
    bins: int = 10,
    scheme: Scheme = "equal_mass",
    clusters: IntArray | None = None,
    name: str = "top label",
) -> CalibrationError:
    """L1 calibration error over bins cut from the confidences, with bounds on either side.

    Printed is the debiased value (the folded normal's mean, solved for the gap). The plug-in value of a calibrated
    model is not 0 but about 0.8 x the sum of the bins' standard errors, so no bound is made from it directly. PASS is
    by test inversion with the error spread in the way that makes a small plug-in value likeliest. FAIL is by the larger
    of (plug-in - what noise adds to a calibrated model) and (|mean confidence - accuracy|), at half the level each.
    With one bin both are Clopper-Pearson on the accuracy.

    Args:
        confidences: shape (n,), in 0..1.
        correct: shape (n,).
        bins: Bins before merging.
        scheme: How they are cut.
        clusters: shape (n,), or None where rows are independent.
        name: What the confidences are of.

    Raises:
        InputError: Shapes differ, or a confidence is none.

    References:
        Naeini, Cooper, Hauskrecht (2015), Obtaining well calibrated probabilities using Bayesian binning, AAAI.
        Roelofs et al. (2022), Mitigating bias in calibration error estimation, AISTATS.
    """
    c, y = checked(confidences, correct)
    effect, groups = _design(c, y, clusters)
    fine = fine_bins(c, y, bins=bins, scheme=scheme)
    made = merged(fine, EXPECTED_WRONG * effect)
    return CalibrationError(made, float(np.sum(1.0 - c)), effect, groups, name, fine)


def _design(c: FloatArray, y: BoolArray, clusters: IntArray | None) -> tuple[float, int | None]:
    """Design effect of the gap, and clusters where rows share one."""
    if clusters is None or not len(c):
        return 1.0, None
    codes, groups = cluster_codes(clusters, len(c))
    if groups == len(c):
        return 1.0, None
    return design_effect(y - c, codes, groups).effect, groups


@dataclass(frozen=True)
class MaximumCalibrationError:
    """The largest gap of any bin. Implements `Estimate`.

    PASS: every bin is shown to lie within the threshold (intersection-union, no correction needed). FAIL: some bin is
    shown to lie beyond it, at the level divided by the number of bins and sides.
    """

    bins: Bins
    design_effect: float = 1.0
    clusters: int | None = None

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.bins.count.sum())

    @property
    def value(self) -> float | None:
        """Largest absolute gap, not debiased."""
        return float(np.abs(self.bins.gap).max()) if self.n else None

    @property
    def method(self) -> str:
        """How the bounds are made."""
        return f"largest of {len(self.bins.count)} bins, not debiased; Clopper-Pearson in every bin"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in 0..1."""
        if self.value is None or (self.clusters is not None and self.clusters < CLUSTERS):
            return None
        return bound_from_p(self._p, confidence, side, self.value, (0.0, 1.0))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """From the bins' binomial tails."""
        if not self.n or (self.clusters is not None and self.clusters < CLUSTERS):
            return None
        return self._p(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows, from the width of the present bound."""
        return n_by_scaling(self.value, self.n, self.bound, threshold, alpha)

    def _p(self, threshold: float, side: Side) -> float:

        right, count = self.bins.right / self.design_effect, self.bins.count / self.design_effect
        low, high = self.bins.confidence - threshold, self.bins.confidence + threshold
        inner_low, inner_high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        if side == "upper":
            above = np.where(low > 0, _at_least(right, count, inner_low), 0.0)
            below = np.where(high < 1, _at_most(right, count, inner_high), 0.0)
            return float(np.maximum(above, below).max())
        over = np.where(low > 0, _at_most(right, count, inner_low), 1.0)
        under = np.where(high < 1, _at_least(right, count, inner_high), 1.0)
        return min(1.0, 2.0 * len(count) * float(np.minimum(over, under).min()))


def maximum_calibration_error(
    confidences: FloatArray,
    correct: BoolArray,
    *,
    bins: int = 10,
    scheme: Scheme = "equal_mass",
    clusters: IntArray | None = None,
) -> MaximumCalibrationError:
    """The largest gap between confidence and accuracy in any bin.

    Args:
        confidences: As `expected_calibration_error`.
        correct: As `expected_calibration_error`.
        bins: Bins before merging.
        scheme: How they are cut.
        clusters: shape (n,), or None.

    Raises:
        InputError: As `expected_calibration_error`.
    """
    c, y = checked(confidences, correct)
    effect, groups = _design(c, y, clusters)
    made = make_bins(c, y, bins=bins, scheme=scheme, expected_wrong=EXPECTED_WRONG * effect)
    return MaximumCalibrationError(made, effect, groups)


def classwise_calibration_error(
    probabilities: FloatArray, truth: IntArray, *, bins: int = 10, scheme: Scheme = "equal_mass"
) -> ValueOnly:
    """Mean over classes of the debiased L1 error of that class's own probability.

    It has no bound: the classes' errors are made from the same rows, and nothing here holds their sum.

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index.
        bins: Bins of each class, before merging.
        scheme: How they are cut.

    References:
        Kull et al. (2019), Beyond temperature scaling, NeurIPS.
    """
    p, t = np.asarray(probabilities, dtype=np.float64), np.asarray(truth)
    errors = [expected_calibration_error(p[:, k], t == k, bins=bins, scheme=scheme).value for k in range(p.shape[1])]
    kept = [error for error in errors if error is not None]
    method = f"mean over {len(kept)} classes, debiased; no bound is known for it"
    return ValueOnly(float(np.mean(kept)) if kept else None, len(t), method)


def temperature_estimate(temperature: float, n: int) -> ValueOnly:
    """A fitted temperature; it has no bound.

    Args:
        temperature: What logits are divided by.
        n: Rows it was fitted on.
    """
    return ValueOnly(temperature, n, "smallest log loss on one half of the rows; no bound is made for it")


def ece_band(value: float) -> Literal["well calibrated", "moderately calibrated", "poorly calibrated"]:
    """The usual words: below 0.05 well, up to 0.10 moderately (both edges included), above it poorly."""
    if value < 0.05:
        return "well calibrated"
    return "moderately calibrated" if value <= 0.10 else "poorly calibrated"


def _without_noise(seen: float, scale: float) -> float:
    """The shift at which scale x |shift + z| is ``seen`` on average, times scale; 0 where noise alone is larger."""
    if scale <= 0:
        return seen
    if seen / scale <= NULL:
        return 0.0
    low, high = 0.0, seen / scale
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if float(folded_mean(middle)) > seen / scale else (middle, high)
    return high * scale


def _at_least(right: FloatArray, count: FloatArray, share: FloatArray | float) -> FloatArray:
    """P(X >= right) for a binomial X of count at share; counts need not be whole."""
    from scipy.special import betainc

    tail: FloatArray = np.where(right <= 0, 1.0, betainc(np.maximum(right, 1e-9), count - right + 1.0, share))
    return tail


def _at_most(right: FloatArray, count: FloatArray, share: FloatArray | float) -> FloatArray:
    """P(X <= right) for a binomial X of count at share; counts need not be whole."""
    from scipy.special import betaincc

    tail: FloatArray = np.where(right >= count, 1.0, betaincc(right + 1.0, np.maximum(count - right, 1e-9), share))
    return tail
