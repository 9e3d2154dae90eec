"""Queries, or processes, that would decide a percentile."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.invert import POWER
from evalspec.stats.power import t_power

_DIFFER = 0.4
"""Share of runs of alike processes that are taken to differ (`processes_differ`): P(chi-square of 4 > 4)."""
_WIDER = 1.3
"""Factor of the spread of their shares then, over the average."""
UNSEEN = 1.3
"""Factor on the variance of a violation's count where processes were not seen to differ: five can hide that."""


MOST_TIMES = 40
"""Largest multiple of what was measured that is looked at; more is never the answer."""


def as_many(values: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Values with the mean and the standard deviation of these, so many times as many; shape (times k,)."""
    if times == 1:
        return values
    k, mean = len(values), values.mean()
    wider = math.sqrt((times * k - 1.0) / (times * (k - 1.0)))
    return np.tile(mean + wider * (values - mean), times)


def times_for_power(evidence: Callable[[int], float], alpha: float, least: int) -> int:
    """Multiple that decides in 80 % of runs; over `MOST_TIMES`: none up to that does.

    Evidence of a run varies about that of a typical one as a normal score does.

    Args:
        evidence: The p-value of a typical run of so many times as much.
        alpha: One-sided level.
        least: Times.
    """
    from scipy.special import ndtr, ndtri

    wanted = float(ndtr(ndtri(alpha) - ndtri(POWER)))
    low, high = least - 1, least
    while high <= MOST_TIMES and evidence(high) > wanted:
        low, high = high, 2 * high
    while high <= 2 * MOST_TIMES and high - low > 1 and high > least:
        middle = (low + high) // 2
        low, high = (low, middle) if evidence(middle) <= wanted else (middle, high)
    return high


def n_for_power(share: float, allowed: float, alpha: float, processes: int) -> float:
    """Independent queries for 80 % power of the test of ``allowed`` when ``share`` is the truth.

    Alike processes are taken to differ in two runs in five, and then Student's t over them must show it too.

    Args:
        share: The true share of queries over the threshold.
        allowed: 1 - p.
        alpha: One-sided level.
        processes: Fresh processes that the queries are spread over.

    Returns:
        Queries of all processes together, to be multiplied by their design effect.
    """
    from scipy.special import ndtr, ndtri

    null, here, distance = math.sqrt(allowed * (1 - allowed)), math.sqrt(share * (1 - share)), abs(share - allowed)

    def power(n: float) -> float:
        unseen = UNSEEN if processes > 1 and share > allowed else 1.0
        counted = float(ndtr((distance * math.sqrt(n / unseen) + float(ndtri(alpha)) * null) / max(here, 1e-12)))
        if processes < 2:
            return counted
        over_processes = t_power(distance * math.sqrt(n / processes) / (_WIDER * max(here, null)), processes, alpha)
        return (1.0 - _DIFFER) * counted + _DIFFER * min(counted, over_processes)

    # However good the share is, a bound of this level needs so many queries without one over.
    low = math.log(alpha) / math.log1p(-allowed) if share < allowed else 1.0
    high = max(2.0, 2.0 * low)
    while power(high) < POWER and high < 1e12:
        low, high = high, 2.0 * high
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
