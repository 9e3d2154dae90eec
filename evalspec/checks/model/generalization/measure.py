"""Measurement of `generalization`: a metric inside and outside, and the gaps between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.checks.model.generalization.spec import OF_VALUES, alike
from evalspec.errors import InvalidError
from evalspec.evidence.blocks import AnyBlock, Column, Interval, Intervals, Reference, Table
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent, plural, verb
from evalspec.language.parts import CheckResult
from evalspec.scoring.catalogue.metrics import SLICED
from evalspec.scoring.on_demand import shown_bounds
from evalspec.scoring.scored_rows import Scored, Undefined, scored
from evalspec.scoring.scores import Estimators
from evalspec.scoring.slicing import cells, column_of
from evalspec.scoring.tasks import score
from evalspec.stats.shares.two_shares import apart
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from evalspec.checks.model.generalization.spec import Generalization
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs

METRICS = {metric.name: metric for metric in SLICED}


def measure(check: Generalization, inputs: Inputs) -> CheckResult:
    """Score the rows inside and outside, and compare them.

    Raises:
        InputError: The answers can't be scored.
        InvalidError: A dataset from outside has the same origin as the one inside.
    """
    inside = _rows(check, inputs, check.inside)
    found_outside = _origins(check, inputs)
    outside, without = found_outside.rows, found_outside.without
    tools = Estimators.of(inputs)
    estimates: dict[str, Estimate | Parts] = {}
    missing: dict[str, str] = {}
    blocks: list[AnyBlock] = []
    for name, metric in _wanted(check, inside).items():
        if not outside:
            missing[name] = f"no row of {', '.join(check.outside)} has a value for {check.by!r}"
            continue
        home, why = _estimate(metric, inside, tools)
        if home is None:
            missing[name] = f"on {check.inside}: {why}"
            continue
        elsewhere = {origin: _estimate(metric, rows, tools) for origin, rows in outside.items()}
        gaps = {origin: _gap(home, away, metric, why) for origin, (away, why) in elsewhere.items()}
        missing |= {f"{name}({origin})": why for origin, (away, why) in elsewhere.items() if away is None}
        estimates[name] = Parts(gaps)
        known = {origin: away for origin, (away, _) in elsewhere.items() if away is not None}
        blocks += _shown(check, metric, home, known, gaps, inputs.confidence)
    for name in ("ood_gap", *OF_VALUES):
        if name not in estimates:
            missing.setdefault(name, _why_not(name, check, inside))
    total = inside.questions + sum(rows.questions for rows in outside.values())
    return CheckResult(
        estimates=estimates, missing=missing, blocks=blocks,
        counts=Counts(attempted=total + without, used=total, dropped=without),
        conditions=_conditions(check, inputs), notes=found_outside.notes,
        answers_each=dict.fromkeys(estimates, inside.asked),
    )  # fmt: skip


def _rows(check: Generalization, inputs: Inputs, dataset: str) -> Scored:
    return scored(inputs, dataset, check.model, positive=check.positive, decision_threshold=check.decision_threshold)


@dataclass(frozen=True)
class _Outside:
    """Rows from elsewhere, by origin.

    Args:
        rows: Origin: its rows.
        without: Number of rows of the outside datasets that are in none of these.
        notes: Sentences for the reader.
    """

    rows: Mapping[str, Scored]
    without: int = 0
    notes: tuple[str, ...] = ()


def _origins(check: Generalization, inputs: Inputs) -> _Outside:
    """Collect the rows of every origin.

    Raises:
        InvalidError: A dataset, or every value of the column in it, has the same origin as the one inside.
    """
    here = inputs.origin(check.inside)
    if check.by is None:
        for dataset in check.outside:
            same = alike(check.inside, here, dataset, inputs.origin(dataset))
            if same is not None:
                raise InvalidError(same)
        return _Outside({dataset: _rows(check, inputs, dataset) for dataset in check.outside})
    origins: dict[str, Scored] = {}
    notes: list[str] = []
    unknown = left_out = 0
    for dataset in check.outside:
        there, rows = inputs.origin(dataset), _rows(check, inputs, dataset)
        cut = cells(inputs, dataset, ((check.by,),), 1)
        start = f"{column_of(inputs, dataset, check.by)}="
        unknown += sum(cut.missing.values())
        same = None
        kept = 0
        for cell in cut.kept:
            stated = {check.by: cell.name.removeprefix(start)} if cell.name.startswith(start) else {}
            why = alike(check.inside, here, f"{cell.name} of {dataset}", {**there, **stated})
            if why is not None:
                same = why
                left_out += cell.n
                notes.append(f"{plural(cell.n, 'row')} {verb(cell.n, 'is', 'are')} left out: {why}")
                continue
            kept += 1
            name = cell.name if len(check.outside) == 1 else f"{dataset}: {cell.name}"
            origins[name] = rows.rows(cell.inside)
        if same is not None and not kept:
            raise InvalidError(same)
    if unknown:
        notes.append(f"{plural(unknown, 'row')} {verb(unknown, 'has', 'have')} no value for {check.by!r} and no origin")
    return _Outside(origins, unknown + left_out, tuple(notes))


def _wanted(check: Generalization, inside: Scored) -> dict[str, str]:
    """Metrics to measure: metric of this check: metric of `quality`."""
    asked = {requirement.metric for requirement in check.requirements}
    if inside.task == "values":
        return {name: metric for name, metric in OF_VALUES.items() if name in asked or metric in (check.metric_, "mae")}
    return {"ood_gap": check.metric_} if METRICS[check.metric_].unit == "fraction" else {}


def _why_not(name: str, check: Generalization, inside: Scored) -> str:
    if inside.task == "values":
        return "the model gives values: use ood_gap_mae" if name == "ood_gap" else "not asked for"
    return "the model gives no values" if name in OF_VALUES else f"{check.metric_} is not a fraction"


def _estimate(metric: str, rows: Scored, tools: Estimators) -> tuple[Estimate | None, str]:
    try:
        return score(metric, None, rows).estimate(rows, tools), ""
    except Undefined as undefined:
        return None, str(undefined)


def _gap(home: Estimate, away: Estimate | None, metric: str, why: str) -> Estimate:
    if away is None:
        return ValueOnly(None, 0, why)
    return apart(away, home) if METRICS[metric].better == "lower" else apart(home, away)


def _conditions(check: Generalization, inputs: Inputs) -> dict[str, Cell]:
    conditions: dict[str, Cell] = {}
    for dataset in (check.inside, *check.outside):
        origin = inputs.origin(dataset)
        conditions[f"origin of {dataset}"] = (
            ", ".join(f"{key} {value}" for key, value in origin.items()) or "not stated"
        )
    return conditions


def _shown(
    check: Generalization, metric: str, home: Estimate, away: Mapping[str, Estimate], gaps: Mapping[str, Estimate],
    confidence: float,
) -> list[AnyBlock]:  # fmt: skip
    unit, percent = METRICS[metric].unit, in_percent(confidence)
    everywhere = {check.inside: home, **away}
    bounds = {name: shown_bounds(one, confidence) for name, one in everywhere.items()}
    lines = tuple(
        Interval(label=name, value=one.value, lower=bounds[name][0], upper=bounds[name][1], n=one.n)
        for name, one in everywhere.items()
    )
    forest = Intervals(
        title=f"{metric} inside and outside", caption=f"One-sided bounds at {percent} each.", unit=unit, rows=lines,
        references=(Reference(label=f"inside ({check.inside})", value=home.value, axis="x"),),
    )  # fmt: skip
    columns = (
        Column(name="origin"), Column(name="rows", unit="rows"), Column(name=metric, unit=unit),
        Column(name="worse than inside", unit="pp" if unit == "fraction" else unit),
        Column(name=f"lower {percent}", unit="pp" if unit == "fraction" else unit),
        Column(name=f"upper {percent}", unit="pp" if unit == "fraction" else unit),
    )  # fmt: skip
    scale = 100.0 if unit == "fraction" else 1.0

    def points(value: float | None) -> float | None:
        return None if value is None else scale * value

    first: tuple[Cell, ...] = (f"{check.inside} (inside)", home.n, home.value, None, None, None)
    rows = tuple(
        (name, one.n, one.value, points(gaps[name].value), points(gaps[name].bound(confidence, "lower")),
         points(gaps[name].bound(confidence, "upper")))
        for name, one in away.items()
    )  # fmt: skip
    table = Table(
        title=f"{metric} by origin", caption="Negative: better outside than inside.", columns=columns,
        rows=(first, *rows),
    )  # fmt: skip
    return [forest, table]
