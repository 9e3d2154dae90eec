"""Names, counts and durations of the checks that time. No numpy: validation reads it."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import TYPE_CHECKING

from evalspec.evidence.metric import Metric
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
TOKEN_TIMES: dict[str, str] = {
    "ttft": "Time to the first token",
    "ttfa": "Time to the first token of the answer, which is not reasoning,",
    "tpot": "Time by token after the first",
    "longest_gap": "Longest gap between two pieces of an answer",
}
"""Times of a streamed answer, one a request: what they are."""
TOKEN_PERCENTILES: dict[str, tuple[str, float]] = {
    f"{time}_{name.removeprefix('latency_')}": (time, p) for time in TOKEN_TIMES for name, p in PERCENTILES.items()
}
"""Metric: the time of a request, and its percentile."""
USER_RATE = "user_rate_p10"
USER_PERCENTILE = 0.9
"""What nine in ten have as a time by token, nine in ten have as a rate."""
STREAMED: tuple[str, ...] = (*TOKEN_PERCENTILES, USER_RATE)
"""Metrics of one number a request that only a model that streams has."""
POOLED_GAP, POOLED_PERCENTILE = "gap_p99", 0.99
"""The metric of all gaps together, and its percentile."""
CACHED, DIFFER, BY_PIECE = "cached_share", "token_counts_differ", "tokens_per_piece"
TOKEN_FACTS: tuple[str, ...] = (CACHED, DIFFER, BY_PIECE)
"""Counts of what a server streamed and told."""
OUTPUT_RATE, PREFILL_RATE, DECODE_RATE = "output_rate", "prefill_rate", "decode_rate"
TOKEN_RATES: tuple[str, ...] = (OUTPUT_RATE, PREFILL_RATE, DECODE_RATE)
"""Tokens a second of answers that are asked for back to back."""
COUNTS_TOKENS = ("tpot_", "user_rate_", "output_rate")
"""Beginnings of the names of metrics that rest on how many tokens there are."""
TAIL = "latency_p99"
"""The percentile that shows what waiting in a queue costs."""
BATCHES = 20
"""Batches in each process at the least."""
WARMUP_S, WARMUP_IN_PROCESS_S = 0.5, 0.25
"""At least, and on a processor of this machine in the process that asks: what compilation and caches cost there is gone
after a tenth of a second. It goes on until latencies are steady."""
ALONE_S = 1.0
"""Each process is measured at least so long: slow spells of the machine are then many, not one."""
SETTLING = 0.1
"""Share of a block that is dropped at its start."""
BLOCK_S = 1.0
"""Each block of a comparison lasts at least so long."""
CONNECTIONS = "Requests to a server that are under way at any time; in process there is one."
START_S = 2.0
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
UNSEEN_REQUESTS = 3.0
"""Requests without one over a share that show less than that share, times the share: the gaps of a request may all be
copies of each other."""
_SHARES = ("deadline_miss_rate", "error_rate")
_GAPS = "Clopper-Pearson on the share over, requests as clusters (Korn-Graubard); t where processes differ"


def shown_by(percentile: str) -> tuple[Shows, ...]:
    """Kinds of number that a percentile of the latency is, for readers that do not know the check."""
    return (*(("cost of queueing",) if percentile == TAIL else ()), "late answers", "a distribution of latency")


def percentile_of(metric: str) -> float | None:
    """Percentile of one number a request that a metric is; None: it is none."""
    if metric in PERCENTILES:
        return PERCENTILES[metric]
    if metric == USER_RATE:
        return USER_PERCENTILE
    return TOKEN_PERCENTILES[metric][1] if metric in TOKEN_PERCENTILES else None


def ordinal(share: float) -> str:
    """Name of a percentile: ``99th``, ``99.9th``."""
    return f"{100 * share:g}th"


def limit_ms(metric: str, threshold: float) -> float:
    """Time that a threshold of such a metric allows, ms."""
    return 1000.0 / threshold if metric == USER_RATE and threshold > 0 else threshold


def token_metrics(parts: str | None = None, interval: str = "") -> tuple[Metric, ...]:
    """Metrics of one number a request of a model that streams."""
    times = (
        Metric(name, "ms", "lower", f"{TOKEN_TIMES[time]} that {100 * p:g} % of requests stay within.",
               parts=parts, interval=interval, shows=("late answers",),
               label=f"{ordinal(p)} percentile of {TOKEN_TIMES[time][:1].lower()}{TOKEN_TIMES[time][1:]}")
        for name, (time, p) in TOKEN_PERCENTILES.items()
    )  # fmt: skip
    rate = Metric(
        USER_RATE, "tokens/s", "higher", "Tokens a second that 90 % of users are served at, or faster.",
        parts=parts, interval=interval,
    )  # fmt: skip
    gap = Metric(
        POOLED_GAP, "ms", "lower", "Time between two pieces that 99 % of all of them, of all requests, stay within.",
        parts=parts, interval=_GAPS, shows=("late answers",),
    )  # fmt: skip
    facts = (
        Metric(CACHED, "%", "lower", "Tokens of prompts that the server knew from before.", parts=parts, exact=True),
        Metric(DIFFER, "%", "lower", "Requests whose tokens the server and `tokenizer:` count otherwise.",
               parts=parts, exact=True),
        Metric(BY_PIECE, "count", "higher", "Tokens by piece: under 1 a piece is a part of a token.",
               parts=parts, exact=True),
    )  # fmt: skip
    return (*times, rate, gap, *facts)


def least_queries(requirement: Requirement) -> int:
    """Queries below which a requirement has no bound, or can't pass: 10 expected beyond a percentile.

    Args:
        requirement: About a percentile, or a share of queries; others need none.
    """
    p = percentile_of(requirement.metric)
    if p is not None:
        return ceil(EPISODES / (1.0 - p) - 1e-6)
    if requirement.metric == POOLED_GAP:
        return ceil(UNSEEN_REQUESTS / (1.0 - POOLED_PERCENTILE) - 1e-6)
    if requirement.metric in _SHARES and requirement.model is None:
        share = from_unit(requirement.threshold, requirement.unit)
        return ceil(EPISODES / share - 1e-6) if 0 < share < 1 else 0
    return 0
