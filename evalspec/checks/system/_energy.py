"""What `energy` computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system import _samples
from evalspec.checks.system._beside import by_turns
from evalspec.checks.system._energy_blocks import Level, blocks
from evalspec.checks.system._environment import surroundings
from evalspec.checks.system._timed import BATCHES, WARMUP_S
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Comparison, Estimate, Measured
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import Counts
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.energy import DISAGREE, Energy, energy
from evalspec.stats.timing import OverUnits, over_processes, paired_log_ratio

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from evalspec.checks.system.energy import Energy as EnergyCheck
    from evalspec.language.inputs import Inputs, Samples

EVERY_S = 0.1
IDLE_KEPT = 0.5
"""Share of the idle time, at its end, that counts."""
WARMUP = 5
DRAFT_S = 1.5
DRAFT_IDLE_S = 3.0
MOST_QUERIES = 200_000
"""Of a load level in one process."""
OTHERS_TOLD = 0.02
"""Share of the machine's processor time used by others from which on their energy is told of."""


@dataclass(frozen=True)
class Metered:
    """One process and what it used.

    Args:
        energy: Of its window.
        items: Answered in that window.
    """

    energy: Energy
    items: int

    @property
    def joules(self) -> float:
        """For each answered item; infinite where none was answered."""
        return (self.energy.joules or 0.0) / self.items if self.items else float("inf")

    @property
    def per_second(self) -> float:
        """Answered items a second, over the same window."""
        return self.items / self.energy.seconds if self.energy.seconds > 0 else 0.0


def measure(check: EnergyCheck, inputs: Inputs) -> CheckResult:
    """Meters waiting, then batches back to back, then load levels, then pairs with other models.

    Args:
        check: Its fields.
        inputs: Where timings come from.

    Raises:
        NotRunError: There is no meter inside the boundary, or it does not tell enough.
    """
    device = str(inputs.model_facts(check.model).get("device") or "cpu")
    if device == "cpu" and check.boundary == "gpu":
        raise NotRunError(
            f"{check.model} runs on the cpu, and the boundary gpu holds nothing of that; use boundary: package"
        )
    processes = 2 if inputs.draft else check.processes
    resting = _idle(check, inputs, processes)
    idle = [energy(one.telemetry, check.boundary, *_idle_window(one)) for one in resting]
    samples = inputs.measure(_active_schedule(check, inputs, processes), check.dataset, check.model)
    active = _known([metered(one, check.boundary) for one in samples])
    if not any(one.items for one in active):
        raise NotRunError("no item was answered while energy was metered")
    rate = float(np.mean([one.per_second for one in active]))
    levels = [_level(check, inputs, share, rate, processes) for share in check.levels]
    comparisons: dict[tuple[str, str], Comparison] = {}
    for baseline in check.baselines:
        comparisons |= {(name, baseline): pair for name, pair in _pairs(check, inputs, baseline, processes).items()}
    short = _samples.too_short(samples, processes, BATCHES if not inputs.draft else 2)
    if short is None and len(active) < len(samples):
        short = f"{len(samples) - len(active)} of {len(samples)} processes could not be metered"
    estimates, missing = _estimates(check, active, [one for one in idle if one.joules is not None], short)
    around = surroundings([*samples, *resting])
    total = sum(len(one.ok) for one in samples)
    failed = sum(int((~one.ok).sum()) for one in samples)
    bare = {name: one.estimate for name, one in estimates.items() if isinstance(one.estimate, Estimate)}
    return CheckResult(
        estimates=estimates,
        comparisons=comparisons,
        missing=missing,
        blocks=blocks(check, samples, bare, levels, rate, inputs.confidence),
        counts=Counts(attempted=total, used=total - failed, errored=failed),
        conditions={**_conditions(check, active), "throughput": rate,
                    **_samples.conditions(inputs, check.model, samples)},
        notes=[*_notes(check, device, active, samples), *around.notes, *_samples.notes(samples, None)],
        invalid=around.invalid,
    )  # fmt: skip


def _active_schedule(check: EnergyCheck, inputs: Inputs, processes: int) -> Schedule:
    return Schedule(
        kind="offline", queries=2 if inputs.draft else BATCHES, processes=processes, batch=check.batch,
        warmup_queries=WARMUP, warmup_s=WARMUP_S, min_s=DRAFT_S if inputs.draft else check.duration_s,
        limit_s=600.0 + 3.0 * check.duration_s, telemetry_s=EVERY_S,
    )  # fmt: skip


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
    found = energy(first[0].telemetry, check.boundary, *_idle_window(first[0]))
    if found.joules is None:
        raise NotRunError(f"no energy can be told for the boundary {check.boundary}: {found.reason}")
    rest = inputs.measure(replace(schedule, processes=processes - 1, seed=1), check.dataset, check.model)
    return [*first, *rest]


def _idle_window(samples: Samples) -> tuple[int, int]:
    """The second half of the time between the two queries."""
    if len(samples.intended_ns) < 2:
        return 0, 0
    begin, end = int(samples.end_ns[0]), int(samples.intended_ns[-1])
    return begin + int((1.0 - IDLE_KEPT) * (end - begin)), end


def metered(samples: Samples, boundary: str) -> Metered:
    """Energy and answered items of the same window: all but the first tenth of a process.

    Args:
        samples: Of one process.
        boundary: A key of `evalspec.measure.energy.BOUNDARIES`.
    """
    keep = np.flatnonzero(_samples.settled(samples))
    if not len(keep):
        return Metered(Energy(None, 0.0, reason="no batch was measured"), 0)
    found = energy(samples.telemetry, boundary, int(samples.sent_ns[keep[0]]), int(samples.end_ns[keep].max()))
    return Metered(found, int(samples.ok[keep].sum()) * samples.batch)


def _known(found: Sequence[Metered]) -> list[Metered]:
    """Those that could be metered.

    Raises:
        NotRunError: None could.
    """
    known = [one for one in found if one.energy.joules is not None]
    if not known:
        raise NotRunError(f"no energy can be told: {found[0].energy.reason if found else 'nothing was measured'}")
    return known


def _estimates(
    check: EnergyCheck, active: Sequence[Metered], idle: Sequence[Energy], invalid: str | None
) -> tuple[dict[str, Measured], dict[str, str]]:
    estimates: dict[str, OverUnits] = {}
    missing: dict[str, str] = {}
    if all(one.items for one in active):
        estimates["energy_per_inference"] = over_processes([one.joules for one in active], least=0.0)
    else:
        missing["energy_per_inference"] = "a process answered nothing in its window"
    powers = np.array([one.energy.watts or 0.0 for one in active])
    resting = np.array([one.watts or 0.0 for one in idle])
    estimates["active_power"] = over_processes(powers, least=0.0)
    estimates["idle_power"] = over_processes(resting, least=0.0)
    estimates["throughput_per_watt"] = over_processes(
        [one.items / joules if (joules := one.energy.joules or 0.0) > 0 else 0.0 for one in active], least=0.0
    )
    if check.duty_cycle is None:
        missing["effective_power"] = "the check has no `duty_cycle:`"
    else:
        count = min(len(powers), len(resting))
        estimates["effective_power"] = over_processes(
            effective_power(resting[:count], powers[:count], check.duty_cycle), least=0.0
        )
    return {name: Measured(one, invalid=invalid) for name, one in estimates.items()}, missing


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


def _level(check: EnergyCheck, inputs: Inputs, share: float, rate: float, processes: int) -> Level:
    """A steady load of a share of the throughput."""
    asked = share * rate
    duration_s = DRAFT_S if inputs.draft else check.duration_s
    queries = int(min(MOST_QUERIES, max(20, ceil(asked * duration_s))))
    arrivals = np.round(np.arange(queries) / asked * 1e9).astype(np.int64)
    schedule = Schedule(
        kind="open_loop", queries=queries, processes=processes, warmup_queries=WARMUP, warmup_s=WARMUP_S,
        arrivals_ns=arrivals, max_batch=check.batch, limit_s=600.0 + 10.0 * duration_s, telemetry_s=EVERY_S,
    )  # fmt: skip
    samples = inputs.measure(schedule, check.dataset, check.model)
    found = [metered(one, check.boundary) for one in samples]
    known = [one for one in found if one.energy.joules is not None and one.items]
    reason = next((one.energy.reason for one in found if one.energy.reason), None)
    return Level(
        share=share,
        asked=asked,
        got=float(np.mean([one.per_second for one in known])) if known else None,
        power=over_processes([one.energy.watts or 0.0 for one in known], least=0.0),
        joules=over_processes([one.joules for one in known], least=0.0),
        note="" if known else reason or "no item was answered",
    )


def _pairs(check: EnergyCheck, inputs: Inputs, baseline: str, processes: int) -> dict[str, Comparison]:
    """Fresh processes of both models by turns."""
    schedule = _active_schedule(check, inputs, 1)
    sides = by_turns(
        lambda model, turn: [
            one
            for sample in inputs.measure(replace(schedule, seed=turn), check.dataset, model)
            if (one := metered(sample, check.boundary)).energy.joules and one.items
        ],
        (check.model, baseline),
        processes,
    )
    if not sides[0]:
        return {}
    joules = [[one.joules for one in side] for side in sides]
    watts = [[one.energy.watts or 0.0 for one in side] for side in sides]
    inverse = [[1.0 / value for value in side] for side in joules]
    return {
        "energy_per_inference": paired_log_ratio(*joules),
        "active_power": paired_log_ratio(*watts),
        "throughput_per_watt": paired_log_ratio(*inverse),
    }


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
        notes.append(f"Energy counter and power x time {agree} {abs(worst - 1.0):.1%}.")
    if check.duty_cycle is not None:
        notes.append(
            "effective_power is an estimate, modelled from idle and active power; waking and sleeping are not in it."
        )
    shares = [
        float(np.nanmean(one.telemetry.series["cpu_others_share"]))
        for one in samples
        if one.telemetry is not None and np.isfinite(one.telemetry.series.get("cpu_others_share", np.nan)).any()
    ]
    if check.boundary != "gpu" and shares and max(shares) > OTHERS_TOLD:
        notes.append(f"Others used up to {max(shares):.0%} of the processors meanwhile; their energy is in it.")
    return notes
