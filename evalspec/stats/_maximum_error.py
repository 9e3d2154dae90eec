"""The largest gap between confidence and accuracy in any bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalspec.evidence.estimate import Side
from evalspec.stats._bins import EXPECTED_WRONG, Bins, Scheme, checked, make_bins
from evalspec.stats._gap import INDEPENDENT, GapDesign, at_least, at_most, design_of_gap, why_unbounded
from evalspec.stats._invert import bound_from_p, n_by_scaling
from evalspec.stats._types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class MaximumCalibrationError:
    """The largest gap of any bin. Implements `Estimate`.

    PASS: every bin is shown to lie within the threshold (intersection-union, no correction needed). FAIL: some bin is
    shown to lie beyond it, at the level divided by the number of bins and sides.

    Args:
        bins: The bins.
        design: What clusters do to the gap between confidence and accuracy.
    """

    bins: Bins
    design: GapDesign = INDEPENDENT

    @property
    def n(self) -> int:
        """Rows."""
        return self.bins.n

    @property
    def value(self) -> float | None:
        """Largest absolute gap, not debiased."""
        return float(np.abs(self.bins.gap).max()) if self.n else None

    @property
    def reason(self) -> str | None:
        """Why there is no bound, or None."""
        return why_unbounded(self.n, self.design)

    @property
    def method(self) -> str:
        """How the bounds are made."""
        end = f"no bound: {self.reason}" if self.reason else f"Clopper-Pearson in every bin{self.design.words}"
        return f"largest of {len(self.bins.count)} bins, not debiased; {end}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in 0..1."""
        if self.reason or self.value is None:
            return None
        return bound_from_p(self._p, confidence, side, self.value, (0.0, 1.0))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """From the bins' binomial tails."""
        return None if self.reason else self._p(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows, from the width of the present bound."""
        return n_by_scaling(self.value, self.n, self.bound, threshold, alpha)

    def _p(self, threshold: float, side: Side) -> float:
        right, count = self.bins.right.astype(np.float64), self.bins.count.astype(np.float64)
        tail = self.design.tail
        low, high = self.bins.confidence - threshold, self.bins.confidence + threshold
        inner_low, inner_high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        if side == "upper":
            above = np.where(low > 0, tail(at_least, right, count, inner_low), 0.0)
            below = np.where(high < 1, tail(at_most, right, count, inner_high), 0.0)
            return float(np.maximum(above, below).max())
        over = np.where(low > 0, tail(at_most, right, count, inner_low), 1.0)
        under = np.where(high < 1, tail(at_least, right, count, inner_high), 1.0)
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
    made = make_bins(c, y, bins=bins, scheme=scheme, expected_wrong=EXPECTED_WRONG * design.effect)
    return MaximumCalibrationError(made, design)
