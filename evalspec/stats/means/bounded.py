"""Means of numbers that lie between known limits: bounds that count what the sample may not have drawn."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.exponential_sum import sum_z
from evalspec.stats.invert import POWER, far_side
from evalspec.stats.roots import brentq
from evalspec.stats.types import FloatArray

Limits = tuple[float, float]
"""The smallest and the largest value that a row can have."""
SHARE: Limits = (0.0, 1.0)
_LARGEST_RATIO = 1e9
_MOST_TIMES = 1e6


class Weighted(Estimate):
    """Bounds from units with random weights, one unit added that is as bad as can be.

    Units are weighted as a Dirichlet distribution says, and a bound is a quantile of the weighted mean. It asks for no
    number of rows and for nothing of the distribution: a loss that is rare and large counts although the sample may not
    have it. The distribution of the weighted mean comes from a saddlepoint approximation, without drawing.

    References:
        Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
        variable, Mathematical Methods of Statistics 14; Learned-Miller and Thomas (2020), A new confidence interval for
        the mean of a bounded random variable, arXiv 1905.06208.
    """

    n: int

    @property
    @abstractmethod
    def value(self) -> float:
        """The parameter of the sample."""

    @property
    @abstractmethod
    def reach(self) -> Limits:
        """The smallest and the largest value that the parameter can have."""

    @abstractmethod
    def z(self, at: float, side: Side, times: float = 1.0) -> float:
        """Normal score of the evidence that the parameter lies on the inner side of a number.

        Args:
            at: The number, within reach.
            side: As in `Estimate.p_value`.
            times: From so many times these units.
        """

    @property
    def varies(self) -> bool:
        """Another sample would have another value."""
        return True

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, within reach; None where there is no limit to that and none is shown."""
        from scipy.special import ndtri

        target = float(ndtri(confidence))

        def excess(at: float) -> float:
            return max(-1e3, min(1e3, self.z(at, side))) - target

        best, worst = self.reach if side == "upper" else self.reach[::-1]
        best = _finite(best, lambda at: excess(at) <= 0.0, self.value)
        worst = _finite(worst, lambda at: excess(at) >= 0.0, self.value)
        if excess(worst) < 0.0:
            return worst if worst in self.reach else None
        return best if excess(best) > 0.0 else brentq(excess, best, worst, xtol=1e-10 * abs(worst - best))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The chance that the weighted mean lies beyond the threshold."""
        from scipy.special import ndtr

        low, high = self.reach
        if not low < threshold < high:
            # That it lies within reach needs no rows.
            return 0.0 if (threshold <= low) == (side == "lower") else 1.0
        return float(ndtr(-self.z(threshold, side)))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows for 80 % power, were they more of the same; more than 20 times n is given too."""
        from scipy.special import ndtri

        side = far_side(self.value, threshold)
        if side is None or not self.reach[0] < threshold < self.reach[1]:
            return None
        needed = -float(ndtri(alpha)) + (float(ndtri(POWER)) if self.varies else 0.0)
        low, high = -math.log(_MOST_TIMES), math.log(_MOST_TIMES)
        if self.z(threshold, side, math.exp(high)) < needed:
            return None
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.z(threshold, side, math.exp(middle)) >= needed else (middle, high)
        return max(1, math.ceil(self.n * math.exp(high) * (1.0 - 1e-9)))


@dataclass(frozen=True, eq=False)
class BoundedMean(Weighted):
    """A mean over rows or clusters of numbers between limits; of numbers that are 0 or 1 the bounds are binomial.

    Args:
        numerator: shape (g,), one independent unit each (a row, or the sum of a cluster).
        denominator: shape (g,), rows of each unit. One that was not drawn is taken to have the most of those that were.
        n: Rows.
        limits: Of a row.
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
        """Method of the bounds."""
        low, high = self.limits
        text = f"Gaffke's bound of a mean of values in {low:.4g}..{high:.4g}"
        units = len(self.numerator)
        return text if units == self.n else f"{text}, over {units} clusters"

    @property
    def reach(self) -> Limits:
        """The limits of a row."""
        return self.limits

    @property
    def varies(self) -> bool:
        return float(np.ptp(self.numerator - self.value * self.denominator)) > 0.0

    def z(self, at: float, side: Side, times: float = 1.0) -> float:
        own = self.numerator - at * self.denominator
        weights = np.append(own if side == "upper" else -own, self._furthest(at, side))
        counts = np.full(len(weights), times)
        counts[-1] = 1.0
        return sum_z(weights, counts)

    def _furthest(self, at: float, side: Side) -> float:
        """Furthest that a unit which was not drawn can lie beyond ``at``."""
        return (self.limits[1] - at if side == "upper" else at - self.limits[0]) * float(self.denominator.max())


@dataclass(frozen=True, eq=False)
class BoundedRatio(BoundedMean):
    """The ratio of the means of two models' losses on the same rows, both between 0 and a largest value.

    The bound is the ratio K at which the candidate's loss less K times the baseline's has a mean of 0.

    Args:
        largest: Rows of the largest unit, where ``denominator`` has the baseline's losses.
    """

    largest: float

    @property
    def reach(self) -> Limits:
        """0 to any number."""
        return (0.0, math.inf)

    def _furthest(self, at: float, side: Side) -> float:
        """Furthest that a unit can lie beyond ``at``, by the candidate's largest loss or the baseline's."""
        return self.limits[1] * self.largest * (1.0 if side == "upper" else at)


def _finite(limit: float, reached: Callable[[float], bool], value: float) -> float:
    """The limit, or where there is none a number that is far enough."""
    if math.isfinite(limit):
        return limit
    limit = 2.0 * max(1.0, value)
    while not reached(limit) and limit < _LARGEST_RATIO:
        limit *= 4.0
    return limit
