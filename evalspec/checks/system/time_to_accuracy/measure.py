"""Measurement of `time_to_accuracy`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.time_to_accuracy import show
from evalspec.checks.system.time_to_accuracy.confirmation import as_result, confirmed
from evalspec.checks.system.time_to_accuracy.spec import FINAL, FINAL_SHARE, QUANTITIES, RATE, REACHED
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Comparison, Estimate, Measured
from evalspec.evidence.reasons import gravest, only_worse
from evalspec.evidence.record import Counts
from evalspec.evidence.units import UNITS, format_number
from evalspec.evidence.words import and_list, plural
from evalspec.language.parts import CheckResult
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.training.log_rank import RecipeComparison, RunRatio, run_ratio
from evalspec.stats.training.reached import HigherQuantile, OpenShare, RunQuantile, run_quantile
from evalspec.stats.training.reference_points import PointGroup
from evalspec.timing.reference_points import batch_of, doubts_of, point_groups, point_runs, points_at
from evalspec.timing.targets import EVALUATION_COLUMNS, Quantity
from evalspec.timing.training_runs import (
    TargetRun,
    open_questions,
    replaced_runs,
    spoiled_by,
    target_runs,
    without,
    write_evaluations,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.checks.system.time_to_accuracy.spec import TimeToAccuracy
    from evalspec.language.inputs import Inputs

TOO_FAST = 0.05


@dataclass
class _Estimates:
    """Estimates and reasons, as they are made."""

    made: dict[str, Estimate | Measured] = field(default_factory=dict)
    spoiled: list[str | None] = field(default_factory=list)
    """What the surroundings did to runs of other trainings."""
    missing: dict[str, str] = field(default_factory=dict)
    comparisons: dict[tuple[str, str], Comparison] = field(default_factory=dict)
    weakens: list[str] = field(default_factory=list)


def measure(check: TimeToAccuracy, inputs: Inputs) -> CheckResult:
    """Reads the logs of all runs, and decides by when each reached the target.

    Args:
        check: Its fields.
        inputs: Where rows of its trainings come from.

    Raises:
        InputError: The measure of the target is not logged.
        NotRunError: Runs were announced that have no log.
    """
    rows = inputs.table(check.training, EVALUATION_COLUMNS)
    told = confirmed(check, inputs, target_runs(rows, check.goal, check.held, check.training, check.clock))
    runs = told.runs
    estimates = _Estimates()
    _alone(check, runs, estimates)
    references: dict[str, Sequence[PointGroup]] = {}
    for name in check.sides_named:
        table = inputs.table(name, EVALUATION_COLUMNS)
        references[name] = point_groups(table)
        _against(check, runs, _Side(name, table, references[name]), estimates, inputs.rng)
    _doubt(check, runs, estimates)
    lost = [run for run in runs if run.reached is None]
    result = CheckResult(
        estimates=estimates.made,
        comparisons=estimates.comparisons,
        missing=estimates.missing,
        blocks=show.blocks(check, runs, {name: groups for name, groups in references.items() if groups}),
        counts=Counts(attempted=len(runs), used=len(runs), errored=0),
        conditions={
            "runs": len(runs), "reached": len(runs) - len(lost), "workers": _one(run.workers for run in runs),
            "limit": None if math.isinf(runs[0].limit_s) else f"{runs[0].limit_s / 60.0:g} min",
        },
        notes=[*_notes(runs, lost), *replaced_runs(inputs.table(check.training, EVALUATION_COLUMNS))],
        weakens=[*open_questions(runs, check.training, check.held, check.clock), *estimates.weakens],
        evidence=[(write_evaluations(runs, inputs.evidence, check.name), "evaluations of every run, as logged")],
    )  # fmt: skip
    return as_result(told, result)


def _one(values: Iterable[int | None]) -> int | str | None:
    there = sorted({one for one in values if one is not None})
    return None if not there else there[0] if len(there) == 1 else ", ".join(str(one) for one in there)


def _scale(what: Quantity) -> float:
    """From seconds, samples, dollars and joules to the unit of the metric."""
    unit = QUANTITIES[what][0]
    return 1.0 / UNITS[unit].scale if what in ("time", "energy") else 1.0


def _taken(runs: Sequence[TargetRun], what: Quantity) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Amounts that were not enough and that were, shape (n,) each, in the unit of the metric."""
    pairs = np.array([run.taken(what) for run in runs], dtype=np.float64).T * _scale(what)
    return np.fmin(pairs[0], pairs[1]), pairs[1]


def _quantile(runs: Sequence[TargetRun], what: Quantity, q: float) -> RunQuantile:
    least, most = _taken(runs, what)
    return run_quantile(least, most, q, [run.seen(what) * _scale(what) for run in runs])


def _alone(check: TimeToAccuracy, runs: Sequence[TargetRun], into: _Estimates) -> None:
    """Estimates of the training by itself."""
    reasons: dict[Quantity, str | None] = {what: without(runs, what, check.training) for what in QUANTITIES}
    for metric, (what, q) in REACHED.items():
        why = reasons[what]
        if why is not None:
            into.missing[metric] = why
        else:
            into.made[metric] = _quantile(runs, what, q)
    got_there = sum(run.reached is not None for run in runs)
    unsure = sum(run.unsure for run in runs)
    into.made[RATE] = Proportion.of_counts(got_there - unsure, len(runs))
    if unsure:
        into.made[RATE] = OpenShare(
            Proportion.of_counts(got_there - unsure, len(runs)), Proportion.of_counts(got_there, len(runs))
        )
    finals = np.array([run.final for run in runs])
    if not check.goal.rising:
        into.missing[FINAL] = f"{check.goal.metric} is better when it falls: there is no final accuracy"
    elif (finals > 1.0).any():
        into.missing[FINAL] = f"{check.goal.metric} is logged above 1: write `percent: true` in the training"
    else:
        into.made[FINAL] = HigherQuantile(finals, 1.0 - FINAL_SHARE, np.array([run.status == "cut" for run in runs]))


@dataclass(frozen=True)
class _Side:
    """Another training.

    Args:
        name: Its name.
        table: Its rows.
        groups: Its reference points, by batch size; empty: it has logs.
    """

    name: str
    table: pa.Table
    groups: Sequence[PointGroup]


def _runs_beside(check: TimeToAccuracy, runs: Sequence[TargetRun], side: _Side) -> tuple[list[TargetRun], list[str]]:
    """Runs of another training, and what they can't show.

    Raises:
        NotRunError: There are no points at the batch size of these runs.
    """
    name = side.name
    if side.groups:
        group = points_at(side.groups, batch_of(runs, check.training), name)
        return point_runs(group, name), doubts_of(group, name, check.target)
    others = target_runs(side.table, check.goal, check.held, name, check.clock)
    lines = open_questions(others, name, check.held, check.clock)
    own, beside = ({run.batch for run in many} - {None} for many in (runs, others))
    if own and beside and own != beside:
        of_both = [and_list([str(one) for one in sorted(many, key=str)]) for many in (own, beside)]
        lines.append(
            f"runs of {check.training} have a batch size of {of_both[0]}, those of {name} of {of_both[1]}: part of a "
            "difference in samples is that of the batch"
        )
    return others, lines


def _against(
    check: TimeToAccuracy, runs: Sequence[TargetRun], side: _Side, into: _Estimates, rng: np.random.Generator
) -> None:
    """Comparisons with another training, for the requirements that name it."""
    name, metrics = side.name, dict.fromkeys(one.metric for one in check.requirements if one.model == side.name)
    try:
        others, lines = _runs_beside(check, runs, side)
    except NotRunError as error:
        into.missing.update({f"{metric} vs {name}": str(error) for metric in metrics})
        return
    into.weakens += lines
    into.spoiled.append(spoiled_by(others, name))
    ratios: dict[str, RunRatio] = {}
    for metric in metrics:
        what, q = REACHED[metric]
        why = without(runs, what, check.training) or without(others, what, name) or _open(runs, others)
        if why is not None:
            into.missing[f"{metric} vs {name}"] = why
            continue
        if what not in ratios:
            limits = (runs[0].limit_s, others[0].limit_s) if what == "time" else (math.inf, math.inf)
            scaled = (limits[0] * _scale(what), limits[1] * _scale(what))
            ratios[what] = run_ratio(_taken(runs, what)[1], _taken(others, what)[1], rng, scaled)
        own, beside = _quantile(runs, what, q).value, _quantile(others, what, q).value
        into.comparisons[metric, name] = RecipeComparison(ratios[what], beside, own)
    fast = ratios.get("samples")
    p = None if fast is None else fast.p_value(1.0, "upper")
    if p is not None and p <= TOO_FAST:
        into.weakens.append(
            f"{check.training} needs fewer samples than {name}, and by more than chance: look for other data, another "
            "model, an easier evaluation, or validation rows among those that are trained on"
        )


def _doubt(check: TimeToAccuracy, runs: Sequence[TargetRun], into: _Estimates) -> None:
    """Void what other work beside a run may have made worse, and what of another training may have helped."""
    own = only_worse(spoiled_by(runs, check.training))
    reason = gravest(own, *into.spoiled)
    if reason is None:
        return
    cut = any(run.spoiled is not None and run.reached is None for run in runs)
    for name, estimate in into.made.items():
        slower = name in REACHED and REACHED[name][0] != "samples"
        # A run that was slowed down may have come to its limit, or out of memory, because of that.
        if slower or cut:
            into.made[name] = replace(Measured.of(estimate), invalid=reason)


def _open(runs: Sequence[TargetRun], others: Sequence[TargetRun]) -> str | None:
    """Reason why two trainings can't be compared: of a run it is not known how it went on; None: it is of all."""
    cut = next((run.name for run in (*runs, *others) if run.open), None)
    if cut is None:
        return None
    return f"the log of {cut} stops before the run's end: as late as any it would speak for the other training"


def _notes(runs: Sequence[TargetRun], lost: Sequence[TargetRun]) -> list[str]:
    notes = []
    before = [run.offset_s for run in runs if run.offset_s > 0.0]
    if before:
        minutes = format_number(float(np.median(before)) / 60.0)
        notes.append(f"{minutes} min of each run's time (median) lie before the clock of its log, and are counted.")
    if lost:
        named = ", ".join(f"{run.name} ({_end(run)})" for run in lost[: show.NAMED])
        more = f" and {len(lost) - show.NAMED} more" if len(lost) > show.NAMED else ""
        notes.append(f"{len(lost)} of {plural(len(runs), 'run')} did not reach the target: {named}{more}.")
    costs = np.array([run.seen("cost") for run in runs])
    if np.isfinite(costs).all() and len(runs) > len(lost):
        each = costs.sum() / (len(runs) - len(lost))
        notes.append(
            f"All {len(runs)} runs took {format_number(float(costs.sum()))} USD to their ends, those that did not get "
            f"there among them: {format_number(float(each))} USD for each that did."
        )
    return notes


def _end(run: TargetRun) -> str:
    known = run.values[np.isfinite(run.values)]
    last = f"last value {float(known[-1]):.6g}" if len(known) else "no value"
    words: Mapping[str, str] = {
        "aborted": "aborted", "cut": "its log stops before the end", "failed": "crashed",
        "out_of_memory": "out of memory", "limit": "killed at the limit",
    }  # fmt: skip
    return ", ".join(one for one in (words.get(run.status, ""), last) if one)
