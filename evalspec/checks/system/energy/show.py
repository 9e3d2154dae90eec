"""Blocks of `energy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Series, Table
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import in_percent
from evalspec.measure.energy import BOUNDARIES
from evalspec.measure.telemetry import readings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.energy.spec import Energy
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Samples

POINTS = 400
UNITS = {"energy_per_inference": "J", "energy_per_token": "J", "throughput_per_watt": "samples/J"}


@dataclass(frozen=True)
class SteadyLoad:
    """A steady load.

    Args:
        share: Of the throughput.
        asked: Items a second that were offered.
        got: Items a second that were answered; None where it was not metered.
        power: Over processes, W.
        joules: Over processes, J an item.
        note: Why there is nothing.
    """

    share: float
    asked: float
    got: float | None
    power: Estimate
    joules: Estimate
    note: str = ""


def blocks(
    check: Energy,
    samples: Sequence[Samples],
    estimates: Mapping[str, Estimate],
    levels: Sequence[SteadyLoad],
    rate: float,
    confidence: float,
) -> list[AnyBlock]:
    """The numbers, power over time, and the load levels.

    Args:
        check: Its fields.
        samples: One per process, batches back to back.
        estimates: By metric.
        levels: Steady loads, may be none.
        rate: Items a second, back to back.
        confidence: Of each bound by itself.
    """
    percent = in_percent(confidence)
    rows: list[tuple[Cell, ...]] = [
        (name, one.value, one.bound(confidence, "lower"), one.bound(confidence, "upper"), UNITS.get(name, "W"), one.n)
        for name, one in estimates.items()
    ]
    found: list[AnyBlock] = [
        Table(
            title="Energy", caption=f"Inside the boundary {check.boundary}; each bound by itself.",
            columns=(Column(name="metric"), Column(name="value"), Column(name=f"lower {percent}"),
                     Column(name=f"upper {percent}"), Column(name="unit"), Column(name="processes", unit="count")),
            rows=tuple(rows),
        )
    ]  # fmt: skip
    course = _course(check, samples)
    if course is not None:
        found.append(course)
    return [*found, *_levels(estimates, levels, rate)] if levels else found


def _course(check: Energy, samples: Sequence[Samples]) -> Curve | None:
    """Power over time: as it was read, or the slope of the counter."""
    drawn = []
    for one in samples:
        seconds, watts = power(one, check.boundary)
        if len(seconds):
            step = max(1, len(seconds) * len(samples) // POINTS)
            drawn.append(
                Series(
                    name=f"process {one.process + 1}",
                    x=tuple(seconds[::step].tolist()),
                    y=tuple(watts[::step].tolist()),
                )
            )
    if not drawn:
        return None
    return Curve(
        title="Power over time", caption="Of the boundary's first meter, in each process.",
        x_label="time in the process", x_unit="s", y_label="power", y_unit="W", series=tuple(drawn),
    )  # fmt: skip


def power(samples: Samples, boundary: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds from the first batch, shape (t,), and watts, shape (t,), of the boundary's first meter."""
    meter, telemetry = BOUNDARIES[boundary][0], samples.telemetry
    nothing = np.empty(0), np.empty(0)
    if telemetry is None or not len(samples.sent_ns):
        return nothing
    if meter.power is not None and meter.power in telemetry.series:
        times, watts = readings(telemetry, meter.power)
        return (times - samples.sent_ns[0]) / 1e9, watts
    times, joules = readings(telemetry, meter.counter)
    seconds = (times - samples.sent_ns[0]) / 1e9
    moved = np.flatnonzero(np.diff(joules, prepend=joules[:1]) > 0)
    if len(moved) < 2:
        return nothing
    return seconds[moved[1:]], np.diff(joules[moved]) / np.diff(seconds[moved])


def _levels(estimates: Mapping[str, Estimate], levels: Sequence[SteadyLoad], rate: float) -> list[AnyBlock]:
    rows: list[tuple[Cell, ...]] = [("idle", 0.0, 0.0, estimates["idle_power"].value, None, "")]
    rows += [
        (f"{100 * one.share:g} %", one.asked, one.got, one.power.value, one.joules.value, one.note) for one in levels
    ]
    full = estimates.get("energy_per_inference")
    rows.append(("back to back", rate, rate, estimates["active_power"].value, None if full is None else full.value, ""))
    table = Table(
        title="Load levels", caption="A steady load of a share of the throughput; means over processes.",
        columns=(Column(name="load"), Column(name="offered", unit="samples/s"), Column(name="got", unit="samples/s"),
                 Column(name="power", unit="W"), Column(name="energy of an item", unit="J"), Column(name="note")),
        rows=tuple(rows),
    )  # fmt: skip
    points = sorted((float(row[2]), float(row[3])) for row in rows if row[2] is not None and row[3] is not None)
    curve = Curve(
        title="Power against load", caption="From idle to batches back to back.", x_label="answered",
        x_unit="samples/s", y_label="power", y_unit="W",
        series=(Series(name="power", x=tuple(x for x, _ in points), y=tuple(y for _, y in points)),),
    )  # fmt: skip
    return [table, curve]
