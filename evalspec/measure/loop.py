"""Closed-loop measuring: one query after the other, every one kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import EvalspecError, InputError, InvalidError
from evalspec.language.inputs import Schedule
from evalspec.language.timings import FAILED
from evalspec.measure.answer_sample import AnswerSample, rows_to_hold
from evalspec.measure.flooding import flood
from evalspec.measure.open_loop import HOPELESS
from evalspec.measure.samples import Sink
from evalspec.measure.servable import Concurrent, Rotation, Servable, streamed_by

if TYPE_CHECKING:
    from numpy.typing import NDArray


AT_ONCE = 4096
"""Queries that are planned at once; fewer where they have many rows."""
ROWS_AT_ONCE = 65_536


class _Loop:
    """Queries one after the other, each kept; see `single_stream` and `offline`."""

    def __init__(
        self, servable: Servable, sink: Sink, rotation: Rotation, block: int, origin_ns: int, kept: AnswerSample | None
    ) -> None:
        self.servable = servable
        self.sink = sink
        self.rotation = rotation
        self.block = block
        self.origin_ns = origin_ns
        self.kept = kept
        self.first = sink.count
        self.failures = 0
        self.end = now_ns()

    def run(self, schedule: Schedule) -> bool:
        """All queries of the schedule."""
        until = self.end + int(schedule.min_s * 1e9)
        limit = self.end + int(schedule.measuring_s * 1e9)
        if schedule.ample_s is not None:
            return self._until_ample(schedule, min(limit, self.end + int(schedule.ample_s * 1e9)), limit)
        repeats = schedule.repeats
        size = max(1, min(AT_ONCE, ROWS_AT_ONCE // schedule.batch) // repeats) * repeats
        while (left := schedule.queries - (self.sink.count - self.first)) > 0 or self.end < until:
            if self.end >= limit:
                return False
            counted = min(size, -(-left // repeats) * repeats)
            # Repeats of an item are not parted by the end of the time.
            stop = limit if left > 0 or repeats > 1 else min(until, limit)
            self._some(counted if left > 0 else (repeats if repeats > 1 else size), repeats, stop)
        return True

    def _until_ample(self, schedule: Schedule, ample_ns: int, limit_ns: int) -> bool:
        """The fewest queries, then as many of the others as there is time for; each are planned at once."""
        self._some(schedule.fewest, schedule.repeats, limit_ns)
        if self.sink.count - self.first < schedule.fewest:
            return False
        if self.end < ample_ns:
            self._some(schedule.queries - schedule.fewest, schedule.repeats, ample_ns)
        return True

    def _some(self, queries: int, repeats: int, stop_ns: int) -> None:
        """So many queries, or until it is time to stop."""
        table = self.rotation.table(self.sink.count // repeats, queries // repeats)
        block: int | NDArray[np.int64] = self.block
        if repeats > 1:
            table = np.repeat(table, repeats, axis=0)
            block = self.block * repeats + np.arange(queries) % repeats
        self.sink.plan(table[:, 0], block)
        self._queries(table, stop_ns)

    def _queries(self, table: NDArray[np.int64], stop_ns: int) -> None:
        """The loop that is timed: no more than a few stores into the map lie between two queries."""
        now, take, serve, synchronize = now_ns, self.servable.take, self.servable.serve, self.servable.synchronize
        sink, origin, kept, answers = self.sink, self.origin_ns, self.kept, self.servable.answers
        streamed = streamed_by(self.servable)
        columns, batch, written = sink.columns(), sink.batch, sink.rows(0)["answers"]
        intended_at, sent_at, end_at, answer_at = (
            columns.intended_ns, columns.sent_ns, columns.end_ns, columns.answer,
        )  # fmt: skip
        query, end = sink.first - 1, self.end
        keys = memoryview(b"") if kept is None else kept.keys(len(table))
        try:
            for query, rows in enumerate(table, sink.first):
                taken = take(rows)
                sent = now()
                try:
                    outputs = serve(taken)
                    synchronize()
                    end = now()
                    if kept is not None:
                        key = keys[query - sink.first]
                        if key < kept.below:
                            kept.hold(key, query, batch, outputs)
                    elif batch == 1:
                        answer_at[query] = answers(outputs).item()
                        if streamed is not None:
                            sink.stream(query, streamed(outputs), origin)
                    else:
                        written[query] = answers(outputs)
                except InvalidError:
                    # It is about the measurement, not about one query.
                    raise
                except EvalspecError as error:
                    if end < sent:
                        end = now()
                    columns.outcome[query] = getattr(error, "outcome", FAILED)
                    self._failed(query, error)
                intended_at[query] = sent_at[query] = sent - origin
                end_at[query] = end - origin
                if end >= stop_ns:
                    break
        finally:
            self.end = end
            sink.take_back(query + 1)

    def _failed(self, query: int, error: EvalspecError) -> None:
        self.failures += 1
        if self.failures == query - self.first + 1 == HOPELESS:
            raise InputError(f"the first {HOPELESS} queries all failed; the last one: {error}") from error


def single_stream(
    servable: Servable, schedule: Schedule, sink: Sink, rotation: Rotation, *, block: int = 0, origin_ns: int = 0
) -> bool:
    """One query after the other, each sent when the one before it has ended; MultiStream where a query has many items.

    What is timed is preprocessing and model, with the answer on the host. Taking the rows of a query, and making
    answers of what came back, lie between two queries and are in no latency.

    Args:
        servable: Rows and model.
        schedule: Measures ``queries`` and at least ``min_s``; gives up before ``limit_s``. With ``repeats`` k each
            item is asked for k times in a row, and the i-th of these is in block ``k * block + i``.
        sink: Takes every query; one that raised is not ok.
        rotation: Order of the rows; goes on where the sink's count stands.
        block: Index of the block.
        origin_ns: Where times count from.

    Returns:
        Whether all was measured that was asked for.

    Raises:
        InputError: The first 20 queries all failed.
    """
    return _Loop(servable, sink, rotation, block, origin_ns, None).run(schedule)


def offline(
    servable: Servable, schedule: Schedule, sink: Sink, rotation: Rotation, *, block: int = 0, origin_ns: int = 0
) -> bool:
    """Batches back to back, until the schedule's count and time are both reached.

    So that a batch follows right upon the one before it, answers are made after the block, of a seeded part of the
    batches that makes 1,024 rows. Between two batches lies no more than taking the rows of the next.

    Of a server so many batches are under way at a time as the schedule has ``connections`` (see
    `evalspec.measure.flooding`).

    Args and result as `single_stream`.
    """
    if schedule.connections > 1 and isinstance(servable, Concurrent):
        return flood(servable, schedule, sink, rotation, block=block, origin_ns=origin_ns)
    kept = AnswerSample(schedule.seed, block, rows_to_hold(servable))
    done = _Loop(servable, sink, rotation, block, origin_ns, kept).run(schedule)
    kept.answer(servable, sink, origin_ns)
    return done
