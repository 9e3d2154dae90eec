"""When the queries of a run are due: a ramp, a lead-in, the steady part that is judged, a spike and what follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.load.plan import FIRST_SHARE, as_poisson, cuts, lengths
from evalspec.checks.system.load.trace_rows import read_trace
from evalspec.measure.arrivals import constant, gamma, poisson, ramp, rising

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.load.arrivals import Arrivals
    from evalspec.checks.system.load.spec import Load
    from evalspec.language.inputs import Inputs


@dataclass(frozen=True)
class Traffic:
    """Times of one run, and what each stretch of them is for.

    Args:
        kind: Of the arrivals.
        asked_qps: Rate of the steady part.
        gap_cv: Standard deviation of the gaps by their mean, as asked for; None: that of a trace.
        times_ns: shape (n,), rising: when each query is due.
        steady: shape (n,), queries that are judged.
        spike: shape (n,), queries of the spike.
        items: shape (n,), rows to ask for, or None.
        sizes: shape (n,), how many of them each query asks for, from its first on; None: one.
    """

    kind: str
    asked_qps: float
    gap_cv: float | None
    times_ns: NDArray[np.int64]
    steady: NDArray[np.bool_]
    spike: NDArray[np.bool_]
    items: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None

    @property
    def span_s(self) -> float:
        """From the start to the last query."""
        return float(self.times_ns[-1]) / 1e9


def spread(
    arrivals: Arrivals, rate_qps: float, queries: int, rng: np.random.Generator, processes: int
) -> list[Traffic]:
    """As `traffic`, for each of so many processes that share the queries."""
    return [traffic(arrivals, rate_qps, ceil(queries / processes), rng) for _ in range(processes)]


def traffic(arrivals: Arrivals, rate_qps: float, queries: int, rng: np.random.Generator) -> Traffic:
    """So many queries at a steady rate, after the ramp and a lead-in, before the spike.

    Args:
        arrivals: Not a trace.
        rate_qps: Steady.
        queries: Of the steady part.
        rng: Drawn from.
    """
    each = lengths(arrivals, rate_qps, queries)
    stretches: list[NDArray[np.int64]] = []
    begin = 0
    if each.ramp:
        shape = {"poisson": 1.0, "constant": None, "gamma": arrivals.burstiness}[arrivals.kind]
        first = FIRST_SHARE * rate_qps
        stretches.append(ramp(first, rate_qps, n=each.ramp, duration_s=arrivals.ramp_s, burstiness=shape, rng=rng))
        begin = round(arrivals.ramp_s * 1e9)
    stretches.append(begin + _at(arrivals, rate_qps, rng, n=each.lead + each.steady))
    spike = arrivals.spike
    if spike is not None:
        begin = int(stretches[-1][-1])
        for factor, count in ((spike.factor, each.spike), (1.0, each.after)):
            stretches.append(begin + _at(arrivals, rate_qps * factor, rng, n=count, duration_s=spike.duration_s))
            begin += round(spike.duration_s * 1e9)
    times = rising(np.concatenate(stretches).astype(np.float64))
    at = np.arange(each.total)
    judged = each.ramp + each.lead
    steady = (at >= judged) & (at < judged + each.steady)
    in_spike = (at >= judged + each.steady) & (at < judged + each.steady + each.spike)
    gap_cv = {"poisson": 1.0, "constant": 0.0, "gamma": (arrivals.burstiness or 1.0) ** -0.5}[arrivals.kind]
    return Traffic(arrivals.kind, rate_qps, gap_cv, times, steady, in_spike)


def beside(
    arrivals: Arrivals, rate_qps: float, queries: int, rng: np.random.Generator, like: list[Traffic]
) -> list[Traffic]:
    """The same rate with Poisson arrivals, in as many processes; of a trace with the same sizes, over and over.

    Args:
        arrivals: What they are set beside.
        rate_qps: Its rate.
        queries: Its queries that are judged.
        rng: Drawn from.
        like: What it is set beside.
    """
    made = spread(as_poisson(arrivals), rate_qps, queries, rng, len(like))
    recorded = [one.sizes for one in like if one.sizes is not None]
    if not recorded:
        return made
    sizes = np.concatenate(recorded)
    items = np.concatenate([one.items for one in like if one.items is not None])
    found, start = [], 0
    for one in made:
        at = (start + np.arange(len(one.times_ns))) % len(sizes)
        found.append(replace(one, sizes=sizes[at], items=items[at]))
        start += len(one.times_ns)
    return found


def pieces(recorded: Traffic, count: int) -> list[Traffic]:
    """A trace, cut into stretches of as many queries each, for as many processes.

    Each but the first starts with the queries that came before it, which are not judged, so that its queue is not
    empty where it is.

    Args:
        recorded: The trace.
        count: Stretches; fewer where it has fewer queries.
    """
    found = []
    for begin, first, last in cuts(len(recorded.times_ns), count):
        times = recorded.times_ns[begin:last] - (recorded.times_ns[begin] if begin else 0)
        steady = np.arange(begin, last) >= first
        items, sizes = (None if one is None else one[begin:last] for one in (recorded.items, recorded.sizes))
        piece = replace(recorded, times_ns=times, steady=steady, spike=np.zeros_like(steady), items=items, sizes=sizes)
        found.append(piece)
    return found


def trace(check: Load, inputs: Inputs) -> Traffic:
    """The times of a recorded trace, from its first query on, as fast as asked.

    Args:
        check: Its arrivals are a trace.
        inputs: Has the rows.

    Raises:
        InputError: A value that can't be replayed.
    """
    arrivals = check.arrivals
    rows = len(inputs.table(check.dataset, inputs.feature_columns(check.dataset)[:1]))
    table = inputs.table(str(arrivals.dataset), check.inspects()[0].columns)
    # A draft has the first rows of each dataset only.
    found = read_trace(arrivals, table, None if inputs.draft else rows)
    items, sizes = found.items, found.sizes
    if sizes is not None and items is None:
        items = np.cumsum(sizes) - sizes
    every = np.ones(len(found.times_ns), dtype=np.bool_)
    return Traffic(
        arrivals.kind, found.rate_qps, None, found.times_ns, every, ~every,
        None if items is None else items % rows, sizes,
    )  # fmt: skip


def _at(
    arrivals: Arrivals,
    rate_qps: float,
    rng: np.random.Generator,
    *,
    n: int | None = None,
    duration_s: float | None = None,
) -> NDArray[np.int64]:
    """Arrivals at one rate."""
    if arrivals.kind == "constant":
        return constant(rate_qps, n=n, duration_s=duration_s)
    if arrivals.kind == "gamma" and arrivals.burstiness is not None:
        return gamma(rate_qps, burstiness=arrivals.burstiness, n=n, duration_s=duration_s, rng=rng)
    return poisson(rate_qps, n=n, duration_s=duration_s, rng=rng)
