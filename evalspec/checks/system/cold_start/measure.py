"""Measurement of `cold_start`, and its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import NotRunError
from evalspec.evidence.blocks import AnyBlock, Bar, Bars, Column, Table
from evalspec.evidence.estimate import ComparisonParts
from evalspec.evidence.frozen import Cell
from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent
from evalspec.language.parts import CheckResult
from evalspec.stats.timing.processes import OverUnits, over_processes, paired_log_ratio
from evalspec.timing import samples, streams
from evalspec.timing.interleaved import by_turns
from evalspec.timing.probes import number, required

if TYPE_CHECKING:
    from evalspec.checks.system.cold_start.spec import ColdStart
    from evalspec.language.inputs import Inputs, Probe

PROBE = "first_inference"
PARTS = {"start_time": "start_s", "import_time": "import_s", "load_time": "load_s"}
FIRST_TOKEN = "first_token"
SLOW = 2.0
"""A process that takes so many times the usual is named."""


def measure(check: ColdStart, inputs: Inputs) -> CheckResult:
    """Starts processes of the model, and of it and others by turns.

    Args:
        check: Its fields.
        inputs: Where processes come from.

    Raises:
        NotRunError: No process was started.
    """
    processes = 2 if inputs.draft else check.processes
    probes = inputs.probe(PROBE, check.dataset, check.model, processes=processes)
    if not probes:
        raise NotRunError(f"no process of {check.model} was started")
    values = [times(one) for one in probes]
    names = [name for name in values[0] if all(name in one for one in values)]
    estimates = {name: over_processes([one[name] for one in values], least=0.0, skewed=True) for name in names}
    missing = {} if FIRST_TOKEN in estimates else {FIRST_TOKEN: streams.NO_STREAM}
    comparisons: dict[tuple[str, str], ComparisonParts] = {}
    for baseline in check.baselines:
        ours, theirs = by_turns(
            lambda model, _: inputs.probe(PROBE, check.dataset, model, processes=1),
            (check.model, baseline),
            processes,
        )
        sides = [[times(one) for one in side] for side in (ours, theirs)]
        lost = None
        if len(ours) < processes:
            text = f"{len(ours)} of {processes} planned pairs with {baseline} were started on both sides"
            lost = Reason(text, Cause.CUT_SHORT)
        if ours:
            for name in (name for name in estimates if all(name in one for side in sides for one in side)):
                pair = paired_log_ratio(*([one[name] for one in side] for side in sides))
                comparisons[name, baseline] = ComparisonParts({}, pair, invalid=lost)
    short = f"{len(probes)} of {processes} planned processes were started"
    return CheckResult(
        estimates=estimates,
        comparisons=comparisons,
        missing=missing,
        blocks=_blocks(probes, values, estimates, inputs.confidence),
        counts=Counts(attempted=processes, used=len(probes)),
        conditions={"processes": len(probes), "page_cache": "warm", "batch": 1,
                    **samples.model_conditions(inputs, check.model)},
        notes=_notes(probes, values),
        invalid=None if len(probes) == processes else Reason(short, Cause.CUT_SHORT),
    )  # fmt: skip


def times(probe: Probe) -> dict[str, float]:
    """Metric: its value in one process, in the metric's unit."""
    seconds = {name: required(probe, fact) for name, fact in PARTS.items()}
    first_ms, token_ms = required(probe, "first_inference_ms"), number(probe, "first_token_ms")
    found = seconds | {"first_inference": first_ms, "ready_time": sum(seconds.values()) + first_ms / 1e3}
    return found if token_ms is None else found | {FIRST_TOKEN: sum(seconds.values()) + token_ms / 1e3}


def _later_ms(probe: Probe) -> float | None:
    """Median latency of the items after the first."""
    later = probe.series["inference_ms"][1:] if "inference_ms" in probe.series else np.empty(0)
    return float(np.median(later)) if len(later) else None


def _notes(probes: Sequence[Probe], values: Sequence[Mapping[str, float]]) -> list[str]:
    notes = ["Files came from the page cache: they had been read before, to make their digests."]
    later = [one for one in (_later_ms(probe) for probe in probes) if one]
    if later:
        settled, first = float(np.median(later)), float(np.median([one["first_inference"] for one in values]))
        if first > SLOW * settled:
            notes.append(f"The first item takes {first / settled:.1f} times as long as the ones after it.")
    ready = np.array([one["ready_time"] for one in values])
    slow = np.flatnonzero(ready > SLOW * np.median(ready))
    if len(slow):
        named = ", ".join(str(index + 1) for index in slow)
        notes.append(f"Process {named} took over {SLOW:g} times as long as the usual one.")
    return notes


def _blocks(
    probes: Sequence[Probe],
    values: Sequence[Mapping[str, float]],
    estimates: Mapping[str, OverUnits],
    confidence: float,
) -> list[AnyBlock]:
    words = {"start_time": "start", "import_time": "import", "load_time": "load", "first_inference": "first item"}
    bars = []
    for name, label in words.items():
        mean = float(np.mean([one[name] for one in values]))
        bars.append(Bar(label=label, value=mean / 1e3 if name == "first_inference" else mean))
    shown = Bars(
        title="From nothing to the first answer", caption="Mean over fresh processes, part by part.", unit="s",
        bars=tuple(bars),
    )  # fmt: skip
    percent = in_percent(confidence)
    rows: list[tuple[Cell, ...]] = []
    for name, estimate in estimates.items():
        unit = "ms" if name == "first_inference" else "s"
        lower, upper = estimate.bound(confidence, "lower"), estimate.bound(confidence, "upper")
        scale = 1.0 if unit == "ms" else 1e3
        cells = (None if one is None else scale * one for one in (estimate.value, lower, upper))
        rows.append((name, *cells, estimate.n))
    summary = Table(
        title="Cold start", caption="Means over fresh processes; each bound by itself.",
        columns=(Column(name="metric"), Column(name="mean", unit="ms"), Column(name=f"lower {percent}", unit="ms"),
                 Column(name=f"upper {percent}", unit="ms"), Column(name="processes", unit="count")),
        rows=tuple(rows),
    )  # fmt: skip
    each = Table(
        title="Cold start, process by process", caption="In the order in which they were started.",
        columns=(Column(name="process"), Column(name="start", unit="s"), Column(name="import", unit="s"),
                 Column(name="load", unit="s"), Column(name="first item", unit="ms"), Column(name="ready", unit="s"),
                 Column(name="later items p50", unit="ms")),
        rows=tuple(
            (index + 1, *(one[name] for name in ("start_time", "import_time", "load_time", "first_inference",
                                                 "ready_time")), _later_ms(probe))
            for index, (one, probe) in enumerate(zip(values, probes, strict=True))
        ),
    )  # fmt: skip
    return [shown, summary, each]
