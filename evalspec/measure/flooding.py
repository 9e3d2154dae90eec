"""Offline measuring of a server: so many queries are always under way, so that all of its workers have some."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import InputError
from evalspec.language.abilities import QueryOutcome
from evalspec.language.inputs import Schedule
from evalspec.language.timings import ANSWERED, OUTCOMES
from evalspec.measure.answer_sample import AnswerSample, rows_to_hold
from evalspec.measure.open_loop import HOPELESS
from evalspec.measure.samples import Sink
from evalspec.measure.servable import Concurrent, Rotation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["flood", "warm_connections"]

LIKELY, LIKELY_ROWS = 4096, 1 << 20
"""Queries, and rows in them, that are told of before, so that they need not be made while others are timed."""
PLANNED, PLANNED_ROWS = 1024, 65_536
"""Queries that are planned at once; fewer where they have many rows."""
WARM = 2
"""Queries over each connection that are not kept: a server may have a worker for each, which has served nothing."""


def flood(
    servable: Concurrent, schedule: Schedule, sink: Sink, rotation: Rotation, *, block: int = 0, origin_ns: int = 0
) -> bool:
    """Queries until the schedule's count and time are both reached, ``connections`` of them at any time.

    The last ones that were sent are waited for. Answers are made of a seeded part of the queries, as in
    `evalspec.measure.loop.offline`; args and result as there.

    Raises:
        InputError: The first 20 queries that ended all failed.
    """
    run = _Flood(servable, schedule, sink, rotation, block, origin_ns)
    likely = rotation.table(sink.count, min(_period(rotation), max(1, LIKELY_ROWS // rotation.batch), LIKELY))
    servable.keep_busy(schedule.connections, likely, run.rows_of, run.took)
    return run.close()


def warm_connections(servable: Concurrent, schedule: Schedule, rotation: Rotation) -> int:
    """Two queries over each connection, which are not kept; whatever comes of them.

    Returns:
        How many.
    """
    count = WARM * schedule.connections
    queries = rotation.table(0, count)
    servable.keep_busy(
        schedule.connections, queries, lambda query: queries[query] if query < count else None, lambda done: None
    )
    return count


class _Flood:
    """Queries to ask next, and the outcomes of those before."""

    def __init__(
        self, servable: Concurrent, schedule: Schedule, sink: Sink, rotation: Rotation, block: int, origin_ns: int
    ) -> None:
        self._servable = servable
        self._schedule = schedule
        self._sink = sink
        self._rotation = rotation
        self._block = block
        self._origin_ns = origin_ns
        self._kept = AnswerSample(schedule.seed, block, rows_to_hold(servable))
        self._first = sink.count
        self._asked = 0
        self._planned = max(1, min(PLANNED, PLANNED_ROWS // schedule.batch))
        self._table: NDArray[np.int64] = np.empty((0, schedule.batch), dtype=np.int64)
        self._keys: list[memoryview[float]] = []
        self._limit_ns = 0
        self._begin_ns = self._end_ns = now_ns()
        self._ended = self._failed = 0
        self._complete = True

    def rows_of(self, query: int) -> NDArray[np.int64] | None:
        """Rows of the k-th query, or None: that was all."""
        now = now_ns()
        if query == 0:
            self._limit_ns = now + int(self._schedule.measuring_s * 1e9)
        # By an answer and not by the clock: what is measured then lasts as long as was asked for.
        lasted_ns = self._end_ns - self._begin_ns
        enough = query >= self._schedule.queries and lasted_ns >= self._schedule.min_s * 1e9
        if enough or now >= self._limit_ns:
            self._complete = enough
            return None
        place = query % self._planned
        if place == 0:
            self._table = self._rotation.table(self._first + query, self._planned)
            self._keys.append(self._kept.keys(self._planned))
            self._sink.plan(self._table[:, 0], self._block)
        self._asked = query + 1
        return np.asarray(self._table[place])

    def took(self, done: QueryOutcome) -> None:
        """Keep the outcome of a query."""
        query, batch = self._first + done.query, self._sink.batch
        sent, end = done.sent_ns or done.end_ns, done.end_ns
        self._sink.rows(query, query + 1)["intended"] = sent - self._origin_ns
        self._sink.record(
            query, sent_ns=sent - self._origin_ns, end_ns=end - self._origin_ns,
            first_ns=done.first_ns - self._origin_ns if done.first_ns else 0, outcome=done.outcome,
        )  # fmt: skip
        self._begin_ns = sent if self._ended == 0 else min(self._begin_ns, sent)
        self._end_ns = max(self._end_ns, end)
        self._ended += 1
        if done.outcome != ANSWERED:
            self._failed += 1
            if self._failed == self._ended == HOPELESS:
                raise InputError(f"the first {HOPELESS} queries all failed; the last one: {OUTCOMES[done.outcome]}")
        else:
            key = self._keys[done.query // self._planned][done.query % self._planned]
            if key < self._kept.below:
                self._kept.hold(key, query, batch, done.outputs)

    def close(self) -> bool:
        """Forget what was planned and not asked, and read answers; whether all was measured that was asked for."""
        self._sink.take_back(self._first + self._asked)
        self._kept.answer(self._servable, self._sink, self._origin_ns)
        return self._complete


def _period(rotation: Rotation) -> int:
    """Queries after which the order begins again."""
    return rotation.n // math.gcd(rotation.n, rotation.batch)
