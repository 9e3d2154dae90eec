"""Blocks of `latency`: the distribution, its tail, its course, a table of percentiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Histogram, Reference, Series, Table
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import in_percent
from evalspec.scoring.on_demand import shown
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.processes import block_cv
from evalspec.timing import samples as timing_samples
from evalspec.timing import streams_show
from evalspec.timing.budget import PERCENTILES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.latency.spec import Latency
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Samples

CELLS = 40
POINTS = 400


def blocks(
    check: Latency,
    samples: Sequence[Samples],
    latencies: Sequence[NDArray[np.float64]],
    estimates: Mapping[str, Estimate],
    confidence: float,
) -> list[AnyBlock]:
    """All blocks; none where no query was answered, or where the check is made again for its tests alone.

    Args:
        check: Its requirements become lines.
        samples: One per process.
        latencies: Of the same processes, ms, infinite where a query failed.
        estimates: By metric.
        confidence: Of each bound by itself.
    """
    if not shown():
        return []
    pooled = np.concatenate(latencies) if latencies else np.empty(0)
    answered = np.sort(pooled[np.isfinite(pooled)])
    if len(answered) < 2:
        return []
    lines = _thresholds(check)
    return [
        _histogram(answered, lines),
        _tail(answered, len(pooled), lines),
        _course(samples, latencies, lines),
        _percentiles(estimates, confidence),
        *_streamed(samples),
        _processes(samples, latencies),
    ]


def _streamed(samples: Sequence[Samples]) -> list[AnyBlock]:
    if any(one.streams is None for one in samples):
        return []
    return streams_show.blocks({"": samples}, {"": [timing_samples.steady(one) for one in samples]})


def _thresholds(check: Latency) -> list[Reference]:
    """Every requirement on a percentile, and the deadline, in milliseconds."""
    found = [
        Reference(label=r.sentence, value=r.threshold, says_value=True)
        for r in check.requirements
        if r.metric in PERCENTILES and r.model is None
    ]
    if check.limit_ms is not None:
        found.append(Reference(label="deadline", value=check.limit_ms))
    return found


def _references(lines: Sequence[Reference], axis: Literal["x", "y"]) -> tuple[Reference, ...]:
    return tuple(line.model_copy(update={"axis": axis}) for line in lines)


def _histogram(answered: NDArray[np.float64], lines: Sequence[Reference]) -> Histogram:
    low, high = max(float(answered[0]), 1e-6), float(answered[-1])
    edges = np.geomspace(low, high if high > low else 1.01 * low, CELLS + 1)
    counts = np.histogram(np.clip(answered, edges[0], edges[-1]), edges)[0]
    return Histogram(
        title="Latency",
        caption="All answered queries of all processes; cells grow with latency.",
        x_label="latency", x_unit="ms", y_label="queries", log_x=True,
        edges=tuple(float(edge) for edge in edges),
        counts={"queries": tuple(int(count) for count in counts)},
        references=_references(lines, "x"),
    )  # fmt: skip


def _tail(answered: NDArray[np.float64], total: int, lines: Sequence[Reference]) -> Curve:
    """Share of queries slower than each latency; points are densest in the tail."""
    slower = (total - np.arange(1, len(answered) + 1)) / total
    keep = np.unique(len(answered) - np.geomspace(1, len(answered), POINTS).astype(np.int64))
    keep = keep[slower[keep] > 0]
    return Curve(
        title="Tail",
        caption="Share of queries that take longer; 1 % is the p99.",
        x_label="latency", x_unit="ms", y_label="share slower", log_x=True, log_y=True,
        series=(Series(name="queries", x=tuple(answered[keep].tolist()), y=tuple(slower[keep].tolist())),),
        references=_references(lines, "x"),
    )  # fmt: skip


def _course(samples: Sequence[Samples], latencies: Sequence[NDArray[np.float64]], lines: Sequence[Reference]) -> Curve:
    """Median of short stretches over time, with the fastest and slowest query of each as a band.

    Processes stand one after the other: bands over each other would hide the lines.
    """
    series, start_s = [], 0.0
    for one, spent in zip(samples, latencies, strict=True):
        if not len(spent):
            continue
        when_s = start_s + timing_samples.seconds(one)
        start_s = float(when_s[-1])
        series.append(
            timing_samples.stretches(f"process {one.process + 1}", when_s, spent, POINTS // len(samples) or 1)
        )
    return Curve(
        title="Latency over time",
        caption="Median of short stretches, one process after the other; the band reaches from the fastest to the "
        "slowest query.",
        x_label="time without pauses", x_unit="s", y_label="latency", y_unit="ms", log_y=True,
        series=tuple(one for one in series if one is not None),
        references=_references(lines, "y"),
    )  # fmt: skip


def _percentiles(estimates: Mapping[str, Estimate], confidence: float) -> Table:
    percent = in_percent(confidence)
    rows: list[tuple[Cell, ...]] = []
    for name in (*PERCENTILES, "latency_mean", "jitter"):
        found = estimates[name]
        lower, upper = (found.bound(confidence, side) for side in ("lower", "upper"))
        rows.append((name, found.value, lower, upper, found.n, found.method))
    columns = (
        Column(name="metric"), Column(name="value", unit="ms"), Column(name=f"lower {percent}", unit="ms"),
        Column(name=f"upper {percent}", unit="ms"), Column(name="n", unit="count"), Column(name="method"),
    )  # fmt: skip
    caption = "Each bound by itself; n counts queries, or processes for mean and jitter."
    return Table(title="Percentiles", caption=caption, columns=columns, rows=tuple(rows))


def _processes(samples: Sequence[Samples], latencies: Sequence[NDArray[np.float64]]) -> Table:
    """Each process by itself: do they agree?"""
    rows: list[tuple[Cell, ...]] = []
    for one, spent in zip(samples, latencies, strict=True):
        answered = spent[np.isfinite(spent)]
        failed = len(spent) - len(answered)
        values = [percentile([spent], p).value for p in PERCENTILES.values()]
        slowest = float(answered.max()) if len(answered) else None
        cv = block_cv([answered])
        rows.append((one.process + 1, len(spent), failed, *values, slowest, None if cv is None else 100.0 * cv))
    columns = (
        Column(name="process"), Column(name="queries", unit="count"), Column(name="failed", unit="count"),
        *(Column(name=name.removeprefix("latency_"), unit="ms") for name in PERCENTILES),
        Column(name="slowest", unit="ms"), Column(name="variation of block medians", unit="%"),
    )  # fmt: skip
    caption = "Fresh processes in the order in which they ran."
    return Table(title="Processes", caption=caption, columns=columns, rows=tuple(rows))
