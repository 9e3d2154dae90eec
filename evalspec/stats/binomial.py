"""Tails of the binomial and the hypergeometric distribution. Importing scipy.stats for them takes a second."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_NEAR = 3.0
"""How far from where the normal distribution expects it a quantile is looked for first."""


def at_most(k: ArrayLike, n: ArrayLike, p: float) -> Floats:
    """P(X <= k) of a binomial X of n at p, from the incomplete beta function.

    Args:
        k: Any shape, whole numbers.
        n: Trials, of a shape that fits.
        p: Chance, in 0..1.
    """
    from scipy.special import betainc

    k, n = np.asarray(k, dtype=np.float64), np.asarray(n, dtype=np.float64)
    inside = betainc(np.maximum(n - k, 0.5), np.maximum(k + 1.0, 0.5), 1.0 - p)
    return np.where(k < 0, 0.0, np.where(k >= n, 1.0, inside))


def above(k: ArrayLike, n: ArrayLike, p: float) -> Floats:
    """P(X > k), as `at_most`, with small ones kept exact."""
    from scipy.special import betainc

    k, n = np.asarray(k, dtype=np.float64), np.asarray(n, dtype=np.float64)
    inside = betainc(np.maximum(k + 1.0, 0.5), np.maximum(n - k, 0.5), p)
    return np.where(k < 0, 1.0, np.where(k >= n, 0.0, inside))


def rarely_above(alpha: float, n: ArrayLike, p: float) -> Floats:
    """The smallest k with P(X > k) <= alpha.

    Args:
        alpha: In the open interval 0..1.
        n: Trials, any shape.
        p: Chance, in the open interval 0..1.
    """
    from scipy.special import ndtri

    n, score = np.asarray(n, dtype=np.float64), -float(ndtri(alpha))
    about = np.floor(n * p + score * np.sqrt(n * p * (1.0 - p)) + (score**2 - 1.0) * (1.0 - 2.0 * p) / 6.0)
    low, high = np.maximum(about - _NEAR, -1.0), np.minimum(about + _NEAR, n)
    low, high = np.where(above(low, n, p) > alpha, low, -1.0), np.where(above(high, n, p) <= alpha, high, n)
    # P(X > low) > alpha and P(X > high) <= alpha throughout.
    while ((middle := np.floor((low + high) / 2.0)) > low).any():
        enough = above(middle, n, p) <= alpha
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return high


def drawn_at_most(k: int, population: int, marked: int, drawn: int) -> float:
    """P(X <= k) where X of the drawn are marked, drawn without replacement.

    Args:
        k: A count.
        population: All.
        marked: So many of them.
        drawn: So many are drawn.
    """
    from scipy.special import gammaln, logsumexp

    def choices(n: float, some: NDArray[np.float64] | float) -> Floats:
        return np.asarray(gammaln(n + 1.0) - gammaln(some + 1.0) - gammaln(n - some + 1.0))

    first, last = max(0, drawn - (population - marked)), min(k, marked, drawn)
    if last < first:
        return 0.0
    if last == min(marked, drawn):
        return 1.0
    counts = np.arange(first, last + 1, dtype=np.float64)
    logs = choices(marked, counts) + choices(population - marked, drawn - counts) - choices(population, float(drawn))
    return float(min(1.0, np.exp(logsumexp(logs))))
