"""Distances of two samples of any size, of which only `Ranks` are known; what these leave open is in the bounds."""

from __future__ import annotations

import math

import numpy as np

from evalspec.stats.drift.columns import Numbers
from evalspec.stats.drift.distances import (
    WASSERSTEIN,
    Distance,
    empty_distance,
    from_a_constant,
    permutations_for,
    wasserstein,
)
from evalspec.stats.drift.nulls import EXACT_ROWS, bridge_null
from evalspec.stats.drift.ranks import Ranks
from evalspec.stats.types import FloatArray, IntArray


def ks_of_ranks(first: Ranks, second: Ranks) -> Distance:
    """Largest difference of the two distribution functions, as `ks_distance` of the rows themselves.

    Between two known points neither function leaves the numbers at its ends, so the distance of the samples is known to
    lie between two values: bounds start from the lower one on one side and from the upper one on the other.

    Args:
        first: Of the reference.
        second: Of the current data.

    References:
        Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of Probability 18(3).
    """
    n, m = first.n, second.n
    if not n or not m:
        return empty_distance(n + m, "Kolmogorov-Smirnov distance", 1.0)
    _, counts_f, counts_g = first.beside(second)
    f, g = _shares(counts_f, n), _shares(counts_g, m)
    least = max(_surely(f, g), _surely(g, f))
    most = max(_at_most(f, g), _at_most(g, f))
    middle = max(float(np.abs((a[0] + a[1]) / 2.0 - (b[0] + b[1]) / 2.0).max()) for a, b in zip(f, g, strict=True))
    value = min(max(middle, least), most)
    return Distance(
        value=value,
        n=n + m,
        smaller=min(n, m),
        variances=(0.25 / n, 0.25 / m),
        largest=1.0,
        what="Kolmogorov-Smirnov distance",
        null_scale=math.sqrt(1.0 / n + 1.0 / m),
        slack=(value - least, most - value),
    )


Shares = tuple[FloatArray, FloatArray]
"""Least and most of the share below each point, and up to it, both shape (2, p)."""


def _shares(counts: tuple[IntArray, IntArray], n: int) -> Shares:
    return counts[0] / n, counts[1] / n


def _surely(f: Shares, g: Shares) -> float:
    """Lower bound of the largest excess of f over g at any point."""
    return max(0.0, *(float((a[0] - b[1]).max()) for a, b in zip(f, g, strict=True)))


def _at_most(f: Shares, g: Shares) -> float:
    """Upper bound of the excess of f over g anywhere: at the points, and between each and the next."""
    at = float((f[1][1] - g[1][0]).max())
    between = float((f[0][1][1:] - g[1][0][:-1]).max(initial=0.0))
    return min(1.0, max(0.0, at, between))


def wasserstein_of(first: Numbers, second: Numbers, *, rng: np.random.Generator, alpha: float = 0.002) -> Distance:
    """Area between the distribution functions in standard deviations of the reference, as `wasserstein` of the rows.

    Args:
        first: Of the reference.
        second: Of the current data.
        rng: The source of randomness.
        alpha: Strictest level that will be asked for.
    """
    n, m = first.n, second.n
    what = WASSERSTEIN
    if n < 2 or m < 2:
        return empty_distance(n + m, what, math.inf)
    unit = math.sqrt(first.variance or 0.0)
    if unit <= 0 or first.low == first.high:
        return from_a_constant(n, m, equal=first.low == second.low == second.high)
    a, b = first.ranks(), second.ranks()
    if n + m <= EXACT_ROWS:
        return wasserstein(_rows(a), _rows(b), rng=rng, alpha=alpha)
    points, (below_a, upto_a), (below_b, upto_b) = a.beside(b)
    gaps = np.diff(points) / unit
    # Over a gap a share lies between that up to its beginning and that below its end.
    f, g = (
        np.stack((upto[0][:-1], below[1][1:])) / size
        for below, upto, size in ((below_a, upto_a, n), (below_b, upto_b, m))
    )
    value = float(np.abs(f.mean(axis=0) - g.mean(axis=0)) @ gaps)
    slack = float((np.diff(f, axis=0)[0] + np.diff(g, axis=0)[0]) @ gaps) / 2.0
    ends = (upto_a + upto_b).mean(axis=0)[:-1]
    null = bridge_null(ends, gaps, n, m, rng, permutations_for(alpha))
    return Distance(
        value=value,
        n=n + m,
        smaller=min(n, m),
        variances=(1.0 / n, float(second.variance or 0.0) / unit**2 / m),
        largest=math.inf,
        what=what,
        null_scale=math.sqrt(1.0 / n + 1.0 / m),
        null=np.sort(null),
        slack=(min(slack, value), slack),
    )


def _rows(ranks: Ranks) -> FloatArray:
    """The values themselves, of ranks that are exact."""
    counts: IntArray = ranks.upto[0] - ranks.below[0]
    return np.repeat(ranks.points, counts)
