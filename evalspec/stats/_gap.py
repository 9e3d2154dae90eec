"""What calibration errors share: the gap over all rows by exact binomial tails, and what clusters do to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalspec.stats._clusters import cluster_codes, design_effect
from evalspec.stats._types import BoolArray, FloatArray, IntArray

CLUSTERS = 20
"""Clusters below which there is no bound."""


@dataclass(frozen=True, slots=True)
class Gap:
    """How often something came true beside how often it was said to.

    Args:
        right: Times that it came true, divided by the design effect.
        n: Rows, divided by the design effect.
        said: Mean of what was said, in 0..1.
    """

    right: float
    n: float
    said: float

    def beyond(self, threshold: float) -> float:
        """p-value that both are further apart than the threshold: twice the smaller of two binomial tails."""
        low, high = self.said - threshold, self.said + threshold
        over = float(at_most(self.right, self.n, low)) if low > 0 else 1.0
        under = float(at_least(self.right, self.n, high)) if high < 1 else 1.0
        return min(1.0, 2.0 * min(over, under))

    def within(self, threshold: float) -> float:
        """p-value that both are no further apart than the threshold: the larger of two binomial tails."""
        low, high = self.said - threshold, self.said + threshold
        # A share can't leave 0..1, so a limit there needs no evidence.
        above = float(at_least(self.right, self.n, low)) if low > 0 else 0.0
        below = float(at_most(self.right, self.n, high)) if high < 1 else 0.0
        return max(above, below)


def at_least(right: FloatArray | float, count: FloatArray | float, share: FloatArray | float) -> FloatArray:
    """P(X >= right) for a binomial X of count at share; counts need not be whole."""
    from scipy.special import betainc

    k, n = np.asarray(right, dtype=np.float64), np.asarray(count, dtype=np.float64)
    tail: FloatArray = np.where(k <= 0, 1.0, betainc(np.maximum(k, 1e-9), n - k + 1.0, share))
    return tail


def at_most(right: FloatArray | float, count: FloatArray | float, share: FloatArray | float) -> FloatArray:
    """P(X <= right) for a binomial X of count at share; counts need not be whole."""
    from scipy.special import betaincc

    k, n = np.asarray(right, dtype=np.float64), np.asarray(count, dtype=np.float64)
    tail: FloatArray = np.where(k >= n, 1.0, betaincc(k + 1.0, np.maximum(n - k, 1e-9), share))
    return tail


def design_of_gap(c: FloatArray, y: BoolArray, clusters: IntArray | None) -> tuple[float, int | None]:
    """Design effect of the gap, and how many clusters there are where rows share one.

    Args:
        c: shape (n,), what was said.
        y: shape (n,), whether it came true.
        clusters: shape (n,), or None where rows are independent.
    """
    if clusters is None or not len(c):
        return 1.0, None
    codes, groups = cluster_codes(clusters, len(c))
    if groups == len(c):
        return 1.0, None
    return design_effect(y - c, codes, groups).effect, groups


def why_unbounded(n: int, clusters: int | None) -> str | None:
    """Why there is no bound, or None."""
    if not n:
        return "there are no rows"
    if clusters is not None and clusters < CLUSTERS:
        return f"{clusters} clusters are too few, {CLUSTERS} are needed"
    return None
