"""Open-loop measuring: queries come at the times of a schedule, whether or not the ones before were answered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING

import numpy as np

from evalspec.clocks import NEVER_NS, now_ns
from evalspec.errors import EvalspecError, InputError, InvalidError, NotRunError
from evalspec.language.inputs import Schedule
from evalspec.language.timings import FAILED, NOT_SENT, TIMED_OUT
from evalspec.measure.answer_sample import AnswerSample, rows_to_hold
from evalspec.measure.samples import Sink
from evalspec.measure.servable import Remote, Rotation, Servable, rows_of_queries, streamed_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = Sequence[NDArray[np.int64]] | NDArray[np.int64]
    """Rows of each query: shape (q, batch), or an array for each where they differ in size."""

__all__ = ["generator_lag_ns", "lockstep", "open_loop", "served_without_lag_ns"]

LEAD_NS = 50_000_000
"""From now to the start of a schedule: its times are laid out meanwhile."""
LEAD_NS_EACH = 100
"""The same, for each query."""
SPIN_NS = 50_000
"""Before a query is due the clock is watched for so long: a sleep alone ends too late, and who watches for longer is
put off the CPU when it is wanted elsewhere."""
HOPELESS = 20
"""After so many failures in a row from the start, the model is broken, not unreliable."""


def open_loop(
    servable: Servable,
    schedule: Schedule,
    sink: Sink,
    rotation: Rotation,
    *,
    block: int = 0,
    origin_ns: int = 0,
    start_ns: int | None = None,
) -> bool:
    """Queries at their times; a latency counts from the intended time, so a wait is part of it.

    In process, one thread is the server: it takes what has arrived (intended time reached), at most ``max_batch``
    queries together, and the oldest waits at most ``queue_delay_s`` for others; when nothing waits, it sleeps, and
    watches the clock shortly before the next is due. The rows of a query that does not wait are taken before it is
    due; for those that wait, taking them is a part of serving. One that waited longer than ``timeout_s`` is given up
    unserved, as by a server that knows its clients' deadlines; one that ended later than that has timed out too.
    Answers are made afterwards, of a seeded part of the queries that makes 1,024 rows.

    Args:
        servable: Rows and model; one that is a `Remote` sends the queries itself.
        schedule: Its ``arrivals_ns``, as many as ``queries``, and how they are served.
        sink: Takes every query, in the order of the schedule.
        rotation: Order of the rows, where the schedule has no ``items``; goes on where the sink's count stands.
        block: Index of the block.
        origin_ns: Where times count from.
        start_ns: When the schedule starts, on the clock; default: shortly after all is ready for it.

    Returns:
        Whether all was measured that was asked for. At the limit, queries that were due are kept as not sent.

    Raises:
        InputError: The schedule has no arrivals, or the first 20 queries all failed in process.
        NotRunError: Queries of a model that streams its answers would be answered together.
    """
    arrivals = None if schedule.arrivals_ns is None else schedule.arrivals_ns[: schedule.queries]
    if arrivals is None or len(arrivals) < schedule.queries:
        raise InputError(f"an open loop of {schedule.queries:,} queries needs as many arrival times")
    rows = rows_asked(schedule, rotation, sink.count)
    sizes = None if schedule.sizes is None else schedule.sizes[: schedule.queries]

    def start() -> int:
        return _start(sink, rows, arrivals, block, origin_ns, start_ns, sizes)

    if isinstance(servable, Remote):
        done = servable.drive(schedule, lambda: start() - origin_ns + arrivals, rows, sink, origin_ns)
        return _close(sink, origin_ns) and done
    if schedule.max_batch > 1 and streamed_by(servable) is not None:
        raise NotRunError(
            "queries that a language model of this process answers together have no times of their own; leave "
            "`max_batch:` out, or serve the model"
        )
    kept = AnswerSample(schedule.seed, block, rows_to_hold(servable), sizes=sizes, batch=sink.batch)
    started = start()
    server = _Server(servable, sink, rows, kept, origin_ns)
    rules = _Rules(
        limit_ns=started + int(schedule.measuring_s * 1e9),
        timeout_ns=int(schedule.timeout_s * 1e9),
        max_batch=schedule.max_batch,
        delay_ns=int(schedule.queue_delay_s * 1e9),
    )
    return server.run((started + arrivals).tolist(), rules)


def rows_asked(schedule: Schedule, rotation: Rotation, first: int) -> Rows:
    """Rows of each query of an open loop.

    Args:
        schedule: Its ``queries`` and, where it says which, its ``items``.
        rotation: Order of the rows otherwise.
        first: Number of the first query in that order.

    Returns:
        shape (q, batch), or an array for each query where the schedule has ``sizes``.
    """
    if schedule.sizes is not None:
        items = None if schedule.items is None else schedule.items[: schedule.queries]
        return rotation.of_sizes(schedule.sizes[: schedule.queries], items)
    if schedule.items is None:
        return rotation.table(first, schedule.queries)
    return rows_of_queries(schedule.items[: schedule.queries], schedule.batch, rotation.n, rotation.seed)


def lockstep(
    servable: Servable,
    schedule: Schedule,
    sink: Sink,
    rotation: Rotation,
    *,
    block: int = 0,
    origin_ns: int = 0,
    start_ns: int | None = None,
) -> bool:
    """One item of each stream every ``interval_ns``; a query that is late makes the next ones late, none is dropped.

    Args and result as `open_loop`; it goes on until ``queries`` and ``min_s`` are both reached. No query times out:
    a deadline is for the check to count.
    """
    interval = schedule.interval_ns
    if interval is None:
        raise InputError("streams in lockstep need an interval")
    queries = max(schedule.queries, -(-int(schedule.min_s * 1e9) // interval))
    times = interval * np.arange(queries, dtype=np.int64)
    rows = rotation.table(sink.count, queries)
    started = _start(sink, rows, times, block, origin_ns, start_ns)
    limit_ns = started + int(schedule.measuring_s * 1e9)
    server = _Server(servable, sink, rows, AnswerSample(schedule.seed, block, rows_to_hold(servable)), origin_ns)
    return server.run((started + times).tolist(), _Rules(limit_ns=limit_ns, timeout_ns=NEVER_NS))


def generator_lag_ns(
    intended_ns: NDArray[np.int64],
    sent_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    *,
    max_batch: int = 1,
    queue_delay_ns: int = 0,
    in_process: bool = True,
) -> NDArray[np.int64]:
    """How much later than it should have been each query was sent, by the generator's fault.

    In process a query should be sent when it is due, the server is free, and batching has nothing more to wait for:
    the oldest has waited ``queue_delay_ns``, or ``max_batch`` have arrived. A client of a server should send it when
    it is due. Queries that were never sent (their end is when they were sent) have no lag and are left out.

    Args:
        intended_ns: shape (q,), in the order of the schedule.
        sent_ns: shape (q,).
        end_ns: shape (q,).
        max_batch: Of the schedule.
        queue_delay_ns: Of the schedule.
        in_process: The server is ours.

    Returns:
        shape (k,), k <= q: one for each batch in process, one for each query otherwise.
    """
    handed = end_ns > sent_ns
    intended, sent, end = intended_ns[handed], sent_ns[handed], end_ns[handed]
    if not in_process or not len(sent):
        return sent - intended
    first, _, ready = _batches(intended, sent, max_batch, queue_delay_ns)
    free = np.concatenate([[np.iinfo(np.int64).min], end[first[:-1]]])
    return np.asarray(sent[first] - np.maximum(ready, free))


def _batches(
    intended: NDArray[np.int64], sent: NDArray[np.int64], max_batch: int, queue_delay_ns: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """First and last query of each batch in process, and when it should have been served, were the server free."""
    first = np.flatnonzero(np.diff(sent, prepend=sent[0] - 1))
    last = np.append(first[1:], len(sent)) - 1
    full = np.where(last - first + 1 >= max_batch, intended[last], NEVER_NS)
    waits = np.minimum(intended[first] + queue_delay_ns, full)
    return first, last, np.maximum(intended[first], waits)


def served_without_lag_ns(
    intended_ns: NDArray[np.int64],
    sent_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    *,
    max_batch: int = 1,
    queue_delay_ns: int = 0,
) -> NDArray[np.int64]:
    """Latencies in process as they would have been, had each query been handed over when it should.

    First come, first served, in the batches that were made and with the service times that were measured: each begins
    when all of it has come, batching has nothing more to wait for, and the one before has ended (Lindley's recursion).

    Args:
        intended_ns: shape (q,), in the order of the schedule.
        sent_ns: shape (q,).
        end_ns: shape (q,).
        max_batch: Of the schedule.
        queue_delay_ns: Of the schedule.

    Returns:
        shape (q,), from the intended time; as measured for queries that were never served.

    References:
        Lindley (1952), The theory of queues with a single server, Proc. Cambridge Philosophical Society 48.
    """
    found = end_ns - intended_ns
    handed = np.flatnonzero(end_ns > sent_ns)
    if not len(handed):
        return found
    intended, sent = intended_ns[handed], sent_ns[handed]
    first, last, ready = _batches(intended, sent, max_batch, queue_delay_ns)
    ready = np.maximum(ready, intended[last])
    service = end_ns[handed][first] - sent[first]
    done = np.cumsum(service)
    ended = np.maximum.accumulate(ready - done + service) + done
    found[handed] = np.repeat(ended, last - first + 1) - intended
    return found


@dataclass(frozen=True, slots=True)
class _Rules:
    limit_ns: int
    timeout_ns: int
    max_batch: int = 1
    delay_ns: int = 0


class _Server:
    """Serves what has arrived, first come first served, in this thread."""

    def __init__(self, servable: Servable, sink: Sink, rows: Rows, kept: AnswerSample, origin_ns: int) -> None:
        self.servable = servable
        self.sink = sink
        self.rows = rows
        self.kept = kept
        self.origin_ns = origin_ns
        self.first = sink.first
        self.failures = 0

    def run(self, due_ns: list[int], rules: _Rules) -> bool:
        """All queries; ``due_ns`` on the clock."""
        reach = bisect_right(due_ns, rules.limit_ns)
        if rules.max_batch > 1:
            self._together(due_ns, reach, rules)
        else:
            self._each(due_ns[:reach], rules)
        self.kept.answer(self.servable, self.sink, self.origin_ns)
        return _close(self.sink, self.origin_ns)

    def _each(self, due_ns: list[int], rules: _Rules) -> None:
        """One query at a time."""
        now, take, serve, synchronize = now_ns, self.servable.take, self.servable.serve, self.servable.synchronize
        columns, origin = self.sink.columns(), self.origin_ns
        sent_at, end_at = columns.sent_ns, columns.end_ns
        timeout, limit = rules.timeout_ns, rules.limit_ns
        below = self.kept.below
        # The rows reach beyond what can be due before the limit.
        planned = zip(due_ns, self.kept.keys(len(due_ns)), self.rows, strict=False)
        for query, (due, key, rows) in enumerate(planned, self.first):
            sent = now()
            if sent < due:
                taken = take(rows)
                sent = wait_until(due)
            elif sent >= limit:
                break
            elif sent - due > timeout:
                self._give_up(query, sent)
                continue
            else:
                taken = take(rows)
            try:
                outputs = serve(taken)
                synchronize()
                end = now()
            except InvalidError:
                # It is about the measurement, not about one query.
                raise
            except EvalspecError as error:
                self._failed(query, 1, sent, error)
                continue
            sent_at[query] = sent - origin
            if end - due > timeout:
                columns.outcome[query] = TIMED_OUT
            elif key < below:
                below = self.kept.hold(key, query, len(rows), outputs)
            end_at[query] = end - origin

    def _together(self, due_ns: list[int], reach: int, rules: _Rules) -> None:
        """Those that wait, together."""
        keys = self.kept.keys(reach)
        place = 0
        while place < reach:
            now = wait_until(min(_wake(due_ns, place, rules), rules.limit_ns))
            if now >= rules.limit_ns:
                break
            if now - due_ns[place] > rules.timeout_ns:
                self._give_up(self.first + place, now)
                place += 1
                continue
            stop = bisect_right(due_ns, now, place, min(place + rules.max_batch, reach))
            self._batch(place, stop, now, due_ns, rules.timeout_ns, keys[place])
            place = stop

    def _batch(self, place: int, stop: int, sent: int, due_ns: list[int], timeout: int, key: float) -> None:
        query, size = self.first + place, stop - place
        try:
            some = self.rows[place:stop]
            # Of an array this takes a tenth of the time, and it is on the way to the answer.
            together = some.reshape(-1) if isinstance(some, np.ndarray) else np.concatenate(some)
            outputs = self.servable.serve(self.servable.take(together))
            self.servable.synchronize()
            end = now_ns()
        except EvalspecError as error:
            self._failed(query, size, sent, error)
            return
        rows = self.sink.rows(query, query + size)
        rows["sent"] = sent - self.origin_ns
        rows["together"] = size
        if end - due_ns[place] > timeout:
            rows["outcome"][: bisect_right(due_ns, end - timeout - 1, place, stop) - place] = TIMED_OUT
        if key < self.kept.below:
            self.kept.hold(key, query, len(together), outputs)
        rows["end"] = end - self.origin_ns

    def _give_up(self, query: int, now: int) -> None:
        at = now - self.origin_ns
        self.sink.record(query, sent_ns=at, end_ns=at, outcome=TIMED_OUT)

    def _failed(self, query: int, size: int, sent: int, error: EvalspecError) -> None:
        rows = self.sink.rows(query, query + size)
        rows["sent"], rows["outcome"], rows["together"] = sent - self.origin_ns, FAILED, size
        rows["end"] = now_ns() - self.origin_ns
        before, self.failures = self.failures, self.failures + size
        if before < HOPELESS <= self.failures == query + size - self.first:
            raise InputError(f"the first {self.failures} queries all failed; the last one: {error}") from error


def wait_until(due: int) -> int:
    """Sleep, then watch the clock; gives its first reading that is not before ``due``."""
    now = now_ns()
    if due - now > SPIN_NS:
        sleep((due - now - SPIN_NS) / 1e9)
        now = now_ns()
    while now < due:
        now = now_ns()
    return now


def _wake(due_ns: list[int], place: int, rules: _Rules) -> int:
    """When the batch that begins with this query is full, or its first query has waited long enough."""
    waits = due_ns[place] + rules.delay_ns
    last = place + rules.max_batch - 1
    return min(waits, due_ns[last]) if last < len(due_ns) else waits


def _start(
    sink: Sink,
    rows: Rows,
    times_ns: NDArray[np.int64],
    block: int,
    origin_ns: int,
    start_ns: int | None,
    sizes: NDArray[np.int64] | None = None,
) -> int:
    """Plan the queries; gives the reading of the clock at which the schedule's 0 is."""
    items = rows[:, 0] if isinstance(rows, np.ndarray) else np.array([one[0] for one in rows], dtype=np.int64)
    first = sink.plan(items, block, sizes=sizes)
    started = now_ns() + LEAD_NS + LEAD_NS_EACH * len(rows) if start_ns is None else start_ns
    sink.rows(first)["intended"] = started - origin_ns + times_ns
    return started


def _close(sink: Sink, origin_ns: int) -> bool:
    """Keep what was due and not sent, forget what was not due; whether there was neither."""
    rows = sink.rows(sink.first)
    now = now_ns() - origin_ns
    due = int(np.searchsorted(rows["intended"], now, side="right"))
    open_ = np.flatnonzero(rows["end"] == 0)
    rows["sent"][open_], rows["outcome"][open_] = now, NOT_SENT
    rows["end"][open_[open_ < due]] = now
    if len(open_) and open_[-1] >= due:
        sink.take_back(sink.first + int(open_[open_ >= due][0]))
    return not len(open_)
