"""Blocks of `time_to_accuracy`: the measure over time in every run, the runs, and scores of others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Reference, Series, Table
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import plural
from evalspec.stats.training.reference_points import Form, PointGroup, convergence_test, dropped, olympic_mean

if TYPE_CHECKING:
    from evalspec.checks.system.time_to_accuracy.spec import TimeToAccuracy
    from evalspec.timing.training_runs import TargetRun

NAMED = 5
"""So many runs are named in a sentence."""
LINES, POINTS, MOST_POINTS = 6, 200, 4_000
"""So many runs are named, each with so many points at most; of more runs lines have two colours, and so many points
in all."""
MINUTE = 60.0


def blocks(
    check: TimeToAccuracy, runs: Sequence[TargetRun], references: Mapping[str, Sequence[PointGroup]]
) -> list[AnyBlock]:
    """The measure over time, a table of runs, and what `report:` asks for.

    Args:
        check: Its target and requirements become lines.
        runs: All runs.
        references: Trainings that are reference points: their points by batch size.
    """
    found: list[AnyBlock] = []
    curve = _over_time(check, runs)
    if curve is not None:
        found.append(curve)
    found.append(_table(runs))
    if "mlperf" in check.report:
        found.append(_mlperf(runs))
        found += [_convergence(runs, name, groups) for name, groups in references.items()]
    return found


def _over_time(check: TimeToAccuracy, runs: Sequence[TargetRun]) -> Curve | None:
    """A line of each run; of more than a few runs, lines are told apart by whether they got there."""
    many = len(runs) > LINES
    each = max(10, MOST_POINTS // len(runs)) if many else POINTS
    drawn = [(run, one) for run in runs if (one := _series(run, each)) is not None]
    if not drawn:
        return None
    limits = [one for one in check.requirements if one.metric.startswith("time_") and one.model is None]
    lines = [Reference(label=check.target, value=check.goal.value, axis="y", says_value=True)]
    lines += [Reference(label=one.sentence, value=one.threshold, axis="x", says_value=True) for one in limits]
    if math.isfinite(runs[0].limit_s):
        lines.append(Reference(label="limit", value=runs[0].limit_s / MINUTE, axis="x"))
    measure = check.goal.metric
    groups = [
        ("reached", [one for run, one in drawn if run.reached is not None]),
        ("not reached", [one for run, one in drawn if run.reached is None]),
    ]
    together = tuple(_together(f"{name}: {plural(len(some), 'run')}", some) for name, some in groups if some)
    return Curve(
        title=f"{measure} over time", caption="Every run, a line each.", x_label="time", x_unit="min", y_label=measure,
        series=together if many else tuple(one for _, one in drawn), references=tuple(lines),
    )  # fmt: skip


def _together(name: str, lines: Sequence[Series]) -> Series:
    """Lines of many runs under one name."""
    ends = np.cumsum([len(one.x) for one in lines]).tolist()
    return Series(
        name=name,
        x=tuple(x for one in lines for x in one.x),
        y=tuple(y for one in lines for y in one.y),
        breaks=tuple(ends[:-1]),
    )


def _series(run: TargetRun, most: int) -> Series | None:
    kept = np.flatnonzero(np.isfinite(run.times_s) & np.isfinite(run.values))
    if not len(kept):
        return None
    if len(kept) > most:
        spread = kept[np.linspace(0, len(kept) - 1, most).astype(np.int64)]
        kept = np.unique([*spread, *([] if run.reached is None else [run.reached])])
    return Series(
        name=run.name,
        x=tuple(float(one) for one in run.times_s[kept] / MINUTE),
        y=tuple(float(one) for one in run.values[kept]),
    )


def _table(runs: Sequence[TargetRun]) -> Table:
    columns = (
        Column(name="run"), Column(name="seed"), Column(name="workers"), Column(name="reached after", unit="min"),
        Column(name="not yet at", unit="min"), Column(name="samples"), Column(name="last value"),
        Column(name="before the clock", unit="min"), Column(name="end"),
    )  # fmt: skip
    return Table(
        title="Runs",
        caption="When each reached the target, and the evaluation before it: the truth lies between the two.",
        columns=columns,
        rows=tuple(_row(run) for run in runs),
    )


def _row(run: TargetRun) -> tuple[Cell, ...]:
    least, most = run.taken("time")
    return (
        run.name, run.seed, run.workers, _cell(most / MINUTE), _cell(least / MINUTE), _cell(run.taken("samples")[1]),
        _cell(run.final), None if run.before_s is None else run.before_s / MINUTE,
        "reached" if run.reached is not None else "not reached" if run.status != "cut" else "the log stops",
    )  # fmt: skip


def _cell(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def mlperf_score(minutes: Sequence[float]) -> float | None:
    """Score of MLPerf Training: the mean without the fastest and the slowest run; None: it is invalid.

    Args:
        minutes: Of each run, infinite where it did not converge. One such run may be the slowest; of 40 runs, four.
    """
    score = olympic_mean(minutes, dropped(len(minutes)))
    return score if math.isfinite(score) else None


def _minutes(runs: Sequence[TargetRun]) -> list[float]:
    """Time of each run on the clock of its log, infinite where it did not converge."""
    minutes = [(run.taken("time")[1] - run.offset_s) / MINUTE for run in runs]
    return [math.inf if math.isnan(one) else one for one in minutes]


def _mlperf(runs: Sequence[TargetRun]) -> Table:
    minutes = _minutes(runs)
    score = mlperf_score(minutes)
    lost, may_miss = sum(math.isinf(one) for one in minutes), dropped(len(runs))
    state = (
        f"invalid: {lost} runs did not converge" if lost > may_miss else "too few runs" if score is None else "valid"
    )
    return Table(
        title="MLPerf score",
        caption="Mean without the fastest and the slowest run, on the clock of the log. It decides nothing here: at "
        "the edge it passes far more often than 1 time in 20.",
        columns=(
            Column(name="score", unit="min"),
            Column(name="runs"),
            Column(name="not converged"),
            Column(name="state"),
        ),
        rows=((score, len(runs), lost, state),),
    )


FORMS: tuple[tuple[Form, str], ...] = (("rules", "rules"), ("code", "rcp_checker"))


def _convergence(runs: Sequence[TargetRun], reference: str, groups: Sequence[PointGroup]) -> Table:
    """The test of MLPerf against reference points, as its rules have it and as its checker does."""
    batches, score = {run.batch for run in runs}, mlperf_score(_minutes(runs))
    batch = next(iter(batches)) if len(batches) == 1 else None
    samples = [run.taken("samples")[1] for run in runs]
    rows: list[tuple[Cell, ...]] = []
    for form, name in FORMS:
        known = batch is not None and not any(math.isnan(one) for one in samples)
        test = convergence_test(samples, groups, batch, form) if known and batch is not None else None
        if test is None or not test.known:
            rows.append((name, batch, *[None] * 5, "no points at this batch size" if known else "not known", None))
            continue
        state = "passed" if test.passed else "too fast" if math.isfinite(test.mean) else "did not converge"
        rows.append(
            (
                name, batch, _cell(test.mean), test.reference, test.deviation, test.least, 100.0 * (test.speedup - 1.0),
                state, None if score is None or not test.passed else score * test.factor,
            )
        )  # fmt: skip
    return Table(
        title=f"MLPerf test of convergence against {reference}",
        caption="Means of samples without the fastest and the slowest run. Too fast is suspect, and passing shows no "
        "more than that: it decides nothing here. The rules leave out both runs from the deviation, too; the checker "
        "does not, and looks at pruned points.",
        columns=(
            Column(name="as in"), Column(name="batch"), Column(name="mean"), Column(name="mean of the reference"),
            Column(name="deviation"), Column(name="least mean"), Column(name="may be faster by", unit="%"),
            Column(name="state"), Column(name="normalised score", unit="min"),
        ),
        rows=tuple(rows),
    )  # fmt: skip
