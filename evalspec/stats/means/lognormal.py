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
_FULL = 8.3
"""Spreads over 1 from which on the mean is 1, as far as numbers tell."""
_STEPS = 100


@lru_cache(maxsize=64)
def variances(values: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Chances, and how many times the variance of so many values the true one may be; densest where it is most."""
    from scipy.special import gammaincinv

    even, half = (np.arange(_DRAWS) + 0.5) / _DRAWS, 0.5 * (values - 1)
    return even**2 / float((even**2).sum()), half / gammaincinv(half, even**3)


def p_share_below(shares: NDArray[np.float64], threshold: float, noise: float = 0.0) -> float:
    """Evidence that the mean of shares is below a threshold, were they lognormal but for what would be over 1.

    A generalized p-value, also for few. Without the limit a few tiny shares that differ by a factor of ten could not
    show that they are below a half.

    Args:
        shares: shape (k,), k >= 2, positive.
        threshold: In 0..1.
        noise: What of the variance of their logarithms is error of measurement, which moves no mean.

    References:
        Krishnamoorthy and Mathew (2003), Inferences on the means of lognormal distributions using generalized p-values
        and generalized confidence intervals, Journal of Statistical Planning and Inference 115.
    """
    logs = np.log(shares)
    chances, times = variances(len(logs))
    variance = float(logs.var(ddof=1))
    places = _middles(min(threshold, 1.0), np.sqrt(max(0.0, variance - noise) * times))
    return _chance(float(logs.mean()) - places, np.sqrt(np.maximum(variance * times, noise) / len(logs)), chances)


def _middles(mean: float, spreads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Middle of the logarithms at which shares that end at 1 have this mean, at each of their spreads; shape (s,)."""
    from scipy.special import log_ndtr

    spread = np.maximum(spreads, 1e-9)
    if mean >= 1.0:
        return _FULL * spread
    middle = math.log(mean) - 0.5 * spread**2
    # The logarithm of the mean is concave in the middle, so Newton's steps from below never pass the solution.
    for _ in range(_STEPS):
        inside = middle + 0.5 * spread**2 + log_ndtr(-(middle + spread**2) / spread)
        reached = np.logaddexp(inside, log_ndtr(middle / spread))
        step = np.exp(reached - inside) * (math.log(mean) - reached)
        middle = middle + np.maximum(step, 0.0)
        if (step <= _EXACT * np.maximum(1.0, np.abs(middle))).all():
            break
    found: NDArray[np.float64] = middle
    return found


def _chance(away: NDArray[np.float64], error: NDArray[np.float64], chances: NDArray[np.float64]) -> float:
    """Normal p-value of being so far above, averaged over what the error may be."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(error > 0.0, away / error, np.copysign(np.inf, away))
    return float(chances @ ndtr(z))


@dataclass(frozen=True)
class LogMean:
    """The mean of lognormal values, from above.

    Args:
        middle: Mean of their logarithms.
        variance: Of their logarithms.
        n: Values.
        noise: What of their variance is error of measurement, which moves no mean.
        most: Threshold up to which this is believed: of one beyond no more is shown; infinite: of any.
    """

    middle: float
    variance: float
    n: int
    noise: float = 0.0
    most: float = math.inf

    def p_below(self, threshold: float) -> float:
        """Evidence that the mean is below a positive threshold."""
        chances, times = variances(self.n)
        at = math.log(min(threshold, self.most))
        away = self.middle + 0.5 * max(0.0, self.variance - self.noise) * times - at
        return _chance(away, np.sqrt(np.maximum(self.variance * times, self.noise) / self.n), chances)

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
