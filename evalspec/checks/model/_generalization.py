"""What `generalization` does when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalspec.checks.model._catalogue import SLICED
from evalspec.checks.model._cells import cells
from evalspec.checks.model._metrics import score
from evalspec.checks.model._points import shown_bounds
from evalspec.checks.model._scored import Scored, Undefined, scored
from evalspec.checks.model._scores import Tools
from evalspec.checks.model.generalization import OF_VALUES, alike
from evalspec.errors import InvalidError
from evalspec.evidence.blocks import AnyBlock, Column, Interval, Intervals, Reference, Table
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.stats.macro import mover_difference
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from evalspec.checks.model.generalization import Generalization
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs

METRICS = {metric.name: metric for metric in SLICED}


def measure(check: Generalization, inputs: Inputs) -> CheckResult:
    """Score inside and outside, and hold one against the other.

    Raises:
        InputError: The answers can't be scored.
        InvalidError: A dataset from outside is from where the one inside is from.
    """
    for dataset in check.outside if check.by is None else ():
        same = alike(check.inside, inputs.origin(check.inside), dataset, inputs.origin(dataset))
        if same is not None:
            raise InvalidError(same)
    inside = _rows(check, inputs, check.inside)
    outside, without = _origins(check, inputs)
    tools = Tools.of(inputs)
    estimates: dict[str, Estimate | Parts] = {}
    missing: dict[str, str] = {}
    blocks: list[AnyBlock] = []
    for name, metric in _wanted(check, inside).items():
        home, why = _estimate(metric, inside, tools)
        if home is None:
            missing[name] = f"on {check.inside}: {why}"
            continue
        found = {origin: _estimate(metric, rows, tools) for origin, rows in outside.items()}
        gaps = {origin: _gap(home, away, metric, why) for origin, (away, why) in found.items()}
        missing |= {f"{name}({origin})": why for origin, (away, why) in found.items() if away is None}
        estimates[name] = Parts(gaps)
        known = {origin: away for origin, (away, _) in found.items() if away is not None}
        blocks += _shown(check, metric, home, known, gaps, inputs.confidence)
    for name in ("ood_gap", *OF_VALUES):
        if name not in estimates:
            missing.setdefault(name, _why_not(name, check, inside))
    total = inside.n + sum(rows.n for rows in outside.values())
    return CheckResult(
        estimates=estimates, missing=missing, blocks=blocks,
        counts=Counts(attempted=total + without, used=total, dropped=without),
        conditions=_conditions(check, inputs),
        notes=() if not without else (f"{without} rows have no value for {check.by!r} and are of no origin",),
    )  # fmt: skip


def _rows(check: Generalization, inputs: Inputs, dataset: str) -> Scored:
    return scored(inputs, dataset, check.model, positive=check.positive, decision_threshold=check.decision_threshold)


def _origins(check: Generalization, inputs: Inputs) -> tuple[dict[str, Scored], int]:
    """Rows of every origin, and how many are of none."""
    if check.by is None:
        return {dataset: _rows(check, inputs, dataset) for dataset in check.outside}, 0
    found: dict[str, Scored] = {}
    without = 0
    for dataset in check.outside:
        rows = _rows(check, inputs, dataset)
        cut = cells(inputs, dataset, ((check.by,),), 1)
        without += sum(cut.missing.values())
        for cell in cut.kept:
            name = cell.name if len(check.outside) == 1 else f"{dataset}: {cell.name}"
            found[name] = rows.rows(cell.inside)
    return found, without


def _wanted(check: Generalization, inside: Scored) -> dict[str, str]:
    """What is measured: metric of this check: metric of `quality`."""
    asked = {requirement.metric for requirement in check.requirements}
    if inside.task == "values":
        return {name: metric for name, metric in OF_VALUES.items() if name in asked or metric in (check.metric_, "mae")}
    return {"ood_gap": check.metric_} if METRICS[check.metric_].unit == "fraction" else {}


def _why_not(name: str, check: Generalization, inside: Scored) -> str:
    if inside.task == "values":
        return "the model gives values: use ood_gap_mae" if name == "ood_gap" else "not asked for"
    return "the model gives no values" if name in OF_VALUES else f"{check.metric_} is no fraction"


def _estimate(metric: str, rows: Scored, tools: Tools) -> tuple[Estimate | None, str]:
    try:
        return score(metric, None, rows).estimate(rows, tools), ""
    except Undefined as undefined:
        return None, str(undefined)


def _gap(home: Estimate, away: Estimate | None, metric: str, why: str) -> Estimate:
    if away is None:
        return ValueOnly(None, 0, why)
    return mover_difference(away, home) if METRICS[metric].better == "lower" else mover_difference(home, away)


def _conditions(check: Generalization, inputs: Inputs) -> dict[str, Cell]:
    found: dict[str, Cell] = {}
    for dataset in (check.inside, *check.outside):
        origin = inputs.origin(dataset)
        found[f"origin of {dataset}"] = ", ".join(f"{key} {value}" for key, value in origin.items()) or "not stated"
    return found


def _shown(
    check: Generalization, metric: str, home: Estimate, away: Mapping[str, Estimate], gaps: Mapping[str, Estimate],
    confidence: float,
) -> list[AnyBlock]:  # fmt: skip
    unit, percent = METRICS[metric].unit, f"{confidence:.0%}"
    everywhere = {check.inside: home, **away}
    bounds = {name: shown_bounds(one, confidence, required=True) for name, one in everywhere.items()}
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
