"""Whether a system got through what it was offered, or fell behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Side
from evalspec.stats.percentile import Percentile
from evalspec.stats.share_over import ShareOver

BLOCKS = 20
"""Equal blocks of time, over all processes."""
LEVEL = 0.001
"""One-sided, of the statement that less was served than offered."""
MOST = 0.5
LAST = 0.1
"""Share of a run, at its end, in which latency must be over a threshold."""


@dataclass(frozen=True)
class Saturation:
    """Queries offered and answered, block by block of time.

    Args:
        offered_qps: Queries that were due, by second.
        served_qps: Queries that were answered meanwhile, by second.
        most_served_qps: Upper bound of ``served_qps`` by t over the blocks, at level 0.001, given what was offered.
        at_end_ms: Median latency of the last tenth of the run (of the process where it is smallest), infinite where
            half of those queries failed.
        blocks: How many.
        growing: Fewer ended, in whatever way, than came: the queue grew. Where queries are only refused it did not.
    """

    offered_qps: float
    served_qps: float
    most_served_qps: float
    at_end_ms: float
    blocks: int
    growing: bool

    @property
    def behind(self) -> bool:
        """Less was served than offered."""
        return self.most_served_qps < self.offered_qps

    def over(self, threshold_ms: float) -> bool:
        """Over-saturated: it fell behind, and at the end most queries took longer than this."""
        return self.behind and self.at_end_ms > threshold_ms


def saturation(
    intended_ns: Sequence[NDArray[np.int64]],
    end_ns: Sequence[NDArray[np.int64]],
    latencies_ms: Sequence[NDArray[np.float64]],
) -> Saturation | None:
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
        last.append(float(np.median(latency[due >= due.min() + (1.0 - LAST) * span])))
    if not short:
        return None
    differences = np.concatenate(short)
    return Saturation(
        offered_qps=offered / spent,
        served_qps=served / spent,
        most_served_qps=offered / spent + _most(differences),
        at_end_ms=min(last),
        blocks=len(differences),
        growing=_most(np.concatenate(waiting)) < 0.0,
    )


def _most(differences: NDArray[np.float64]) -> float:
    """Upper bound of a mean by Student's t."""
    from scipy.special import stdtrit

    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return float(differences.mean()) - float(stdtrit(len(differences) - 1, LEVEL)) * error


@dataclass(frozen=True)
class UnderLoad:
    """A percentile of latencies under load. Implements `Estimate`.

    Where the system fell behind and most queries at the end took longer than a threshold, the requirement is violated
    whatever the count of queries: latency would only have grown. Where latency stepped up to a level that lasted (a
    machine that throttles stays so), what followed must hold the threshold too; and a violation may be shown by it
    alone, at half the level.

    Args:
        latency: The percentile of what was measured.
        saturation: Of the same run, or None.
        after: The percentile of what followed a step up, or None.
    """

    latency: Percentile
    saturation: Saturation | None
    after: Percentile | None = None

    @property
    def value(self) -> float | None:
        """The sample's own percentile, ms."""
        return self.latency.value

    @property
    def n(self) -> int:
        """Queries."""
        return self.latency.n

    @property
    def reason(self) -> str | None:
        """Why there is no upper bound, or None."""
        return self.latency.reason

    @property
    def by_processes(self) -> bool:
        """As `Percentile.by_processes`."""
        return self.latency.by_processes

    @property
    def method(self) -> str:
        """How the bounds are made."""
        return _method(self.latency.method, self.saturation, self.after)

    def bound(self, confidence: float, side: Side) -> float | None:
        """That of the percentile; from below also that after a step, and what most took at an overloaded end."""
        end = self.saturation.at_end_ms if self.saturation is not None and self.saturation.behind else None
        if end is not None and not math.isfinite(end):
            end = None
        if side == "upper":
            known = _all_of([look.bound(confidence, side) for look in self._looks])
            return known if known is None or end is None or known >= end else None
        one_of = 1.0 - (1.0 - confidence) / len(self._looks)
        bounds = [*(look.bound(one_of, side) for look in self._looks), end]
        return max((bound for bound in bounds if bound is not None), default=None)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """That of the percentile (and of what followed a step), unless over-saturation settles it."""
        if self.saturation is not None and self.saturation.over(threshold):
            return 0.0 if side == "lower" else 1.0
        return _of_looks([look.p_value(threshold, side) for look in self._looks], passing=side == "upper")

    @property
    def _looks(self) -> tuple[Percentile, ...]:
        return (self.latency,) if self.after is None else (self.latency, self.after)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """That of the percentile; None where over-saturation settles it."""
        if self.saturation is not None and self.saturation.over(threshold):
            return None
        return self.latency.n_to_decide(threshold, alpha)


@dataclass(frozen=True)
class LateUnderLoad:
    """The share of queries under load that failed or took longer than a deadline. Implements `Estimate`.

    Of an over-saturated system most queries at the end took longer, and all that would have followed.

    Args:
        share: Of what was measured.
        saturation: Of the same run, or None.
        after: Of what followed a step up of latency, or None.
    """

    share: ShareOver
    saturation: Saturation | None
    after: ShareOver | None = None

    @property
    def value(self) -> float | None:
        """Share of queries over the deadline."""
        return self.share.value

    @property
    def n(self) -> int:
        """Queries."""
        return self.share.n

    @property
    def method(self) -> str:
        """How the bounds are made."""
        return _method(self.share.method, self.saturation, self.after)

    def bound(self, confidence: float, side: Side) -> float | None:
        """That of the share; at least one half where over-saturation settles it."""
        if side == "upper":
            return 1.0 if self._over else _all_of([look.bound(confidence, side) for look in self._looks])
        one_of = 1.0 - (1.0 - confidence) / len(self._looks)
        bounds = [look.bound(one_of, side) for look in self._looks]
        known = [bound for bound in bounds if bound is not None]
        return max([*known, MOST] if self._over and known else known, default=None)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """That of the share, unless over-saturation settles it."""
        if self._over and threshold < MOST:
            return 0.0 if side == "lower" else 1.0
        return _of_looks([look.p_value(threshold, side) for look in self._looks], passing=side == "upper")

    @property
    def _looks(self) -> tuple[ShareOver, ...]:
        return (self.share,) if self.after is None else (self.share, self.after)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """That of the share; None where over-saturation settles it."""
        return None if self._over and threshold < MOST else self.share.n_to_decide(threshold, alpha)

    @property
    def _over(self) -> bool:
        return self.saturation is not None and self.saturation.over(self.share.deadline_ms)


def _all_of(bounds: list[float | None]) -> float | None:
    """An upper bound of all of them."""
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) else None


def _of_looks(p_values: list[float | None], *, passing: bool) -> float | None:
    """All must hold, the largest; one may be violated, the smallest times their number."""
    known = [p for p in p_values if p is not None]
    if not known or (passing and len(known) < len(p_values)):
        return None
    return max(known) if passing else min(1.0, len(p_values) * min(known))


def _method(inner: str, found: Saturation | None, after: Percentile | ShareOver | None) -> str:
    if after is not None:
        inner = f"{inner}; the same for the {after.n:,} queries after a step up"
    if found is None or not found.behind:
        return inner
    what = "over-saturated" if found.growing else "not all was served"
    return (
        f"{what}: at most {found.most_served_qps:.4g} of {found.offered_qps:.4g} qps were answered "
        f"(t over {found.blocks} blocks of time); {inner}"
    )
