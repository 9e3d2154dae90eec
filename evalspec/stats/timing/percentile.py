"""Bounds for a percentile of latencies that depend on each other.

The claim behind ``latency_p99 <= 5 ms`` is one about a share: at most 1 % of queries take longer than 5 ms. So it is
decided by counting, and needs no model of the latencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Estimate, Needed, Side
from evalspec.stats.tails import at_least, at_most
from evalspec.stats.timing.dependence import design_effect, separate_episodes
from evalspec.stats.timing.process_shares import p_over, p_under
from evalspec.stats.timing.queries import EPISODES, GAP, RELIABLE, UNEQUAL, Queries, ordinal, rank
from evalspec.stats.timing.sample_size import MOST_TIMES, UNSEEN, as_many, n_for_power, times_for_power

_GRID = 24
_USUAL = 0.95
"""Confidence at which it is told why there is no bound."""
FAR = 2.0
"""Times the slowest answer, from which on a threshold is far."""
COURSE = 50
"""Queries in a row whose median others are held against."""
HOPEFUL = 0.2
"""Best p-value that whole processes alone can give, above which they are not asked."""


def queries_needed(p: float) -> int:
    """Queries below which a timed percentile has no bound: 10 of them are expected beyond it."""
    return math.ceil(round(EPISODES / (1.0 - p), 6))


@dataclass(frozen=True)
class Percentile(Queries, Estimate):
    """The p-quantile of the latencies of fresh processes, in ms.

    Args:
        processes: One array per fresh process, shape (q,), ms, in the order in which the queries were made;
            infinite where a query failed.
        p: The percentile as a fraction: 0.99.
    """

    def at(self, p: float) -> Percentile:
        """Another percentile of the same latencies; what has been sorted and found out of thresholds is shared."""
        other = Percentile(self.processes, p)
        other.__dict__.update({name: getattr(self, name) for name in ("_sorted", "_sorted_each", "_effects")})
        return other

    @property
    def reason(self) -> str | None:
        """Reason why there is no upper bound, or None; first the one that weighs most."""
        few = self.too_few
        if few and not self.by_processes and self.bound(_USUAL, "upper") is not None:
            return None
        if few:
            return f"{self._spread}; and {few}" if self._spread else few
        return self._spread if self._spread and self.bound(_USUAL, "upper") is None else None

    @property
    def by_processes(self) -> bool:
        """Queries can't be counted, and so many processes were run that they can be held to the percentile alone."""
        return self._by_processes(1.0 - self.p)

    def _by_processes(self, share: float) -> bool:
        return self.too_few is not None and self.n > 0 and self._hopeful(share)

    def _hopeful(self, share: float) -> bool:
        return (1.0 - share) ** len(self.processes) <= HOPEFUL

    def elsewhere(self, threshold: float, share: float) -> bool:
        """Evidence that at most a share is over may come without counting: from whole processes, or from afar."""
        return self._hopeful(share) or (self.n > 0 and threshold >= FAR * float(self._sorted[-1]))

    @property
    def method(self) -> str:
        """Method of the bounds, and what is missing where there are none."""
        if self.by_processes:
            return f"Markov's inequality on each of {len(self.processes)} independent processes, for {self.too_few}"
        effect = f"design effect {self.design_effect:.1f}"
        missing = f"; no upper bound: {self.too_few}" if self.reason else ""
        if self.too_few and not missing:
            missing = f"; of thresholds of {FAR:g} times the slowest answer or more by counting none over them"
        return f"binomial on the share of queries over, {effect}{self._differing}{missing}"

    @property
    def _differing(self) -> str:
        """Differences between processes, and what would help."""
        if not self.differ:
            return ""
        over = f", and t over {len(self.processes)} processes, which differ"
        return f"{over}: {self._spread}" if self._spread else over

    @cached_property
    def _spread(self) -> str:
        """Note that processes differ clearly, with the percentile over fresh ones and what would help; else empty."""
        if not self.differ_clearly or self._levels is None:
            return ""
        seen, explained = (f"{float(f'{100.0 * one:.2g}'):g} %" for one in (self._levels.spread, self._levels.noise))
        over_all = self._levels.typical(1.0 - self.p)
        about = "" if over_all is None else f" (a fresh process has about {over_all:.3g} ms)"
        return (
            f"their {ordinal(self.p)} percentiles vary by {seen}, of which the number of queries explains {explained}"
            f"{about}: more `processes:` narrow the bounds, more queries don't"
        )

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in ms; None where there are fewer than 10 separate episodes, or too few queries.

        Where processes differ it may lie beyond all answers, by a factor of ten at the most: there is none further out.
        """
        far = self._far_bound(confidence) if side == "upper" else None
        if not self.n or (side == "upper" and self.too_few and not self.by_processes):
            return far
        index = self._upper_index(confidence) if side == "upper" else self._lower_index(confidence)
        bound = self._between(index, confidence, side)
        if bound is None and index is not None:
            bound = float(self._sorted[index])
        if bound is None or not math.isfinite(bound):
            return far
        return bound if far is None else min(bound, far)

    def _far_bound(self, confidence: float) -> float | None:
        """The threshold from which on `_p_far` shows what is wanted; None where there is none."""
        alpha = 1.0 - confidence
        if self._p_none_over > alpha:
            return None
        least = FAR * float(self._sorted[-1])
        if self._levels is None:
            return least
        by_levels = self._levels.bound(confidence, 1.0 - self.p, "upper")
        return None if by_levels is None else max(least, by_levels)

    def _p_far(self, threshold: float, share: float) -> float:
        """Evidence where no answer took half the threshold; 1 where one did.

        How slow queries at their own percentile depend on each other, and how far processes differ there, says little
        about thresholds that nothing comes near: a spell in which all is a fifth slower makes few episodes of many
        slow queries. What would take a query over such a threshold is seen beside the queries around it.
        """
        if not self.n or threshold < FAR * float(self._sorted[-1]):
            return 1.0
        counted = self._p_none_over if math.isclose(share, 1.0 - self.p) else self._none_over(share)
        return counted if self._levels is None else max(counted, self._levels.p_value(threshold, share, "upper"))

    @cached_property
    def _p_none_over(self) -> float:
        return self._none_over(1.0 - self.p)

    def _none_over(self, share: float) -> float:
        """Chance that none of so many queries is over a threshold that a share is over; 1 where they are too few."""
        if share <= 0.0 or self.n < EPISODES / share or not math.isfinite(float(self._sorted[-1])):
            return 1.0
        effect = self._effect_beside
        if self.n < RELIABLE * effect:
            return 1.0
        return at_most(0, self.n, share, effect)

    @cached_property
    def _effect_beside(self) -> float:
        """Design effect of queries that are slow beside those around them: by the median of each 50 in a row."""
        beside = [by_course(series) for series in self.processes]
        own = float(np.quantile(np.concatenate(beside), self.p, method="inverted_cdf"))
        over = [series > own for series in beside]
        effect = design_effect(over, inside=True)
        apart, queries = separate_episodes(over, GAP * effect), sum(int(series.sum()) for series in over)
        return effect * (1.0 + UNEQUAL / apart * (1.0 - apart / queries)) if apart else effect

    def _between(self, index: int | None, confidence: float, side: Side) -> float | None:
        """The bound between this observation and its neighbour, where counting shows what the levels do not yet."""
        if self._levels is None or not self._levels_count(side):
            return None
        beyond, step = (self.n, -1) if side == "upper" else (-1, 1)
        neighbour = (beyond if index is None else index) + step
        if not 0 <= neighbour < self.n:
            return None
        counted = self._counted(self._just(neighbour, side), 1.0 - self.p, side)
        shown = counted is not None and counted <= 1.0 - confidence
        return self._levels.bound(confidence, 1.0 - self.p, side) if shown else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Binomial over queries; where processes differ, at least that of the processes themselves."""
        return (self.p_at_most if side == "upper" else self.p_at_least)(threshold, 1.0 - self.p)

    def p_at_most(self, threshold: float, share: float) -> float | None:
        """Evidence that at most ``share`` of queries is over the threshold; the less, the larger the share.

        What queries say about how much they depend on each other is read at this percentile, whatever the share.
        """
        far = self._p_far(threshold, share)
        counted = self._with_levels(self._counted(threshold, share, "upper"), threshold, share, "upper")
        if counted is None:
            return far if far < 1.0 else None
        return min(counted, far)

    def p_at_least(self, threshold: float, share: float) -> float | None:
        """Evidence that more than ``share`` of queries is over the threshold."""
        return self._with_levels(self._counted(threshold, share, "lower"), threshold, share, "lower")

    def _counted(self, threshold: float, share: float, side: Side) -> float | None:
        """Evidence of counting; made once, since bounds at all confidences ask about the same observations."""
        asked = (threshold, share, side)
        if asked not in self._evidence:
            self._evidence[asked] = (self._at_most if side == "upper" else self._at_least)(threshold, share)
        return self._evidence[asked]

    @cached_property
    def _evidence(self) -> dict[tuple[float, float, Side], float | None]:
        return {}

    def _with_levels(self, counted: float | None, threshold: float, share: float, side: Side) -> float | None:
        """Evidence of counting, and of the processes' levels where they differ: queries can't tell by how much."""
        if counted is None or counted >= 1.0 or not self._levels_count(side):
            return counted
        if self._levels is None:
            return 1.0 if side == "upper" else counted
        return max(counted, self._levels.p_value(threshold, share, side))

    def _levels_count(self, side: Side) -> bool:
        return self.differ and (side == "lower" or self.too_few is None)

    def _at_most(self, threshold: float, share: float) -> float | None:
        """p-value by counting queries and, where processes differ, by their shares: one may be slow now and then."""
        if not self.n or (self.too_few and not self._by_processes(share)):
            return None
        if self.too_few:
            return self._p_markov(threshold, share)
        return self._p_under(threshold, share)

    def _p_under(self, threshold: float, share: float, times: int = 1) -> float:
        """The same of so many times as many processes like these."""
        over, effect = times * self._over(threshold), self._effect(threshold)
        binomial = at_most(over, times * self.n, share, effect)
        if binomial >= 1.0 or not self.differ:
            return binomial
        shares = np.maximum(0.0, as_many(self._shares(threshold), times))
        return max(binomial, p_under(shares, share, self.n / len(self.processes), effect))

    def _at_least(self, threshold: float, share: float) -> float | None:
        """p-value by counting queries; by shares too, where processes differ and one has no percentile."""
        if not self.n:
            return None
        t = self._over(threshold)
        # Where every query is over, their indicator can't show how much they depend on each other.
        effect = self._effect_over(threshold) if t < self.n else self.design_effect
        # Too little evidence can only mislead where it points to a violation.
        if t > self.n * share and (self.n < RELIABLE * effect or self._apart(threshold, effect) < EPISODES):
            return None
        if not self.differ:
            return at_least(t, self.n, share, effect * (UNSEEN if len(self.processes) > 1 else 1.0))
        return self._p_over(threshold, share, effect)

    def _p_over(self, threshold: float, share: float, effect: float, times: int = 1) -> float:
        """The same of so many times as many processes like these, which differ."""
        binomial = at_least(times * self._over(threshold), times * self.n, share, effect)
        if binomial >= 1.0:
            return binomial
        shares = np.maximum(0.0, as_many(self._shares(threshold), times))
        return max(binomial, p_over(shares, share, self.n / len(self.processes)))

    def n_to_decide(self, threshold: float, alpha: float) -> Needed | None:
        """With what the side on which the share over lies is shown in 80 % of runs: more queries, or processes.

        Queries are spread over as many processes; processes are those that make as many queries each.
        """
        if not self.n:
            return None
        t = self._over(threshold)
        allowed, share = 1.0 - self.p, t / self.n
        if share == allowed:
            return None
        if self.differ and self._levels is not None:
            return self._processes_to_decide(threshold, allowed, alpha, "upper" if share < allowed else "lower")
        needed = n_for_power(share, allowed, alpha, len(self.processes)) * self._effect(threshold)
        # With 10 expected beyond the percentile half of the runs have fewer, and no upper bound.
        least = max(2 * queries_needed(self.p), self.to_count) if share < allowed else queries_needed(self.p)
        return Needed(max(least, math.ceil(needed)), "queries", self.n)

    def _processes_to_decide(self, threshold: float, share: float, alpha: float, side: Side) -> Needed | None:
        levels, now = self._levels, len(self.processes)
        if levels is None:
            return None

        def evidence(times: int) -> float:
            """The p-value of so many times as many processes like these."""
            if side == "upper":
                counted = self._p_under(threshold, share, times)
            else:
                counted = self._p_over(threshold, share, self._effect(threshold), times)
            return max(counted, levels.p_value(threshold, share, side, times))

        least = max(1, math.ceil(self.to_count / self.n)) if side == "upper" else 1
        times = times_for_power(evidence, alpha, least)
        return None if times > MOST_TIMES else Needed(times * now, "processes", now)

    def _p_markov(self, threshold: float, share: float) -> float:
        """Chance that every process has at most the largest share seen, if their mean share were ``share``.

        P(share <= m) = P(1 - share >= 1 - m) <= p / (1 - m) in each process, whatever its queries do.
        """
        under = 1.0 - float(self._shares(threshold).max())
        return ((1.0 - share) / under) ** len(self.processes) if under > 1.0 - share else 1.0

    def _upper_index(self, confidence: float) -> int | None:
        """The first observation from which on all pass, as far as a grid of observations tells; then by bisection."""

        def fails(index: int) -> bool:
            p = self.p_value(self._just(index, "upper"), "upper")
            return p is None or p > 1.0 - confidence

        grid = np.unique(np.linspace(0, self.n - 1, _GRID).astype(np.int64))
        grid = np.unique(np.append(grid, np.linspace(rank(self.n, self.p), self.n - 1, _GRID).astype(np.int64)))
        last = next((place for place in reversed(range(len(grid))) if fails(int(grid[place]))), None)
        if last is None:
            return 0
        if last == len(grid) - 1:
            return None
        return _last(fails, int(grid[last]), int(grid[last + 1]) - 1) + 1

    def _lower_index(self, confidence: float) -> int | None:
        """Place of the largest observation at which the share over is shown to be too large."""

        def too_low(index: int) -> bool:
            p = self.p_value(self._just(index, "lower"), "lower")
            return p is not None and p <= 1.0 - confidence

        return _last(too_low, 0, self.n - 1) if too_low(0) else None

    def _just(self, index: int, side: Side) -> float:
        """The threshold at an observation, and for a lower bound just below it."""
        at = float(self._sorted[index])
        return at if side == "upper" else float(np.nextafter(at, -np.inf))


def percentile(latencies_ms: Sequence[NDArray[np.float64]], p: float) -> Percentile:
    """The p-quantile of latencies from several fresh processes, with bounds for dependent queries.

    With t of n queries over the threshold, it passes if BinomCDF(t; n, 1 - p) <= 1 - confidence. The upper bound is the
    (n - t)-th smallest latency, counted from 1, for the largest t that passes. It fails by the opposite tail. Queries
    of one process depend on each other, so t and n are divided by a design effect. It is the larger of the effects at
    the run's own percentile and at the threshold. Bursts have unequal lengths, which few bursts don't show, so m
    separate bursts raise it by 3/m. (A p99 over its threshold in 5 bursts of geometric length in 3,000 queries passes
    in 6 % of runs, without this in 10 %.)

    Queries can't be counted with fewer than 10 separate episodes beyond the percentile, or fewer queries than 50 design
    effects. A low percentile can then still be decided, since fresh processes are independent. Five processes that all
    stay far within a median's threshold show it, whatever happens inside them (Markov's inequality on the share over in
    each: 0.5 ** 5 = 0.031). Otherwise there is no bound. An event that comes at most twice in a run of this length is
    missed in at least 13 % of runs.

    Of a threshold that is at least twice the slowest answer, none over it is counted with the design effect of queries
    that are slow beside those around them, and compared with the levels of the processes: spells in which all is a
    little slower would else leave no bound at all. Where the percentile is at the threshold this passes only if no
    query came near it, which is as rare as to miss all stalls.

    Processes may differ by more than the dependence inside them explains (two in five runs of equal processes seem to).
    Then their levels must show the same (`Levels`), and so must their shares over the threshold (`p_under`, `p_over`):
    some stall often, most rarely. Take five processes of 1,000 queries whose levels differ by 10 %, and a p99 at its
    threshold. Counting and t over the shares pass it in 27 % of runs if queries of a process vary by 20 %, and in 69 %
    if they vary by 3 %. With the levels they pass it in 5 to 6 %. By the levels alone, ten processes that stall
    unequally (by a factor of 1.8) fail a p99 that just holds in 17 % of runs; with the shares in 1 %. Differences that
    five processes don't show add to the variance, so a violation is tested with 1.3 times the variance.

    Behaviour of one process in five is missed in a third of runs. If levels are more skewed than lognormal, a p99
    passes too often: in 13 to 27 % of runs where their logarithms are t with 3 degrees, gamma with shape 2 or
    exponential. It also passes too often if five processes stall unequally by a factor of 1.8 (8 %) or 2.7 (13 %). A
    heavier family of levels would halve the power of all others.

    Args:
        latencies_ms: One array per fresh process, shape (q,), in the order of the queries; infinite
            if a query failed.
        p: The percentile as a fraction: 0.99.

    Raises:
        ValueError: ``p`` is not between 0 and 1.

    References:
        Conover (1999), Practical Nonparametric Statistics, 3.2 (the quantile test). Krishnamoorthy and Mathew (2009),
        Statistical Tolerance Regions, 5.3.
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"a percentile lies between 0 and 1, not at {p}")
    return Percentile(as_processes(latencies_ms), p)


def by_course(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Latencies by the median of the 50 around them, shape (q,)."""
    count = max(1, len(series) // COURSE)
    length, longer = divmod(len(series), count)
    # As many parts as 50 go into it, the first of them longer by one.
    first, rest = np.split(series, [longer * (length + 1)])
    parts = (first.reshape(longer, length + 1), rest.reshape(count - longer, length))
    around = np.concatenate([np.repeat(np.median(part, axis=1), part.shape[1]) for part in parts])
    found: NDArray[np.float64] = series / np.maximum(around, 1e-9)
    return found


def as_processes(latencies_ms: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    """Processes that made queries, one array each, shape (q,)."""
    return tuple(np.asarray(series, dtype=np.float64) for series in latencies_ms if len(series))


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last place for which ``holds`` is true, given that it is at ``low`` and turns false once."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
