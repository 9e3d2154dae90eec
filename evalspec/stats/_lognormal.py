"""The mean of few skewed values: a generalized bound for a lognormal mean, and how far a variance may be off."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_DRAWS = 60
"""Values of the variance that p-values are averaged over."""


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
    from scipy.special import ndtr

    logs = np.log(values)
    chances, times = variances(len(logs))
    seen = float(logs.var(ddof=1))
    away = float(logs.mean()) + 0.5 * max(0.0, seen - noise) * times - math.log(threshold)
    error = np.sqrt(np.maximum(seen * times, noise) / len(logs))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(error > 0.0, away / error, np.copysign(np.inf, away))
    return float(chances @ ndtr(z))
