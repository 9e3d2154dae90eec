"""What `latency` computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system import _latency_blocks, _samples
from evalspec.checks.system._timed import ALONE_S, BLOCK_S, PERCENTILES, WARMUP_S
from evalspec.evidence.estimate import Comparison, Estimate, Measured
from evalspec.evidence.record import Counts
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.stats.percentile import percentile
from evalspec.stats.share_over import share_over
from evalspec.stats.timing import Drift, PairedTiming, block_cv, drift, jitter, over_processes, paired_log_ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.latency import Latency
    from evalspec.language.inputs import Inputs, Samples

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
    processes = 2 if inputs.draft else check.processes
    each = DRAFT_QUERIES if inputs.draft else check.planned // check.processes
    schedule = Schedule(
        kind="single_stream", queries=each, processes=processes, warmup_queries=check.warmup, warmup_s=WARMUP_S,
        min_s=0.0 if inputs.draft else ALONE_S,
    )  # fmt: skip
    samples = inputs.measure(schedule, check.dataset, check.model)
    latencies = [_samples.latencies_ms(one) for one in samples]
    course = steadiness(latencies, check.max_cv)
    invalid = _samples.too_short(samples, processes, each)
    estimates, missing = _estimates(check, latencies)
    comparisons: dict[tuple[str, str], Comparison] = {}
    short: str | None = None
    for baseline in check.baselines:
        paired = Schedule(
            kind="single_stream", queries=each, processes=processes, warmup_queries=check.warmup, warmup_s=WARMUP_S,
            min_s=0.0 if inputs.draft else BLOCK_S,
        )  # fmt: skip
        ours, theirs = inputs.measure_paired(paired, check.dataset, baseline)
        comparisons |= {(metric, baseline): pair for metric, pair in _compare(ours, theirs).items()}
        short = short or _samples.too_short([*ours, *theirs], 2 * processes, each // 2 * 2)
    total = sum(len(one.ok) for one in samples)
    failed = sum(int((~one.ok).sum()) for one in samples)
    typical = estimates["latency_p50"].value
    return CheckResult(
        estimates={
            name: Measured(estimate, invalid=invalid, withhold=course.withhold, notes=_reason(estimate))
            for name, estimate in estimates.items()
        },
        comparisons=comparisons,
        missing=missing,
        blocks=_latency_blocks.blocks(check, samples, latencies, estimates, inputs.confidence),
        counts=Counts(attempted=processes * each, used=total - failed, errored=failed),
        conditions={"scenario": check.scenario, "batch": 1, "processes": len(samples), "queries": total,
                    "block_cv": course.cv, "drift": course.drift.change if course.drift else None,
                    **_samples.conditions(inputs, check.model, samples)},
        notes=[*course.notes, *_samples.notes(samples, typical)],
        invalid=short,
    )  # fmt: skip


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


def _estimates(check: Latency, latencies: list[NDArray[np.float64]]) -> tuple[dict[str, Estimate], dict[str, str]]:
    estimates: dict[str, Estimate] = {name: percentile(latencies, p) for name, p in PERCENTILES.items()}
    answered = [series[np.isfinite(series)] for series in latencies]
    answered = [series for series in answered if len(series) >= 2]
    estimates["latency_mean"] = over_processes([float(series.mean()) for series in answered], least=0.0)
    steps = [jitter(series) for series in answered]
    estimates["jitter"] = over_processes([step for step in steps if step is not None], least=0.0)
    missing = {}
    if check.deadline_ms is None:
        missing["deadline_miss_rate"] = "the check has no `deadline:`"
    else:
        estimates["deadline_miss_rate"] = share_over(latencies, check.deadline_ms)
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
