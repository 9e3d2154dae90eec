"""What `sustained` computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system import _device, _samples
from evalspec.checks.system._environment import surroundings
from evalspec.checks.system._sustained_blocks import blocks
from evalspec.checks.system._timed import BATCHES, WARMUP_S
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import Counts
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.energy import window
from evalspec.stats.mean import t_mean
from evalspec.stats.timing import DRIFT_FLOOR, OverUnits, drift

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.sustained import Sustained
    from evalspec.language.inputs import Inputs, Samples

EVERY_S = 0.5
WINDOW = 0.2
"""Share of a process at its start, and at its end."""
BLOCKS = 5
"""Of each window, where there is one process only."""
LEAST = 2
"""Batches that a window must hold."""
DRAFT_S = 0.2
WARMUP = 5


@dataclass(frozen=True)
class Ends:
    """How fast a process was at its start and at its end.

    Args:
        first, last: shape (b,), items a second in the blocks of each window; of equal length.
        start, end: Items a second over each window.
    """

    first: NDArray[np.float64]
    last: NDArray[np.float64]
    start: float
    end: float


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
        kind="offline", queries=2 if inputs.draft else BATCHES, processes=processes, batch=check.batch,
        warmup_queries=WARMUP, warmup_s=WARMUP_S, min_s=duration_s, limit_s=600.0 + 3.0 * duration_s,
        telemetry_s=EVERY_S,
    )  # fmt: skip
    samples = inputs.measure(schedule, check.dataset, check.model)
    ends = [both for one in samples if (both := both_ends(one)) is not None]
    if not ends:
        raise NotRunError("no process made enough batches to compare its end with its start")
    device = str(inputs.model_facts(check.model).get("device") or "cpu")
    series = _device.series_of(device)
    ratio, notes = sustained_ratio(ends)
    trends = [_samples.latencies_ms(one) for one in samples]
    found: dict[str, Estimate | Fact | Measured] = {
        "sustained_ratio": Measured(ratio, invalid=_too_short(samples, ends, schedule), withhold=_still_falling(trends))
    }
    missing: dict[str, str] = {}
    for name, fact, reason in (_throttled(samples, series), _hottest(samples, series)):
        if fact is not None:
            found[name] = fact
        else:
            missing[name] = reason
    trend = drift([one[np.isfinite(one)] for one in trends])
    around = surroundings(samples)
    total = sum(len(one.ok) for one in samples)
    failed = sum(int((~one.ok).sum()) for one in samples)
    conditions: dict[str, Cell] = {
        "batch": check.batch, "processes": len(samples), "duration_s": duration_s, "window": WINDOW,
        "drift": trend.change if trend is not None else None, **_clocks(samples, series),
        **_samples.conditions(inputs, check.model, samples),
    }  # fmt: skip
    return CheckResult(
        estimates=found,
        missing=missing,
        blocks=blocks(check, samples, series, ends),
        counts=Counts(attempted=total, used=total - failed, errored=failed),
        conditions=conditions,
        notes=[*notes, *_why(samples, series), *around.notes, *_samples.notes(samples, None)],
        invalid=around.invalid,
    )


def both_ends(samples: Samples) -> Ends | None:
    """Throughput in the first and in the last fifth of a process; None where they hold too few batches.

    Args:
        samples: Of one process.
    """
    if len(samples.end_ns) < 2 * LEAST:
        return None
    begin, stop = _device.span(samples)
    length = WINDOW * (stop - begin)
    first = np.flatnonzero(samples.end_ns <= begin + length)
    last = np.flatnonzero(samples.sent_ns >= stop - length)
    if min(len(first), len(last)) < LEAST:
        return None
    count = min(BLOCKS, len(first), len(last))
    return Ends(
        first=np.array([_rate(samples, part) for part in np.array_split(first, count)]),
        last=np.array([_rate(samples, part) for part in np.array_split(last, count)]),
        start=_rate(samples, first),
        end=_rate(samples, last),
    )


def _rate(samples: Samples, at: NDArray[np.int64]) -> float:
    """Answered items a second over batches that follow each other."""
    spent = float(samples.end_ns[at[-1]] - samples.sent_ns[at[0]]) / 1e9
    return float(samples.ok[at].sum()) * samples.batch / spent if spent > 0 else 0.0


def sustained_ratio(ends: Sequence[Ends]) -> tuple[OverUnits, list[str]]:
    """The end by the start, over processes or, where there is one, over blocks; and what is to be said of it.

    Args:
        ends: At least one, in the order in which processes ran.
    """
    if len(ends) == 1:
        one = ends[0]
        logs = _log(one.last) - _log(one.first)
        note = "One process: the claim is about it alone."
        return OverUnits(t_mean(logs), "pairs of blocks (log ratios)", log=True), [note]
    starts = np.array([one.start for one in ends])
    slower = starts < (1.0 - DRIFT_FLOOR) * starts[0]
    # One that begins slow may do so by chance; a machine that is hot stays so, and all after the first begin slow.
    hot = slower & slower[1:].all()
    logs = _log(np.array([one.end for one in ends])) - _log(np.where(hot, starts[0], starts))
    notes = []
    if hot.any():
        named = ", ".join(str(index + 1) for index in np.flatnonzero(hot))
        notes.append(
            f"Process {named} began over {DRIFT_FLOOR:.0%} slower than the first one, and is held against the first "
            "one's start: the machine had not cooled down."
        )
    return OverUnits(t_mean(logs), "processes (log ratios)", log=True), notes


def _log(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms; a window in which nothing was answered is as slow as one can be told to be."""
    logs: NDArray[np.float64] = np.log(np.maximum(rates, 1e-9))
    return logs


def _too_short(samples: Sequence[Samples], ends: Sequence[Ends], schedule: Schedule) -> str | None:
    short = _samples.too_short(samples, schedule.processes, schedule.queries)
    if short is None and len(ends) < len(samples):
        return f"{len(samples) - len(ends)} of {len(samples)} processes made too few batches"
    return short


def _still_falling(latencies: Sequence[NDArray[np.float64]]) -> str | None:
    halves = [one[len(one) // 2 :] for one in latencies]
    trend = drift([one[np.isfinite(one)] for one in halves])
    if trend is None or trend.direction != "up":
        return None
    return f"batches grow slower by {trend.change:.0%} in the second half of a process: the end is not reached"


def _throttled(samples: Sequence[Samples], series: _device.Series) -> tuple[str, Fact | None, str]:
    seen = [_device.slowed(one.telemetry, series, *_device.span(one))[1] for one in samples]
    readings = sum(len(one) for one in seen)
    if not readings:
        return "throttled", None, f"nobody tells whether the device throttled: {_missing(samples, series.throttle)}"
    fact = Fact(
        float(any(one.any() for one in seen)), readings, f"{series.throttle}, each {EVERY_S} s", in_this_run=True
    )
    return "throttled", fact, ""


def _hottest(samples: Sequence[Samples], series: _device.Series) -> tuple[str, Fact | None, str]:
    seen = [window(one.telemetry, series.temperature, *_device.span(one)) for one in samples]
    values = np.concatenate(seen)
    if not len(values):
        reason = _missing(samples, series.temperature)
        return "temperature_max", None, f"the device's temperature could not be read: {reason}"
    fact = Fact(float(values.max()), len(values), f"{series.temperature}, each {EVERY_S} s", in_this_run=True)
    return "temperature_max", fact, ""


def _missing(samples: Sequence[Samples], name: str) -> str:
    told = [one.telemetry.missing[name] for one in samples if one.telemetry and name in one.telemetry.missing]
    return told[0] if told else f"{name} was not read"


def _clocks(samples: Sequence[Samples], series: _device.Series) -> dict[str, Cell]:
    values = np.concatenate([window(one.telemetry, series.clock, *_device.span(one)) for one in samples])
    if not len(values):
        return {}
    return {"clock_min_mhz": float(values.min()), "clock_max_mhz": float(values.max())}


def _why(samples: Sequence[Samples], series: _device.Series) -> list[str]:
    """Reasons that a GPU gave for its clocks."""
    if series is not _device.GPU:
        return []
    found: dict[str, float] = {}
    for one in samples:
        for word, share in _device.reasons_seen(one.telemetry, *_device.span(one)).items():
            found[word] = max(found.get(word, 0.0), share)
    if not found:
        return []
    told = ", ".join(f"{word} (up to {share:.0%} of a process's readings)" for word, share in found.items())
    return [f"Reasons that the GPU gave for its clocks: {told}."]
