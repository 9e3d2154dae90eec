"""The best batch size of one model beside the best of another, each measured in pairs of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.timing.processes import OverUnits, PairedTiming

Grid = Mapping[int, Mapping[int, Estimate]]
"""Batch size of the candidate, batch size of the other: what is estimated of these two."""


@dataclass(frozen=True)
class BestPair(Estimate):
    """The best of one model's batch sizes beside the best of another's.

    The larger of several noisy rates is larger than the rate of the best size, so the sizes whose rates decide are
    not picked by these rates. That the candidate is beyond the threshold is shown when one of its sizes, named
    beforehand by other data, is beyond it at every size of the other: the largest p-value. That it is not beyond is
    shown when there is a size of the other at which no size of the candidate is: the smallest over the other's K
    sizes of the largest over the candidate's, times K. Both are intersection-union tests, and hold their level
    wherever the true best sizes lie.

    Args:
        grid: For each pair of sizes, in pairs of processes.
        named: The candidate's size.

    References:
        Berger (1982), Multiparameter hypothesis testing and acceptance sampling, Technometrics 24.
    """

    grid: Grid
    named: int

    @cached_property
    def _against(self) -> Mapping[int, Estimate]:
        return self.grid[self.named]

    @property
    def _others(self) -> int:
        return len(self._against)

    @cached_property
    def _least(self) -> Estimate:
        """Of the named size: against the other's best one."""
        return min(self._against.values(), key=lambda one: float("inf") if one.value is None else one.value)

    @property
    def value(self) -> float | None:
        """Of the named size, against the best one of the other in these pairs."""
        return self._least.value

    @property
    def n(self) -> int:
        """Pairs at each batch size."""
        return self._least.n

    @property
    def method(self) -> str:
        """How the bounds are made."""
        if self._others == 1 and len(self.grid) == 1:
            return self._least.method
        return (
            f"batch {self.named}, the best by itself, against each of {self._others} sizes (all must hold; Bonferroni "
            f"for a violation): {self._least.method}"
        )

    def bound(self, confidence: float, side: Side) -> float | None:
        """From below the smallest of the named size; from above, at level a/K, the other's size that says most."""
        if side == "lower":
            return _all([one.bound(confidence, side) for one in self._against.values()], min)
        stricter = 1.0 - (1.0 - confidence) / self._others
        return _some([_all([row[size].bound(stricter, side) for row in self.grid.values()], max)
                      for size in self._against], min)  # fmt: skip

    def p_value(self, threshold: float, side: Side) -> float | None:
        """As the bounds."""
        if side == "lower":
            return _all([one.p_value(threshold, side) for one in self._against.values()], max)
        least = _some([_all([row[size].p_value(threshold, side) for row in self.grid.values()], max)
                       for size in self._against], min)  # fmt: skip
        return None if least is None else min(1.0, self._others * least)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Pairs, as the named size against the other's best one says."""
        if self.value is None:
            return None
        return self._least.n_to_decide(threshold, alpha if self.value > threshold else alpha / self._others)


def _all(found: list[float | None], pick: Callable[[list[float]], float]) -> float | None:
    """One of them, if all are known."""
    known = [one for one in found if one is not None]
    return pick(known) if known and len(known) == len(found) else None


def _some(found: list[float | None], pick: Callable[[list[float]], float]) -> float | None:
    """One of those that are known."""
    known = [one for one in found if one is not None]
    return pick(known) if known else None


@dataclass(frozen=True)
class BestBeside(Comparison):
    """Pairs of processes at several batch sizes, as one comparison of the best.

    Args:
        pairs: By batch size, the same number of pairs at each.
        named: The candidate's best batch size, as other data say.
    """

    pairs: Mapping[int, PairedTiming]
    named: int

    @cached_property
    def _best_baseline(self) -> PairedTiming:
        return max(self.pairs.values(), key=lambda one: one.baseline_value or float("-inf"))

    @property
    def baseline_value(self) -> float | None:
        """Geometric mean over the pairs, of the size at which it is largest."""
        return self._best_baseline.baseline_value

    @property
    def candidate_value(self) -> float | None:
        """Geometric mean over the pairs, of the named size."""
        return self.pairs[self.named].candidate_value

    def difference(self, factor: float, margin: float) -> BestPair:
        """Best of the candidate - factor x best of the other."""
        return BestPair(self._grid(lambda pair: pair.difference(factor, margin)), self.named)

    def ratio(self) -> BestPair | None:
        """Best of the candidate / best of the other; None where nothing was answered in a process of either."""
        if any(pair.ratio() is None for pair in self.pairs.values()):
            return None
        return BestPair(self._grid(_ratio), self.named)

    def _grid(self, estimate: Callable[[PairedTiming], Estimate]) -> Grid:
        return {
            size: {
                other: estimate(PairedTiming(ours.candidate, theirs.baseline)) for other, theirs in self.pairs.items()
            }
            for size, ours in self.pairs.items()
        }


def _ratio(pair: PairedTiming) -> OverUnits:
    ratio = pair.ratio()
    if ratio is None:
        raise ValueError("a rate that is not positive has no ratio")
    return ratio
