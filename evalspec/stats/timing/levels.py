"""A percentile of all processes together, where fresh processes differ in level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Side
from evalspec.stats.means.lognormal import SEEN_TIMES, variances
from evalspec.stats.timing.sample_size import as_many

_NODES = 30
"""Queries that stand for all: so many from top to bottom, near the top, and on either side of the quantile."""
SLOW = 10.0
"""Times the queries over a percentile are the slow ones, which share a factor."""
_SPREADS = 12
_HALVINGS = 12
_REACH = 8.0
_EXACT = 1e-13
_LEAST_MS = 1e-9
"""Stands for every latency where all are zero."""


@dataclass(frozen=True)
class Levels:
    """Fresh processes whose latencies are alike but for a factor, which is lognormal over processes.

    Of a high percentile it moves only the slow queries, ten times as many as lie over it; the others are moved by a
    factor of their own, which the processes' medians show: where the bulk agrees, no bad process lifts all of it over a
    threshold. The logarithms of the processes' own p-quantiles have mean m and variance s^2, of which ``noise``^2 comes
    from the number of queries. The p-quantile of all processes together is m + d(S): the quantile of their queries,
    each about its process, spread by the S that is left of s. How far both are off is not known: as far as chance takes
    a chi-square variate with k - 1 degrees of freedom from its mean. p-values are those of a normal mean, averaged over
    it. Where queries vary much more than processes that is Student's t over the logarithms, where they vary much less
    it is the tolerance bound of the processes.

    That levels are lognormal is believed within ten times of what was seen: of thresholds beyond ten times the slowest
    answer, or below a tenth of the fastest, no more is shown than there, and no bound lies further out.

    Args:
        p: The percentile as a fraction.
        logs: shape (k,), logarithm of each process's own p-quantile.
        noise: Standard deviation of these that the number of queries explains.
        about: shape (q,), falling: logarithms of all queries about their own process's quantile.
        together: shape (q,), rising: all queries, ms.
        bulk: shape (q,): which of ``about`` are moved by the factor of the bulk; None: none are.
        bulk_spread: Standard deviation of its logarithm.

    References:
        Krishnamoorthy and Mathew (2009), Statistical Tolerance Regions, 5.3 (one-way random model). Weerahandi (1993),
        Generalized confidence intervals, JASA 88.
    """

    p: float
    logs: NDArray[np.float64]
    noise: float
    about: NDArray[np.float64]
    together: NDArray[np.float64]
    bulk: NDArray[np.bool_] | None = None
    bulk_spread: float = 0.0

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the logarithms."""
        return float(self.logs.std(ddof=1))

    @property
    def own(self) -> float:
        """Spread of the levels that the number of queries does not explain."""
        return math.sqrt(max(0.0, self.spread**2 - self.noise**2))

    def p_value(self, threshold: float, share: float, side: Side, times: int = 1) -> float:
        """Evidence that more (``lower``) or less (``upper``) than a share of all queries is over the threshold.

        ``times``: were there so many times as many processes, that differ as much.
        """
        if times > 1:
            return replace(self, logs=as_many(self.logs, times)).p_value(threshold, share, side)
        return float(side == "upper") if threshold <= 0 else self._p(math.log(threshold), share, side)

    def typical(self, share: float) -> float | None:
        """The (1 - share)-quantile over fresh processes, ms, were their spread known to be what it seems.

        None where it lies too far from what was seen.
        """
        log = float(self.logs.mean()) + float(self._moved(np.array([self.own]), share)[0])
        return math.exp(log) if self._ends[0] <= log <= self._ends[1] else None

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Logarithms of a tenth of the fastest answer that took time, and of ten times the slowest."""
        took = self.together[(self.together > 0.0) & np.isfinite(self.together)]
        fastest, slowest = (float(took[0]), float(took[-1])) if len(took) else (_LEAST_MS, _LEAST_MS)
        return math.log(fastest / SEEN_TIMES), math.log(slowest * SEEN_TIMES)

    def bound(self, confidence: float, share: float, side: Side) -> float | None:
        """The threshold from which on this is shown, by bisection; None where none is, as far as levels are believed.

        Each end holds what is shown beyond it too.
        """
        alpha = 1.0 - confidence
        shown, hidden = self._ends[::-1] if side == "upper" else self._ends
        if self._p(shown, share, side) > alpha:
            return None
        if self._p(hidden, share, side) <= alpha:
            shown = hidden
        while abs(shown - hidden) > _EXACT * max(1.0, abs(shown)):
            middle = 0.5 * (shown + hidden)
            if self._p(middle, share, side) <= alpha:
                shown = middle
            else:
                hidden = middle
        # Taking the logarithm of it again may come out on the other side.
        return math.exp(shown + math.copysign(_EXACT * max(1.0, abs(shown)), shown - hidden))

    def _p(self, at: float, share: float, side: Side) -> float:
        from scipy.special import ndtr

        middles, error = self._normals(share, side)
        away = middles - min(max(at, self._ends[0]), self._ends[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0, away / error, np.copysign(np.inf, away))
        return float(self._times[0] @ ndtr(z if side == "upper" else -z))

    def _normals(self, share: float, side: Side) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Place of the quantile at each variance, and its standard error; whatever threshold is asked about."""
        if (share, side) not in self._asked:
            times = self._times[1]
            moved = self._moved(self.own * np.sqrt(times), share)
            if side == "lower":
                # A wide spread, which can't be ruled out, moves a high percentile up: no evidence that it is there. Nor
                # is what the levels let expect, but nobody saw.
                place = float(self.together[_place(len(self.together), share)])
                seen = math.log(place) if place > 0.0 else -math.inf
                expected = float(self._moved(np.array([self.own]), share)[0])
                moved = np.minimum(moved, min(expected, seen - float(self.logs.mean())))
            error = np.sqrt(np.maximum(self.spread**2 * times, self.noise**2) / len(self.logs))
            self._asked[share, side] = float(self.logs.mean()) + moved, error
        return self._asked[share, side]

    @cached_property
    def _asked(self) -> dict[tuple[float, Side], tuple[NDArray[np.float64], NDArray[np.float64]]]:
        return {}

    def _moved(self, spreads: NDArray[np.float64], share: float) -> NDArray[np.float64]:
        """The (1 - share)-quantile of queries about their process, spread by each of these; shape (k,)."""
        if share not in self._made:
            self._made[share] = self._quantiles(share)
        unmoved, known, slopes = self._made[share]
        # It grows with the square of a small spread and in proportion to a large one: the slope is nearly straight.
        quantiles: NDArray[np.float64] = unmoved + spreads * np.interp(spreads, known, slopes)
        return quantiles

    def _quantiles(self, share: float) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """The quantile without spread; spreads, and by how much of each it moves: by bisection over some queries."""
        from scipy.special import ndtr

        at, times = self._at(share) - self._at(1.0 - self.p), self._times[1]
        if self.own == 0.0:
            return at, np.zeros(1), np.zeros(1)
        n = len(self.about)
        edges = _edges(n, share)
        nodes, weights = self.about[(edges[1:] + edges[:-1]) // 2], np.diff(edges) / n
        to_here = np.zeros(n + 1) if self.bulk is None else np.append(0.0, np.cumsum(self.bulk))
        of_bulk = np.diff(to_here[edges]) / n
        # As many times the spread of the others as the processes' medians show.
        times_bulk = max(self.bulk_spread / self.own, _EXACT)
        reach = _REACH * max(1.0, times_bulk)
        unmoved = float(nodes[min(np.searchsorted(np.cumsum(weights), share), len(nodes) - 1)])
        least, most = (self.own * math.sqrt(end) for end in (times.min(), times.max()))
        spreads = np.geomspace(least, most, _SPREADS)
        low, high = unmoved - reach * spreads, unmoved + reach * spreads
        # Those of the bulk, and the others, in their own spreads.
        parts = [
            (nodes[of_it > 0.0] / wide[:, None], wide, of_it[of_it > 0.0])
            for of_it, wide in ((weights - of_bulk, spreads), (of_bulk, spreads * times_bulk))
        ]
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            over = sum(ndtr(places - (middle / wide)[:, None]) @ of_it for places, wide, of_it in parts)
            low, high = np.where(over > share, middle, low), np.where(over > share, high, middle)
        return at, np.append(0.0, spreads), np.append(0.0, (0.5 * (low + high) - unmoved) / spreads)

    def _at(self, share: float) -> float:
        return float(self.about[len(self.about) - 1 - _place(len(self.about), share)])

    @property
    def _times(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return variances(len(self.logs))

    @cached_property
    def _made(self) -> dict[float, tuple[float, NDArray[np.float64], NDArray[np.float64]]]:
        return {}


def levels(
    ordered: Sequence[NDArray[np.float64]], together: NDArray[np.float64], p: float, effect: float
) -> Levels | None:
    """Levels of processes by their p-quantiles.

    Args:
        ordered: One array per process, shape (q,), ms, rising.
        together: All of them, rising.
        p: The percentile as a fraction.
        effect: Design effect inside the processes.

    Returns:
        None for fewer than 2 processes, or where so many queries failed that a process has no p-quantile.
    """
    # Pieces that one read brings are no time apart. No logarithm says so, and one for "nearly nothing" would say that
    # processes differ by a billion: what took no time is taken for the shortest that was seen.
    took = together[(together > 0.0) & np.isfinite(together)]
    shortest = float(took[0]) if len(took) else _LEAST_MS
    logs = [np.log(np.maximum(series, shortest)) for series in ordered]
    own = np.array([median_unbiased(series, p) for series in logs])
    if len(own) < 2 or not np.isfinite(own).all():
        return None
    about, bulk = _centred(logs, own, 1.0 - SLOW * (1.0 - p))
    n = len(about)
    step = math.sqrt(p * (1.0 - p) * effect * len(own) / n)
    above, below = (about[min(n - 1, max(0, int(n * (1.0 - p + by))))] for by in (-step, step))
    if not math.isfinite(above):
        return None
    medians = np.array([median_unbiased(series, 0.5) for series in logs])
    spread = float(medians.std(ddof=1)) if bulk is not None else 0.0
    return Levels(p, own, float(above - below) / 2.0, about, together, bulk, spread)


def _centred(
    logs: Sequence[NDArray[np.float64]], own: NDArray[np.float64], cut: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    """Queries without their process's factor, about its quantile, falling; and which are of the bulk: below the cut.

    The bulk keeps its mean distance from the slow queries.
    """
    if cut < 0.5:
        return np.sort(np.concatenate([series - level for series, level in zip(logs, own, strict=True)]))[::-1], None
    medians = np.array([median_unbiased(series, 0.5) for series in logs])
    below = [np.arange(len(series)) < int(cut * len(series)) for series in logs]
    factors = zip(below, medians - medians.mean() + own.mean(), own, strict=True)
    moved = np.concatenate([
        series - np.where(few, middle, level) for series, (few, middle, level) in zip(logs, factors, strict=True)
    ])  # fmt: skip
    falling = np.argsort(moved)[::-1]
    return moved[falling], np.concatenate(below)[falling]


@lru_cache(maxsize=64)
def _edges(n: int, share: float) -> NDArray[np.int64]:
    """Ranks between which one query stands for all: close together near the top and near the quantile."""
    steps = np.geomspace(1, n, _NODES)
    ranks = np.concatenate([steps, np.linspace(1, n, _NODES), share * n - steps, share * n + steps])
    return np.unique(np.clip(np.append(ranks, [0, share * n]), 0, n).astype(np.int64))


def _place(n: int, share: float) -> int:
    """Place of the (1 - share)-quantile by nearest rank, counted from 0."""
    return max(0, n - 1 - int(round(share * n, 6)))


def median_unbiased(ordered: NDArray[np.float64], p: float) -> float:
    """The p-quantile of rising values, too low as often as too high: the nearest rank is too low by half a value.

    References:
        Hyndman and Fan (1996), Sample quantiles in statistical packages, The American Statistician 50 (definition 8).
    """
    place = min(max((len(ordered) + 1.0 / 3.0) * p - 2.0 / 3.0, 0.0), len(ordered) - 1.0)
    low, part = int(place), place - int(place)
    if part == 0.0 or not math.isfinite(ordered[low]):
        return float(ordered[low])
    return float(ordered[low] + part * (ordered[low + 1] - ordered[low]))
