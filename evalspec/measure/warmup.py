"""Warm-up: so many queries, so long, and until it is steady; how it ended is recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalspec.clocks import now_ns
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Schedule
from evalspec.measure.patience import Patience
from evalspec.measure.servable import Remote, Rotation, Servable

STEADY = 0.05
"""The medians of two windows in a row differ by at most this share."""
SMALLEST_WINDOW = 8
LIMIT_FACTOR = 10.0
LEAST_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Warm-up that was done before measuring; its queries are not kept.

    Args:
        queries: How many.
        seconds: How long.
        settled: The last two windows agree.
        first_ms: The first query, which pays for compilation and caches.
        last_ms: Median of the last window.
    """

    queries: int
    seconds: float
    settled: bool
    first_ms: float
    last_ms: float
    failed: int = 0
    """Queries that a server failed on and was asked again; none of `queries`."""

    def details(self) -> dict[str, Cell]:
        """As facts of a run."""
        return {
            "warmup_queries": self.queries,
            "warmup_s": self.seconds,
            "warmup_settled": self.settled,
            "warmup_first_ms": self.first_ms,
            "warmup_last_ms": self.last_ms,
            **({"warmup_failed": self.failed} if self.failed else {}),
        }


def warm_up(servable: Servable, schedule: Schedule, rotation: Rotation) -> WarmUp:
    """Serve until the schedule's count and time are reached and latencies are steady.

    Where queries are served together, each number of them is served once before, and so is each size that they have.

    It ends unsettled after 10 times the schedule's time, or 2 s if that is longer: a model that never settles is a
    finding, not a reason to wait for ever.

    Args:
        servable: Rows and model.
        schedule: Its ``warmup_queries``, ``warmup_s`` and ``settle``.
        rotation: Order of the rows.

    Raises:
        InputError: As the model raises it; a model that fails now is not measured. A server is asked again, so that how
            often it errs can be measured.
    """
    patience = Patience(servable)
    window = max(SMALLEST_WINDOW, math.ceil(schedule.warmup_queries / 4))
    limit_s = max(LEAST_LIMIT_S, LIMIT_FACTOR * schedule.warmup_s)
    took: list[int] = []
    started = now_ns()
    if schedule.sizes is not None:
        single = Rotation(servable.n, 1, schedule.seed)
        _each_size(servable, np.unique(schedule.sizes)[::-1], single, started + int(limit_s * 1e9), patience)
        # One size all the time, so that windows of time are alike.
        rotation = Rotation(servable.n, int(np.median(schedule.sizes)), schedule.seed)
    elif schedule.kind == "open_loop" and not isinstance(servable, Remote):
        _each_size(servable, range(schedule.max_batch, 1, -1), rotation, started + int(limit_s * 1e9), patience)
    while True:
        # An audit for caching asks what nobody asked before, so it warms up on a single query.
        query = servable.take(rotation.rows(len(took) if schedule.repeats == 1 else 0))
        took.append(patience.answer(lambda query=query: _timed(servable, query)))  # type: ignore[misc]
        seconds = (now_ns() - started) / 1e9
        enough = len(took) >= max(1, schedule.warmup_queries) and seconds >= schedule.warmup_s
        if enough and (not schedule.settle or steady(took, window) or seconds >= limit_s):
            break
    return WarmUp(
        queries=len(took),
        seconds=seconds,
        settled=steady(took, window),
        first_ms=took[0] / 1e6,
        last_ms=float(np.median(took[-window:])) / 1e6,
        failed=patience.failed,
    )


def _timed(servable: Servable, query: Any) -> int:
    """Serve a query; ns that it took."""
    sent = now_ns()
    outputs = servable.serve(query)
    servable.synchronize()
    took = now_ns() - sent
    # Also checks that the outputs are answers at all.
    servable.answers(outputs)
    return took


def _each_size(servable: Servable, sizes: Iterable[int], rotation: Rotation, limit_ns: int, patience: Patience) -> None:
    """One batch of every size that may come, the largest first: each may be compiled on its own."""
    first = 0
    for size in sizes:
        query = servable.take(rotation.table(first, int(size)).reshape(-1))
        patience.answer(lambda query=query: _timed(servable, query))  # type: ignore[misc]
        first += int(size)
        if now_ns() >= limit_ns:
            break


def steady(took: list[int], window: int) -> bool:
    """The medians of the last two windows differ by at most 5 %."""
    if len(took) < 2 * window:
        return False
    before, last = np.median(took[-2 * window : -window]), np.median(took[-window:])
    return bool(abs(last - before) <= STEADY * max(before, last))
