"""The mean of few skewed values: a generalized bound for a lognormal mean, and how far a variance may be off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_DRAWS = 60
"""Values of the variance that p-values are averaged over."""
SEEN_TIMES = 10.0
"""Times what was seen up to which values are believed to be lognormal: few of them show nothing about further ones."""
_FURTHEST = 700.0
"""Logarithm of the largest number."""
_EXACT = 1e-13


@lru_cache(maxsize=64)
def variances(values: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Chances, and how many times the variance of so many values the true one may be; densest where it is most."""
    from scipy.special import gammaincinv

    even, half = (np.arange(_DRAWS) + 0.5) / _DRAWS, 0.5 * (values - 1)
    return even**2 / float((even**2).sum()), half / gammaincinv(half, even**3)


def p_mean_below(values: NDArray[np.float64], threshold: float, noise: float = 0.0) -> float:
    """Evidence that the mean of lognormal values is below a threshold: a generalized p-value, also for few.

    Args:
        values: shape (k,), k >= 2, positive.
        threshold: Positive.
        noise: What of the variance of their logarithms is error of measurement, which moves no mean.

    References:
        Krishnamoorthy and Mathew (2003), Inferences on the means of lognormal distributions using generalized p-values
        and generalized confidence intervals, Journal of Statistical Planning and Inference 115.
    """
    logs = np.log(values)
    return LogMean(float(logs.mean()), float(logs.var(ddof=1)), len(logs), noise).p_below(threshold)


@dataclass(frozen=True)
class LogMean:
    """The mean of lognormal values, from above.

    Args:
        middle: Mean of their logarithms.
        variance: Of their logarithms.
        n: Values.
        noise: As in `p_mean_below`.
        most: Threshold up to which this is believed: of one beyond no more is shown; infinite: of any.
    """

    middle: float
    variance: float
    n: int
    noise: float = 0.0
    most: float = math.inf

    def p_below(self, threshold: float) -> float:
        """Evidence that the mean is below a positive threshold."""
        from scipy.special import ndtr

        chances, times = variances(self.n)
        at = math.log(min(threshold, self.most))
        away = self.middle + 0.5 * max(0.0, self.variance - self.noise) * times - at
        error = np.sqrt(np.maximum(self.variance * times, self.noise) / self.n)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0.0, away / error, np.copysign(np.inf, away))
        return float(chances @ ndtr(z))

    def upper(self, confidence: float) -> float | None:
        """The smallest threshold below which the mean is shown to be; None: none is, as far as this is believed."""
        low, high = self.middle, min(_FURTHEST, math.log(self.most))
        if self.p_below(math.exp(high)) > 1.0 - confidence:
            return None
        while high - low > _EXACT * max(1.0, abs(high)):
            middle = 0.5 * (low + high)
            if self.p_below(math.exp(middle)) <= 1.0 - confidence:
                high = middle
            else:
                low = middle
        return math.exp(high)

    def needed(self, threshold: float, alpha: float) -> int:
        """Values with which 80 % of samples show that the mean is below a threshold."""
        from evalspec.stats.power import values_for_t

        away = math.log(min(threshold, self.most)) - self.middle - 0.5 * self.variance
        return values_for_t(away / math.sqrt(self.variance * (1.0 + 0.5 * self.variance)), alpha) if away > 0 else 0
