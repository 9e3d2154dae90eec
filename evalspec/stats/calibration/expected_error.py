"""Calibration: whether a model that says 0.9 is right in 9 of 10 cases.

The parameter is the population's: the mean absolute gap between confidence and accuracy over bins of equal mass in the
population, of which the rows, confidences and answers, are a sample. FAIL is about the merged bins in print. PASS is
about bins merged by what is wrong in them, and about all finer ones whose gaps the sample can see (`finer_bins`):
what cancels inside of a bin does not pass where the rows are enough to see it; with ever more rows that is the mean of
|accuracy - confidence| at every confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np

from evalspec.stats.calibration.binned_error import DebiasedError
from evalspec.stats.calibration.bins import (
    EXPECTED_WRONG,
    Bins,
    Scheme,
    checked,
    cut_finely,
    joined,
    make_bins,
    merged,
    scales_of,
    smoothed,
)
from evalspec.stats.calibration.finer_bins import Spread, absolute, kinds, quarters
from evalspec.stats.calibration.folded_normals import without_noise
from evalspec.stats.calibration.gap import (
    INDEPENDENT,
    ConfidenceGap,
    GapDesign,
    design_of_gap,
    overall_gap,
)
from evalspec.stats.calibration.maximum_error import MaximumCalibrationError, maximum_calibration_error
from evalspec.stats.calibration.rms_error import RmsCalibrationError, rms_calibration_error
from evalspec.stats.calibration.sample_size import NULL, Truth, n_for_power
from evalspec.stats.calibration.temperature import apply_temperature, fit_temperature, halves
from evalspec.stats.calibration.top_label import top_label
from evalspec.stats.invert import Falling
from evalspec.stats.types import BoolArray, FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

__all__ = [
    "Bins",
    "CalibrationError",
    "MaximumCalibrationError",
    "RmsCalibrationError",
    "apply_temperature",
    "ece_band",
    "expected_calibration_error",
    "fit_temperature",
    "halves",
    "make_bins",
    "maximum_calibration_error",
    "rms_calibration_error",
    "temperature_estimate",
    "top_label",
]


@dataclass(frozen=True)
class CalibrationError(DebiasedError):
    """Expected calibration error (L1) over bins that were cut from the confidences.

    Args:
        bins: The bins it is over.
        expected_wrong: Wrong answers that all confidences together expect.
        design: What clusters do to the gap between confidence and accuracy.
        name: What it is an error of, for the method.
        fine: Groups of bins before merging, for what more rows would say; empty: as ``bins``.
        cells: Of each group, what its bins are made of; empty: as ``fine``.
    """

    bins: Bins
    expected_wrong: float
    design: GapDesign = INDEPENDENT
    name: str = "top label"
    fine: tuple[Bins, ...] = ()
    cells: tuple[Bins, ...] = ()

    @cached_property
    def plug_in(self) -> float | None:
        """Mean absolute gap; too large, since noise never cancels in it."""
        return float(np.sum(self.bins.weight * np.abs(self.bins.gap))) if self.n else None

    @cached_property
    def value(self) -> float | None:
        """The plug-in value less what noise adds to it, and never less than the overall gap without its noise."""
        if self.plug_in is None:
            return None
        return max(without_noise(self.plug_in, float(self.scales.sum())), abs(self._gap))

    @cached_property
    def _gap(self) -> float:
        """Accuracy - confidence over all rows, its noise taken off."""
        seen = float(np.sum(self.bins.weight * self.bins.gap))
        return math.copysign(without_noise(abs(seen), math.sqrt(float(np.sum(self.scales**2)))), seen)

    @property
    def sight(self) -> tuple[tuple[int, float], ...]:
        """Numbers of finer bins, and the least error that is asked of each: what cancels in fewer is seen there."""
        return tuple((one.size, one.least) for one in self.spreads[2:] if one.least < 1.0) if self.n else ()

    @property
    def method(self) -> str:
        """Scheme, bins, and how the bounds are made."""
        count = len(self.bins.count)
        merged_to = f" merged to {count}" if count < self.bins.asked else ""
        how = (
            ("Clopper-Pearson" if count == 1 else "test inversion")
            + self.design.words
            + "; a PASS must hold over finer bins too"
        )
        end = f"no bound: {self.reason}" if self.reason else how
        return f"L1 over {self.bins.asked} bins{merged_to}, {self.name}, folded-normal debiased; {end}"

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows that decide with 80 % power; of more rows fewer bins are merged."""
        if self.reason or self.value is None or self.value == threshold or not 0.0 < threshold < 1.0:
            return None
        signed = self._over_bins
        rows = self.n / self.design_effect
        truth = Truth(
            self.fine or (self.bins,), self.value, self._gap, self.design.believable,
            signed.drawn * rows, signed.skewness * math.sqrt(rows),
        )  # fmt: skip
        return n_for_power(truth, threshold, alpha)

    def _beyond(self, threshold: float) -> float:
        return self._overall.beyond(threshold) if len(self.bins.count) == 1 else self._p_fail(threshold)

    @cached_property
    def _within(self) -> tuple[Falling, ...]:
        """p-values that all rows, and the kinds of bins that are asked, lie within a threshold."""
        few = quarters(self.bins, self.spreads[1], self._cells, self.design_effect, absolute)
        asked = (*self.spreads[1:], *few)
        finer = (Falling(partial(one.within, design=self.design)) for one in asked)
        return (Falling(self._p_overall), *finer)

    def _p_overall(self, threshold: float) -> float:
        """p-value of the gap over all rows, which may say more where all bins lie a little to the same side.

        Else the bound could lie below the value. Where a bin expects too few wrong answers for a normal, where the
        design effect is an estimate, and where the differences vary more than the answers do, it is heard by its own
        tails.
        """
        from scipy.special import ndtr

        if self._sparse or self.design.clusters is not None or self._overall.varies:
            return self._overall.within(threshold)
        error = math.sqrt(float(np.sum(self.scales**2)))
        gap = abs(float(np.sum(self.bins.weight * self.bins.gap)))
        return float(ndtr((gap - threshold) / error) - ndtr((-gap - threshold) / error))

    def _p_fail(self, threshold: float) -> float:
        """Twice the smaller p-value of plug-in and overall gap: one normal, the other binomial."""
        from scipy.special import ndtr

        assert self.plug_in is not None
        times = self.design.times[-1]
        scales = math.sqrt(times) * self.cautious_scales
        error = math.sqrt(max(float(np.sum(scales**2)), times * self._over_bins.drawn))
        spread = float(ndtr(-(self.plug_in - NULL * scales.sum() - threshold) / error)) if error > 0 else 1.0
        return min(1.0, 2.0 * float(self.design.widened(spread)), self._overall.beyond(threshold))

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        """The plug-in value over the bins of the value, and over the kinds of bins that PASS asks."""
        fine = self.fine or (self.bins,)
        return kinds(self._over_bins, self.bins, fine, self._cells, self.design_effect, absolute)

    @cached_property
    def _over_bins(self) -> Spread:
        """The plug-in value over the bins of the value."""
        return absolute(joined(self._cells), self.bins, self._variance, self.design_effect)

    @property
    def _cells(self) -> tuple[Bins, ...]:
        return self.cells or self.fine or (self.bins,)

    @property
    def _sparse(self) -> bool:
        """Some bin expects fewer wrong answers than merging sees to: it could not be merged."""
        wrong = self.bins.count * (1.0 - self.bins.confidence)
        return float(wrong.min()) < EXPECTED_WRONG * self.design_effect

    @cached_property
    def _overall(self) -> ConfidenceGap:
        return overall_gap(self.bins, joined(self._cells), self.design)

    @cached_property
    def scales(self) -> FloatArray:
        """Standard error of what each bin adds to the plug-in value, shape (K,)."""
        return scales_of(self.bins, self.design_effect, 1.0, self._variance)

    @cached_property
    def cautious_scales(self) -> FloatArray:
        """The same, and never less than for answers that are as right as the confidence says."""
        said = self.bins.confidence * (1.0 - self.bins.confidence)
        return scales_of(self.bins, self.design_effect, 1.0, np.maximum(self._variance, said))

    @cached_property
    def _variance(self) -> FloatArray:
        return smoothed(self.bins)


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
    by test inversion with the error spread in the way that makes a small plug-in value likeliest, over bins merged by
    what is wrong in them and over finer ones, the largest p-value of which counts. FAIL is by the larger of (plug-in -
    what noise adds to a calibrated model) and (|mean confidence - accuracy|), at half the level each. With one bin that
    is Clopper-Pearson on the accuracy, beside Gaffke's bound where confidences vary more than answers.

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
    design = design_of_gap(c, y, clusters)
    fine, cells = cut_finely(c, y, bins, scheme)
    made = merged(fine, EXPECTED_WRONG * design.effect)
    return CalibrationError(made, float(np.sum(1.0 - c)), design, name, (fine,), (cells,))


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
