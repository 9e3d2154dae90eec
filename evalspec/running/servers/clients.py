"""Several client processes of one server: the schedule that each of them gets, and their samples as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalspec.evidence.frozen import Cell, is_number
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.timings import PER_QUERY

SUMMED = (
    "connections", "connections_open_at_start", "connections_opened_again", "gc_collections", "gc_ms",
    "involuntary_switches", "warmup_queries",
)  # fmt: skip
"""Facts of clients that are counts of something, and are added up."""
WORST = ("generator_lag_", "waited_for_connection_", "timer_", "gc_share_", "stolen_", "warmup_")
"""Beginnings of the names of facts of which the largest value, the worst, is kept."""


def shares(schedule: Schedule) -> list[Schedule]:
    """Schedule of each client: of n clients every n-th query; together they ask in the order of the schedule."""
    arrivals = schedule.arrivals_ns
    if arrivals is None:
        raise ValueError("an open loop has no arrivals")
    step = schedule.clients
    made = []
    for client in range(step):
        mine = arrivals[client::step]
        own: dict[str, Any] = {
            name: None if (whole := getattr(schedule, name)) is None else whole[client::step]
            for name in ("items", "sizes")
        }
        # Rows after a query's first are those that follow it in the seed's order, which is then one for all clients.
        seed = schedule.seed + (client if schedule.sizes is None else 0)
        made.append(replace(schedule, arrivals_ns=mine, queries=len(mine), clients=1, seed=seed, **own))
    return made


def merged(parts: list[Samples]) -> Samples:
    """Samples of several clients that measured at the same time, as one, in the order of intended times.

    Args:
        parts: At least one, of the same process and batch, with times from the same origin.
    """
    import numpy as np

    from evalspec.measure.streams import joined as joined_streams

    if any(one.sizes is not None for one in parts):
        parts = [one if one.sizes is not None else replace(one, sizes=np.full(len(one.ok), one.batch)) for one in parts]
    order = np.argsort(np.concatenate([one.intended_ns for one in parts]), kind="stable")

    def joined(name: str) -> Any:
        arrays = [getattr(one, name) for one in parts]
        return None if any(one is None for one in arrays) else np.concatenate(arrays)[order]

    details = dict(parts[0].details)
    for name in dict.fromkeys(name for one in parts for name in one.details):
        details[name] = _as_one(name, [one.details.get(name) for one in parts])
    details |= {"clients": len(parts), "complete": all(one.details.get("complete") is not False for one in parts)}
    warmup = sum(one.warmup for one in parts)
    streams = [one.streams for one in parts if one.streams is not None]
    return replace(
        parts[0], warmup=warmup, details=details, **{name: joined(name) for name in PER_QUERY},
        streams=joined_streams(streams, order) if len(streams) == len(parts) else None,
    )  # fmt: skip


def _as_one(name: str, values: Sequence[Cell]) -> Cell:
    """One fact of several clients: False where any is, else a sum or the worst; of all other facts the first value."""
    if any(value is False for value in values):
        return False
    numbers = [value for value in values if is_number(value)]
    if name in SUMMED:
        return sum(numbers) if numbers else None
    if name.startswith(WORST) and len(numbers) == len([value for value in values if value is not None]):
        return max(numbers, default=None)
    return values[0]
