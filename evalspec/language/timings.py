"""Timings as checks are handed them: what is asked for, a `Schedule`, and what comes of it, `Samples` or a `Probe`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from evalspec.evidence.frozen import Cells
from evalspec.language.streams import Streams

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Schedule:
    """Schedule of a measurement, for a worker.

    Args:
        kind: ``single_stream``: one query after the other. ``multi_stream``: a query has one item from each of
            ``batch`` streams. ``offline``: batches back to back, until time and count are reached. ``open_loop``:
            queries at the times in ``arrivals_ns``, even if earlier ones have not ended.
        queries: Queries in each fresh process (for ``offline``: the minimum).
        processes: Fresh processes (for a comparison: pairs of processes).
        batch: Items per query.
        warmup_queries: Minimum number of queries before measuring.
        warmup_s: Minimum time before measuring.
        settle: Warm up until latencies are steady, within a limit.
        min_s: Minimum time in each process or block.
        seed: Seed of the order of items.
        limit_s: Longest time for a process.
        arrivals_ns: ``open_loop``: shape (queries,), rising, when each query is to be sent.
        items: ``open_loop``: shape (queries,), row of each query; None: the seeded order.
        interval_ns: ``multi_stream``: interval between queries, even if the one before has not ended; None: one after
            the other.
        max_batch: ``open_loop`` in process: maximum number of waiting queries that are served together.
        queue_delay_s: Longest time that a query waits for others to join it.
        timeout_s: A query that takes longer has failed.
        clients: Client processes that drive a server.
        connections: Connections of each client to a server. ``offline``: number of requests in flight at any time.
        repeats: How often each item is sent in a row: 1; 2 in an audit for caching (block 0, then block 1).
        ample_s: ``single_stream``: after so long ``fewest`` queries are enough, of thousands at most; None: all are
            sent.
        fewest: Queries that are sent however long they take.
        telemetry_s: Interval at which the machine's counters are read; None: they are not read.
        background: Work beside the model: ``cpu``, ``memory``, ``gpu``; None: nothing.
        background_workers: Processes of this work.
        sizes: ``open_loop``: shape (queries,), items of each query, which the model receives as one batch. ``batch`` is
            then the number of items whose answers are kept. None: ``batch`` items in every query.
    """

    kind: Literal["single_stream", "multi_stream", "offline", "open_loop"]
    queries: int
    processes: int = 5
    batch: int = 1
    warmup_queries: int = 32
    warmup_s: float = 0.5
    settle: bool = True
    min_s: float = 0.0
    seed: int = 0
    limit_s: float = 600.0
    arrivals_ns: NDArray[np.int64] | None = None
    items: NDArray[np.int64] | None = None
    interval_ns: int | None = None
    max_batch: int = 1
    queue_delay_s: float = 0.0
    timeout_s: float = 10.0
    clients: int = 1
    connections: int = 1
    repeats: int = 1
    ample_s: float | None = None
    fewest: int = 0
    telemetry_s: float | None = None
    background: str | None = None
    background_workers: int = 1
    sizes: NDArray[np.int64] | None = None

    @property
    def measuring_s(self) -> float:
        """Share of ``limit_s`` for measuring; the rest is for the answer of the process."""
        return 0.9 * self.limit_s


TIMED_BEFORE = "timed_before"
"""Detail of samples: by how many checks the model was timed in the same process before; absent where there was none."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Raw timings of one model in one fresh process, in the order in which they were made.

    Args:
        model: Name of the model.
        process: Index of the fresh process (pairs share it).
        block: shape (q,), index of the block (A B B A: 0..3; without blocks: 0).
        intended_ns, sent_ns, end_ns: shape (q,), on the process's monotonic clock, from the start of measuring.
        items: shape (q,), row index of the first item of each query.
        batch: Items per query. With ``sizes``: number of items in each query whose answers are kept.
        ok: shape (q,), False if the query raised.
        warmup: Number of warm-up queries, which are not kept.
        details: Threads, provider and precision observed, warm-up seconds, timer overhead.
        answers: shape (q, batch), class index or value of each answer, NaN if there was none; None: not kept.
        first_ns: shape (q,), time of the first byte of the answer; None: it came with the rest.
        outcome: shape (q,), index into `OUTCOMES`; None: answered if ``ok``, else failed.
        together: shape (q,), queries that the server batched together (dynamic batching); None: it did not batch.
        telemetry: Readings of the machine during the measurement, or None.
        sizes: shape (q,), items of each query; None: ``batch`` items in every query.
        streams: Streamed answers of the queries, if the model streams.
    """

    model: str
    process: int
    block: NDArray[np.int64]
    intended_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    items: NDArray[np.int64]
    batch: int
    ok: NDArray[np.bool_]
    warmup: int
    details: Cells = field(default_factory=dict)
    answers: NDArray[np.float64] | None = None
    first_ns: NDArray[np.int64] | None = None
    outcome: NDArray[np.int64] | None = None
    together: NDArray[np.int64] | None = None
    telemetry: Telemetry | None = None
    sizes: NDArray[np.int64] | None = None
    streams: Streams | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Findings of a probe in one fresh process: facts and series, no decision.

    Args:
        probe: Its name: a module of ``evalspec/measure/probes``.
        model: Name of the model that the process held.
        process: Index of the fresh process.
        facts: By name, the unit in the name; always ``start_s``, ``import_s`` and ``load_s`` of its process.
        series: By name, the unit in the name: shape (k,).
        texts: By name: lists of words that go with the series (names of stages, of operators).
        telemetry: What was read of the machine meanwhile, where it was asked for.
    """

    probe: str
    model: str
    process: int
    facts: Cells
    series: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    telemetry: Telemetry | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Readings of the machine while something was measured, by a process beside it.

    Args:
        times_ns: shape (t,), on the clock of the samples beside it (0: start of measuring).
        series: Name with its unit (``gpu_power_w``, ``resident_mib``, ``cpu_steal_share``): shape (t,), NaN where a
            reading failed.
        sources: Name of a series: where it comes from (``NVML total energy counter``, ``/proc/stat``).
        missing: What could not be read: why.
    """

    times_ns: NDArray[np.int64]
    series: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


OUTCOMES: tuple[str, ...] = (
    "answered",
    "failed",
    "timed out",
    "not connected",
    "connection broke",
    "refused (HTTP 4xx)",
    "server error (HTTP 5xx)",
    "answer not understood",
    "answer of another shape",
    "answer not finite",
    "not sent",
    "cut off",
    "error in the stream",
    "empty answer",
)
"""What became of a query; `Samples.outcome` is an index. "failed" is all that a model in process says."""

(
    ANSWERED, FAILED, TIMED_OUT, NOT_CONNECTED, BROKE, REFUSED, SERVER_ERROR, NOT_UNDERSTOOD, OTHER_SHAPE, NOT_FINITE,
    NOT_SENT, CUT_OFF, ERROR_IN_STREAM, EMPTY,
) = range(len(OUTCOMES))  # fmt: skip

PER_QUERY = (
    "block", "intended_ns", "sent_ns", "end_ns", "items", "ok", "answers", "first_ns", "outcome", "together", "sizes",
)  # fmt: skip
"""Fields of `Samples` that have one value, or one row, for each query."""
