"""Measurement of `energy`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.energy.show import SteadyLoad, blocks
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import ComparisonParts, Estimate, Measured
from evalspec.evidence.frozen import Cell
from evalspec.evidence.reasons import Cause, NoEvidence, Reason, gravest, only_worse
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.energy import DISAGREE, energy
from evalspec.measure.telemetry import readings
from evalspec.stats.timing.processes import over_processes, paired_log_ratio
from evalspec.timing import samples as timing_samples
from evalspec.timing import saturated_server as server
from evalspec.timing import streams
from evalspec.timing.budget import WARMUP_S
from evalspec.timing.interleaved import by_turns
from evalspec.timing.metered import Metered, metered
from evalspec.timing.surroundings import surroundings

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from evalspec.checks.system.energy.spec import Energy as EnergyCheck
    from evalspec.language.inputs import Inputs, Samples

EVERY_S = 0.1
IDLE_KEPT = 0.5
"""Share of the idle time, at its end, that counts."""
WARMUP = 5
DRAFT_S = 1.5
DRAFT_IDLE_S = 3.0
MOST_QUERIES = 200_000
"""Of a load level in one process."""
COMPARED = ("energy_per_inference", "active_power", "throughput_per_watt")
BY_TOKEN = "energy_per_token"
ADDED_TO = ("energy_per_inference", BY_TOKEN, "throughput_per_watt", "idle_power")
"""What other work can only make worse: its energy is in the boundary, and answers come later."""
NO_PAIR = "there is no pair of processes in which both sides were metered and answered"
OTHERS_TOLD = 0.02
"""Share of the machine's processor time used by others from which on their energy is told of."""


@dataclass(frozen=True)
class Short:
    """Why fewer processes count than were planned, or None.

    Args:
        active: Of those that work.
        idle: Of those that wait.
    """

    active: str | None
    idle: str | None


def measure(check: EnergyCheck, inputs: Inputs) -> CheckResult:
    """Meters waiting, then batches back to back, then load levels, then pairs with other models.

    Args:
        check: Its fields.
        inputs: Where timings come from.

    Raises:
        NotRunError: There is no meter inside the boundary, or it does not tell enough.
    """
    device = timing_samples.device_of(inputs, check.model)
    if device == "cpu" and check.boundary == "gpu":
        raise NotRunError(
            f"{check.model} runs on the cpu, and the boundary gpu holds nothing of that; use boundary: package"
        )
    processes = 2 if inputs.draft else check.processes
    resting = _idle(check, inputs, processes)
    idle = [energy(one.telemetry, check.boundary, *_idle_window(one)).watts for one in resting]
    idle_w = [watts for watts in idle if watts is not None]
    samples = inputs.measure(_active_schedule(check, inputs, processes), check.dataset, check.model)
    active = _known([metered(one, check.boundary) for one in samples])
    if not any(one.items for one in active):
        raise NotRunError("no item was answered while energy was metered")
    rate = float(np.mean([one.per_second for one in active]))
    levels = [_level(check, inputs, share, rate, processes) for share in check.levels]
    comparisons: dict[tuple[str, str], ComparisonParts] = {}
    uncompared: dict[str, str] = {}
    for baseline in check.baselines:
        pairs = _pairs(check, inputs, baseline, processes)
        comparisons |= {(name, baseline): pair for name, pair in pairs.items()}
        uncompared |= {f"{name} vs {baseline}": NO_PAIR for name in (*COMPARED, BY_TOKEN) if name not in pairs}
    short = Short(_too_few(samples, active, processes, 2 if inputs.draft else _batches(check, inputs)), None)
    if len(idle_w) < processes:
        text = f"{len(idle_w)} of {processes} planned processes were metered while they waited"
        short = replace(short, idle=Reason(text, Cause.CUT_SHORT))
    estimates, missing = _estimates(check, active, idle_w, short)
    around = surroundings([*samples, *resting])
    by_token, why_not = _by_token(samples, active, short)
    estimates, missing = {**estimates, **by_token}, {**missing, **why_not}
    estimates = {name: _disturbed(name, one, around.invalid) for name, one in estimates.items()}
    bare = {name: one.estimate for name, one in estimates.items() if isinstance(one.estimate, Estimate)}
    return CheckResult(
        estimates=estimates,
        comparisons=comparisons,
        missing=missing | uncompared,
        blocks=blocks(check, samples, bare, levels, rate, inputs.confidence),
        counts=timing_samples.counted(samples),
        conditions={**_conditions(check, active), **streams.facts(samples), **server.conditions(samples),
                    "throughput": rate, **timing_samples.conditions(inputs, check.model, samples)},
        notes=[*_notes(check, device, active, samples), *around.notes, *streams.notes(samples),
               *timing_samples.notes(samples, None)],
    )  # fmt: skip


def _too_few(samples: Sequence[Samples], active: Sequence[Metered], processes: int, planned: int) -> str | None:
    """Why fewer processes count than were planned, or why they do not show the server at work; None: all is well."""
    short = timing_samples.too_short(samples, processes, planned)
    if short is None and len(active) < len(samples):
        return Reason(f"{len(samples) - len(active)} of {len(samples)} processes could not be metered", Cause.CUT_SHORT)
    return server.bottleneck(samples) if short is None and server.is_bottleneck(samples) else short


def _active_schedule(check: EnergyCheck, inputs: Inputs, processes: int) -> Schedule:
    return Schedule(
        kind="offline", queries=2 if inputs.draft else _batches(check, inputs), processes=processes, batch=check.batch,
        warmup_queries=WARMUP, warmup_s=WARMUP_S, min_s=DRAFT_S if inputs.draft else check.duration_s,
        limit_s=600.0 + 3.0 * check.duration_s, telemetry_s=EVERY_S, connections=check.connections,
    )  # fmt: skip


def _batches(check: EnergyCheck, inputs: Inputs) -> int:
    return server.least_batches(inputs, check.connections, check.model, *check.baselines)


def _idle(check: EnergyCheck, inputs: Inputs, processes: int) -> list[Samples]:
    """Processes with the model in memory that are asked once, wait, and are asked once more.

    The first one shows whether there is a meter at all, before much time is spent.
    """
    idle_s = DRAFT_IDLE_S if inputs.draft else check.idle_s
    schedule = Schedule(
        kind="open_loop", queries=2, processes=1, warmup_queries=WARMUP, warmup_s=0.0,
        arrivals_ns=np.array([0, int(idle_s * 1e9)], dtype=np.int64), limit_s=600.0 + 3.0 * idle_s,
        timeout_s=max(10.0, idle_s), telemetry_s=EVERY_S,
    )  # fmt: skip
    first = inputs.measure(schedule, check.dataset, check.model)
    if not first:
        raise NotRunError(f"no process of {check.model} was measured")
    window = energy(first[0].telemetry, check.boundary, *_idle_window(first[0]))
    if window.joules is None:
        raise NotRunError(f"there is no energy for the boundary {check.boundary}: {window.reason}")
    rest = inputs.measure(replace(schedule, processes=processes - 1, seed=1), check.dataset, check.model)
    return [*first, *rest]


def _idle_window(samples: Samples) -> tuple[int, int]:
    """The second half of the time between the two queries."""
    if len(samples.intended_ns) < 2:
        return 0, 0
    begin, end = int(samples.end_ns[0]), int(samples.intended_ns[-1])
    return begin + int((1.0 - IDLE_KEPT) * (end - begin)), end


def _known(windows: Sequence[Metered]) -> list[Metered]:
    """Those that could be metered.

    Raises:
        NotRunError: None could.
    """
    known = [one for one in windows if one.known]
    if not known:
        raise NotRunError(f"there is no energy: {windows[0].energy.reason if windows else 'nothing was measured'}")
    return known


def _estimates(
    check: EnergyCheck, active: Sequence[Metered], idle_w: Sequence[float], short: Short
) -> tuple[dict[str, Measured], dict[str, str]]:
    estimates: dict[str, Measured] = {}
    missing: dict[str, str] = {}
    if all(one.items for one in active):
        estimates["energy_per_inference"] = _over([one.joules for one in active], short.active)
    else:
        missing["energy_per_inference"] = "a process answered nothing in its window"
    powers = [one.watts for one in active]
    estimates["active_power"] = _over(powers, short.active)
    estimates["idle_power"] = _over(idle_w, short.idle)
    if all(one.total_j > 0 for one in active):
        estimates["throughput_per_watt"] = _over([one.items_per_joule for one in active], short.active, skewed=False)
    else:
        missing["throughput_per_watt"] = "a process used no energy, as its meter says"
    if check.duty_cycle is None:
        missing["effective_power"] = "the check has no `duty_cycle:`"
    else:
        count = min(len(powers), len(idle_w))
        both = effective_power(idle_w[:count], powers[:count], check.duty_cycle)
        estimates["effective_power"] = _over(both, short.active or short.idle)
    return estimates, missing


def _by_token(
    samples: Sequence[Samples], active: Sequence[Metered], short: Short
) -> tuple[dict[str, Measured], dict[str, str]]:
    """Energy of a token; or why there is none."""
    known = [one.joules_by_token for one in active]
    values = [one for one in known if one is not None]
    if values and len(values) == len(known):
        invalid = gravest(streams.miscounted(samples), short.active)
        return {BY_TOKEN: Measured(over_processes(values, least=0.0, skewed=True), invalid=invalid)}, {}
    if all(one.streams is None for one in samples):
        return {}, {BY_TOKEN: streams.NO_STREAM}
    if any(one.batch > 1 for one in samples):
        return {}, {BY_TOKEN: "a query of several rows is several answers: tokens are counted with `batch: 1`"}
    return {}, {BY_TOKEN: streams.NO_TOKENS}


def _disturbed(name: str, measured: Measured, reason: str | None) -> Measured:
    """With what other work may have done: it adds energy; what the model itself takes while it waits may be less."""
    return replace(measured, invalid=gravest(measured.invalid, only_worse(reason) if name in ADDED_TO else reason))


def _over(values: ArrayLike, short: str | None, *, skewed: bool = True) -> Measured:
    return Measured(over_processes(values, least=0.0, skewed=skewed), invalid=short)


def effective_power(idle_w: ArrayLike, active_w: ArrayLike, duty_cycle: float) -> NDArray[np.float64]:
    """Power of a device that works for a share of the time: (1 - d) x idle + d x active.

    Args:
        idle_w: shape (k,), W.
        active_w: shape (k,), W.
        duty_cycle: d, in 0..1.

    Returns:
        shape (k,), W. Waking up and falling asleep are not in it.
    """
    return (1.0 - duty_cycle) * np.asarray(idle_w, dtype=np.float64) + duty_cycle * np.asarray(active_w)


def _level(check: EnergyCheck, inputs: Inputs, share: float, rate: float, processes: int) -> SteadyLoad:
    """A steady load of a share of the throughput."""
    items_per_s = share * rate
    duration_s = DRAFT_S if inputs.draft else check.duration_s
    # In process what waits is served together; a server is asked in batches, as it was for its throughput.
    batch = check.batch if inputs.model_facts(check.model).get("served") else 1
    queries = int(min(MOST_QUERIES, max(20, ceil(items_per_s * duration_s / batch))))
    arrivals = np.round(np.arange(queries) * batch / items_per_s * 1e9).astype(np.int64)
    schedule = Schedule(
        kind="open_loop", queries=queries, processes=processes, batch=batch, warmup_queries=WARMUP, warmup_s=WARMUP_S,
        arrivals_ns=arrivals, max_batch=check.batch, limit_s=600.0 + 10.0 * duration_s, telemetry_s=EVERY_S,
        connections=check.connections,
    )  # fmt: skip
    samples = inputs.measure(schedule, check.dataset, check.model)
    windows = [metered(one, check.boundary) for one in samples]
    known = [one for one in windows if one.known and one.items]
    reason = next((one.energy.reason for one in windows if one.energy.reason), None)
    return SteadyLoad(
        share=share,
        asked=items_per_s,
        got=float(np.mean([one.per_second for one in known])) if known else None,
        power=over_processes([one.watts for one in known], least=0.0, skewed=True),
        joules=over_processes([one.joules for one in known], least=0.0, skewed=True),
        note="" if known else reason or "no item was answered",
    )


def _pairs(check: EnergyCheck, inputs: Inputs, baseline: str, processes: int) -> dict[str, ComparisonParts]:
    """Fresh processes of both models by turns; a pair that was not metered voids, one without an answer withholds."""
    schedule = _active_schedule(check, inputs, 1)
    ours, theirs = by_turns(
        lambda model, turn: inputs.measure(replace(schedule, seed=turn), check.dataset, model),
        (check.model, baseline),
        processes,
    )
    pairs = [
        (metered(one, check.boundary), metered(other, check.boundary))
        for one, other in zip(ours, theirs, strict=True)
    ]  # fmt: skip
    complete = [pair for pair in pairs if all(one.known and one.total_j > 0 for one in pair)]
    kept = [pair for pair in complete if all(one.items for one in pair)]
    if not kept:
        return {}
    invalid: str | None = surroundings([*ours, *theirs]).invalid
    if server.is_bottleneck([*ours, *theirs]):
        invalid = invalid or server.bottleneck([*ours, *theirs])
    if len(complete) < processes:
        text = f"{len(complete)} of {processes} planned pairs with {baseline} were metered on both sides"
        invalid = Reason(text, Cause.CUT_SHORT)
    withhold = None
    if len(kept) < len(complete):
        withhold = NoEvidence(
            f"in {len(complete) - len(kept)} of {len(complete)} pairs with {baseline} a side answered nothing",
            Cause.FAILED_QUERIES,
        )
    values = [[(one.joules, one.watts, one.items_per_joule) for one in pair] for pair in kept]
    sides = np.transpose(values)
    compared = {
        name: ComparisonParts({}, paired_log_ratio(*both), invalid=invalid, withhold=withhold)
        for name, both in zip(COMPARED, sides, strict=True)
    }
    tokens = [(a, b) for one, other in kept if (a := one.joules_by_token) and (b := other.joules_by_token)]
    if len(tokens) == len(kept):
        void = gravest(streams.miscounted([*ours, *theirs]), invalid)
        pair = paired_log_ratio([a for a, _ in tokens], [b for _, b in tokens])
        compared[BY_TOKEN] = ComparisonParts({}, pair, invalid=void, withhold=withhold)
    return compared


def _conditions(check: EnergyCheck, active: Sequence[Metered]) -> dict[str, Cell]:
    first = active[0].energy
    return {
        "boundary": check.boundary,
        "batch": check.batch,
        "processes": len(active),
        "window_s": float(np.mean([one.energy.seconds for one in active])),
        "source": first.source,
        "estimate": first.from_power,
        "meter_period_s": first.period_s,
        "duty_cycle": check.duty_cycle,
    }


def _notes(check: EnergyCheck, device: str, active: Sequence[Metered], samples: Sequence[Samples]) -> list[str]:
    first = active[0].energy
    notes = [f"Inside the boundary {check.boundary}: {first.source}."]
    if device != "cpu" and "gpu" not in check.boundary and check.boundary != "platform":
        notes.append(f"{check.model} runs on {device}, which lies outside the boundary {check.boundary}.")
    if any(one.energy.from_power for one in active):
        notes.append("An estimate: readings of power x time, since no energy counter would do.")
    checks = [one.energy.check for one in active if one.energy.check is not None]
    if checks:
        worst = max(checks, key=lambda ratio: abs(ratio - 1.0))
        agree = "agree within" if abs(worst - 1.0) <= DISAGREE else "do not agree: they differ by"
        notes.append(f"Energy counter and power x time {agree} {100 * (abs(worst - 1.0)):.1f} %.")
    if check.duty_cycle is not None:
        notes.append(
            "effective_power is an estimate, modelled from idle and active power; waking and sleeping are not in it."
        )
    worked = server.busy_share(samples)
    if check.boundary != "gpu" and worked is not None:
        notes.append(f"Our client worked for {100 * worked:.0f} % of the time on one processor; its energy is in it.")
    shares = [
        float(read.mean())
        for one in samples
        if len(read := readings(one.telemetry, "cpu_others_share")[1])
    ]  # fmt: skip
    if check.boundary != "gpu" and shares and max(shares) > OTHERS_TOLD:
        notes.append(f"Others used up to {100 * max(shares):.0f} % of the processors meanwhile; their energy is in it.")
    return notes
