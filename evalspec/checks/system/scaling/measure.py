"""Measurement of `scaling`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.scaling import show
from evalspec.checks.system.scaling.spec import SAMPLES, THROUGHPUT, TOTAL
from evalspec.evidence.estimate import Measured, Parts
from evalspec.evidence.reasons import BySurroundings
from evalspec.evidence.record import Counts
from evalspec.evidence.words import plural
from evalspec.language.parts import CheckResult
from evalspec.stats.training.scaling import LogRatio, log_ratio
from evalspec.timing.targets import EVALUATION_COLUMNS
from evalspec.timing.training_runs import TargetRun, open_questions, spoiled_by, target_runs, write_evaluations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.scaling.spec import WorkerScaling
    from evalspec.language.inputs import Inputs

ALONE = math.sqrt(12.0)
"""An interval by this is the standard deviation of what may lie anywhere in it."""
FIRST = 1.0
"""Width, on the scale of logarithms, of what the first evaluation already shows."""


@dataclass(frozen=True)
class WorkerGroup:
    """Runs on one number of workers.

    Args:
        workers: So many.
        runs: All of them.
        times_s, samples: shape (n,), up to the target, of those that got there; NaN: not known.
        rates: shape (n,), samples a second.
        coarse_s, coarse_samples: How coarsely both are known, as deviations of logarithms.
        lost: Runs that did not get there.
    """

    workers: int
    runs: tuple[TargetRun, ...]
    times_s: NDArray[np.float64]
    samples: NDArray[np.float64]
    rates: NDArray[np.float64]
    coarse_s: float
    coarse_samples: float
    lost: int


def measure(check: WorkerScaling, inputs: Inputs) -> CheckResult:
    """Reads the logs of all runs, and compares them by number of workers.

    Args:
        check: Its fields.
        inputs: Where rows of its training come from.

    Raises:
        InputError: The measure of the target is not logged.
        NotRunError: Runs were announced that have no log.
    """
    every = target_runs(
        inputs.table(check.training, EVALUATION_COLUMNS), check.goal, check.held, check.training, check.clock
    )
    runs = [run for run in every if run.workers in check.workers]
    groups = [_group(number, runs, weak=check.mode == "weak") for number in check.workers]
    estimates: dict[str, dict[str, LogRatio]] = {TOTAL: {}, THROUGHPUT: {}, SAMPLES: {}}
    missing: dict[str, str] = {}
    for group in groups[1:]:
        for metric, (estimate, why) in _efficiencies(groups[0], group).items():
            if estimate is not None:
                estimates[metric][str(group.workers)] = estimate
            else:
                missing[f"{metric}({group.workers})"] = why
                # Named without a part it is missing only where it has none at all.
                missing.setdefault(metric, why)
    missing = {name: why for name, why in missing.items() if not estimates.get(name)}
    if check.mode == "weak":
        estimates = {THROUGHPUT: estimates[THROUGHPUT]}
        missing = {name: why for name, why in missing.items() if name.startswith(THROUGHPUT)}
        missing |= dict.fromkeys((TOTAL, SAMPLES), "with `mode: weak` there is no common target")
    lost = sum(group.lost for group in groups)
    return CheckResult(
        estimates=_admitted(estimates, spoiled_by(runs, check.training)),
        missing=missing,
        blocks=show.blocks(check, groups, estimates),
        counts=Counts(attempted=len(runs), used=len(runs), errored=0),
        conditions={"runs": len(runs), "workers": ", ".join(str(one) for one in check.workers), "mode": check.mode},
        notes=[f"{plural(lost, 'run')} did not reach the target."] if lost and check.mode == "strong" else [],
        weakens=open_questions(runs or every, check.training, check.held, check.clock),
        evidence=[
            (
                write_evaluations(runs, inputs.evidence, check.name),
                "evaluations of every run, in the order of their logs",
            )
        ],
    )


def _admitted(
    estimates: Mapping[str, Mapping[str, LogRatio]], spoiled: BySurroundings | None
) -> dict[str, Parts | Measured]:
    """Estimates that have parts; those of times are void where other work has slowed a run down, on either side."""
    made: dict[str, Parts | Measured] = {metric: Parts(parts) for metric, parts in estimates.items() if parts}
    if spoiled is None:
        return made
    return {
        metric: one if metric == SAMPLES else Measured(Measured.of(one).estimate, invalid=spoiled)
        for metric, one in made.items()
    }


def _group(workers: int, runs: Sequence[TargetRun], *, weak: bool) -> WorkerGroup:
    own = tuple(run for run in runs if run.workers == workers)
    there = [run for run in own if run.reached is not None or weak]
    times = np.array([run.seen("time") if weak else run.taken("time")[1] for run in there], dtype=np.float64)
    samples = np.array([run.seen("samples") if weak else run.taken("samples")[1] for run in there], dtype=np.float64)
    last = np.array([float(run.times_s[-1]) if weak and len(run.times_s) else math.nan for run in there])
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = samples / (last if weak else times)
    return WorkerGroup(
        workers, own, times, samples, rates,
        0.0 if weak else _coarse([run.taken("time") for run in there]),
        0.0 if weak else _coarse([run.taken("samples") for run in there]),
        0 if weak else len(own) - len(there),
    )  # fmt: skip


def _coarse(pairs: Sequence[tuple[float, float]]) -> float:
    """Mean width of the intervals between evaluations, as a deviation of logarithms."""
    widths = [math.log(most / least) if least > 0.0 else FIRST for least, most in pairs if most > 0.0]
    return float(np.mean(widths)) / ALONE if widths else 0.0


def _efficiencies(base: WorkerGroup, group: WorkerGroup) -> dict[str, tuple[LogRatio | None, str]]:
    """Metric: its estimate, or None and why."""
    share, lost = base.workers / group.workers, base.lost + group.lost
    made: dict[str, tuple[LogRatio | None, str]] = {}
    made[TOTAL] = _ratio(
        base.times_s, group.times_s, share, lost, (base.coarse_s, group.coarse_s), "time", (base, group)
    )
    made[THROUGHPUT] = _ratio(group.rates, base.rates, share, 0, (0.0, 0.0), "time and samples", (base, group))
    made[SAMPLES] = _ratio(
        base.samples, group.samples, 1.0, lost, (base.coarse_samples, group.coarse_samples), "samples", (base, group)
    )
    return made


def _ratio(
    above: NDArray[np.float64],
    below: NDArray[np.float64],
    factor: float,
    lost: int,
    coarse: tuple[float, float],
    what: str,
    groups: tuple[WorkerGroup, WorkerGroup],
) -> tuple[LogRatio | None, str]:
    empty = next((group for group in groups if not len(group.times_s)), None)
    if empty is not None:
        whose = f"{plural(len(empty.runs), 'run')} on {plural(empty.workers, 'worker')}"
        return (
            None,
            f"none of {whose} reached the target" if empty.runs else f"there is no run on {empty.workers} workers",
        )
    if not all(np.isfinite(one).all() and (one > 0.0).all() for one in (above, below)):
        return None, f"not every log says the {what} of its evaluations"
    return log_ratio(above, below, factor, lost, coarse), ""
