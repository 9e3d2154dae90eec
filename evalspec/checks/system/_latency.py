"""What `latency` computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system import _latency_blocks, _samples
from evalspec.checks.system._caching import audit
from evalspec.checks.system._course import rises, spells
from evalspec.checks.system._environment import EVERY_S, surroundings
from evalspec.checks.system._timed import ALONE_S, BLOCK_S, PERCENTILES, WARMUP_S
from evalspec.evidence.estimate import Comparison, Estimate, Measured
from evalspec.evidence.record import Counts
from evalspec.evidence.units import format_number
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.open_loop import generator_lag_ns
from evalspec.stats.percentile import percentile
from evalspec.stats.saturation import LateUnderLoad, UnderLoad, saturation
from evalspec.stats.share_over import share_over
from evalspec.stats.timing import Drift, PairedTiming, block_cv, drift, jitter, over_processes, paired_log_ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.latency import Latency
    from evalspec.language.inputs import Inputs, Samples

LAG_MS, LAG_SHARE = 1.0, 0.01
OVERTIME = 5.0
"""Times its frames that a process may take before it is given up."""
NOISY_CV = 0.05
DRAFT_QUERIES = 20


@dataclass(frozen=True)
class Course:
    """How steady a run was.

    Args:
        cv: Variation of block medians, or None.
        drift: Trend in the course of a process, or None.
        withhold: Why nothing passes, or None.
        notes: For the reader.
    """

    cv: float | None
    drift: Drift | None
    withhold: str | None
    notes: tuple[str, ...]


def measure(check: Latency, inputs: Inputs) -> CheckResult:
    """Times the model alone, then in pairs with every model that a requirement names.

    Args:
        check: Its fields.
        inputs: Where timings come from.
    """
    audited = audit(inputs, check.dataset, check.model, WARMUP_S) if check.caching_audit and not inputs.draft else None
    schedule = _schedule(check, inputs)
    samples = inputs.measure(schedule, check.dataset, check.model)
    latencies = [_samples.latencies_ms(one) for one in samples]
    course, after = _course(check, samples, latencies)
    around = surroundings(samples)
    short = _samples.too_short(samples, schedule.processes, schedule.queries)
    invalid = short or around.invalid or _late(check, samples)
    estimates, missing = _estimates(check, samples, latencies, after)
    comparisons: dict[tuple[str, str], Comparison] = {}
    void: str | None = None
    for baseline in check.baselines:
        paired = replace(schedule, min_s=0.0 if inputs.draft else BLOCK_S, telemetry_s=None)
        ours, theirs = inputs.measure_paired(paired, check.dataset, baseline)
        comparisons |= {(metric, baseline): pair for metric, pair in _compare(ours, theirs).items()}
        void = void or _samples.too_short([*ours, *theirs], 2 * schedule.processes, schedule.queries // 2 * 2)
    if audited is not None:
        void = audited.invalid or void
    total = sum(len(one.ok) for one in samples)
    failed = sum(int((~one.ok).sum()) for one in samples)
    return CheckResult(
        estimates={
            name: Measured(estimate, invalid=invalid, withhold=course.withhold, notes=_reason(estimate))
            for name, estimate in estimates.items()
        },
        comparisons=comparisons,
        missing=missing,
        blocks=_latency_blocks.blocks(check, samples, latencies, estimates, inputs.confidence),
        counts=Counts(attempted=schedule.processes * schedule.queries, used=total - failed, errored=failed),
        conditions={"scenario": check.scenario, "batch": check.batch, "processes": len(samples), "queries": total,
                    "interval_ms": check.interval_ms, "block_cv": course.cv,
                    "drift": course.drift.change if course.drift else None,
                    "caching_gain": audited.gain if audited is not None else None,
                    **_samples.conditions(inputs, check.model, samples)},
        notes=[*course.notes, *_samples.notes(samples, estimates["latency_p50"].value), *spells(samples, latencies),
               *around.notes, *([] if audited is None else [audited.note])],
        invalid=void,
    )  # fmt: skip


def _schedule(check: Latency, inputs: Inputs) -> Schedule:
    return Schedule(
        kind=check.scenario,
        queries=DRAFT_QUERIES if inputs.draft else check.planned // check.processes,
        processes=2 if inputs.draft else check.processes,
        batch=check.batch,
        warmup_queries=check.warmup,
        warmup_s=WARMUP_S,
        min_s=0.0 if inputs.draft else ALONE_S,
        limit_s=max(600.0, OVERTIME * check.planned / check.processes * (check.interval_ms or 0.0) / 1e3),
        interval_ns=None if check.interval_ms is None else round(check.interval_ms * 1e6),
        telemetry_s=EVERY_S,
    )


def _course(
    check: Latency, samples: list[Samples], latencies: list[NDArray[np.float64]]
) -> tuple[Course, list[NDArray[np.float64]]]:
    """How steady the run was, and latencies after a step up in long processes."""
    course = steadiness(latencies, check.max_cv)
    found, after = rises(samples, latencies)
    if found is None:
        return course, []
    cause = surroundings(samples).throttled or "a machine that grows hot does that"
    text = f"latency steps up by {found.change:.0%} after {found.at_s:.0f} s"
    return replace(course, notes=(*course.notes, f"{text[0].upper()}{text[1:]} ({cause}).")), after


def _late(check: Latency, samples: list[Samples]) -> str | None:
    """Frames in lockstep that our generator sent late; frames that wait for the model are the model's."""
    if check.interval_ms is None:
        return None
    lags = [np.maximum(generator_lag_ns(one.intended_ns, one.sent_ns, one.end_ns), 0) / 1e6 for one in samples]
    lag, allowed = percentile(lags, 0.99).value, max(LAG_MS, LAG_SHARE * check.interval_ms)
    if lag is None or lag <= allowed:
        return None
    return (
        f"the load generator was the bottleneck: 1 % of frames were sent more than {format_number(lag)} ms late (at "
        f"most {format_number(allowed)} ms)"
    )


def steadiness(processes: list[NDArray[np.float64]], max_cv: float) -> Course:
    """Whether the run went on as it began.

    Args:
        processes: One array per process, shape (q,), ms; failed queries are left out.
        max_cv: Variation of block medians beyond which nothing passes.
    """
    answered = [series[np.isfinite(series)] for series in processes]
    cv, trend = block_cv(answered), drift(answered)
    notes, withhold = [], None
    if trend is not None and not trend.steady:
        way = "rises" if trend.change > 0 else "falls"
        text = f"latency {way} by {abs(trend.change):.0%} in the course of a process"
        if trend.change > 0:
            withhold = f"{text}: no steady state was reached"
        notes.append(f"Not steady: {text}.")
    if cv is not None and cv > max_cv:
        withhold = withhold or f"block medians vary by {cv:.0%}, more than {max_cv:.0%}: the run is unstable"
    if cv is not None and cv > NOISY_CV:
        notes.append(
            f"Noisy: block medians vary by {cv:.0%} (over {NOISY_CV:.0%}); look for other work on the machine, "
            "changing clocks, or memory that is shared."
        )
    return Course(cv, trend, withhold, tuple(notes))


def _estimates(
    check: Latency,
    samples: list[Samples],
    latencies: list[NDArray[np.float64]],
    after: list[NDArray[np.float64]],
) -> tuple[dict[str, Estimate], dict[str, str]]:
    queued = None
    if check.interval_ms is not None:
        queued = saturation([one.intended_ns for one in samples], [one.end_ns for one in samples], latencies)
    median = percentile(latencies, 0.5)
    later = percentile(after, 0.5) if after else None
    estimates: dict[str, Estimate] = {
        name: UnderLoad(median.at(p), queued, None if later is None else later.at(p)) for name, p in PERCENTILES.items()
    }
    answered = [series[np.isfinite(series)] for series in latencies]
    answered = [series for series in answered if len(series) >= 2]
    estimates["latency_mean"] = over_processes([float(series.mean()) for series in answered], least=0.0)
    steps = [jitter(series) for series in answered]
    estimates["jitter"] = over_processes([step for step in steps if step is not None], least=0.0)
    missing = {}
    if check.limit_ms is None:
        missing["deadline_miss_rate"] = "the check has no `deadline:`"
    else:
        estimates["deadline_miss_rate"] = LateUnderLoad(
            share_over(latencies, check.limit_ms), queued, share_over(after, check.limit_ms) if after else None
        )
    return estimates, missing


def _reason(estimate: Estimate) -> tuple[str, ...]:
    """Why an estimate has no bound, for the reader."""
    reason = getattr(estimate, "reason", None)
    if not reason:
        return ()
    return (
        f"{'Queries were not counted' if getattr(estimate, 'by_processes', False) else 'No upper bound'}: {reason}.",
    )


def _compare(ours: list[Samples], theirs: list[Samples]) -> dict[str, PairedTiming]:
    """Every quantile in every pair of processes, without the start of each block; failed queries are left out."""
    pairs = []
    for one, other in zip(ours, theirs, strict=False):
        sides = [_samples.latencies_ms(side)[_samples.settled(side)] for side in (one, other)]
        answered = [side[np.isfinite(side)] for side in sides]
        if min(len(side) for side in answered) >= 2:
            pairs.append(answered)
    if not pairs:
        return {}
    found = {
        name: paired_log_ratio([_quantile(a, p) for a, _ in pairs], [_quantile(b, p) for _, b in pairs])
        for name, p in PERCENTILES.items()
    }
    found["latency_mean"] = paired_log_ratio([a.mean() for a, _ in pairs], [b.mean() for _, b in pairs])
    steps = [(jitter(a) or 0.0, jitter(b) or 0.0) for a, b in pairs]
    found["jitter"] = paired_log_ratio([a for a, _ in steps], [b for _, b in steps])
    return found


def _quantile(values: NDArray[np.float64], p: float) -> float:
    return float(np.quantile(values, p, method="inverted_cdf"))
