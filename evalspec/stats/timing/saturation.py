"""Saturation of a system: it gets through the load that it is offered, or falls behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.timing.after_step import After
from evalspec.stats.timing.percentile import Percentile
from evalspec.stats.timing.share_over import ShareOver

BLOCKS = 20
"""Equal blocks of time, over all processes."""
LEVEL = 0.001
"""One-sided, of the statement that less was served than offered."""
MOST = 0.5
LAST = 0.1
"""Share of a run, at its end, in which latency must be over a threshold."""


@dataclass(frozen=True)
class OfferedLoad:
    """Queries offered and answered, block by block of time.

    Args:
        offered_qps: Queries that were due, by second.
        served_qps: Queries that were answered meanwhile, by second.
        most_served_qps: Upper bound of ``served_qps`` by t over the blocks, at level 0.001, given what was offered.
        at_end_ms: Median latency of the last tenth of the run (of the process where it is smallest), infinite where
            half of those queries failed.
        blocks: How many.
        growing: Fewer ended, in whatever way, than came: the queue grew. Where queries are only refused it did not.
        silent: Not one query of the last tenth was answered.
    """

    offered_qps: float
    served_qps: float
    most_served_qps: float
    at_end_ms: float
    blocks: int
    growing: bool
    silent: bool = False

    @property
    def behind(self) -> bool:
        """Less was served than offered: a queue grew, or queries failed."""
        return self.most_served_qps < self.offered_qps

    @property
    def lost(self) -> bool:
        """True if the queue grew or answers stopped: what was measured is not what would have followed."""
        return self.growing or self.silent

    def over(self, threshold_ms: float) -> bool:
        """Over-saturated: it is `lost`, and at the end most queries took longer than this.

        A system that only refuses some queries has no queue that grows, so its last tenth says no more than the rest;
        held against a threshold that is a little above its median it would be called over-saturated by chance.
        """
        return self.lost and self.at_end_ms > threshold_ms


def saturation(
    intended_ns: Sequence[NDArray[np.int64]],
    end_ns: Sequence[NDArray[np.int64]],
    latencies_ms: Sequence[NDArray[np.float64]],
) -> OfferedLoad | None:
    """Holds what was answered against what was due, block by block of time.

    Both are counted in the same blocks, so that how many queries chance sent into a block takes no part. In a steady
    state the differences of the blocks add up to the queries that wait at the end; where a queue grows, or queries
    are dropped, each block is short of some.

    Args:
        intended_ns: One array per process, shape (q,): when each query was due.
        end_ns: When it ended.
        latencies_ms: From due to end, infinite where it failed.

    Returns:
        None where no process has two queries at different times.
    """
    each = max(2, round(BLOCKS / max(1, len(intended_ns))))
    short: list[NDArray[np.float64]] = []
    waiting: list[NDArray[np.float64]] = []
    offered = served = spent = 0.0
    last: list[float] = []
    answered = False
    for due, end, latency in zip(intended_ns, end_ns, latencies_ms, strict=True):
        span = int(due.max() - due.min()) if len(due) > 1 else 0
        if span <= 0:
            continue
        reach = (float(due.min()), float(due.max()))
        came = np.histogram(due, each, reach)[0]
        went = np.histogram(end[np.isfinite(latency)], each, reach)[0]
        short.append((went - came) / (span / each / 1e9))
        waiting.append((np.histogram(end, each, reach)[0] - came) / (span / each / 1e9))
        offered, served, spent = offered + float(came.sum()), served + float(went.sum()), spent + span / 1e9
        late = latency[due >= due.min() + (1.0 - LAST) * span]
        last.append(float(np.median(late)))
        answered = answered or bool(np.isfinite(late).any())
    if not short:
        return None
    differences = np.concatenate(short)
    return OfferedLoad(
        offered_qps=offered / spent,
        served_qps=served / spent,
        most_served_qps=offered / spent + _most(differences),
        at_end_ms=min(last),
        blocks=len(differences),
        growing=_most(np.concatenate(waiting)) < 0.0,
        silent=not answered,
    )


def _most(differences: NDArray[np.float64]) -> float:
    """Upper bound of a mean by Student's t."""
    from scipy.special import stdtrit

    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return float(differences.mean()) - float(stdtrit(len(differences) - 1, LEVEL)) * error


@dataclass(frozen=True)
class _Loaded(Estimate):
    """Estimate measured under load, beside how the run went on.

    Where the system fell behind and most queries at the end took longer than a threshold, the requirement is violated
    whatever the count of queries: latency would only have grown. Where latency stepped up to a level that lasted (a
    machine that throttles stays so), what followed must hold the threshold too; where it decides, a violation may be
    shown by it alone, at half the level.

    Args:
        measured: Of all queries.
        saturation: Of the same run, or None.
        after: Of what followed a step up, or None.
        where: What the numbers hold for, in words.
    """

    measured: Percentile | ShareOver
    saturation: OfferedLoad | None
    after: After | None = None
    where: str = ""

    @property
    def value(self) -> float | None:
        """The sample's own."""
        return self.measured.value

    @property
    def n(self) -> int:
        """Queries."""
        return self.measured.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return _method(self.measured.method, self.saturation, self.after, self.where)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of what was measured (and of what followed a step), unless over-saturation settles it."""
        if self._settled(threshold):
            return 0.0 if side == "lower" else 1.0
        p_values = [look.p_value(threshold, side) for look in self._looks(side)]
        known = [p for p in p_values if p is not None]
        if not known or (side == "upper" and len(known) < len(p_values)):
            return None
        return max(known) if side == "upper" else min(1.0, len(p_values) * min(known))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number of queries that decides what was measured; None where over-saturation settles it."""
        return None if self._settled(threshold) else self.measured.n_to_decide(threshold, alpha)

    def _settled(self, threshold: float) -> bool:
        """Over-saturation shows that the threshold is violated."""
        raise NotImplementedError

    def _looks(self, side: Side) -> list[Percentile | ShareOver | After]:
        """Estimates of all of the run, and of what followed a step: for PASS always, for FAIL where it decides."""
        after = self.after
        return [self.measured] if after is None or (side == "lower" and not after.decides) else [self.measured, after]

    def _upper(self, confidence: float) -> float | None:
        """An upper bound of all looks."""
        bounds = [look.bound(confidence, "upper") for look in self._looks("upper")]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    def _lower(self, confidence: float) -> list[float]:
        """Lower bounds of which one holds, each at its part of the level."""
        looks = self._looks("lower")
        bounds = [look.bound(1.0 - (1.0 - confidence) / len(looks), "lower") for look in looks]
        return [bound for bound in bounds if bound is not None]


@dataclass(frozen=True)
class UnderLoad(_Loaded):
    """A percentile of latencies under load, ms."""

    measured: Percentile

    @property
    def reason(self) -> str | None:
        """Reason why there is no upper bound, or None."""
        return self.measured.reason

    @property
    def by_processes(self) -> bool:
        """True if processes decide, as `Percentile.by_processes`."""
        return self.measured.by_processes

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound of the percentile; from below also that after a step, and what most took at an overloaded end."""
        end = self.saturation.at_end_ms if self.saturation is not None and self.saturation.lost else math.inf
        if side == "upper":
            known = self._upper(confidence)
            return known if known is None or math.isinf(end) or known >= end else None
        return max([*self._lower(confidence), *([end] if math.isfinite(end) else [])], default=None)

    def _settled(self, threshold: float) -> bool:
        return self.saturation is not None and self.saturation.over(threshold)


@dataclass(frozen=True)
class LateUnderLoad(_Loaded):
    """The share of queries under load that failed or took longer than a deadline.

    Of an over-saturated system most queries at the end took longer, and all that would have followed.
    """

    measured: ShareOver

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound of the share; at least one half where over-saturation settles it."""
        over = self._settled(0.0)
        if side == "upper":
            return 1.0 if over else self._upper(confidence)
        known = self._lower(confidence)
        return max([*known, MOST] if over and known else known, default=None)

    def _settled(self, threshold: float) -> bool:
        over = self.saturation is not None and self.saturation.over(self.measured.deadline_ms)
        return over and threshold < MOST


@dataclass(frozen=True)
class WithoutLag(Estimate):
    """Estimate as measured, beside the same without our own lag, where larger is worse.

    Only what holds with the lag passes, and only what is violated without it fails: our lag makes latencies longer.

    Args:
        measured: As it was.
        freed: Of the same run, without the lag of our generator.
    """

    measured: Estimate
    freed: Estimate

    @property
    def value(self) -> float | None:
        """Value as measured."""
        return self.measured.value

    @property
    def n(self) -> int:
        """Queries."""
        return self.measured.n

    @property
    def reason(self) -> str | None:
        """Reason why there is no upper bound, or None."""
        return self.measured.reason

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"{self.measured.method}; a violation without the load generator's lag"

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound as measured from above, the smaller of both from below."""
        own = self.measured.bound(confidence, side)
        if side == "upper" or own is None:
            return own
        freed = self.freed.bound(confidence, side)
        return None if freed is None else min(own, freed)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value as measured for PASS, the larger of both for FAIL."""
        own = self.measured.p_value(threshold, side)
        if side == "upper" or own is None:
            return own
        freed = self.freed.p_value(threshold, side)
        return None if freed is None else max(own, freed)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number of queries that decides, as measured."""
        return self.measured.n_to_decide(threshold, alpha)


def _method(inner: str, load: OfferedLoad | None, after: After | None, where: str) -> str:
    if after is not None:
        inner = f"{inner}; {after.method}"
    if where:
        inner = f"{inner}; {where}"
    if load is None or not load.behind:
        return inner
    what = "over-saturated" if load.growing else "not all was served"
    return (
        f"{what}: at most {load.most_served_qps:.4g} of {load.offered_qps:.4g} qps were answered "
        f"(t over {load.blocks} blocks of time); {inner}"
    )
