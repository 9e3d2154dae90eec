"""Percentiles and shares of queries whose order is not known, so that it is unknown how they depend on each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.evidence.estimate import Estimate, Needed, Side
from evalspec.stats.tails import at_least, at_most
from evalspec.stats.timing.queries import rank
from evalspec.stats.timing.sample_size import n_for_power


@dataclass(frozen=True)
class UnorderedShare(Estimate):
    """A share of queries.

    Args:
        over: Queries that are counted.
        n: All of them.
        effect: Design effect that is taken for granted: so many dependent queries say as much as one.
    """

    over: int
    n: int
    effect: float

    @property
    def value(self) -> float | None:
        """The share; None of no query."""
        return self.over / self.n if self.n else None

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"binomial on the share of queries, design effect {self.effect:g} taken, since their order is not known"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound of Clopper and Pearson, counts divided by the design effect."""
        from scipy.special import betaincinv

        if not self.n:
            return None
        t, rest = self.over / self.effect, (self.n - self.over) / self.effect
        if side == "upper":
            return 1.0 if not rest else float(1.0 - betaincinv(rest, t + 1.0, 1.0 - confidence))
        return 0.0 if not t else float(betaincinv(t, rest + 1.0, 1.0 - confidence))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Tail of the binomial."""
        if not self.n:
            return None
        share = min(1.0, max(0.0, threshold))
        return (at_most if side == "upper" else at_least)(self.over, self.n, share, self.effect)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Queries with which the side on which the share lies is shown in 80 % of runs."""
        if self.value is None or self.value == threshold or not 0.0 < threshold < 1.0:
            return None
        needed = n_for_power(self.value, threshold, alpha, 1) * self.effect
        return Needed(math.ceil(needed), "queries", self.n)


@dataclass(frozen=True)
class UnorderedPercentile(Estimate):
    """The p-quantile of latencies, in ms.

    Args:
        ordered: shape (q,), ms, rising; infinite where a query failed.
        p: The percentile as a fraction: 0.99.
        effect: As `UnorderedShare`.
    """

    ordered: NDArray[np.float64]
    p: float
    effect: float

    @property
    def n(self) -> int:
        """Queries."""
        return len(self.ordered)

    @cached_property
    def value(self) -> float | None:
        """The sample's own p-quantile by nearest rank; the slowest answer where it falls among failed queries."""
        if not self.n:
            return None
        own = float(self.ordered[rank(self.n, self.p)])
        answered = self.ordered[np.isfinite(self.ordered)]
        return own if math.isfinite(own) else float(answered[-1]) if len(answered) else None

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return self._over(math.inf).method

    def bound(self, confidence: float, side: Side) -> float | None:
        """The observation over which as many lie as the binomial allows; None where that is a failed query."""
        if not self.n:
            return None

        def shown(over: int) -> bool:
            p = UnorderedShare(over, self.n, self.effect).p_value(1.0 - self.p, side)
            return p is not None and p <= 1.0 - confidence

        if side == "upper":
            fits = _first(lambda over: not shown(over), self.n)
            place = self.n - fits
            return None if not fits or not math.isfinite(self.ordered[place]) else float(self.ordered[place])
        most = _first(shown, self.n)
        place = self.n - most
        return None if most > self.n or not math.isfinite(self.ordered[place]) else float(self.ordered[place])

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Binomial over the queries that take longer than the threshold."""
        return self._over(threshold).p_value(1.0 - self.p, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Queries with which the side on which the share over lies is shown in 80 % of runs."""
        return self._over(threshold).n_to_decide(1.0 - self.p, alpha)

    def _over(self, threshold: float) -> UnorderedShare:
        over = self.n - int(np.searchsorted(self.ordered, threshold, side="right"))
        return UnorderedShare(over, self.n, self.effect)


def unordered_percentile(latencies_ms: ArrayLike, p: float, effect: float) -> UnorderedPercentile:
    """The p-quantile of latencies in no known order, with bounds that take a design effect for granted.

    With t queries over the threshold of n, it passes when BinomCDF(t; n, 1 - p) <= 1 - confidence, t and n divided by
    the design effect. Where queries depend on each other more than that, nothing here shows it.

    Args:
        latencies_ms: shape (q,), ms, in any order; infinite where a query failed.
        p: The percentile as a fraction: 0.99.
        effect: Dependent queries that say as much as one.

    Raises:
        ValueError: ``p`` is not between 0 and 1, or the design effect is below 1.

    References:
        Conover (1999), Practical Nonparametric Statistics, 3.2 (the quantile test).
    """
    if not 0.0 < p < 1.0 or effect < 1.0:
        raise ValueError(f"a percentile is between 0 and 1, and a design effect at least 1: {p}, {effect}")
    return UnorderedPercentile(np.sort(np.asarray(latencies_ms, dtype=np.float64)), p, effect)


def _first(holds: Callable[[int], bool], last: int) -> int:
    """The first whole number from 0 on that holds, where all after it do; one more than the last where none does."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
