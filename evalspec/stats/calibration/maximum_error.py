"""The largest gap between confidence and accuracy in any bin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from evalspec.evidence.estimate import Side
from evalspec.stats.calibration.binned_error import BinnedError
from evalspec.stats.calibration.bins import EXPECTED_WRONG, Bins, Scheme, checked, cut_finely, merged, picked
from evalspec.stats.calibration.finer_bins import Spread, absolute, bin_of, finer
from evalspec.stats.calibration.gap import (
    INDEPENDENT,
    ConfidenceGap,
    GapDesign,
    design_of_gap,
    overall_gap,
)
from evalspec.stats.invert import Falling, NByScaling, lower_bound, upper_of_largest
from evalspec.stats.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class MaximumCalibrationError(BinnedError, NByScaling):
    """The largest gap of any bin.

    PASS: every bin is shown to lie within the threshold (intersection-union, no correction needed). FAIL: some bin is
    shown to lie beyond it, at the level divided by the number of bins and sides. A bin whose opposite gaps cancel does
    not lie within: the mean absolute gap over finer bins inside of it is asked too, where its rows are enough to see.

    Args:
        bins: The bins.
        cells: What they are made of.
        design: What clusters do to the gap between confidence and accuracy.
    """

    bins: Bins
    cells: Bins
    design: GapDesign = INDEPENDENT

    @property
    def value(self) -> float | None:
        """Largest absolute gap, not debiased."""
        return float(np.abs(self.bins.gap).max()) if self.n else None

    @property
    def method(self) -> str:
        """Method of the bounds."""
        end = (
            f"no bound: {self.reason}"
            if self.reason
            else f"Clopper-Pearson in every bin{self.design.words}; PASS over finer bins too"
        )
        return f"largest of {len(self.bins.count)} bins, not debiased; {end}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in 0..1."""
        if self.reason or self.value is None:
            return None
        if side == "upper":
            return upper_of_largest(self._within, confidence, self.value, (0.0, 1.0))
        return lower_bound(self._mirrored, confidence, self.value, (0.0, 1.0))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value from the bins' binomial tails."""
        return None if self.reason else self._p(threshold, side)

    def _beyond(self, threshold: float) -> float:
        return min(1.0, len(self._parts) * min(gap.beyond(threshold) for gap, _ in self._parts))

    @cached_property
    def _within(self) -> tuple[Falling, ...]:
        """p-values that each bin, and what is finer inside of it, lies within a threshold."""
        p_values: list[Callable[[float], float]] = []
        for gap, inside in self._parts:
            p_values += [gap.within, *(partial(one.within, design=self.design) for one in inside)]
        return tuple(Falling(one) for one in p_values)

    @cached_property
    def _parts(self) -> list[tuple[ConfidenceGap, tuple[Spread, ...]]]:
        """The gap of each bin, and its finer bins."""
        parts, of_bin = [], bin_of(self.cells, self.bins)
        for index in range(len(self.bins.count)):
            one, cells = picked(self.bins, [index]), picked(self.cells, np.flatnonzero(of_bin == index))
            parts.append((overall_gap(one, cells, self.design), finer(one, (cells,), self.design.effect, absolute)))
        return parts


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
        confidences: shape (n,), in 0..1.
        correct: shape (n,).
        bins: Bins before merging.
        scheme: How they are cut.
        clusters: shape (n,), or None where rows are independent.

    Raises:
        InputError: Shapes differ, or a confidence is none.

    References:
        Naeini, Cooper, Hauskrecht (2015), Obtaining well calibrated probabilities using Bayesian binning, AAAI.
    """
    c, y = checked(confidences, correct)
    design = design_of_gap(c, y, clusters)
    fine, cells = cut_finely(c, y, bins, scheme)
    return MaximumCalibrationError(merged(fine, EXPECTED_WRONG * design.effect), cells, design)
