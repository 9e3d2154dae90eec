"""Measurement of `sustained`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.sustained.ratio import WINDOW, Ends, both_ends, sustained_ratio
from evalspec.checks.system.sustained.show import blocks
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.frozen import Cell
from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.words import and_list, verb
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.telemetry import readings
from evalspec.stats.timing.processes import DRIFT_FLOOR, drift
from evalspec.timing import device
from evalspec.timing import samples as timing_samples
from evalspec.timing import saturated_server as server
from evalspec.timing.budget import WARMUP_S
from evalspec.timing.surroundings import surroundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.sustained.spec import Sustained
    from evalspec.language.inputs import Inputs, Samples

EVERY_S = 0.5
DRAFT_S = 0.2
WARMUP = 5


def measure(check: Sustained, inputs: Inputs) -> CheckResult:
    """Times long runs and looks at counters meanwhile.

    Args:
        check: Its fields.
        inputs: Where timings come from.

    Raises:
        NotRunError: No process made enough batches.
    """
    processes = min(2, check.processes) if inputs.draft else check.processes
    duration_s = DRAFT_S if inputs.draft else check.duration_s
    schedule = Schedule(
        kind="offline", queries=2 if inputs.draft else server.least_batches(inputs, check.connections, check.model),
        processes=processes, batch=check.batch, warmup_queries=WARMUP, warmup_s=WARMUP_S, min_s=duration_s,
        limit_s=600.0 + 3.0 * duration_s, telemetry_s=EVERY_S, connections=check.connections,
    )  # fmt: skip
    samples = inputs.measure(schedule, check.dataset, check.model)
    ends = [both for one in samples if (both := both_ends(one)) is not None]
    if not ends:
        raise NotRunError("no process made enough batches to compare its end with its start")
    series = device.series_of(timing_samples.device_of(inputs, check.model))
    trends = [server.under_way_ms(one) for one in samples]
    estimates: dict[str, Estimate | Fact | Measured] = {
        "sustained_ratio": Measured(
            sustained_ratio(ends, check.least_processes),
            invalid=_too_short(samples, ends, schedule),
            withhold=_still_falling(trends),
        )
    }
    missing: dict[str, str] = {}
    for name, fact, reason in (_throttled(samples, series), _hottest(samples, series)):
        if fact is not None:
            estimates[name] = fact
        else:
            missing[name] = reason
    trend = drift([one[np.isfinite(one)] for one in trends])
    around = surroundings(samples)
    conditions: dict[str, Cell] = {
        **server.conditions(samples), "batch": check.batch, "processes": len(samples),
        "duration_s": duration_s, "window": WINDOW,
        "drift": trend.change if trend is not None else None, **_clocks(samples, series),
        **timing_samples.conditions(inputs, check.model, samples),
    }  # fmt: skip
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=blocks(check, samples, series, ends),
        counts=timing_samples.counted(samples),
        conditions=conditions,
        notes=[*_warm(ends), *_why(samples, series), *around.notes, *timing_samples.notes(samples, None)],
        invalid=around.invalid,
    )


def _warm(ends: Sequence[Ends]) -> list[str]:
    """Note that the machine had not cooled down between processes."""
    fastest = max(one.start for one in ends)
    slow = [str(index + 1) for index, one in enumerate(ends) if one.start < (1.0 - DRIFT_FLOOR) * fastest]
    if not slow:
        return []
    return [
        f"{verb(len(slow), 'Process', 'Processes')} {and_list(slow)} began over {100 * DRIFT_FLOOR:.0f} % slower than "
        "the fastest one: the machine may not have cooled down. All are compared with the fastest start."
    ]


def _too_short(samples: Sequence[Samples], ends: Sequence[Ends], schedule: Schedule) -> str | None:
    short = timing_samples.too_short(samples, schedule.processes, schedule.queries)
    if short is None and len(ends) < len(samples):
        return Reason(f"{len(samples) - len(ends)} of {len(samples)} processes made too few batches", Cause.CUT_SHORT)
    if short is None and server.is_bottleneck(samples):
        return server.bottleneck(samples)
    return short


def _still_falling(latencies: Sequence[NDArray[np.float64]]) -> str | None:
    halves = [one[len(one) // 2 :] for one in latencies]
    trend = drift([one[np.isfinite(one)] for one in halves])
    if trend is None or trend.direction != "up":
        return None
    text = f"batches grow slower by {100 * trend.change:.0f} % in the second half of a process: the end is not reached"
    return Reason(text, Cause.NO_STEADY_STATE)


def _throttled(samples: Sequence[Samples], series: device.DeviceSeries) -> tuple[str, Fact | None, str]:
    seen = [device.slowed(one.telemetry, series, *device.span(one))[1] for one in samples]
    silent = [str(one.process + 1) for one, readings in zip(samples, seen, strict=True) if not len(readings)]
    throttled = any(one.any() for one in seen)
    if len(silent) == len(samples):
        return "throttled", None, f"it is unknown whether the device throttled: {_missing(samples, series.throttle)}"
    if silent and not throttled:
        reason = f"it is unknown whether the device throttled in process {', '.join(silent)}"
        return "throttled", None, f"{reason}: {_missing(samples, series.throttle)}"
    fact = Fact(
        float(throttled), sum(len(one) for one in seen), f"{series.throttle}, each {EVERY_S} s", in_this_run=True
    )
    return "throttled", fact, ""


def _hottest(samples: Sequence[Samples], series: device.DeviceSeries) -> tuple[str, Fact | None, str]:
    seen = [readings(one.telemetry, series.temperature, *device.span(one))[1] for one in samples]
    values = np.concatenate(seen)
    if not len(values):
        reason = _missing(samples, series.temperature)
        return "temperature_max", None, f"the device's temperature could not be read: {reason}"
    fact = Fact(float(values.max()), len(values), f"{series.temperature}, each {EVERY_S} s", in_this_run=True)
    return "temperature_max", fact, ""


def _missing(samples: Sequence[Samples], name: str) -> str:
    reasons = [one.telemetry.missing[name] for one in samples if one.telemetry and name in one.telemetry.missing]
    return reasons[0] if reasons else f"{name} was not read"


def _clocks(samples: Sequence[Samples], series: device.DeviceSeries) -> dict[str, Cell]:
    values = np.concatenate([readings(one.telemetry, series.clock, *device.span(one))[1] for one in samples])
    if not len(values):
        return {}
    return {"clock_min_mhz": float(values.min()), "clock_max_mhz": float(values.max())}


def _why(samples: Sequence[Samples], series: device.DeviceSeries) -> list[str]:
    """Reasons that a GPU gave for its clocks."""
    if series is not device.GPU:
        return []
    shares: dict[str, float] = {}
    for one in samples:
        for word, share in device.reasons_seen(one.telemetry, *device.span(one)).items():
            shares[word] = max(shares.get(word, 0.0), share)
    if not shares:
        return []
    text = ", ".join(f"{word} (up to {100 * share:.0f} % of a process's readings)" for word, share in shares.items())
    return [f"Reasons that the GPU gave for its clocks: {text}."]
