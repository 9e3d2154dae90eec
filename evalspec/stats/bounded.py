"""The mean of numbers that lie between known limits: a bound that counts what the sample may not have drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evalspec.evidence.estimate import Side
from evalspec.stats._exponential_sum import sum_z
from evalspec.stats._invert import POWER, far_side
from evalspec.stats._types import FloatArray

Limits = tuple[float, float]
"""The smallest and the largest value that a row can have."""
SHARE: Limits = (0.0, 1.0)
_LARGEST_RATIO = 1e9
_MOST_TIMES = 1e6


@dataclass(frozen=True, eq=False)
class BoundedMean:
    """A mean over rows or clusters of numbers between limits, with Gaffke's bounds.

    One unit is added that has the worst possible value, and units are weighted as a Dirichlet distribution says; the
    bound is a quantile of the weighted mean. It asks for no number of rows and for nothing of the distribution: a loss
    that is rare and large counts although the sample may not have it. Of numbers that are 0 or 1 it is Clopper and
    Pearson's bound. The distribution of the weighted mean comes from a saddlepoint approximation, without drawing.

    Args:
        numerator: shape (g,), one independent unit each (a row, or the sum of a cluster).
        denominator: shape (g,), rows of each unit. One that was not drawn is taken to have the most of those that were.
        n: Rows.
        limits: Of a row.

    References:
        Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
        variable, Mathematical Methods of Statistics 14; Learned-Miller and Thomas (2020), A new confidence interval for
        the mean of a bounded random variable, arXiv 1905.06208.
    """

    numerator: FloatArray = field(repr=False)
    denominator: FloatArray = field(repr=False)
    n: int
    limits: Limits

    @property
    def value(self) -> float:
        """The mean, in the values' unit."""
        return float(self.numerator.sum() / self.denominator.sum())

    @property
    def method(self) -> str:
        """How the bounds are made."""
        low, high = self.limits
        text = f"Gaffke's bound of a mean of values in {low:.4g}..{high:.4g}"
        units = len(self.numerator)
        return text if units == self.n else f"{text}, over {units} clusters"

    @property
    def reach(self) -> Limits:
        """The smallest and the largest value that the mean can have."""
        return self.limits

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, within reach."""
        from scipy.optimize import brentq
        from scipy.special import ndtri

        target = float(ndtri(confidence))
        best, worst = self.reach if side == "upper" else self.reach[::-1]
        if not math.isfinite(worst):
            worst = 2.0 * max(1.0, self.value)
            while self._z(worst, side) < target:
                worst *= 4.0
                if worst > _LARGEST_RATIO:
                    return None
        if not math.isfinite(best):
            best = 2.0 * max(1.0, self.value)
            while self._z(best, side) > target and best < _LARGEST_RATIO:
                best *= 4.0

        def excess(at: float) -> float:
            return max(-1e3, min(1e3, self._z(at, side))) - target

        if excess(worst) < 0.0:
            return worst
        return best if excess(best) > 0.0 else float(brentq(excess, best, worst, xtol=1e-10 * abs(worst - best)))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The chance that the weighted mean lies beyond the threshold."""
        from scipy.special import ndtr

        low, high = self.reach
        if not low < threshold < high:
            # That a mean lies within reach needs no rows.
            return 0.0 if (threshold <= low) == (side == "lower") else 1.0
        return float(ndtr(-self._z(threshold, side)))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows for 80 % power, were they more of the same; more than 20 times n is given too."""
        from scipy.special import ndtri

        side = far_side(self.value, threshold)
        if side is None or not self.reach[0] < threshold < self.reach[1]:
            return None
        needed = -float(ndtri(alpha))
        if float(np.ptp(self.numerator - self.value * self.denominator)) > 0.0:
            needed += float(ndtri(POWER))
        low, high = -math.log(_MOST_TIMES), math.log(_MOST_TIMES)
        if self._z(threshold, side, math.exp(high)) < needed:
            return None
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._z(threshold, side, math.exp(middle)) >= needed else (middle, high)
        return max(1, math.ceil(self.n * math.exp(high) * (1.0 - 1e-9)))

    def _z(self, at: float, side: Side, times: float = 1.0) -> float:
        """Normal score of the evidence that the mean lies on the inner side of ``at``, of so many times these units."""
        own = self.numerator - at * self.denominator
        weights = np.append(own if side == "upper" else -own, self._furthest(at, side) * float(self.denominator.max()))
        counts = np.full(len(weights), times)
        counts[-1] = 1.0
        return sum_z(weights, counts)

    def _furthest(self, at: float, side: Side) -> float:
        """How far a row that was not drawn can lie beyond ``at``."""
        return self.limits[1] - at if side == "upper" else at - self.limits[0]


@dataclass(frozen=True, eq=False)
class BoundedRatio(BoundedMean):
    """The ratio of the means of two models' losses on the same rows, both between 0 and a largest value.

    The bound is the ratio K at which the candidate's loss less K times the baseline's has a mean of 0.

    Args:
        rows: shape (g,), rows of each unit, where ``denominator`` has the baseline's losses.
    """

    rows: FloatArray = field(repr=False)

    @property
    def reach(self) -> Limits:
        """0 to any number."""
        return (0.0, math.inf)

    def _furthest(self, at: float, side: Side) -> float:
        """By the candidate's largest loss, or the baseline's."""
        most = self.limits[1] * float(self.rows.max()) / float(self.denominator.max())
        return most if side == "upper" else at * most
