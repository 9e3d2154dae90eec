"""Blocks of `sustained`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Series, Table
from evalspec.evidence.frozen import Cell
from evalspec.measure.telemetry import readings
from evalspec.timing import concurrency, device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.sustained.ratio import Ends
    from evalspec.checks.system.sustained.spec import Sustained
    from evalspec.language.inputs import Samples

POINTS = 200
EPISODES = 20
"""Bands of throttling that a chart shows."""


def blocks(
    check: Sustained, samples: Sequence[Samples], series: device.DeviceSeries, ends: Sequence[Ends]
) -> list[AnyBlock]:
    """Throughput over time with bands where it throttled, clocks, temperatures, and each process.

    Args:
        check: Its fields.
        samples: One per process.
        series: What tells of the device.
        ends: Of the processes that had both ends.
    """
    found: list[AnyBlock] = [_course(samples, series)]
    for title, name, unit in (("Clock", series.clock, "MHz"), ("Temperature", series.temperature, "C")):
        curve = _read(title, samples, name, unit)
        if curve is not None:
            found.append(curve)
    rows: list[tuple[Cell, ...]] = [
        (index + 1, one.start, one.end, one.end / one.start if one.start > 0 else None)
        for index, one in enumerate(ends)
    ]
    table = Table(
        title="Start and end", caption="Throughput in the first and in the last fifth of each process.",
        columns=(Column(name="process"), Column(name="first fifth", unit="samples/s"),
                 Column(name="last fifth", unit="samples/s"), Column(name="ratio", unit="x")),
        rows=tuple(rows),
    )  # fmt: skip
    return [*found, table]


def _course(samples: Sequence[Samples], series: device.DeviceSeries) -> Curve:
    drawn, top = [], 0.0
    for one in samples:
        seconds, rates = course(one)
        if not len(seconds):
            continue
        top = max(top, float(rates.max()))
        drawn.append(Series(name=f"process {one.process + 1}", x=tuple(seconds.tolist()), y=tuple(rates.tolist())))
    bands = [
        Series(name=f"throttled (process {one.process + 1})", x=(begin, end), y=(top, top), lower=(0.0, 0.0),
               upper=(top, top))
        for one in samples
        for begin, end in episodes(one, series)
    ]  # fmt: skip
    return Curve(
        title="Throughput over time",
        caption="Of each process; bands where the device said that it slowed itself down." if bands
        else "Of each process.",
        x_label="time in the process", x_unit="s", y_label="throughput", y_unit="samples/s",
        series=(*drawn, *bands[:EPISODES]),
    )  # fmt: skip


def course(samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Throughput of short stretches: seconds from the start, shape (s,), and items a second, shape (s,)."""
    count = min(POINTS, len(samples.end_ns))
    if not count:
        return np.empty(0), np.empty(0)
    edges = np.linspace(0, len(samples.end_ns), count + 1).astype(np.int64)
    order, begins = np.arange(len(samples.ok)), samples.sent_ns
    if concurrency.lanes(samples) > 1:
        # Each answer makes room for the next request: a stretch begins when the one before it ends.
        order = np.argsort(samples.end_ns, kind="stable")
        begins = np.concatenate((samples.sent_ns[:1], samples.end_ns[order[:-1]]))
    items = np.concatenate(([0], np.cumsum(samples.ok[order]))) * samples.batch
    spent = (samples.end_ns[order[edges[1:] - 1]] - begins[edges[:-1]]) / 1e9
    rates = np.diff(items[edges]) / np.maximum(spent, 1e-9)
    return (begins[edges[:-1]] - samples.sent_ns[0]) / 1e9, rates


def episodes(samples: Samples, series: device.DeviceSeries) -> list[tuple[float, float]]:
    """From when to when the device was slowed, in seconds from the start of a process."""
    seconds, slowed = device.slowed(samples.telemetry, series, *device.span(samples))
    if not slowed.any():
        return []
    edges = np.diff(np.concatenate(([0], slowed.astype(np.int64), [0])))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    last = len(seconds) - 1
    return [(float(seconds[b]), float(seconds[e])) for b, e in zip(begins, np.minimum(ends, last), strict=True)]


def _read(title: str, samples: Sequence[Samples], name: str, unit: str) -> Curve | None:
    drawn = []
    for one in samples:
        begin, end = device.span(one)
        times, values = readings(one.telemetry, name, begin, end)
        if len(values):
            x = tuple(((times - begin) / 1e9).tolist())
            drawn.append(Series(name=f"process {one.process + 1}", x=x, y=tuple(values.tolist())))
    if not drawn:
        return None
    return Curve(
        title=title, caption="Read by a process beside it.", x_label="time in the process", x_unit="s",
        y_label=title.lower(), y_unit=unit, series=tuple(drawn),
    )  # fmt: skip
