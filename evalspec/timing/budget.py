"""Names, counts and durations of the checks that time. No numpy: validation reads it."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import TYPE_CHECKING

from evalspec.evidence.units import from_unit

if TYPE_CHECKING:
    from evalspec.evidence.metric import Shows
    from evalspec.language.requirement import Requirement

PERCENTILES: dict[str, float] = {
    "latency_p50": 0.5,
    "latency_p90": 0.9,
    "latency_p95": 0.95,
    "latency_p99": 0.99,
    "latency_p99_9": 0.999,
}
TAIL = "latency_p99"
"""The percentile that shows what waiting in a queue costs."""
BATCHES = 20
"""Batches in each process at the least."""
WARMUP_S = 0.5
ALONE_S = 1.0
"""Each process is measured at least so long: slow spells of the machine are then many, not one."""
BLOCK_S = 1.0
"""Each block of a comparison lasts at least so long."""
CONNECTIONS = "Requests to a server that are under way at any time; in process there is one."
START_S = 3.0
"""A guess at how long a process takes to start, for the plan."""


def batch_part(size: int) -> str:
    """Name of a batch size in a requirement."""
    return f"batch {size}"


def batch_parts(sizes: Iterable[int]) -> tuple[str, ...]:
    """Parts of a metric that is measured at each of these batch sizes, rising."""
    return tuple(batch_part(size) for size in sorted(set(sizes)))


def rate_part(rate_qps: float) -> str:
    """Name of a rate in a requirement."""
    return f"{rate_qps:.12g} qps"


EPISODES = 10
"""Queries that must be expected beyond a percentile."""
_SHARES = ("deadline_miss_rate", "error_rate")


def shown_by(percentile: str) -> tuple[Shows, ...]:
    """Kinds of number that a percentile of the latency is, for readers that do not know the check."""
    return (*(("cost of queueing",) if percentile == TAIL else ()), "late answers", "a distribution of latency")


def least_queries(requirement: Requirement) -> int:
    """Queries below which a requirement has no bound: 10 expected beyond the percentile.

    Args:
        requirement: About a percentile, or a share of queries; others need none.
    """
    if requirement.metric in PERCENTILES:
        return ceil(EPISODES / (1.0 - PERCENTILES[requirement.metric]) - 1e-6)
    if requirement.metric in _SHARES and requirement.model is None:
        share = from_unit(requirement.threshold, requirement.unit)
        return ceil(EPISODES / share - 1e-6) if 0 < share < 1 else 0
    return 0
