"""Costs of batches of a size beside time, as far as telemetry tells, and the size that is best for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.frozen import Cell
from evalspec.language.timings import TIMED_BEFORE
from evalspec.measure.telemetry import readings
from evalspec.timing import metered

if TYPE_CHECKING:
    from evalspec.language.inputs import Samples

EVERY_S = 0.05
"""So that a second of batches holds 10 readings of an energy counter, and more."""


@dataclass(frozen=True)
class Costs:
    """Of batches of one size, over the processes.

    Args:
        host_mib: Largest resident size of fresh processes that was read; None where it was not.
        device_mib: Most of the GPU's memory that was read.
        joules: Mean energy of an item inside ``boundary``.
        boundary: What is metered.
    """

    host_mib: float | None
    device_mib: float | None
    joules: float | None
    boundary: str


def costs(samples: Sequence[Samples], device: str) -> Costs:
    """Costs of processes that served batches of one size, from telemetry.

    Args:
        samples: Of these processes.
        device: ``cpu`` or ``cuda:0``: what is metered.
    """
    boundary = "package" if device == "cpu" else "gpu"
    names = ("gpu_memory_mib", "gpu_board_memory_mib")
    on_device = next((most for name in names if (most := _most(samples, name)) is not None), None)
    found = [metered.metered(one, boundary) for one in samples]
    spent = [one.joules for one in found if one.known and one.items]
    # A meter that told of some processes only says nothing of the others.
    joules = float(np.mean(spent)) if spent and len(spent) == len(samples) else None
    # What the check before made a process hold is not a cost of this size.
    fresh = [one for one in samples if not one.details.get(TIMED_BEFORE)]
    return Costs(_most(fresh, "resident_mib"), None if device == "cpu" else on_device, joules, boundary)


def _most(samples: Sequence[Samples], name: str) -> float | None:
    read = [readings(one.telemetry, name, 0, int(one.end_ns.max()))[1] for one in samples if len(one.end_ns)]
    known = [float(values.max()) for values in read if len(values)]
    return max(known, default=None)


def columns(found: Mapping[int, Costs]) -> list[tuple[Column, dict[int, Cell]]]:
    """Columns of what is known of at least one size: the column, and its cell by batch size."""
    boundary = next((one.boundary for one in found.values()), "")
    wanted = (
        (Column(name="host memory", unit="MiB"), {size: one.host_mib for size, one in found.items()}),
        (Column(name="device memory", unit="MiB"), {size: one.device_mib for size, one in found.items()}),
        (Column(name=f"energy of an item ({boundary})", unit="J"), {size: one.joules for size, one in found.items()}),
    )
    return [(column, dict(cells)) for column, cells in wanted if any(value is not None for value in cells.values())]


def best_sizes(
    rates: Mapping[int, float | None], latencies: Mapping[int, float | None], found: Mapping[int, Costs]
) -> Table:
    """The best batch size for each of several ends: they seldom agree.

    Args:
        rates: By batch size, items a second.
        latencies: By batch size, ms of a batch.
        found: By batch size.
    """
    host = {size: one.host_mib for size, one in found.items()}
    ends: list[tuple[str, Mapping[int, float | None], bool, str]] = [
        ("throughput", rates, True, "samples/s"),
        ("latency of a batch", latencies, False, "ms"),
        # Of a size of which it is unknown it may be the least.
        ("host memory", {} if None in host.values() else host, False, "MiB"),
        ("device memory", {size: one.device_mib for size, one in found.items()}, False, "MiB"),
        ("energy of an item", {size: one.joules for size, one in found.items()}, False, "J"),
    ]
    rows: list[tuple[Cell, ...]] = []
    for name, values, higher, unit in ends:
        known = {size: value for size, value in values.items() if value is not None}
        if known:
            value = max(known.values()) if higher else min(known.values())
            rows.append((name, next(size for size in known if known[size] == value), value, unit))
    return Table(
        title="Best batch size for each", caption="In this run; the best for one is rarely the best for another.",
        columns=(Column(name="best for"), Column(name="batch", unit="count"), Column(name="value"),
                 Column(name="unit")),
        rows=tuple(rows),
    )  # fmt: skip
