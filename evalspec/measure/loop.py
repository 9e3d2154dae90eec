"""Closed-loop measuring: one query after the other, every one kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import EvalspecError, InputError
from evalspec.language.inputs import Schedule
from evalspec.measure.clocks import now_ns, read_clock
from evalspec.measure.interference import Watch
from evalspec.measure.samples import Sink, read_samples
from evalspec.measure.servable import Rotation, Servable
from evalspec.measure.warmup import WarmUp, warm_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Session", "offline", "read_samples", "single_stream"]

HOPELESS = 20
"""After so many failures in a row from the start, the model is broken, not unreliable."""
LIMIT_SHARE = 0.9
"""Of a process's time limit: what is left is for its answer."""
SPARE = 1.25
KEPT_ROWS = 1024
"""Answers that are kept of an offline block: enough to show that they are those of the quality run."""


class _Loop:
    """Queries one after the other, each kept; see `single_stream` and `offline`."""

    def __init__(self, servable: Servable, sink: Sink, rotation: Rotation, block: int, origin_ns: int) -> None:
        self.servable = servable
        self.sink = sink
        self.rotation = rotation
        self.block = block
        self.origin_ns = origin_ns
        self.first = sink.count
        self.failures = 0
        self.end = now_ns()

    def run(self, schedule: Schedule, each: Callable[[Any], NDArray[np.float64] | None]) -> bool:
        """All queries of the schedule; ``each`` is handed what came back, after the clock was read."""
        until = self.end + int(schedule.min_s * 1e9)
        limit = self.end + int(LIMIT_SHARE * schedule.limit_s * 1e9)
        while self.sink.count - self.first < schedule.queries or self.end < until:
            if self.end >= limit:
                return False
            self._query(each)
        return True

    def _query(self, each: Callable[[Any], NDArray[np.float64] | None]) -> None:
        rows = self.rotation.rows(self.sink.count)
        query = self.servable.take(rows)
        answers = None
        failure: EvalspecError | None = None
        end = 0
        sent = now_ns()
        try:
            outputs = self.servable.serve(query)
            self.servable.synchronize()
            end = now_ns()
            answers = each(outputs)
        except EvalspecError as error:
            failure = error
        self.end = end or now_ns()
        times = (sent - self.origin_ns, sent - self.origin_ns, self.end - self.origin_ns)
        self.sink.append(times, item=int(rows[0]), block=self.block, ok=failure is None, answers=answers)
        self._count(failure)

    def _count(self, failure: EvalspecError | None) -> None:
        self.failures += failure is not None
        if failure is not None and self.failures == self.sink.count - self.first == HOPELESS:
            raise InputError(f"the first {HOPELESS} queries all failed; the last one: {failure}") from failure


def single_stream(
    servable: Servable, schedule: Schedule, sink: Sink, rotation: Rotation, *, block: int = 0, origin_ns: int = 0
) -> bool:
    """One query after the other, each sent when the one before it has ended.

    What is timed is preprocessing and model, with the answer on the host. Taking the rows of a query, and making
    answers of what came back, lie between two queries and are in no latency.

    Args:
        servable: Rows and model.
        schedule: Measures ``queries`` and at least ``min_s``; gives up before ``limit_s``.
        sink: Takes every query; one that raised is not ok.
        rotation: Order of the rows; goes on where the sink's count stands.
        block: Index of the block.
        origin_ns: Where times count from.

    Returns:
        Whether all was measured that was asked for.

    Raises:
        InputError: The first 20 queries all failed.
    """
    return _Loop(servable, sink, rotation, block, origin_ns).run(schedule, servable.answers)


def offline(
    servable: Servable, schedule: Schedule, sink: Sink, rotation: Rotation, *, block: int = 0, origin_ns: int = 0
) -> bool:
    """Batches back to back, until the schedule's count and time are both reached.

    So that a batch follows right upon the one before it, answers are made after the block, of its first 1,024 rows;
    the others are not kept. Between two batches lies no more than taking the rows of the next.

    Args and result as `single_stream`.
    """
    held: list[Any] = []
    first = sink.count

    def hold(outputs: Any) -> None:
        if len(held) * schedule.batch < KEPT_ROWS:
            held.append(outputs)

    done = _Loop(servable, sink, rotation, block, origin_ns).run(schedule, hold)
    _answer_later(servable, sink, first, held)
    return done


def _answer_later(servable: Servable, sink: Sink, first: int, held: list[Any]) -> None:
    """Answers of the queries that came back, in their order."""
    came_back = first + np.flatnonzero(sink.ok(first))[: len(held)]
    failures = 0
    for query, outputs in zip(came_back.tolist(), held, strict=True):
        try:
            sink.amend(query, ok=True, answers=servable.answers(outputs))
        except EvalspecError as error:
            sink.amend(query, ok=False, answers=None)
            failures += 1
            if failures == len(held):
                raise InputError(f"all of {failures} queries failed; the last one: {error}") from error


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

    def warm_up(self) -> dict[str, str | int | float | bool | None]:
        """Warm up; the queries are not kept.

        Returns:
            How it ended.

        Raises:
            InputError: As the model raises it.
        """
        self._warm = warm_up(self._servable, self.schedule, self._rotation)
        self.sink.note(warmup=self._warm.queries)
        return self._warm.details()

    def block(self, block: int, queries: int, min_s: float) -> None:
        """Measure one block of at least so many queries and so long.

        Raises:
            InputError: The first queries all failed.
        """
        asked = replace(self.schedule, queries=queries, min_s=min_s)
        measure = offline if self.schedule.kind == "offline" else single_stream
        with self._watch:
            done = measure(self._servable, asked, self.sink, self._rotation, block=block, origin_ns=self._origin_ns)
        self._complete = self._complete and done

    def finish(self) -> dict[str, str | int | float | bool | None]:
        """Close the file.

        Returns:
            Facts of the run: the clock, the warm-up, what else went on, whether all was measured.
        """
        self.sink.close()
        return {
            "complete": self._complete,
            "timer_overhead_ns": self._clock.overhead_ns,
            "timer_worst_ns": self._clock.worst_ns,
            "timer_resolution_ns": self._clock.resolution_ns,
            **(self._warm.details() if self._warm is not None else {}),
            **self._watch.details(),
        }
