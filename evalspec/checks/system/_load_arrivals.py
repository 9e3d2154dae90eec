"""When the queries of a run are due: a ramp, a lead-in, the steady part that is judged, a spike and what follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import InputError
from evalspec.measure.arrivals import constant, gamma, poisson, ramp
from evalspec.measure.arrivals import trace as recorded

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.checks.system.load import Arrivals, Load
    from evalspec.language.inputs import Inputs

FIRST_SHARE = 0.05
"""Of the rate, at the start of a ramp."""
LEAD_IN = 0.1
"""A process starts with an empty queue: so many queries more, as a share of those that are judged, come before."""


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
    """

    kind: str
    asked_qps: float
    gap_cv: float | None
    times_ns: NDArray[np.int64]
    steady: NDArray[np.bool_]
    spike: NDArray[np.bool_]
    items: NDArray[np.int64] | None = None

    @property
    def span_s(self) -> float:
        """From the start to the last query."""
        return float(self.times_ns[-1]) / 1e9


def traffic(arrivals: Arrivals, rate_qps: float, queries: int, rng: np.random.Generator) -> Traffic:
    """So many queries at a steady rate, after the ramp and a lead-in, before the spike.

    Args:
        arrivals: Not a trace.
        rate_qps: Steady.
        queries: Of the steady part.
        rng: Drawn from.
    """
    stretches: list[NDArray[np.int64]] = []
    begin = 0
    if arrivals.ramp_s > 0:
        shape = {"poisson": 1.0, "constant": None, "gamma": arrivals.burstiness}[arrivals.kind]
        rise = ramp(FIRST_SHARE * rate_qps, rate_qps, duration_s=arrivals.ramp_s, burstiness=shape, rng=rng)
        stretches.append(rise)
        begin = round(arrivals.ramp_s * 1e9)
    lead = ceil(LEAD_IN * queries)
    before = sum(len(one) for one in stretches) + lead
    stretches.append(begin + _at(arrivals, rate_qps, rng, n=lead + queries))
    high = slice(0)
    spike = arrivals.spike
    if spike is not None:
        begin = int(stretches[-1][-1])
        for factor in (spike.factor, 1.0):
            stretches.append(begin + _at(arrivals, rate_qps * factor, rng, duration_s=spike.duration_s))
            begin += round(spike.duration_s * 1e9)
        high = slice(before + queries, before + queries + len(stretches[-2]))
    times = np.concatenate(stretches)
    steady, in_spike = np.zeros(len(times), dtype=np.bool_), np.zeros(len(times), dtype=np.bool_)
    steady[before : before + queries] = True
    in_spike[high] = True
    gap_cv = {"poisson": 1.0, "constant": 0.0, "gamma": (arrivals.burstiness or 1.0) ** -0.5}[arrivals.kind]
    return Traffic(arrivals.kind, rate_qps, gap_cv, times, steady, in_spike)


def pieces(recorded: Traffic, count: int) -> list[Traffic]:
    """A trace, cut into stretches of as many queries each, for as many processes.

    Each but the first starts with the queries that came before it, which are not judged, so that its queue is not
    empty where it is.

    Args:
        recorded: The trace.
        count: Stretches; fewer where it has fewer queries.
    """
    cuts = np.linspace(0, len(recorded.times_ns), min(count, len(recorded.times_ns) // 2 or 1) + 1).astype(np.int64)
    found = []
    for first, last in pairwise(cuts.tolist()):
        begin = max(0, first - ceil(LEAD_IN * (last - first)))
        times = recorded.times_ns[begin:last] - (recorded.times_ns[begin] if begin else 0)
        items = None if recorded.items is None else recorded.items[begin:last]
        steady = np.arange(begin, last) >= first
        found.append(replace(recorded, times_ns=times, steady=steady, spike=np.zeros_like(steady), items=items))
    return found


def trace(check: Load, inputs: Inputs) -> Traffic:
    """The times of a recorded trace, from its first query on, as fast as asked.

    Args:
        check: Its arrivals are a trace.
        inputs: Has the rows.

    Raises:
        InputError: Fewer than 2 queries, times that are no numbers or points in time, rows that are not there.
    """
    arrivals = check.arrivals
    name = str(arrivals.dataset)
    columns = [arrivals.time, *([] if arrivals.payload is None else [arrivals.payload])]
    table = inputs.table(name, columns)
    found = recorded(
        _times(table, arrivals.time, name),
        items=None if arrivals.payload is None else _items(table, arrivals.payload, name),
        speed_up=arrivals.speed_up,
    )
    times = found.times_ns
    if len(times) < 2 or times[-1] <= 0:
        raise InputError(f"the trace {name} has {len(times)} queries, from which no rate can be told; give 2 or more")
    if found.items is not None:
        _within(found.items, len(inputs.table(check.dataset, inputs.feature_columns(check.dataset)[:1])), check, name)
    every = np.ones(len(times), dtype=np.bool_)
    return Traffic(arrivals.kind, 1e9 * (len(times) - 1) / float(times[-1]), None, times, every, ~every, found.items)


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


def _times(table: pa.Table, column: str, name: str) -> NDArray[Any]:
    """Seconds, or points in time."""
    import pyarrow as pa

    values = table.column(column).combine_chunks()
    kind = values.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(
            f"column {column!r} of the trace {name} holds {kind}, no times",
            remedy="give seconds as numbers, or points in time",
        )
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("ns", tz=kind.tz)).cast(pa.timestamp("ns"))
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _within(items: NDArray[np.int64], rows: int, check: Load, name: str) -> None:
    """Refuse rows that the dataset does not have."""
    outside = (items < 0) | (items >= rows)
    if outside.any():
        at = int(np.argmax(outside))
        raise InputError(
            f"the trace {name} asks for row {items[at]:,} of {check.dataset} in its row {at:,}, which has {rows:,}",
            remedy=f"number the rows of {check.dataset} from 0 on in column {check.arrivals.payload!r}",
        )


def _items(table: pa.Table, column: str, name: str) -> NDArray[np.int64]:
    """Rows to ask for."""
    import pyarrow as pa

    values = table.column(column).combine_chunks()
    if not pa.types.is_integer(values.type) or values.null_count:
        raise InputError(
            f"column {column!r} of the trace {name} holds no row numbers",
            remedy="give the row of the check's dataset as a whole number, from 0 on",
        )
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)
