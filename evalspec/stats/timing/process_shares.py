"""The mean share of queries over a threshold, from the shares of a few fresh processes that differ."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.means.lognormal import p_share_below

UNSEEN = 0.3
"""Added to the queries over a threshold in each process where their logarithm is taken: none may be."""
HALF = 0.5
"""The same where their mean is bounded from above."""


def p_under(shares: NDArray[np.float64], share: float, queries: float, effect: float) -> float:
    """Evidence that the mean share is smaller: Student's t, and also as lognormal: most stall rarely and some often.

    Args:
        shares: shape (k,), k >= 2, of each process.
        share: What their mean is held against.
        queries: Of a process.
        effect: Design effect inside processes: how far counts alone vary.
    """
    few = HALF / queries
    # At the share that is held against: where none is over the threshold, nothing else tells how far counts vary.
    noise = effect / (queries * (share + few))
    return max(_t(share - shares), p_share_below(shares + few, share + few, noise))


def p_over(shares: NDArray[np.float64], share: float, queries: float) -> float:
    """Evidence that the mean share is larger: Student's t of the logarithms, whose mean lies below that of the mean.

    Args:
        shares: As in `p_under`.
        share: As in `p_under`.
        queries: Of a process.
    """
    few = UNSEEN / queries
    return _t(np.log((shares + few) / (share + few)))


def _t(values: NDArray[np.float64]) -> float:
    """Evidence that the mean is positive."""
    from scipy.special import stdtr

    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(stdtr(len(values) - 1, -mean / error if error > 0 else math.copysign(math.inf, -mean)))
