"""Measurement of `slices`: cut, score each slice, find the worst and the gaps, draw the forest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.slices.blind_answers import of_slices
from evalspec.checks.model.slices.discovery import discover
from evalspec.checks.model.slices.disparity import disparity
from evalspec.checks.model.slices.groups import groups_of, percentile
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import AnyBlock, Column, Interval, Intervals, Reference, Table, Text
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts
from evalspec.evidence.reasons import NoEvidence
from evalspec.evidence.record import Counts
from evalspec.evidence.units import from_unit
from evalspec.evidence.words import in_percent, plural, verb
from evalspec.language.parts import CheckResult
from evalspec.language.where import parse_where
from evalspec.scoring.catalogue.metrics import SLICED
from evalspec.scoring.on_demand import NoComparison, shown_bounds
from evalspec.scoring.scored_rows import Scored, Undefined, aligned, scored
from evalspec.scoring.scores import Estimators
from evalspec.scoring.sliced_metrics import (
    BY_FORMS,
    GROUPED,
    SHARE_WORSE,
    TOO_SMALL,
    WEAK,
    Form,
    asked_of,
    percentile_name,
)
from evalspec.scoring.slicing import Cells, cells
from evalspec.scoring.tasks import families, score
from evalspec.stats.conjunction import AllParts, Gap
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.slices.spec import Discover, Slices
    from evalspec.evidence.frozen import Cell as TableCell
    from evalspec.language.inputs import Inputs

METRICS = {metric.name: metric for metric in SLICED}
SMALL_SHOWN = 20
GAP_MOST = 100
"""Most slices that a gap is made of: with more, it has over 5,000 pairs."""

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Sliced:
    """Metric over the slices.

    Args:
        metric: Name of the metric.
        overall: Estimate over all rows, or None where there is none.
        parts: Slice: estimate; without a value where the slice's rows give none.
        missing: ``metric(slice)``, or metric: why there is no value.
    """

    metric: str
    overall: Estimate | None
    parts: Mapping[str, Estimate]
    missing: Mapping[str, str]


@dataclass
class _Sofar:
    """Results so far, which each step adds to.

    Args:
        covered: shape (n,), True for rows that something was scored on.
        estimates: Metric: estimate, fact or parts.
        blind: Scores of blind answers, as in `evalspec.language.parts.CheckResult`.
        missing: Metric, or ``metric(part)``: why there is no value.
        blocks: Blocks to show.
        notes: Sentences for the reader.
        answers_each: Metric: answers to each row, where they are what is counted.
    """

    covered: NDArray[np.bool_]
    estimates: dict[str, Estimate | Fact | Measured | Parts] = field(default_factory=dict)
    blind: dict[str, tuple[float, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    blocks: list[AnyBlock] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answers_each: dict[str, int] = field(default_factory=dict)


def measure(check: Slices, inputs: Inputs) -> CheckResult:
    """Score each slice, percentiles over groups, and what a search finds.

    Args:
        check: The check.
        inputs: Inputs of the check.

    Raises:
        InputError: The answers can't be scored, or the rows can't be cut as asked.
    """
    unbounded = check.unbounded(inputs.slice_names())
    if unbounded is not None:
        raise InputError(unbounded)
    rows = _answers(check, inputs, check.model)
    tools = Estimators.of(inputs)
    sofar = _Sofar(np.zeros(rows.questions, dtype=np.bool_))
    comparisons: Mapping[tuple[str, str], Comparison | ComparisonParts] = {}
    if check.by:
        comparisons = _by(check, inputs, rows, tools, sofar)
    if check.groups is not None:
        _over_groups(check, check.groups, inputs, rows, tools, sofar)
    if check.discover is not None:
        _discovered(check, check.discover, inputs, rows, tools, sofar)
    for requirement in check.requirements:
        why = check.check_requirement(requirement, {})
        if why is not None and requirement.model is None:
            sofar.missing.setdefault(requirement.metric, why)
    used = int(sofar.covered.sum())
    return CheckResult(
        estimates=sofar.estimates, comparisons=comparisons, missing=sofar.missing, blocks=sofar.blocks,
        counts=Counts(attempted=rows.questions, used=used, dropped=rows.questions - used), notes=sofar.notes,
        conditions=_looked_at(check, inputs), blind=sofar.blind, answers_each=sofar.answers_each,
    )  # fmt: skip


def _looked_at(check: Slices, inputs: Inputs) -> dict[str, TableCell]:
    """Columns that each named slice is defined by, which its name does not tell."""
    known = set(inputs.slice_names())
    named = dict.fromkeys(name for names in check.entries for name in names if name in known)
    return {f"columns of {name}": ", ".join(parse_where(inputs.slice_where(name)).columns) for name in named}


def _by(
    check: Slices, inputs: Inputs, rows: Scored, tools: Estimators, sofar: _Sofar
) -> Mapping[tuple[str, str], Comparison | ComparisonParts]:
    """Score the slices of `by:`, named or enumerated, and compare them with other models."""
    cut = cells(inputs, check.dataset, check.entries, check.min_n)
    over = [_sliced(metric, rows, cut, tools) for metric in _metrics(check, rows)]
    sofar.estimates[TOO_SMALL] = Fact(
        len(cut.small), cut.enumerated, f"cells with fewer than {check.min_n} rows", first=cut.first_small
    )
    for sliced in over:
        sofar.missing |= sliced.missing
        sofar.estimates |= _estimates(sliced)
        sofar.missing |= _without(sliced, cut, check.min_n)
    sofar.blind |= of_slices(check.requirements, rows, cut.kept, tools)
    sofar.blocks += _shown(check, rows, cut, over, inputs.confidence)
    sofar.notes += _notes(cut, check.min_n)
    if check.reference is not None:
        for sliced in over:
            one = disparity(check, check.reference, sliced, cut, inputs.confidence)
            sofar.estimates |= one.estimates
            sofar.missing |= one.missing
            sofar.blocks += one.blocks
    if rows.asked > 1:
        sofar.answers_each = dict.fromkeys(sofar.estimates, rows.asked)
    for cell in cut.kept:
        sofar.covered[cell.rows] = True
    return _comparisons(check, inputs, rows, cut, tools, sofar.missing)


def _over_groups(check: Slices, column: str, inputs: Inputs, rows: Scored, tools: Estimators, sofar: _Sofar) -> None:
    """Add percentiles over the groups of a column."""
    groups = groups_of(inputs, check.dataset, column)
    sofar.covered |= groups.codes >= 0
    if groups.missing:
        sofar.notes.append(_nowhere(groups.missing, groups.column, "groups"))
    for metric in _wanted(check, rows, "percentile"):
        name = percentile_name(METRICS[metric])
        try:
            one = percentile(metric, SHARE_WORSE, rows, groups, tools)
        except Undefined as undefined:
            sofar.missing[name] = str(undefined)
            continue
        sofar.estimates[name] = one.estimate
        sofar.blocks += one.blocks
        sofar.notes += one.notes


def _discovered(check: Slices, asked: Discover, inputs: Inputs, rows: Scored, tools: Estimators, sofar: _Sofar) -> None:
    """Add the weak slices that nobody named."""
    try:
        discovery = discover(check, asked, inputs, rows, tools)
    except Undefined as undefined:
        sofar.missing[WEAK] = str(undefined)
        return
    sofar.covered[:] = True
    sofar.estimates[WEAK] = discovery.weak
    if discovery.unsearched:
        why = f"{'; '.join(discovery.unsearched)}; what is not searched may be weak, so leave it out"
        sofar.estimates[WEAK] = Measured(discovery.weak, withhold=NoEvidence(why))
    sofar.blocks += discovery.blocks
    sofar.notes += discovery.notes


def _metrics(check: Slices, rows: Scored) -> tuple[str, ...]:
    return _wanted(check, rows, *BY_FORMS)


def _wanted(check: Slices, rows: Scored, *forms: Form) -> tuple[str, ...]:
    """Names of the quality metrics that are required in one of these forms or listed."""
    asked = [asked_of(requirement.metric) for requirement in check.requirements]
    required = [one.base for one in asked if one.base is not None and one.form in forms]
    plain = [name for family in families(rows) for name in family.names][:1]
    listed = check.listed or (() if required else plain)
    kept = (name for name in (*required, *listed) if "percentile" not in forms or name in GROUPED)
    return tuple(dict.fromkeys(kept))


def _answers(check: Slices, inputs: Inputs, model: str) -> Scored:
    return scored(inputs, check.dataset, model, positive=check.positive, decision_threshold=check.decision_threshold)


def _sliced(metric: str, rows: Scored, cut: Cells, tools: Estimators) -> Sliced:
    missing: dict[str, str] = {}
    parts: dict[str, Estimate] = {}
    try:
        one = score(metric, None, rows)
        overall = one.estimate(rows, tools)
    except Undefined as undefined:
        return Sliced(metric, None, {}, {metric: str(undefined)})
    for cell in cut.kept:
        try:
            if cell.n == 0:
                raise Undefined(f"slice {cell.name!r} has no rows in {rows.where}")
            parts[cell.name] = one.estimate(rows.rows(cell.rows), tools)
        except Undefined as undefined:
            missing[f"{metric}({cell.name})"] = f"slice {cell.name!r}: {undefined}"
            parts[cell.name] = ValueOnly(None, cell.n, str(undefined))
    return Sliced(metric, overall, parts, missing)


def _estimates(sliced: Sliced) -> dict[str, Estimate | Parts]:
    if not any(part.value is not None for part in sliced.parts.values()):
        return {}
    made: dict[str, Estimate | Parts] = {
        sliced.metric: Parts(sliced.parts),
        f"worst_{sliced.metric}": AllParts(
            sliced.parts, "lower" if METRICS[sliced.metric].better == "lower" else "higher"
        ),
    }
    if 1 < len(sliced.parts) <= GAP_MOST:
        made[f"{sliced.metric}_gap"] = Gap(sliced.parts)
    return made


def _without(sliced: Sliced, cut: Cells, min_n: int) -> dict[str, str]:
    """Reasons why there is no worst slice or no gap, by metric."""
    name = sliced.metric
    names = (name, f"worst_{name}", f"{name}_gap")
    if sliced.overall is None:
        return dict.fromkeys(names, sliced.missing[name])
    if not cut.kept:
        return dict.fromkeys(names, f"no slice has {min_n} rows; the largest of {len(cut.small)} has {_largest(cut)}")
    if not any(part.value is not None for part in sliced.parts.values()):
        return dict.fromkeys(names, next(iter(sliced.missing.values())))
    if len(sliced.parts) < 2:
        return {f"{name}_gap": f"a gap needs two slices, and only {cut.kept[0].name!r} counts"}
    if len(sliced.parts) > GAP_MOST:
        count = len(sliced.parts)
        return {
            f"{name}_gap": f"a gap between {count} slices has {count * (count - 1) // 2:,} pairs; require worst_{name}"
        }
    return {}


def _nowhere(rows: int, column: str, what: str) -> str:
    """Sentence on rows that have no value in a column."""
    has, are = verb(rows, "has", "have"), verb(rows, "is", "are")
    return f"{plural(rows, 'row')} {has} no value for {column!r} and {are} in none of its {what}"


def _largest(cut: Cells) -> int:
    return max((cell.n for cell in cut.small), default=0)


def _comparisons(
    check: Slices, inputs: Inputs, rows: Scored, cut: Cells, tools: Estimators, missing: dict[str, str]
) -> Mapping[tuple[str, str], Comparison | ComparisonParts]:
    """Compare slice by slice, for ``worst_`` too: no slice may be worse than allowed against the other model."""
    comparisons: dict[tuple[str, str], Comparison | ComparisonParts] = {}
    for name, model in dict.fromkeys((r.metric, r.model) for r in check.requirements if r.model is not None):
        asked = asked_of(name)
        base = asked.base
        assert model is not None
        if base is None or asked.form not in ("each", "worst"):
            missing[f"{name} vs {model}"] = f"{name} is not compared between models; require it of each"
            continue
        try:
            other = aligned(_answers(check, inputs, model), rows)
            one = score(base, None, rows)
        except NotRunError as reason:
            missing[f"{name} vs {model}"] = str(reason)
            continue
        parts: dict[str, Comparison] = {}
        for cell in cut.kept:
            try:
                if cell.n == 0:
                    raise Undefined(f"slice {cell.name!r} has no rows in {rows.where}")
                parts[cell.name] = one.compare(rows.rows(cell.rows), other.rows(cell.rows), tools)
            except Undefined as undefined:
                missing[f"{name}({cell.name}) vs {model}"] = str(undefined)
                parts[cell.name] = NoComparison(None, cell.n, str(undefined))
        if parts:
            comparisons[name, model] = ComparisonParts(parts)
        else:
            missing[f"{name} vs {model}"] = f"no slice has {check.min_n} rows"
    return comparisons


def _shown(check: Slices, rows: Scored, cut: Cells, over: Sequence[Sliced], confidence: float) -> Sequence[AnyBlock]:
    blocks: list[AnyBlock] = []
    for sliced in over:
        if sliced.parts:
            bounds = _bounds(check, sliced, confidence)
            blocks += [_forest(check, sliced, bounds, confidence), _table(rows, cut, sliced, bounds, confidence)]
    if cut.small:
        named = [f"{cell.name} ({cell.n})" for cell in sorted(cut.small, key=lambda cell: -cell.n)[:SMALL_SHOWN]]
        more = len(cut.small) - len(named)
        text = ", ".join(named) + (f" and {more} more" if more else "")
        blocks.append(
            Text(title="Slices too small to count", caption=f"Fewer than {check.min_n} rows (in brackets).", text=text)
        )
    return blocks


def _bounds(check: Slices, sliced: Sliced, confidence: float) -> dict[str, Bounds]:
    required = any(asked_of(requirement.metric).base == sliced.metric for requirement in check.requirements)
    return {name: shown_bounds(part, confidence, required) for name, part in sliced.parts.items()}


def _forest(check: Slices, sliced: Sliced, bounds: Mapping[str, Bounds], confidence: float) -> Intervals:
    metric = METRICS[sliced.metric]
    order = sorted(sliced.parts, key=lambda name: _worst_first(sliced.parts[name].value, metric.better == "lower"))
    lines = tuple(
        Interval(
            label=name, value=sliced.parts[name].value, lower=bounds[name][0], upper=bounds[name][1],
            n=sliced.parts[name].n, note=sliced.missing.get(f"{sliced.metric}({name})", ""),
        )
        for name in order
    )  # fmt: skip
    references = [
        Reference(
            label=requirement.sentence,
            value=from_unit(requirement.threshold, requirement.unit),
            axis="x",
            says_value=True,
        )
        for requirement in check.requirements
        if requirement.model is None and requirement.metric in (sliced.metric, f"worst_{sliced.metric}")
    ]
    if sliced.overall is not None and sliced.overall.value is not None:
        references.insert(0, Reference(label="overall", value=sliced.overall.value, axis="x"))
    return Intervals(
        title=f"{sliced.metric} by slice", caption=f"One-sided bounds at {in_percent(confidence)} each; worst first.",
        unit=metric.unit, rows=lines, references=tuple(references),
    )  # fmt: skip


def _table(rows: Scored, cut: Cells, sliced: Sliced, bounds: Mapping[str, Bounds], confidence: float) -> Table:
    unit = METRICS[sliced.metric].unit
    percent = in_percent(confidence)
    overall = None if sliced.overall is None else sliced.overall.value
    sizes = {cell.name: cell.n for cell in cut.kept}
    lines: list[tuple[TableCell, ...]] = [
        (name, sizes[name], sizes[name] / rows.questions, part.value, *bounds[name], overall)
        for name, part in sliced.parts.items()
    ]  # fmt: skip
    columns = (
        Column(name="slice"), Column(name="rows", unit="rows"), Column(name="prevalence", unit="fraction"),
        Column(name=sliced.metric, unit=unit), Column(name=f"lower {percent}", unit=unit),
        Column(name=f"upper {percent}", unit=unit), Column(name="overall", unit=unit),
    )  # fmt: skip
    caption = "Prevalence: share of all rows; slices may overlap."
    return Table(title=f"{sliced.metric} by slice, in numbers", caption=caption, columns=columns, rows=tuple(lines))


def _notes(cut: Cells, min_n: int) -> Sequence[str]:
    notes = [_nowhere(rows, name, "slices") for name, rows in cut.missing.items()]
    if cut.small:
        notes.append(f"{len(cut.small)} of {cut.enumerated} cells have fewer than {min_n} rows and do not count")
    return notes


def _worst_first(value: float | None, lower_is_better: bool) -> tuple[bool, float]:
    if value is None:
        return (False, 0.0)
    return (True, -value if lower_is_better else value)
