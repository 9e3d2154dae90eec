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
        kind: ``single_stream``: one query after the other; ``multi_stream``: one item of each of ``batch`` streams at
            a time, together; ``offline``: batches back to back, until time and count; ``open_loop``: queries at the
            times in ``arrivals_ns``, whether or not the ones before have ended.
        queries: Queries in each fresh process (for ``offline``: the minimum).
        processes: Fresh processes (for a comparison: pairs of them).
        batch: Items per query.
        warmup_queries: At least so many queries before measuring.
        warmup_s: And at least so long.
        settle: And until latencies are steady, or too long.
        min_s: Measure at least so long in each process or block.
        seed: Order of the items.
        limit_s: Give up a process after so long.
        arrivals_ns: ``open_loop``: shape (queries,), rising, when each query is to be sent.
        items: ``open_loop``: shape (queries,), row of each query; None: the seeded order.
        interval_ns: ``multi_stream``: a query each so many ns, whether or not the one before has ended; None: one
            after the other.
        max_batch: ``open_loop`` in process: so many waiting queries are served together at most.
        queue_delay_s: And a query waits at most so long for others to join it.
        timeout_s: A query that takes longer has failed.
        clients: Client processes that drive a server.
        connections: Connections of each client to a server. ``offline``: so many requests to it are always under way.
        repeats: Each item is sent so many times in a row (1; 2 in an audit for caching: block 0 first, 1 again).
        telemetry_s: Read the machine's counters each so many seconds meanwhile; None: don't.
        background: Work that runs beside it: ``cpu``, ``memory``, ``gpu``; None: nothing.
        background_workers: Processes of it.
        sizes: ``open_loop``: shape (queries,), items of each query, handed to the model in one batch; then ``batch`` is
            so many of them whose answers are kept. None: ``batch`` in all of them.
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
    telemetry_s: float | None = None
    background: str | None = None
    background_workers: int = 1
    sizes: NDArray[np.int64] | None = None

    @property
    def measuring_s(self) -> float:
        """Of ``limit_s``: what is left is for the answer of the process."""
        return 0.9 * self.limit_s


@dataclass(frozen=True, slots=True)
class Samples:
    """Raw timings of one model in one fresh process, in the order in which they were made.

    Args:
        model: Name of the model.
        process: Index of the fresh process (pairs share it).
        block: shape (q,), index of the block (A B B A: 0..3; 0 where there are no blocks).
        intended_ns, sent_ns, end_ns: shape (q,), on the process's monotonic clock, from the start of measuring.
        items: shape (q,), row index of the first item of each query.
        batch: Items per query; where there are ``sizes``: of so many items of each the answers are kept.
        ok: shape (q,), False where the query raised.
        warmup: Queries made before and not kept here.
        details: Threads, provider and precision observed, warm-up seconds, timer overhead.
        answers: shape (q, batch), class index or value that was answered, NaN where there was none; None: not kept.
        first_ns: shape (q,), when the first byte of the answer came; None: with the rest of it.
        outcome: shape (q,), index into `OUTCOMES`; None: answered where ``ok``, else failed.
        together: shape (q,), queries that the server took together (dynamic batching); None: each by itself.
        telemetry: What was read of the machine meanwhile, or None.
        sizes: shape (q,), items of each query; None: ``batch`` in all of them.
        streams: Answers of the queries, where the model streams them.
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
