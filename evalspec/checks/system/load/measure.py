"""Measurement of `load`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.load import show
from evalspec.checks.system.load.arrivals import TRACE
from evalspec.checks.system.load.generator import (
    at_percentile,
    gated,
    lag_ms,
    lagged,
    spared,
    tightest,
    void_percentiles,
    wanted,
)
from evalspec.checks.system.load.one_rate import AtRate, drive
from evalspec.checks.system.load.plan import OFFLINE_PROCESSES, at_rates
from evalspec.checks.system.load.schedule import beside, pieces, spread, trace
from evalspec.checks.system.load.search import Confirmed, RateSearch, highest_rate
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.reasons import OnlyWorse, either_way, gravest
from evalspec.evidence.units import format_number, from_unit
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.arrivals import describe
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.rates import Factor, Goodput, MaxRate
from evalspec.stats.timing.saturation import UnderLoad, WithoutLag
from evalspec.stats.timing.share_over import ShareOver, share_over
from evalspec.timing import samples as timing_samples
from evalspec.timing import streams, token_times
from evalspec.timing.budget import (
    ALONE_S,
    BATCHES,
    PERCENTILES,
    POOLED_GAP,
    STREAMED,
    TOKEN_FACTS,
    WARMUP_S,
    limit_ms,
    percentile_of,
    rate_part,
)
from evalspec.timing.caching_audit import Audit, audit
from evalspec.timing.generator_lag import LAG_SHARE
from evalspec.timing.invalidation import violates
from evalspec.timing.no_bound import reasons
from evalspec.timing.surroundings import surroundings

if TYPE_CHECKING:
    from evalspec.checks.system.load.schedule import Traffic
    from evalspec.checks.system.load.spec import Load
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Samples
    from evalspec.language.requirement import Requirement


@dataclass(frozen=True)
class LoadResult:
    """Everything that was run.

    Args:
        parts: Rates that are parts, rising, or the trace.
        extra: Rates of ``max_rate >=`` that are no parts.
        poisson: Part: the same rate with Poisson arrivals.
        search: Where the search has been, or None.
        confirmed: Its number on fresh queries, or None.
        offline: Items a second of each process with nothing waiting.
        audit: For caching, or None.
    """

    parts: Mapping[str, AtRate]
    extra: Mapping[str, AtRate]
    poisson: Mapping[str, AtRate]
    search: RateSearch | None
    confirmed: Confirmed | None
    offline: tuple[float, ...]
    audit: Audit | None

    @property
    def planned(self) -> dict[str, AtRate]:
        """Runs whose length was planned, at rates that were asked for."""
        return {**self.parts, **self.extra}

    @property
    def runs(self) -> list[AtRate]:
        """Those, and the ones beside them."""
        confirmed = self.confirmed.run if self.confirmed is not None else None
        return [*self.planned.values(), *self.poisson.values(), *([] if confirmed is None else [confirmed])]


def measure(check: Load, inputs: Inputs) -> CheckResult:
    """Runs every rate, and what goes with it.

    Args:
        check: Its fields.
        inputs: Where timings come from.

    Raises:
        NotRunError: Nothing came back.
    """
    found = _run_all(check, inputs)
    estimates, missing = _estimates(check, found, inputs.confidence)
    invalid: str | None = None
    if found.audit is not None:
        estimates, invalid = found.audit.applied(estimates, {}, check.requirements, inputs.confidence)
    driven = [one for run in found.runs for one in run.samples]
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=show.blocks(check, found, inputs.confidence),
        counts=timing_samples.counted(driven, attempted=sum(run.queries for run in found.runs)),
        conditions=_conditions(check, inputs, found),
        notes=_notes(check, found, inputs.confidence),
        invalid=invalid,
    )


def _run_all(check: Load, inputs: Inputs) -> LoadResult:
    """Every run, one after the other."""
    # First of all: a trace that can't be replayed is found before anything is measured.
    recorded = trace(check, inputs) if check.arrivals.kind == TRACE else None
    audited = None
    if check.caching_audit and not inputs.draft:
        audited = audit(inputs, check, check.dataset, check.model, WARMUP_S)
    count, driven = check.spread(inputs), check.driven(inputs)
    planned: dict[str, AtRate] = {}
    poisson: dict[str, AtRate] = {}
    rates: dict[str, tuple[float, int]]
    if recorded is not None:
        planned[TRACE] = _driven(check, inputs, pieces(recorded, count)[:driven], TRACE)
        rates = {TRACE: (recorded.asked_qps, len(recorded.times_ns))}
    else:
        rates = {rate_part(rate): (rate, asked) for rate, asked in at_rates(check, draft=inputs.draft).items()}
        for part, (rate, queries) in rates.items():
            due = spread(check.arrivals, rate, queries, inputs.rng, count)
            planned[part] = _driven(check, inputs, due[:driven], part)
    if check.arrivals.beside_poisson:
        for part, (rate, queries) in rates.items():
            like = [one.traffic for one in planned[part].runs]
            poisson[part] = _driven(check, inputs, beside(check.arrivals, rate, queries, inputs.rng, like), part)
    names = (TRACE,) if check.arrivals.kind == TRACE else tuple(rate_part(rate) for rate in check.part_rates)
    searched, confirmed = (None, None)
    if check.searches and not inputs.draft:
        searched, confirmed = highest_rate(check, inputs, _start(check, planned))
    offline = _offline(check, inputs) if check.offline and not inputs.draft else []
    return LoadResult(
        parts={name: planned[name] for name in names},
        extra={name: run for name, run in planned.items() if name not in names},
        poisson=poisson,
        search=searched,
        confirmed=confirmed,
        offline=tuple(timing_samples.rate(one) for one in offline),
        audit=audited,
    )


def _driven(check: Load, inputs: Inputs, asked: list[Traffic], part: str) -> AtRate:
    limits: dict[str, float] = {}
    for one in wanted(check, None, part):
        if percentile_of(one.metric) is not None:
            allowed = limit_ms(one.metric, one.threshold)
            limits[one.metric] = min(allowed, limits.get(one.metric, allowed))
    run = drive(check, inputs, asked, part, limits)
    if run is None:
        raise NotRunError(f"no query was made at {part}")
    return run


def _start(check: Load, planned: Mapping[str, AtRate]) -> float:
    """Where a search begins: the highest planned rate at which the objective held, else half the lowest."""
    objective = check.objective
    rates = dict(zip((rate_part(rate) for rate in check.all_rates), check.all_rates, strict=True))
    if objective is None:
        return min(rates.values())
    held = []
    for part, rate in rates.items():
        value = planned[part].latency(objective.metric).measured.own
        if value is not None and value <= objective.threshold:
            held.append(rate)
    return max(held, default=0.5 * min(rates.values()))


def _offline(check: Load, inputs: Inputs) -> list[Samples]:
    schedule = Schedule(
        kind="offline", queries=BATCHES, processes=OFFLINE_PROCESSES, batch=check.max_batch,
        warmup_queries=check.warmup, warmup_s=WARMUP_S, min_s=ALONE_S, connections=check.connections,
    )  # fmt: skip
    return inputs.measure(schedule, check.dataset, check.model)


def _estimates(
    check: Load, found: LoadResult, confidence: float
) -> tuple[dict[str, Estimate | Fact | Parts | Measured], dict[str, str]]:
    estimates: dict[str, Estimate | Fact | Parts | Measured] = {
        name: Parts({part: at_percentile(check, run, name, confidence) for part, run in found.parts.items()})
        for name in PERCENTILES
    }
    estimates["error_rate"] = Parts(
        {part: _error_rate(check, run, part, confidence) for part, run in found.parts.items()}
    )
    missing: dict[str, str] = {}
    lags = [lag_ms(run, 0.99) for run in found.planned.values()]
    known = [lag for lag in lags if lag is not None]
    if known:
        method = "p99 of what queries were sent late by the generator's fault, at the worst rate"
        estimates["generator_lag_p99"] = Fact(max(known), len(known), method, in_this_run=True)
    else:
        missing["generator_lag_p99"] = "no query was sent"
    if check.arrivals.spike is None:
        missing["spike_factor"] = "the arrivals have no `spike:`"
    else:
        estimates["spike_factor"] = Parts(
            {
                part: _either_way(
                    gated(run, _spike_factor(run), None, PERCENTILES["latency_p99"], tightest(run), (), confidence)
                )
                for part, run in found.parts.items()
            }
        )
    _by_objective(check, found, estimates, missing, confidence)
    _streamed(check, found, estimates, missing, confidence)
    return estimates, missing


def _error_rate(check: Load, run: AtRate, part: str, confidence: float) -> Measured:
    """Lag makes errors only where it is as long as the time-out; a server that is asked for less at once has fewer."""
    held = wanted(check, "error_rate", part)
    shares = [from_unit(one.threshold, one.unit) for one in held]
    p = min(max(0.5, 1.0 - min(shares, default=0.01)), 0.9999)
    measured = gated(run, errors(run), None, p, 1e3 * check.timeout_s / LAG_SHARE, held, confidence)
    why = spared(run, p)
    if why is None or violates(errors(run), held, confidence):
        return measured
    return replace(measured, invalid=gravest(measured.invalid, why))


def _goodput(check: Load, run: AtRate, limit_ms: float, part: str, confidence: float) -> Measured:
    held = wanted(check, "goodput", part)
    rate = run.traffic.asked_qps
    least = max((one.threshold for one in held), default=PERCENTILES["latency_p99"] * rate)
    late, freed_late = _late(check, run, limit_ms)
    estimate = Goodput(rate, lagged(run, late, freed_late))
    freed = Goodput(rate, freed_late)
    return gated(run, estimate, freed, min(max(0.5, least / rate), 0.9999), limit_ms, held, confidence)


def _late(check: Load, run: AtRate, limit_ms: float) -> tuple[Estimate, Estimate]:
    """Share of queries that were not served as they should be; and the same without our lag."""
    if check.good is not None:
        return run.not_good(check.good.limits_ms), run.not_good(check.good.limits_ms, freed=True)
    metric = check.objective.metric if check.objective is not None else "latency_p99"
    return run.late(metric, limit_ms), run.freed_late(metric, limit_ms)


def _good_share(check: Load, run: AtRate, part: str, confidence: float) -> Measured:
    """Goodput of one query a second is the share."""
    assert check.good is not None
    held, limit_ms = wanted(check, "good_share", part), min(check.good.limits_ms.values())
    least = max((from_unit(one.threshold, one.unit) for one in held), default=0.9)
    late, freed_late = _late(check, run, limit_ms)
    estimate, freed = Goodput(1.0, lagged(run, late, freed_late)), Goodput(1.0, freed_late)
    return gated(run, estimate, freed, min(max(0.5, least), 0.9999), limit_ms, held, confidence)


def _streamed(
    check: Load,
    found: LoadResult,
    estimates: dict[str, Estimate | Fact | Parts | Measured],
    missing: dict[str, str],
    confidence: float,
) -> None:
    """Add the metrics of answers that are streamed."""
    runs = found.parts
    samples = [one for run in runs.values() for one in run.samples]
    for name in STREAMED:
        if all(name in run.tokens for run in runs.values()):
            estimates[name] = Parts({part: _token_time(check, run, name, confidence) for part, run in runs.items()})
        else:
            missing[name] = token_times.missing(name, samples)
    gaps = {part: token_times.pooled(run.samples, run.steady) for part, run in runs.items()}
    pooled = {part: gap for part, gap in gaps.items() if gap is not None}
    if len(pooled) < len(gaps):
        missing[POOLED_GAP] = token_times.missing(POOLED_GAP, samples)
    else:
        estimates[POOLED_GAP] = Parts(
            {part: Measured(gap, invalid=runs[part].invalid, withhold=runs[part].withhold, notes=reasons(gap))
             for part, gap in pooled.items()}
        )  # fmt: skip
    counted = {part: token_times.facts(run.samples, run.steady) for part, run in runs.items()}
    for name in TOKEN_FACTS:
        unknown = next((why[name] for _, why in counted.values() if name in why), None)
        if unknown is None:
            estimates[name] = Parts({part: found[name] for part, (found, _) in counted.items()})
        else:
            missing[name] = unknown
    rates = {part: run.output_rate() for part, run in runs.items()}
    known = {part: rate for part, rate in rates.items() if rate is not None}
    if len(known) < len(rates):
        missing["output_rate"] = token_times.missing("output_rate", samples)
    else:
        estimates["output_rate"] = Parts({part: _output_rate(runs[part], rate) for part, rate in known.items()})
    if check.good is None:
        missing["good_share"] = "the check has no `good:`"
    else:
        estimates["good_share"] = Parts({part: _good_share(check, run, part, confidence) for part, run in runs.items()})


def _token_time(check: Load, run: AtRate, name: str, confidence: float) -> Measured:
    """A time of streamed answers at a rate, with what mistrusts it."""
    freed = run.freed_tokens[name]
    limit = run.limits_ms.get(name, tightest(run))
    held = wanted(check, name, run.part)
    measured = gated(
        run, lagged(run, run.tokens[name], freed), freed, percentile_of(name) or 0.5, limit, held, confidence
    )
    why = token_times.void(name, run.samples, run.steady)
    return measured if why is None else replace(measured, invalid=gravest(why, measured.invalid))


def _output_rate(run: AtRate, rate: Estimate) -> Measured:
    why = token_times.void("output_rate", run.samples, run.steady)
    return Measured(rate, invalid=gravest(why, run.invalid), withhold=run.withhold)


def _by_objective(
    check: Load,
    found: LoadResult,
    estimates: dict[str, Estimate | Fact | Parts | Measured],
    missing: dict[str, str],
    confidence: float,
) -> None:
    """Add the metrics that need an objective: goodput, the highest rate, its ratio to offline."""
    objective = check.objective
    if objective is not None or check.good is not None:
        limit = objective.threshold if objective is not None else 0.0
        limit = limit if check.good is None else min(check.good.limits_ms.values())
        estimates["goodput"] = Parts(
            {part: _goodput(check, run, limit, part, confidence) for part, run in found.parts.items()}
        )
    if objective is None:
        names = ("max_rate", "offline_server_ratio", *(() if check.good is not None else ("goodput",)))
        missing |= dict.fromkeys(names, "the check has no `slo:` on a percentile")
        return
    if check.arrivals.kind == TRACE:
        missing |= dict.fromkeys(("max_rate", "offline_server_ratio"), "a trace has one rate")
        return
    highest = _max_rate(check, found, objective, confidence)
    estimates["max_rate"] = highest
    value = highest.estimate.value if isinstance(highest.estimate, MaxRate) else None
    if not check.offline:
        missing["offline_server_ratio"] = "`offline:` is off"
    elif not found.offline or not value:
        missing["offline_server_ratio"] = (
            "there is no rate at which the SLO held" if found.offline else "nothing was made offline"
        )
    else:
        mean = float(np.mean(found.offline))
        method = f"{format_number(mean)} items a second offline (mean of {len(found.offline)} processes) by max_rate"
        estimates["offline_server_ratio"] = Fact(mean / value, len(found.offline), method, in_this_run=True)


def _max_rate(check: Load, found: LoadResult, objective: Requirement, confidence: float) -> Measured:
    """The highest rate: each rate with the objective as its requirement."""
    name, confirmed = objective.metric, found.confirmed
    at = {
        run.traffic.asked_qps: gated(
            run, lagged(run, run.latency(name), run.freed(name)), run.freed(name), percentile_of(name) or 0.5,
            objective.threshold, (objective,), confidence,
        )
        for run in found.planned.values()
    }  # fmt: skip
    sound = {
        rate: one.estimate for rate, one in at.items() if one.invalid is None or isinstance(one.invalid, OnlyWorse)
    }
    highest = MaxRate(
        {rate: one for rate, one in sound.items() if isinstance(one, UnderLoad | WithoutLag)},
        objective.threshold,
        confirmed.rate_qps if confirmed is not None and confirmed.holds else None,
    )
    # The rate that is asked for decides; without one the highest does.
    asked = {rate: at[rate] for rate in check.wanted_qps or list(at)[-1:]}
    return Measured(
        highest,
        invalid=gravest(*(one.invalid for one in asked.values())),
        withhold=next((one.withhold for one in asked.values() if one.withhold is not None), None),
        notes=tuple(
            f"Measured, and not judged: {name} {format_number(value)} ms at {part}."
            for part, run in found.planned.items()
            if (one := asked.get(run.traffic.asked_qps))
            and one.invalid
            and not isinstance(one.invalid, OnlyWorse)
            and (value := run.latency(name).value)
        ),
    )


def _either_way(factor: Measured) -> Measured:
    """Of a ratio: other work may have hit either side of it."""
    return replace(factor, invalid=either_way(factor.invalid))


def errors(run: AtRate) -> ShareOver:
    """Share of queries of the steady part that failed: they took longer than the slowest answer."""
    answered = run.judged_ms[np.isfinite(run.judged_ms)]
    return share_over(run.judged, float(answered.max(initial=0.0)) + 1.0)


def _spike_factor(run: AtRate) -> Factor:
    """p99 of the spike by that of the steady part before it."""
    above = percentile([one.latencies_ms[one.spike] for one in run.runs], PERCENTILES["latency_p99"])
    return Factor(UnderLoad(above, run.spike_saturation), run.latency("latency_p99").measured)


def _conditions(check: Load, inputs: Inputs, found: LoadResult) -> dict[str, Cell]:
    samples = [one for run in found.runs for one in run.samples]
    arrivals = check.arrivals
    own: dict[str, Cell] = {
        "scenario": "server", "arrivals": arrivals.kind, "burstiness": arrivals.burstiness,
        "batch": next((run.handed for run in found.planned.values() if run.handed), 1),
        "max_batch": check.max_batch, "queue_delay_s": check.queue_delay_s, "timeout_s": check.timeout_s,
        "clients": check.clients, "connections": check.connections, "queries": sum(len(one.ok) for one in samples),
        "processes": max(len(run.runs) for run in found.planned.values()),
        "caching_gain": found.audit.gain if found.audit is not None else None,
    }  # fmt: skip
    return own | dict(streams.facts(samples)) | timing_samples.conditions(inputs, check.model, samples)


def _notes(check: Load, found: LoadResult, confidence: float) -> list[str]:
    notes = []
    for part, run in found.planned.items():
        notes += [f"At {part}: {text}" for text in (*_void_notes(check, run, confidence), *_run_notes(run))]
    notes += list(surroundings([one for run in found.runs for one in run.samples]).notes)
    if not all(run.in_process for run in found.planned.values()):
        notes.append(
            "All queries went to this server process, which was not started anew: how much fresh ones differ is not "
            "in these numbers."
        )
    notes += _search_notes(found)
    if found.audit is not None:
        notes.append(found.audit.note)
    failed = timing_samples.counted([one for run in found.runs if run.invalid is None for one in run.samples]).errored
    if failed:
        notes.append(f"{failed:,} queries failed or timed out; they count as slower than any threshold.")
    notes += streams.notes([one for run in found.runs for one in run.samples])
    notes += timing_samples.asked_again([one for run in found.runs for one in run.samples])
    notes += [
        f"A query hands as many rows to the model, in one batch, as was recorded: {run.handed}."
        for run in found.planned.values()
        if run.handed
    ]
    if check.max_batch == 1 and all(run.in_process for run in found.planned.values()):
        notes.append("One query was served at a time; `max_batch:` lets those that wait be served together.")
    return notes


def _void_notes(check: Load, run: AtRate, confidence: float) -> list[str]:
    """Notes on a rate that is not judged: all of it, or some percentiles, and whether anything hangs on it."""
    if isinstance(run.invalid, OnlyWorse):
        return [f"disturbed: {run.invalid}; only what held in spite of it counts."]
    if run.invalid is not None:
        return [f"void: {run.invalid}."]
    void = void_percentiles(check, run, confidence)
    if not void:
        return []
    names = list(void)
    which = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    held = set(run.limits_ms)
    if check.objective is not None and run.traffic.asked_qps in check.wanted_qps:
        held.add(check.objective.metric)
    free = not any(metric.removeprefix("latency_") in void for metric in held)
    idle = f"; nothing is required of {'it' if len(names) == 1 else 'them'}" if free else ""
    return [f"{which} {'is' if len(names) == 1 else 'are'} not judged: {next(iter(void.values()))}{idle}."]


def _run_notes(run: AtRate) -> list[str]:
    """Notes on one run, without its rate."""
    notes = []
    found, change, spells = run.saturation, run.step, run.period
    if found is not None and found.growing:
        notes.append(
            f"over-saturated, {found.served_qps:,.4g} of {found.offered_qps:,.4g} qps were answered; at the end a "
            f"query took {found.at_end_ms:,.0f} ms (median)."
        )
    elif change is not None:
        throttled = surroundings(run.samples).throttled
        cause = f" ({throttled})" if throttled else "; a machine that grows hot does that" if change.change > 0 else ""
        way = "up" if change.change > 0 else "down"
        notes.append(f"latency steps {way} by {100 * abs(change.change):.0f} % after {change.at_s:.0f} s{cause}.")
    if spells is not None:
        notes.append(
            f"slow spells come every {format_number(spells.every_s)} s ({spells.episodes} of them): garbage "
            "collection, a timer or a checkpoint does that."
        )
    times = run.steady_times_ns
    if run.traffic.gap_cv is not None and len(times) >= 2:
        made = describe(times, rate_qps=run.traffic.asked_qps, gap_cv=run.traffic.gap_cv)
        notes += [f"arrivals by chance: {text}." for text in made.disagrees]
    return notes


def _search_notes(found: LoadResult) -> list[str]:
    notes = []
    if found.search is not None and found.search.stopped is not None:
        notes.append(f"The search ended early: {found.search.stopped}.")
    if found.confirmed is None:
        return notes
    rate = rate_part(found.confirmed.rate_qps)
    if found.confirmed.holds:
        return [*notes, f"The search's {rate} held once more on fresh queries; it decides nothing."]
    reason = found.confirmed.void
    why = f"could not be confirmed: {reason}" if reason else "did not hold on fresh queries, so it is not reported"
    return [*notes, f"The search's {rate} {why}."]
