"""Blocks of `roofline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Series, Table, Text
from evalspec.evidence.units import format_number
from evalspec.evidence.words import in_percent
from evalspec.stats.timing.bottleneck import Bound, attainable, ridge
from evalspec.timing import probes as timing_probes

if TYPE_CHECKING:
    from evalspec.checks.system.roofline.measure import Placed
    from evalspec.checks.system.roofline.spec import Roofline
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Probe

WIDE = 8.0
"""The chart goes so many times beyond what it shows."""
MOST_KINDS = 20
GIGA = 1e9


def diagnosis(bound: Bound, on_calls: float | None) -> str:
    """Diagnosis in a sentence or two: what bounds the model and what could help.

    Args:
        bound: The class.
        on_calls: Share of a call that is overhead; None where it can't be told from the rest.
    """
    if bound == "compute":
        return (
            "More operations a second, a narrower precision or fewer operations make it faster; faster memory does not."
        )
    if bound == "memory":
        return (
            "Fewer bytes (narrower weights, fused operators) or a larger batch for the same weights make it faster; "
            "more arithmetic does not."
        )
    share = "most" if on_calls is None else f"{100 * on_calls:.0f} %"
    guess = " (guessed from the low fraction, since the batch is fixed)" if on_calls is None else ""
    return (
        f"{share[0].upper()}{share[1:]} of a call neither grows with the batch nor reads weights{guess}. Larger "
        "batches, fused operators, a compiled graph or CUDA graphs make it faster; a faster device does not."
    )


def blocks(check: Roofline, placed: Placed, probes: list[Probe], confidence: float) -> list[AnyBlock]:
    """Diagnosis, chart and tables.

    Args:
        check: Its fields.
        placed: The model under the roof.
        probes: One per process.
        confidence: Of the bounds.
    """
    shown: list[AnyBlock] = []
    bound = placed.bound
    if bound is not None:
        shown.append(Text(title=f"Bound by {bound}", text=diagnosis(bound, placed.on_calls)))
    chart = _chart(check, placed)
    if chart is not None:
        shown.append(chart)
    shown += [_numbers(placed, probes, confidence), _ceilings(probes), *_kinds(probes)]
    return shown


def _chart(check: Roofline, placed: Placed) -> Curve | None:
    """Log-log; None where there are no operations, or no ceiling."""
    x = placed.intensity
    if placed.compute is None or not x:
        return None
    flops = float(np.median(placed.compute))
    roofs = [("roof, this many bytes", float(np.median(placed.near)))]
    roofs.append(("roof, memory", float(np.median(placed.memory))))
    corners = [ridge(flops, rate) for _, rate in roofs]
    low, high = min(x, *corners) / WIDE, max(x, *corners) * WIDE
    series = [
        Series(
            name=name, x=(low, corner, high),
            y=tuple(attainable(at, flops, rate) / GIGA for at in (low, corner, high)),
        )
        for (name, rate), corner in zip(roofs, corners, strict=True)
    ]  # fmt: skip
    warm, cold = (placed.operations / float(np.median(s)) / GIGA for s in (placed.seconds, placed.cold_seconds))
    series += [Series(name=f"{check.model}, warm", x=(x,), y=(warm,)),
               Series(name=f"{check.model}, caches flushed", x=(x,), y=(cold,))]  # fmt: skip
    return Curve(
        title="Roofline", caption="Ceilings measured on this device; a point below the slope waits for memory, "
        "one below the flat part for arithmetic, one far below both for neither.",
        x_label="arithmetic intensity", y_label="operations", x_unit="FLOP/B", y_unit="GFLOP/s", log_x=True, log_y=True,
        series=tuple(series),
    )  # fmt: skip


def _numbers(placed: Placed, probes: list[Probe], confidence: float) -> Table:
    achieved = placed.achieved
    fractions = placed.fractions
    parts = {
        name: timing_probes.required(probes[0], f"{name}_bytes") for name in ("weight", "input", "output", "activation")
    }
    least = sum(value for name, value in parts.items() if name != "activation")
    executed = timing_probes.number(probes[0], "executed_operations")
    at_ridge = (
        None if placed.compute is None else ridge(float(np.median(placed.compute)), float(np.median(placed.near)))
    )
    numbers: list[tuple[str, float | None, str]] = [
        ("operations of a batch", placed.operations, "FLOP"),
        ("operations that ran", executed, "FLOP"),
        *((f"bytes: {name}s", value, "B") for name, value in parts.items()),
        ("arithmetic intensity", placed.intensity, "FLOP/B"),
        ("the same without activations", placed.operations / least if least else None, "FLOP/B"),
        ("ridge", at_ridge, "FLOP/B"),
        ("time of a call, warm", 1e3 * float(np.median(placed.seconds)), "ms"),
        ("time of a call, caches flushed", 1e3 * float(np.median(placed.cold_seconds)), "ms"),
        ("achieved", achieved.value, "GFLOP/s"),
        (f"achieved, lower {in_percent(confidence)}", achieved.bound(confidence, "lower"), "GFLOP/s"),
        (f"achieved, upper {in_percent(confidence)}", achieved.bound(confidence, "upper"), "GFLOP/s"),
        ("bandwidth", placed.moved_bytes / float(np.median(placed.seconds)) / GIGA, "GB/s"),
        ("share of the roof", None if fractions is None else 100.0 * float(fractions.mean()), "%"),
        ("share of the roof over memory, caches flushed",
         None if placed.cold_fraction is None else 100.0 * placed.cold_fraction, "%"),
        ("share of a call that is overhead", None if placed.on_calls is None else 100.0 * placed.on_calls, "%"),
    ]  # fmt: skip
    rows: list[tuple[Cell, ...]] = [("bound by", placed.bound or "not known")]
    rows += [
        (name, "not known" if value is None else f"{format_number(value)} {unit}") for name, value, unit in numbers
    ]
    columns = (Column(name="what"), Column(name="value"))
    return Table(
        title="Under the roof", columns=columns, rows=tuple(rows),
        caption="Bytes: each operator reads what it takes and writes what it gives.",
    )  # fmt: skip


def _ceilings(probes: list[Probe]) -> Table:
    """Every ceiling of every process, with its own spread."""
    rows: list[tuple[Cell, ...]] = []
    for probe in probes:
        for name, unit in (("gemm", "GFLOP/s"), ("near", "GB/s"), ("memory", "GB/s")):
            best, median = (
                timing_probes.number(probe, f"{name}_per_s"),
                timing_probes.number(probe, f"{name}_median_per_s"),
            )
            if best is None or median is None:
                continue
            spread = timing_probes.number(probe, f"{name}_spread")
            what = str(probe.facts.get(f"{name}_what") or name)
            percent = None if spread is None else 100.0 * spread
            rows.append((probe.process + 1, what, best / GIGA, median / GIGA, unit, percent))
    columns = (Column(name="process", unit="count"), Column(name="ceiling"), Column(name="best"), Column(name="median"),
               Column(name="unit"), Column(name="median below best", unit="%"))  # fmt: skip
    return Table(
        title="Ceilings", columns=columns, rows=tuple(rows), caption="Measured in each process, on the same threads."
    )


def _kinds(probes: list[Probe]) -> list[AnyBlock]:
    """Operators by kind, those with the most operations first."""
    kinds, series = probes[0].texts.get("kinds", ()), probes[0].series
    if not kinds:
        return []
    counts, operations, moved = (series[f"kind_{name}"] for name in ("count", "operations", "bytes"))
    order = np.lexsort((-moved, -operations))[:MOST_KINDS].tolist()
    rows = tuple(
        (kinds[at], int(counts[at]), float(operations[at]), float(moved[at]),
         float(operations[at] / moved[at]) if moved[at] else None)
        for at in order
    )  # fmt: skip
    columns = (Column(name="operator"), Column(name="count", unit="count"), Column(name="operations", unit=""),
               Column(name="bytes", unit="B"), Column(name="intensity", unit="FLOP/B"))  # fmt: skip
    caption = "As they ran." if len(kinds) <= MOST_KINDS else f"As they ran; the first {MOST_KINDS} of {len(kinds)}."
    return [Table(title="Operators", columns=columns, rows=rows, caption=caption)]
