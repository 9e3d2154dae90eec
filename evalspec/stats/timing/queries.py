"""Queries of fresh processes before any threshold: their percentile, and how far they depend on each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.words import plural
from evalspec.stats.timing.dependence import design_effect, processes_differ, separate_episodes
from evalspec.stats.timing.levels import Levels, levels

EPISODES = 10
"""Separate episodes over the percentile below which there is no bound."""
SAFELY = 1.5
"""Times as many episodes must be expected, that few runs have fewer."""
GAP = 3.0
"""Design effects that lie between two separate episodes."""
RELIABLE = 50.0
"""Design effects that a run must be long, else the design effect itself can't be trusted."""
UNEQUAL = 3.0
"""Multiple of 1/m by which the design effect is raised where only m episodes lie over a threshold."""
CLEARLY = 2.0
"""Times what queries explain, from which on it is told by how much processes differ."""


@dataclass(frozen=True)
class Queries:
    """Latencies of fresh processes, in ms, and a percentile of them.

    Args:
        processes: One array per fresh process, shape (q,), ms, in the order in which the queries were made;
            infinite where a query failed.
        p: The percentile as a fraction: 0.99.
    """

    processes: tuple[NDArray[np.float64], ...]
    p: float

    @cached_property
    def _sorted(self) -> NDArray[np.float64]:
        return np.sort(np.concatenate(self.processes)) if self.processes else np.empty(0)

    @cached_property
    def _sorted_each(self) -> list[NDArray[np.float64]]:
        return [self._sorted] if len(self.processes) == 1 else [np.sort(series) for series in self.processes]

    @property
    def n(self) -> int:
        """Queries, all processes together."""
        return len(self._sorted)

    @cached_property
    def own(self) -> float | None:
        """The sample's own p-quantile (nearest rank), infinite where it falls among failed queries."""
        return float(self._sorted[rank(self.n, self.p)]) if self.n else None

    @property
    def value(self) -> float | None:
        """The sample's own p-quantile; the slowest answer where it falls among failed queries."""
        if self.own is None or math.isfinite(self.own):
            return self.own
        answered = self._sorted[np.isfinite(self._sorted)]
        return float(answered[-1]) if len(answered) else None

    @cached_property
    def design_effect(self) -> float:
        """Design effect of the indicator of the sample's own p-quantile; inside the processes where they differ."""
        return self._effect_over(self.own) if self.own is not None else 1.0

    @cached_property
    def episodes(self) -> int:
        """Separate episodes over the sample's own p-quantile."""
        return separate_episodes(self._over_own, GAP * self.design_effect) if self.own is not None else 0

    @property
    def few_episodes(self) -> bool:
        """Too few lie over the sample's own p-quantile to say how often they come."""
        return self.episodes < EPISODES

    @cached_property
    def differ(self) -> bool:
        """Processes differ in their share over the sample's own p-quantile."""
        return self.own is not None and processes_differ(self._over_own)

    @cached_property
    def _levels(self) -> Levels | None:
        return levels(self._sorted_each, self._sorted, self.p, self.design_effect)

    @cached_property
    def _over_own(self) -> list[NDArray[np.bool_]]:
        own = math.inf if self.own is None else self.own
        return [series > own for series in self.processes]

    @cached_property
    def too_few(self) -> str | None:
        """Reason why queries can't be counted, or None."""
        if not self.n:
            return "no query was answered"
        if self.n < RELIABLE * self.design_effect:
            return (
                f"{self.n:,} queries are fewer than {RELIABLE:.0f} times their design effect of "
                f"{self.design_effect:.1f}: they depend on each other too much"
            )
        if not self.few_episodes:
            return None
        return (
            f"slow queries came in only {plural(self.episodes, 'separate episode')} beyond the {ordinal(self.p)} "
            f"percentile of {self.n:,} (design effect {self.design_effect:.1f}), and {EPISODES} are needed"
        )

    @property
    def differ_clearly(self) -> bool:
        """Levels of the processes differ by more than twice what their number of queries explains."""
        return self.differ and self._levels is not None and self._levels.spread > CLEARLY * self._levels.noise

    @property
    def to_count(self) -> int:
        """Queries with which they can be counted in nearly all runs; 0 where they can now."""
        if self.too_few is None:
            return 0
        more = max(SAFELY * EPISODES / max(1, self.episodes), RELIABLE * self.design_effect / self.n)
        return math.ceil(more * self.n)

    def _over(self, threshold: float) -> int:
        """Queries over the threshold: the same ones for all thresholds that as many are over."""
        return self.n - int(np.searchsorted(self._sorted, threshold, side="right"))

    def _counts(self, threshold: float) -> NDArray[np.int64]:
        """Queries over the threshold in each process, shape (processes,)."""
        return np.array(
            [len(series) - int(np.searchsorted(series, threshold, side="right")) for series in self._sorted_each]
        )

    def _shares(self, threshold: float) -> NDArray[np.float64]:
        """Shares of the queries of each process."""
        shares: NDArray[np.float64] = self._counts(threshold) / [len(series) for series in self._sorted_each]
        return shares

    def _effect(self, threshold: float) -> float:
        """The larger design effect of the run's own percentile and of the threshold.

        A run that by luck had few bursts has its own percentile among calm queries, whose design effect is 1; that
        those over the threshold come in bursts shows only there. Few bursts don't show how unequal they are: the
        fewer, and the more queries each has, the larger it is taken.
        """
        over = self._over(threshold)
        if over not in self._raised:
            effect = max(self.design_effect, self._effect_over(threshold))
            apart = self._apart(threshold, effect)
            self._raised[over] = effect * (1.0 + UNEQUAL / apart * (1.0 - apart / over)) if apart else effect
        return self._raised[over]

    @cached_property
    def _raised(self) -> dict[int, float]:
        return {}

    def _apart(self, threshold: float, effect: float) -> int:
        """Separate episodes over the threshold, by this design effect."""
        return separate_episodes([series > threshold for series in self.processes], GAP * effect)

    def _effect_over(self, threshold: float) -> float:
        """Design effect of the indicator of the threshold; computed once for all that the same queries are over."""
        # Other percentiles of the same queries share what is kept, and processes may differ over theirs alone.
        key = self._over(threshold), self.differ
        if key not in self._effects:
            series_over = [series > threshold for series in self.processes]
            self._effects[key] = design_effect(series_over, inside=self.differ)
        return self._effects[key]

    @cached_property
    def _effects(self) -> dict[tuple[int, bool], float]:
        return {}


def rank(n: int, p: float) -> int:
    """Place of the p-quantile by nearest rank, counted from 0."""
    return min(n - 1, max(0, math.ceil(round(n * p, 9)) - 1))


def ordinal(p: float) -> str:
    """A percentile in words: 99 is ``99th``."""
    return f"{100.0 * p:g}th"
