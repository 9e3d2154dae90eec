"""Measurement of `latency`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.latency import show
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import ComparisonParts, Estimate, Measured
from evalspec.evidence.reasons import Cause, Reason, gravest, only_worse
from evalspec.evidence.units import from_unit
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.open_loop import generator_lag_ns, served_without_lag_ns
from evalspec.stats.timing.after_step import After
from evalspec.stats.timing.failing_pairs import Pairs
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.processes import Drift, block_cv, drift, jitter, over_processes
from evalspec.stats.timing.saturation import LateUnderLoad, UnderLoad, WithoutLag, saturation
from evalspec.stats.timing.share_over import share_over
from evalspec.timing import samples as timing_samples
from evalspec.timing import streams, token_times
from evalspec.timing.budget import BLOCK_S, PERCENTILES, POOLED_GAP, STREAMED
from evalspec.timing.caching_audit import audit
from evalspec.timing.drift import rises, spells
from evalspec.timing.generator_lag import allowed_ms, bottleneck
from evalspec.timing.invalidation import Found, violates
from evalspec.timing.no_bound import reasons
from evalspec.timing.paired import compare
from evalspec.timing.surroundings import EVERY_S, surroundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.latency.spec import Latency
    from evalspec.language.inputs import Inputs, Samples
    from evalspec.language.requirement import Requirement

OVERTIME = 5.0
"""Times its frames that a process may take before it is given up."""
COMPARED = (*PERCENTILES, "latency_mean", "jitter")
NO_PAIR = "in no pair of processes both models were asked twice"
NO_STREAMS = "not both models streamed answers that have such a time"
NOISY_CV = 0.05
_LONGEST_MS = 1e9
DRAFT_QUERIES = 20


@dataclass(frozen=True)
class Course:
    """Steadiness of a run.

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
    audited = None
    if check.caching_audit and not inputs.draft:
        audited = audit(inputs, check, check.dataset, check.model, _warmup_s(check, inputs))
    schedule = _schedule(check, inputs, None if audited is None else audited.query_ms)
    samples, more = _alone(check, inputs, schedule)
    latencies = [timing_samples.latencies_ms(one) for one in samples]
    course, after = _course(check, samples, latencies)
    around = surroundings(samples)
    short = timing_samples.too_short(samples, schedule.processes, _least(check, inputs))
    withhold = course.withhold or timing_samples.too_early(samples, check.expected(check.planned))
    plain, missing = _estimates(check, samples, latencies, after)
    estimates: dict[str, Found] = dict(_trusted(check, samples, plain, short or around.invalid, withhold, inputs))
    streamed, unknown = _streamed(samples, short or around.invalid, withhold)
    estimates, missing = {**estimates, **streamed}, {**missing, **unknown}
    comparisons: dict[tuple[str, str], ComparisonParts] = {}
    beside: list[str] = []
    for baseline in check.baselines:
        pairs, void, counts, remarks, early = _pairs(check, inputs, schedule, baseline)
        comparisons |= {
            (metric, baseline): ComparisonParts({}, pair, invalid=gravest(counts.get(metric), void), withhold=early)
            for metric, pair in pairs.items()
        }
        missing |= {f"{metric} vs {baseline}": NO_PAIR for metric in COMPARED if metric not in pairs}
        missing |= {
            f"{one.metric} vs {baseline}": NO_STREAMS
            for one in check.requirements
            if one.model == baseline and one.metric in STREAMED and one.metric not in pairs
        }
        beside += remarks
    invalid: str | None = None
    if audited is not None:
        estimates, invalid = audited.applied(estimates, comparisons, check.requirements, inputs.confidence)
    return CheckResult(
        estimates=estimates,
        comparisons=comparisons,
        missing=missing,
        blocks=show.blocks(check, samples, latencies, plain, inputs.confidence),
        counts=timing_samples.counted(samples, attempted=len(samples) * schedule.queries),
        conditions={"scenario": check.scenario, "batch": check.batch, "processes": len(samples),
                    "queries": sum(len(one.ok) for one in samples),
                    "interval_ms": check.interval_ms, "block_cv": course.cv,
                    "drift": course.drift.change if course.drift else None,
                    "caching_gain": audited.gain if audited is not None else None,
                    **streams.facts(samples),
                    **timing_samples.conditions(inputs, check.model, samples)},
        notes=[*more, *course.notes, *streams.notes(samples),
               *timing_samples.notes(samples, plain["latency_p50"].value),
               *spells(samples, latencies), *around.notes, *beside, *([] if audited is None else [audited.note])],
        invalid=invalid,
    )  # fmt: skip


def _alone(check: Latency, inputs: Inputs, schedule: Schedule) -> tuple[list[Samples], list[str]]:
    """Fresh processes; twice as many where the first differ by more than their queries explain; and a note of that.

    Whether more are started depends on how far processes differ, never on what they decide, so that no look is free.
    """
    began = time.monotonic()
    samples = inputs.measure(schedule, check.dataset, check.model)
    took = time.monotonic() - began
    if inputs.draft or not check.may_add_processes or 2.0 * took > check.alone_s or not _differ(check, samples):
        return samples, []
    try:
        added = inputs.measure(replace(schedule, seed=schedule.processes), check.dataset, check.model)
    except NotRunError:
        # What is judged again was not measured further.
        return samples, []
    note = f"The first {len(samples)} processes differ by more than their queries explain: {len(added)} more were run."
    return [*samples, *added], [note]


def _differ(check: Latency, samples: list[Samples]) -> bool:
    """Processes differ clearly at a percentile that is required."""
    wanted = {PERCENTILES[one.metric] for one in check.requirements if one.model is None and one.metric in PERCENTILES}
    series = [timing_samples.steady_ms(one) for one in samples]
    return any(percentile(series, p).differ_clearly for p in wanted)


def _pairs(
    check: Latency, inputs: Inputs, schedule: Schedule, baseline: str
) -> tuple[dict[str, Pairs], str | None, dict[str, str], list[str], str | None]:
    """Both models in pairs of processes; why they are void; why some are; notes; and why nothing passes yet."""
    each = schedule.queries if inputs.draft else check.planned_pairs // check.processes
    paired = replace(schedule, queries=each, min_s=0.0 if inputs.draft else BLOCK_S)
    ours, theirs = inputs.measure_paired(paired, check.dataset, baseline)
    around = surroundings([*ours, *theirs])
    short = timing_samples.too_short([*ours, *theirs], 2 * schedule.processes, _least(check, inputs) // 2 * 2)
    pairs = compare(ours, theirs)
    counts: dict[str, str] = {}
    for side in (ours, theirs):
        keep = [timing_samples.settled(one) for one in side]
        counts |= {name: why for name in pairs if (why := token_times.void(name, side, keep)) is not None}
    early = timing_samples.too_early(ours, check.expected(check.planned_pairs))
    return pairs, short or around.invalid, counts, [f"Beside {baseline}: {note}" for note in around.notes], early


def _least(check: Latency, inputs: Inputs) -> int:
    """Queries of a process, or of a side of a pair, with fewer of which the plan was not reached."""
    return DRAFT_QUERIES if inputs.draft else check.planned // check.processes


def _warmup_s(check: Latency, inputs: Inputs) -> float:
    return timing_samples.warmup_s(inputs, check.model, *check.baselines)


def _schedule(check: Latency, inputs: Inputs, query_ms: float | None) -> Schedule:
    return Schedule(
        kind=check.scenario,
        queries=DRAFT_QUERIES if inputs.draft else check.queries_each(query_ms),
        processes=1 if inputs.draft else check.processes,
        batch=check.batch,
        warmup_queries=check.warmup,
        warmup_s=_warmup_s(check, inputs),
        min_s=0.0 if inputs.draft else check.least_s,
        limit_s=max(600.0, OVERTIME * check.planned / check.processes * (check.interval_ms or 0.0) / 1e3),
        interval_ns=None if check.interval_ms is None else round(check.interval_ms * 1e6),
        telemetry_s=EVERY_S,
    )


def _course(
    check: Latency, samples: list[Samples], latencies: list[NDArray[np.float64]]
) -> tuple[Course, list[NDArray[np.float64]]]:
    """Steadiness of the run, and latencies after a step up in long processes."""
    course = steadiness(latencies, check.max_cv)
    change, after, most = rises(samples, latencies)
    if change is None:
        return course, []
    cause = surroundings(samples).throttled or "a machine that grows hot does that"
    where = "" if most else f" in {len(after)} of {len(samples)} processes, too few to decide by"
    text = f"latency steps up by {100 * change.change:.0f} % after {change.at_s:.0f} s{where}"
    sentence = f"{text[0].upper()}{text[1:]} ({cause if most else 'other work beside that process does that too'})."
    return replace(course, notes=(*course.notes, sentence)), after if most else []


def _trusted(
    check: Latency,
    samples: list[Samples],
    plain: dict[str, Estimate],
    void: str | None,
    withhold: str | None,
    inputs: Inputs,
) -> dict[str, Measured]:
    """Estimates with what mistrusts their measurement, each by its own percentile and threshold."""
    lags, freed = _lags(check, samples)
    trusted = {}
    counted = [timing_samples.steady(one) for one in samples]
    required = {one.metric for one in check.requirements}
    for name, estimate in plain.items():
        # Steps from one answer to the next may grow or shrink; an answer can only come later.
        disturbed = void if name == "jitter" else only_worse(void)
        wanted = [one for one in check.requirements if one.metric == name and one.model is None]
        late = None if freed is None else _late(check, name, lags, wanted)
        beside = None if freed is None else freed.get(name)
        if beside is not None and any(lag.max(initial=0.0) > allowed_ms(None) for lag in lags):
            estimate = WithoutLag(estimate, beside)
        # A reason takes a bound, and stands with the requirement that lacks one.
        notes = reasons(estimate) if name in required else ()
        if late and void is None and beside is not None and violates(beside, wanted, inputs.confidence):
            trusted[name] = Measured(estimate, withhold=withhold or late, notes=notes)
        else:
            invalid = gravest(token_times.void(name, samples, counted), disturbed, late)
            trusted[name] = Measured(estimate, invalid=invalid, withhold=withhold, notes=notes)
    return trusted


def _streamed(
    samples: list[Samples], void: str | None, withhold: str | None
) -> tuple[dict[str, Found], dict[str, str]]:
    """Numbers of all pieces of all answers together; and why others are not there."""
    keep = [timing_samples.steady(one) for one in samples]
    counted, missing = token_times.facts(samples, keep)
    found: dict[str, Found] = dict(counted)
    gaps = token_times.pooled(samples, keep)
    if gaps is None:
        missing[POOLED_GAP] = token_times.missing(POOLED_GAP, samples)
    else:
        found[POOLED_GAP] = Measured(gaps, invalid=only_worse(void), withhold=withhold, notes=reasons(gaps))
    return found, missing


def _lags(check: Latency, samples: list[Samples]) -> tuple[list[NDArray[np.float64]], dict[str, Estimate] | None]:
    """Lag of our generator with each frame, ms, and the estimates without that; None: nothing is due here."""
    if check.interval_ms is None:
        return [], None
    lags = [np.maximum(generator_lag_ns(one.intended_ns, one.sent_ns, one.end_ns), 0) / 1e6 for one in samples]
    took = [served_without_lag_ns(one.intended_ns, one.sent_ns, one.end_ns) / 1e6 for one in samples]
    freed = [np.where(one.ok, spent, np.inf) for one, spent in zip(samples, took, strict=True)]
    return lags, _estimates(check, samples, freed, [])[0]


def _late(check: Latency, name: str, lags: list[NDArray[np.float64]], wanted: list[Requirement]) -> str | None:
    """Frames in lockstep that our generator sent late; frames that wait for the model are the model's."""
    p, limit = PERCENTILES.get(name, 0.99), check.interval_ms
    if name in PERCENTILES:
        limit = min((one.threshold for one in wanted), default=limit)
    elif name == "deadline_miss_rate":
        share = min((from_unit(one.threshold, one.unit) for one in wanted), default=0.01)
        p, limit = min(max(0.5, 1.0 - share), 0.9999), check.limit_ms
    lag, allowed = percentile(lags, p).value, allowed_ms(limit)
    return None if lag is None or lag <= allowed else bottleneck("frames", 1.0 - p, lag, allowed)


def steadiness(processes: list[NDArray[np.float64]], max_cv: float) -> Course:
    """Drift and variation of a run in its course.

    Args:
        processes: One array per process, shape (q,), ms; failed queries are left out.
        max_cv: Variation of block medians beyond which nothing passes.
    """
    answered = [series[np.isfinite(series)] for series in processes]
    cv, trend = block_cv(answered), drift(answered)
    notes, withhold = [], None
    if trend is not None and not trend.steady:
        way = "rises" if trend.change > 0 else "falls"
        text = f"latency {way} by {100 * abs(trend.change):.0f} % in the course of a process"
        if trend.change > 0:
            withhold = Reason(f"{text}: no steady state was reached", Cause.NO_STEADY_STATE)
        notes.append(f"Not steady: {text}.")
    if cv is not None and cv > max_cv:
        text = f"block medians vary by {100 * cv:.0f} %, more than {100 * max_cv:.0f} %: the run is unstable"
        withhold = withhold or Reason(text, Cause.UNSTABLE)
    if cv is not None and cv > NOISY_CV:
        notes.append(
            f"Noisy: block medians vary by {100 * cv:.0f} % (over {100 * NOISY_CV:.0f} %); look for "
            "other work on the machine, "
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
        due_ns = [one.intended_ns for one in samples]
        # A frame that failed ended too, but when does not show in its latency: it counts as not answered.
        ends = [due + np.where(np.isfinite(spent), 1e6 * np.minimum(spent, _LONGEST_MS), 0.0).astype(np.int64)
                for due, spent in zip(due_ns, latencies, strict=True)]  # fmt: skip
        queued = saturation(due_ns, ends, latencies)
    latencies = [spent[timing_samples.steady(one)] for one, spent in zip(samples, latencies, strict=True)]
    median = percentile(latencies, 0.5)
    later = percentile(after, 0.5) if after else None
    estimates: dict[str, Estimate] = {
        name: UnderLoad(median.at(p), queued, None if later is None else After(later.at(p), decides=True))
        for name, p in PERCENTILES.items()
    }
    answered = [series[np.isfinite(series)] for series in latencies]
    answered = [series for series in answered if len(series) >= 2]
    estimates["latency_mean"] = over_processes([float(series.mean()) for series in answered], least=0.0, skewed=True)
    steps = [jitter(series) for series in answered]
    estimates["jitter"] = over_processes([step for step in steps if step is not None], least=0.0, skewed=True)
    streamed = token_times.series_of(samples, [timing_samples.steady(one) for one in samples])
    estimates |= token_times.estimates(streamed, lambda _, one: UnderLoad(one, None))
    missing = {name: token_times.missing(name, samples) for name in STREAMED if name not in estimates}
    if check.limit_ms is None:
        missing["deadline_miss_rate"] = "the check has no `deadline:`"
    else:
        estimates["deadline_miss_rate"] = LateUnderLoad(
            share_over(latencies, check.limit_ms),
            queued,
            After(share_over(after, check.limit_ms), decides=True) if after else None,
        )
    return estimates, missing
