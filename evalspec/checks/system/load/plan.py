"""How many queries `load` asks for, and how long that takes: one arithmetic for the plan and for the check itself.

No numpy: a plan reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from evalspec.checks.system.load.arrivals import TRACE, Arrivals
from evalspec.timing.budget import ALONE_S, BATCHES, START_S, WARMUP_S, least_queries

if TYPE_CHECKING:
    from evalspec.checks.system.load.spec import Load
    from evalspec.language.requirement import Requirement

DRAFT_QUERIES = 40
FIRST_SHARE = 0.05
"""Of the rate, at the start of a ramp."""
LEAD_IN = 0.1
"""A process starts with an empty queue: so many queries more, as a share of those that are judged, come before."""
OFFLINE_PROCESSES = 5
AUDITED = 800
"""Queries of the audit for caching: 400 items, each twice."""
GUESS_MS = 5.0
"""A guess at a latency, for the time of what is asked one after the other."""

SHORT_S = 2.0
"""A short run of the search lasts so long, or as long as the percentile needs, but never more than ``MOST_S``."""
MOST_S = 10.0
FEWEST = 50
STEPS = 14
"""Short runs at the most."""
USUAL_STEPS = 8
"""Short runs that a search usually takes: the rate doubles a few times, then three halvings reach a tenth."""


@dataclass(frozen=True)
class Lengths:
    """Queries of each stretch of one process at one rate.

    Args:
        ramp: While the rate rises; not judged.
        lead: At the rate, before those that are judged.
        steady: That are judged.
        spike: In the spike.
        after: At the rate again, as long as the spike was.
    """

    ramp: int
    lead: int
    steady: int
    spike: int
    after: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.ramp + self.lead + self.steady + self.spike + self.after

    def span_s(self, arrivals: Arrivals, rate_qps: float) -> float:
        """From the start to the last query, as expected."""
        spiked = 0.0 if arrivals.spike is None else 2.0 * arrivals.spike.duration_s
        return arrivals.ramp_s + (self.lead + self.steady) / rate_qps + spiked


@dataclass(frozen=True)
class Recorded:
    """Contents of a trace, as far as the plan needs them.

    Args:
        queries: Rows.
        span_s: From its first query to its last, as it is replayed.
    """

    queries: int
    span_s: float


@dataclass(frozen=True)
class Estimated:
    """Extent of a run: queries and time.

    Args:
        queries: Timed queries, warm-up left out; what a search asks for is not in them.
        seconds: A guess at the time of all of it.
        more: What else may come, in words; empty: nothing.
    """

    queries: int
    seconds: float
    more: str = ""


def lengths(arrivals: Arrivals, rate_qps: float, queries: int, processes: int = 1) -> Lengths:
    """Of each of so many processes that share the queries of a rate.

    Args:
        arrivals: Not a trace.
        rate_qps: Steady.
        queries: Of the steady parts of all processes.
        processes: They are spread over.
    """
    steady = ceil(queries / processes)
    rise = 0.5 * (FIRST_SHARE + 1.0) * rate_qps * arrivals.ramp_s
    spike = arrivals.spike
    return Lengths(
        ramp=max(1, round(rise)) if arrivals.ramp_s > 0 else 0,
        lead=lead_in(steady),
        steady=steady,
        spike=0 if spike is None else max(1, round(rate_qps * spike.factor * spike.duration_s)),
        after=0 if spike is None else max(1, round(rate_qps * spike.duration_s)),
    )


def lead_in(judged: int) -> int:
    """Queries that come before so many that are judged."""
    return ceil(LEAD_IN * judged)


def cuts(queries: int, processes: int) -> list[tuple[int, int, int]]:
    """Stretches of a trace: where its lead-in, its judged part and it itself begin and end."""
    count = min(processes, queries // 2 or 1)
    edges = [index * queries // count for index in range(count + 1)]
    return [(max(0, a - lead_in(b - a)), a, b) for a, b in pairwise(edges)]


def at_rates(check: Load, *, draft: bool) -> dict[float, int]:
    """Rate: judged queries of all processes."""
    return {rate: DRAFT_QUERIES if draft else check.planned(rate) for rate in check.all_rates}


def as_poisson(arrivals: Arrivals) -> Arrivals:
    """Poisson arrivals at a steady rate, to set beside others."""
    return arrivals.model_copy(update={"kind": "poisson", "burstiness": None, "ramp_s": 0.0, "spike": None})


def steady_only(arrivals: Arrivals) -> Arrivals:
    """The arrivals of a search: at a steady rate from the start."""
    return arrivals.model_copy(update={"ramp_s": 0.0, "spike": None})


def short_queries(objective: Requirement, rate_qps: float) -> int:
    """Of a short run of the search."""
    wanted = max(SHORT_S * rate_qps, least_queries(objective))
    return max(FEWEST, ceil(min(wanted, MOST_S * rate_qps)))


def estimated(check: Load, processes: int, recorded: Recorded | None) -> Estimated:
    """Extent of a run that is no draft.

    Args:
        check: Its fields.
        processes: That the queries of a rate are spread over.
        recorded: The trace, where it was looked at; None: there is none, or nobody has.
    """
    each = START_S + WARMUP_S
    queries, seconds = _planned(check, processes, recorded)
    if check.caching_audit:
        queries += AUDITED
        seconds += each + AUDITED * GUESS_MS / 1e3
    if check.offline:
        queries += OFFLINE_PROCESSES * BATCHES
        seconds += OFFLINE_PROCESSES * (each + ALONE_S)
    more = []
    if check.arrivals.kind == TRACE and recorded is None:
        more.append("the queries of the trace, which is read when the run starts")
    if check.searches:
        words, extra = _search(check, processes)
        more.append(words)
        seconds += extra
    return Estimated(queries, seconds, " and ".join(more))


def _planned(check: Load, processes: int, recorded: Recorded | None) -> tuple[int, float]:
    """Queries and time of the rates, or of the trace, and of Poisson beside them."""
    each = START_S + WARMUP_S
    queries, seconds = 0, 0.0
    rates = at_rates(check, draft=False)
    if check.arrivals.kind == TRACE:
        if recorded is None:
            return 0, processes * each
        pieces = cuts(recorded.queries, processes)
        queries, processes = sum(end - begin for begin, _, end in pieces), len(pieces)
        seconds = processes * each + recorded.span_s * queries / recorded.queries
        rates = {(recorded.queries - 1) / recorded.span_s: recorded.queries}
    else:
        for rate, count in rates.items():
            one = lengths(check.arrivals, rate, count, processes)
            queries += processes * one.total
            seconds += processes * (each + one.span_s(check.arrivals, rate))
    if check.arrivals.beside_poisson:
        beside = as_poisson(check.arrivals)
        for rate, count in rates.items():
            one = lengths(beside, rate, count, processes)
            queries += processes * one.total
            seconds += processes * (each + one.span_s(beside, rate))
    return queries, seconds


def _search(check: Load, processes: int) -> tuple[str, float]:
    """Extent of a search, in words, and a guess at its time."""
    objective = check.objective
    assert objective is not None
    rate = max(check.all_rates)
    arrivals, each = steady_only(check.arrivals), START_S + WARMUP_S
    short = lengths(arrivals, rate, short_queries(objective, rate)).span_s(arrivals, rate)
    confirmed = lengths(arrivals, rate, check.planned(rate)).span_s(arrivals, rate)
    seconds = USUAL_STEPS * (each + short) + processes * each + confirmed
    return f"a search of up to {STEPS} short runs, whose rate is then run once more as planned", seconds
