"""Closed-loop measuring: one query after the other, every one kept. And the session that measures all kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evalspec.clocks import fine_timer, now_ns, read_clock
from evalspec.errors import EvalspecError, InputError
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Schedule
from evalspec.measure._kept import Kept
from evalspec.measure.interference import Watch
from evalspec.measure.open_loop import HOPELESS, generator_lag_ns, lockstep, open_loop, rows_asked
from evalspec.measure.samples import FAILED, Sink, read_samples
from evalspec.measure.servable import Remote, Rotation, Servable
from evalspec.measure.warmup import WarmUp, warm_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Session", "lockstep", "offline", "open_loop", "read_samples", "single_stream"]

SPARE = 1.25
AT_ONCE = 4096
"""Queries that are planned at once; fewer where they have many rows."""
ROWS_AT_ONCE = 65_536


class _Loop:
    """Queries one after the other, each kept; see `single_stream` and `offline`."""

    def __init__(
        self, servable: Servable, sink: Sink, rotation: Rotation, block: int, origin_ns: int, kept: Kept | None
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
                    else:
                        written[query] = answers(outputs)
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

    Args and result as `single_stream`.
    """
    kept = Kept(schedule.seed, block)
    done = _Loop(servable, sink, rotation, block, origin_ns, kept).run(schedule)
    kept.answer(servable, sink)
    return done


class Session:
    """All that one worker measures of one schedule: warm-up, then blocks, in one file of samples.

    For A B B A the caller asks two sessions in two processes in turn; the one that is not asked waits for its next
    message, asleep.

    Args:
        servable: Rows and model.
        schedule: Batch, order, warm-up and limits.
        path: File for the samples.
        origin_ns: Where times count from; default: now. Two processes given the same can be set side by side.
    """

    def __init__(self, servable: Servable, schedule: Schedule, path: Path, origin_ns: int | None = None) -> None:
        self.schedule = schedule
        self.sink = Sink(path, schedule.batch, int(SPARE * schedule.queries) + 1)
        self._servable = servable
        self._rotation = Rotation(servable.n, schedule.batch, schedule.seed)
        self._watch = Watch()
        self._clock = read_clock()
        self._origin_ns = now_ns() if origin_ns is None else origin_ns
        self._complete = True
        self._warm: WarmUp | None = None

    @property
    def count(self) -> int:
        """Queries measured so far."""
        return self.sink.count

    def warm_up(self) -> dict[str, Cell]:
        """Warm up; the queries are not kept.

        Returns:
            How it ended.

        Raises:
            InputError: As the model raises it.
        """
        self._warm = warm_up(self._servable, self.schedule, self._rotation)
        if isinstance(self._servable, Remote) and self.schedule.kind == "open_loop":
            for rows in np.unique(rows_asked(self.schedule, self._rotation, 0), axis=0):
                self._servable.take(rows)
        self.sink.note(warmup=self._warm.queries)
        return self._warm.details()

    def block(self, block: int, queries: int, min_s: float, start_ns: int | None = None) -> None:
        """Measure one block of at least so many queries and so long.

        Args:
            block: Its index.
            queries: Of an open loop: the first so many of the schedule.
            min_s: Not of an open loop.
            start_ns: When a schedule of times starts, on the clock, so that several clients start together; default:
                shortly.

        Raises:
            InputError: The first queries all failed.
        """
        asked = replace(self.schedule, queries=queries, min_s=min_s)
        sides = (self._servable, asked, self.sink, self._rotation)
        with self._watch:
            if self._timed:
                way = open_loop if asked.kind == "open_loop" else lockstep
                with fine_timer():
                    done = way(*sides, block=block, origin_ns=self._origin_ns, start_ns=start_ns)
            else:
                measure = offline if asked.kind == "offline" else single_stream
                done = measure(*sides, block=block, origin_ns=self._origin_ns)
        self._complete = self._complete and done

    def finish(self) -> dict[str, Cell]:
        """Close the file.

        Returns:
            Facts of the run: the clock, the warm-up, what else went on, how late the generator was, whether all was
            measured.
        """
        self.sink.close()
        return {
            "complete": self._complete,
            "origin_ns": self._origin_ns,
            "timer_overhead_ns": self._clock.overhead_ns,
            "timer_worst_ns": self._clock.worst_ns,
            "timer_resolution_ns": self._clock.resolution_ns,
            **(self._warm.details() if self._warm is not None else {}),
            **self._watch.details(),
            **self._slow(),
            **(self._lag() if self._timed else {}),
            **(self._servable.facts() if isinstance(self._servable, Remote) else {}),
        }

    @property
    def _timed(self) -> bool:
        """Queries come at times of a schedule."""
        return self.schedule.kind == "open_loop" or (
            self.schedule.kind == "multi_stream" and self.schedule.interval_ns is not None
        )

    def _slow(self) -> dict[str, float | None]:
        rows = self.sink.rows(0)
        rows = rows[rows["end"] > 0]
        share = self._watch.share_of_slow(rows["intended"] + self._origin_ns, rows["end"] + self._origin_ns)
        return {"gc_share_of_slow": share}

    def _lag(self) -> dict[str, float]:
        rows = self.sink.rows(0)
        rows = rows[rows["end"] > 0]
        lag_ns = generator_lag_ns(
            rows["intended"], rows["sent"], rows["end"],
            max_batch=self.schedule.max_batch, queue_delay_ns=int(self.schedule.queue_delay_s * 1e9),
            in_process=not isinstance(self._servable, Remote),
        )  # fmt: skip
        if not len(lag_ns):
            return {}
        p50, p99 = np.quantile(lag_ns, [0.5, 0.99], method="inverted_cdf") / 1e6
        return {
            "generator_lag_p50_ms": float(p50),
            "generator_lag_p99_ms": float(p99),
            "generator_lag_max_ms": float(lag_ns.max()) / 1e6,
        }
