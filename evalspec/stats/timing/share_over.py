"""The share of queries over a deadline: the quantile test read the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.tails import at_least, at_most
from evalspec.stats.timing.dependence import design_effect
from evalspec.stats.timing.percentile import Percentile, as_processes
from evalspec.stats.timing.queries import EPISODES

_ROUND = np.concatenate([np.arange(10, 30), np.arange(30, 60, 2), np.arange(60, 100, 5)]) / 10.0
_SHARES = np.round(np.append(np.concatenate([_ROUND * 10.0**-k for k in (5, 4, 3, 2, 1)]), [0.98, 0.99]), 9)
"""Shares at whose percentiles dependence is read: close together, and those that requirements name."""
_HALVINGS = 60


@dataclass(frozen=True)
class _Stretch:
    """Shares over which dependence is read at one percentile, so that evidence only grows from near to far.

    Args:
        near: The end on the side of the sample's own share.
        far: The other end.
        at: The percentile of ``near``.
    """

    near: float
    far: float
    at: Percentile


@dataclass(frozen=True)
class ShareOver(Estimate):
    """The share of queries over a deadline.

    How much queries depend on each other is read at the (1 - share)-quantile, so it differs from share to share, and
    for some there is no evidence at all. What is shown of a share is shown of every share further from the sample's
    own; so evidence at a share is the best of those between, and bounds and p-values invert each other.

    Args:
        processes: As `Percentile`.
        deadline_ms: The deadline.
    """

    processes: tuple[NDArray[np.float64], ...]
    deadline_ms: float

    @property
    def n(self) -> int:
        """Queries, all processes together."""
        return sum(len(series) for series in self.processes)

    @cached_property
    def value(self) -> float | None:
        """Share of queries over the deadline."""
        return self._over / self.n if self.n else None

    @cached_property
    def _over(self) -> int:
        return sum(int((series > self.deadline_ms).sum()) for series in self.processes)

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return "binomial on the share of queries over, with a design effect"

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of the (1 - threshold)-quantile against the deadline, or of a share between, which shows more."""
        value = self.value
        if value is None:
            return None
        if not 0.0 < threshold < 1.0:
            return self._beyond(threshold, side, value)
        if threshold < value if side == "upper" else threshold > value:
            return self._any.at(1.0 - threshold).p_value(self.deadline_ms, side)
        inner, best = max if side == "lower" else min, None
        # The nearest to the threshold show the most, and leave others nothing to add.
        for one in reversed(self._stretches(side)):
            if one.near < threshold if side == "lower" else one.near > threshold:
                continue
            share = inner(threshold, one.far)
            if best is None or self._least_p(share, side) < best:
                p = self._p(one, share, side)
                best = p if best is None or (p is not None and p < best) else best
        return best

    def _least_p(self, share: float, side: Side) -> float:
        """Evidence of a share that no percentile goes below: that of queries no more dependent than is seen."""
        if side == "lower":
            return at_least(self._over, self.n, share, self._least_effect)
        if self._any.elsewhere(self.deadline_ms, share):
            return 0.0
        return at_most(self._over, self.n, share, self._least_effect)

    @cached_property
    def _least_effect(self) -> float:
        over = [series > self.deadline_ms for series in self.processes]
        return min(design_effect(over, inside=inside) for inside in (False, True))

    @staticmethod
    def _beyond(threshold: float, side: Side, value: float) -> float:
        """A share is never below 0 or above 1; one query over disproves a share of 0."""
        if side == "lower":
            return 0.0 if threshold < 0 or (threshold == 0 and value > 0) else 1.0
        return 0.0 if threshold > 1 or (threshold == 1 and value < 1) else 1.0

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound as a fraction: the share nearest to the sample's own that is shown; 0 or 1 where none is."""
        if self.value is None:
            return None
        alpha = 1.0 - confidence
        for one in self._stretches(side):
            p = self._p(one, one.far, side)
            if p is not None and p <= alpha:
                return self._crossing(one, alpha, side)
        return 1.0 if side == "upper" else 0.0

    def _crossing(self, one: _Stretch, alpha: float, side: Side) -> float:
        """The nearest share of a stretch that is shown, given that its far end is."""
        hidden, shown = one.near, one.far
        p = self._p(one, hidden, side)
        if p is not None and p <= alpha:
            return hidden
        for _ in range(_HALVINGS):
            middle = (hidden + shown) / 2.0
            p = self._p(one, middle, side)
            if p is not None and p <= alpha:
                shown = middle
            else:
                hidden = middle
        return shown

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number of queries that decides the (1 - threshold)-quantile."""
        if not 0.0 < threshold < 1.0:
            return None
        return self._any.at(1.0 - threshold).n_to_decide(self.deadline_ms, alpha)

    def _p(self, one: _Stretch, share: float, side: Side) -> float | None:
        test = one.at.p_at_most if side == "upper" else one.at.p_at_least
        return test(self.deadline_ms, share)

    def _stretches(self, side: Side) -> list[_Stretch]:
        return self._upwards if side == "upper" else self._downwards

    @cached_property
    def _upwards(self) -> list[_Stretch]:
        value = self.value or 0.0
        # Below this share the percentile can't have enough episodes over it.
        fewest = min(EPISODES / self.n, 0.1)
        further = np.unique(np.append(_SHARES, fewest))
        return self._between([value, *further[(further >= fewest) & (further > value)].tolist(), 1.0])

    @cached_property
    def _downwards(self) -> list[_Stretch]:
        value = self.value or 0.0
        # Where some query is not over, dependence is read at the deadline whatever the share; levels are read at each.
        further = _SHARES[::-1]
        return self._between([value, *further[further < value].tolist(), 0.0])

    def _between(self, ends: list[float]) -> list[_Stretch]:
        return [_Stretch(near, far, self._any.at(1.0 - near)) for near, far in pairwise(ends)]

    @cached_property
    def _any(self) -> Percentile:
        return Percentile(self.processes, 0.5)


def share_over(latencies_ms: Sequence[NDArray[np.float64]], deadline_ms: float) -> ShareOver:
    """The share of queries that took longer than the deadline, with bounds for dependent queries.

    Args:
        latencies_ms: As `percentile`.
        deadline_ms: The deadline.
    """
    return ShareOver(as_processes(latencies_ms), deadline_ms)
