"""Percentiles of numbers of which each request has several: pooled, and decided by requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Estimate, Needed, Side
from evalspec.evidence.words import plural
from evalspec.stats.clusters import coded
from evalspec.stats.clusters import design_effect as effect_of_requests
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.timing.dependence import design_effect, processes_differ, separate_episodes
from evalspec.stats.timing.process_shares import p_over, p_under
from evalspec.stats.timing.queries import EPISODES, GAP, RELIABLE, UNEQUAL, ordinal, rank
from evalspec.stats.timing.sample_size import UNSEEN

_GRID = 12


@dataclass(frozen=True)
class PooledPercentile(Estimate):
    """The p-quantile of all numbers of all requests, such as the gaps between the pieces of answers, in ms.

    Numbers of one request are alike (one that meets another's long prompt waits at many of its pieces), so the request
    is what counts: the share of numbers over a threshold is a ratio of sums over requests, held against 1 - p by
    Clopper-Pearson with a design effect (Korn and Graubard). Requests that follow each other are alike too: the effect
    is multiplied by that of "has a number over", the larger of the run's own percentile and the threshold, as
    `Percentile` has it. Where processes differ, t over their shares must show the same.

    Args:
        processes: One array per fresh process, shape (g,), ms, request by request in the order in which they were
            made; infinite where a request failed.
        counts: Of the same processes, shape (q,): numbers of each request.
        p: The percentile as a fraction: 0.99.

    References:
        Korn and Graubard (1998), Confidence intervals for proportions with small expected number of positive counts,
        Survey Methodology 24.
    """

    processes: tuple[NDArray[np.float64], ...]
    counts: tuple[NDArray[np.int64], ...]
    p: float

    @cached_property
    def _all(self) -> NDArray[np.float64]:
        return np.concatenate(self.processes) if self.processes else np.empty(0)

    @cached_property
    def _sorted(self) -> NDArray[np.float64]:
        return np.sort(self._all)

    @cached_property
    def _request(self) -> NDArray[np.int64]:
        """Request of each number, over all processes."""
        every = np.concatenate(self.counts) if self.counts else np.empty(0, dtype=np.int64)
        return np.repeat(np.arange(len(every)), every)

    @property
    def n(self) -> int:
        """Requests that have such a number, all processes together."""
        return sum(int((one > 0).sum()) for one in self.counts)

    @cached_property
    def own(self) -> float | None:
        """The sample's own p-quantile (nearest rank), infinite where it falls among failed requests."""
        return float(self._sorted[rank(len(self._sorted), self.p)]) if len(self._sorted) else None

    @property
    def value(self) -> float | None:
        """The sample's own p-quantile; the longest of an answered request where it falls among failed ones."""
        if self.own is None or math.isfinite(self.own):
            return self.own
        answered = self._sorted[np.isfinite(self._sorted)]
        return float(answered[-1]) if len(answered) else None

    @property
    def reason(self) -> str | None:
        """Reason why there is no upper bound, or None."""
        return self._too_few

    @property
    def method(self) -> str:
        """Method of the bounds."""
        missing = "" if self._too_few is None else f"; no upper bound: {self._too_few}"
        if not self.n:
            return f"share over, requests as clusters{missing}"
        found = self._share(self.own or 0.0, "upper")
        return (
            f"Clopper-Pearson on the share of {len(self._all):,} over, {self.n:,} requests as clusters (Korn-Graubard, "
            f"design effect {found.design_effect:.1f}){missing}"
        )

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in ms: the nearest of the numbers at which evidence suffices; None where there is none."""
        if not self.n or (side == "upper" and self._too_few is not None):
            return None
        alpha = 1.0 - confidence

        def shown(index: int) -> bool:
            at = float(self._sorted[index])
            p = self.p_value(at if side == "upper" else float(np.nextafter(at, -np.inf)), side)
            return p is not None and p <= alpha

        last, middle = len(self._sorted) - 1, rank(len(self._sorted), self.p)
        inward = np.unique(np.linspace(*((middle, last) if side == "upper" else (0, middle)), _GRID).astype(np.int64))
        places = (inward[::-1] if side == "upper" else inward).tolist()
        # From the outermost on without a gap: between two that hold there may be one that does not.
        held = list(takewhile(shown, places))
        if not held:
            return None
        good, bad = held[-1], places[min(len(held), len(places) - 1)]
        while abs(good - bad) > 1:
            between = (good + bad) // 2
            good, bad = (between, bad) if shown(between) else (good, between)
        at = float(self._sorted[good])
        return at if math.isfinite(at) else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Evidence that at most, or more than, 1 - p of the numbers is over the threshold."""
        asked = (threshold, side)
        if asked not in self._evidence:
            self._evidence[asked] = self._p_value(threshold, side)
        return self._evidence[asked]

    @cached_property
    def _evidence(self) -> dict[tuple[float, Side], float | None]:
        return {}

    def _p_value(self, threshold: float, side: Side) -> float | None:
        if not self.n or (side == "upper" and self._too_few is not None):
            return None
        allowed, found = 1.0 - self.p, self._share(threshold, side)
        slow = self._slow(threshold)
        if side == "lower" and found.successes > allowed * found.n:
            effect = self._requests_effect(threshold)
            if separate_episodes(slow, GAP * effect) < EPISODES or self.n < RELIABLE * effect:
                return None
        counted = found.p_value(allowed, side)
        if counted is None or len(self.processes) < 2 or not processes_differ(slow):
            return counted
        shares = np.array([float((one > threshold).mean()) for one in self.processes if len(one)])
        each = len(self._all) / len(shares)
        over_processes = (
            p_under(shares, allowed, each, found.design_effect) if side == "upper" else p_over(shares, allowed, each)
        )
        return max(counted, over_processes)

    def n_to_decide(self, threshold: float, alpha: float) -> Needed | None:
        """Requests with which the side on which the share over lies is shown in 80 % of runs."""
        if not self.n:
            return None
        rows = self._share(threshold, "upper").n_to_decide(1.0 - self.p, alpha)
        if rows is None:
            return None
        return Needed(max(math.ceil(rows * self.n / len(self._all)), EPISODES), "queries", self.n)

    def _share(self, threshold: float, side: Side) -> Proportion:
        """The share of numbers over a threshold, with what requests, and those that follow each other, do to it."""
        over = self._all > threshold
        codes, requests = coded(self._request)
        design = effect_of_requests(over.astype(np.float64), codes, requests)
        more = self._requests_effect(threshold)
        if side == "lower" and len(self.processes) > 1:
            # Five processes can hide that they differ; see `sample_size`.
            more *= UNSEEN
        return Proportion(
            float(np.count_nonzero(over)), len(over), design.effect * more, requests, max(1.0, design.degrees / more),
            math.ceil(design.largest * more),
        )  # fmt: skip

    def _requests_effect(self, threshold: float) -> float:
        """Requests that say as much as one: the more they depend on each other, and the fewer slow ones there are."""
        slow = self._slow(threshold)
        effect = max(self._own_effect, design_effect(slow))
        apart, many = separate_episodes(slow, GAP * effect), sum(int(one.sum()) for one in slow)
        return effect * (1.0 + UNEQUAL / apart * (1.0 - apart / many)) if apart else effect

    @cached_property
    def _own_effect(self) -> float:
        return 1.0 if self.own is None else design_effect(self._slow(self.own))

    def _slow(self, threshold: float) -> list[NDArray[np.bool_]]:
        """Requests that have a number over the threshold, process by process; those without a number left out."""
        found = []
        for values, counts in zip(self.processes, self.counts, strict=True):
            some = counts[counts > 0]
            starts = np.concatenate(([0], np.cumsum(some)))[:-1]
            found.append(np.logical_or.reduceat(values > threshold, starts) if len(some) else np.zeros(0, np.bool_))
        return found

    @cached_property
    def _too_few(self) -> str | None:
        if not self.n or self.own is None:
            return "no request has such a number"
        if self.n < RELIABLE * self._own_effect:
            return (
                f"{self.n:,} requests are fewer than {RELIABLE:.0f} times their design effect of "
                f"{self._own_effect:.1f}: they depend on each other too much"
            )
        episodes = separate_episodes(self._slow(self.own), GAP * self._own_effect)
        if episodes >= EPISODES:
            return None
        return (
            f"slow requests came in only {plural(episodes, 'separate episode')} beyond the {ordinal(self.p)} "
            f"percentile, and {EPISODES} are needed"
        )


def pooled_percentile(
    values: Sequence[NDArray[np.float64]], counts: Sequence[NDArray[np.int64]], p: float
) -> PooledPercentile:
    """The p-quantile of the numbers of all requests, with bounds in which a request is one unit.

    Args:
        values: One array per fresh process, shape (g,), ms, request by request; infinite where a request failed.
        counts: One array per process, shape (q,): numbers of each request, which add up to ``g``.
        p: The percentile as a fraction.

    Raises:
        ValueError: ``p`` is not between 0 and 1, or the counts don't add up.
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"a percentile lies between 0 and 1, not at {p}")
    if any(len(one) != int(many.sum()) for one, many in zip(values, counts, strict=True)):
        raise ValueError("the requests have another number of values than there are")
    some = [(one, many) for one, many in zip(values, counts, strict=True) if len(one)]
    return PooledPercentile(tuple(one for one, _ in some), tuple(many for _, many in some), p)
