"""Measurement of `coverage`: groups and conditions counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evalspec.checks.data.coverage.groups import (
    Codes,
    ConditionRows,
    Group,
    class_codes,
    column_codes,
    condition_rows,
    tally_scan,
)
from evalspec.checks.data.coverage.representation import Represented, represented
from evalspec.checks.data.coverage.tally import CountedColumns, Tally
from evalspec.errors import InputError
from evalspec.evidence.blocks import AnyBlock, Column, Matrix, Table
from evalspec.evidence.estimate import Fact, Measured, Parts
from evalspec.evidence.frozen import Cell
from evalspec.evidence.notes import note_on
from evalspec.evidence.reasons import NoEvidence
from evalspec.evidence.record import Counts
from evalspec.evidence.words import first_of
from evalspec.language.parts import CheckResult
from evalspec.language.scans import Scan
from evalspec.stats.shares.contingency import association

if TYPE_CHECKING:
    from evalspec.checks.data.coverage.spec import Coverage
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Inputs

GROUPS_SHOWN = 60
MATRIX_SIDE = 30
MOST_GROUPS = 3_000
LETTERS_SHOWN = 60
COUNTED = "counted over the whole file"


@dataclass(frozen=True)
class Covered:
    """The groups of a test set.

    Args:
        rows: Rows of the test set.
        conditions: Name: rows of each condition.
        classes: Of the label; or why there are none.
        columns: Column of ``by:``: its values.
        tables: Column of ``by:``: rows of each class in each value, shape (classes, values).
        groups: All of them.
    """

    rows: int
    conditions: Mapping[str, ConditionRows]
    classes: Codes | str
    columns: Mapping[str, Codes]
    tables: Mapping[str, NDArray[np.int64]]
    groups: tuple[Group, ...]


def measure(check: Coverage, inputs: Inputs) -> CheckResult:
    """Count the rows of every group, in one pass, and hold shares against those of the population.

    Raises:
        InputError: The dataset has no rows, or nothing is declared that could be counted.
    """
    tallies: list[Tally] = inputs.scan(scans_of(check, inputs))
    here = tallies[0]
    covered = _covered(check, inputs, here)
    groups = {**covered.columns, **_label_codes(check, inputs, here)}
    gaps = represented(check, inputs, covered.conditions, groups, tallies)
    absent = _absent(covered, gaps)
    estimates: dict[str, Estimate | Fact | Parts | Measured] = {}
    missing: dict[str, str] = dict(gaps.missing)
    if covered.groups:
        counted = {one.name: Fact(float(one.rows), covered.rows, COUNTED) for one in covered.groups}
        withhold = _left_out(check, inputs, here, covered)
        estimates["smallest_slice"] = Measured(Parts(counted), withhold=withhold)
        short = [one for one in _scarcest(covered.groups) if one.rows < one.needed]
        method = f"{COUNTED}{_listed([one.name for one in short])}"
        first = first_of([f"{one.name} ({one.rows:,} of {one.needed:,} rows)" for one in short])
        small = Fact(float(len(short)), covered.rows, method, first=first)
        estimates["slices_too_small"] = Measured(small, withhold=withhold)
    if covered.conditions or check.shares or covered.columns:
        method = f"{COUNTED}{_listed(absent)}"
        estimates["missing_conditions"] = Measured(
            Fact(float(len(absent)), covered.rows, method, first=first_of(list(absent))),
            notes=tuple(note_on(name, why) for name, why in absent.items()),
        )
    _of_classes(covered, estimates, missing)
    if gaps.parts:
        estimates["representation_gap"] = Parts(gaps.parts)
    elif gaps.missing:
        missing["representation_gap"] = next(iter(gaps.missing.values()))
    for metric in (one.name for one in check.metrics):
        if metric not in estimates:
            missing.setdefault(metric, _why_not(metric))
    asked = {requirement.metric for requirement in check.requirements}
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=_blocks(check, covered, gaps, absent),
        counts=Counts(attempted=covered.rows, used=covered.rows),
        conditions={"rows needed": check.needed(None, inputs.confidence), "groups": len(covered.groups)},
        notes=[*_notes(check, covered), *gaps.notes],
        weakens=[] if "missing_conditions" in asked else [
            f"{check.dataset} has no rows for {name}: {why}" for name, why in absent.items()
        ],
        evidence=_write(check, inputs, covered.groups),
    )  # fmt: skip


def scans_of(check: Coverage, inputs: Inputs) -> tuple[Scan, ...]:
    """Scans of the test set, and of the population where it is a dataset.

    Args:
        check: Its fields.
        inputs: Names of columns, and of labels.
    """
    label = inputs.label(check.dataset)
    groups = tuple(name for name in check.by if name != label)
    counted = CountedColumns((*groups, *check.shares), label, groups)
    scans = [tally_scan(inputs, check.dataset, f"groups of {check.name}", check.declared, counted)]
    if isinstance(check.population, str):
        # Bounds of rows that share clusters need to know which row is which.
        counted = CountedColumns(check.by, keep=inputs.has_clusters(check.population))
        scans.append(tally_scan(inputs, check.population, f"population of {check.name}", check.declared, counted))
    return tuple(scans)


def _covered(check: Coverage, inputs: Inputs, tally: Tally) -> Covered:
    if not tally.rows:
        raise InputError(f"dataset {check.dataset} has no rows to count")
    confidence = inputs.confidence
    conditions = {one.name: condition_rows(inputs, one, check.dataset, tally) for one in check.declared}
    classes = class_codes(inputs, check.dataset, tally)
    by = [name for name in check.by if name != inputs.label(check.dataset)]
    columns = {name: column_codes(tally, name, check.dataset) for name in by}
    groups = [
        Group(one.name, "condition", rows.inside, rows.unknown, check.needed(one, confidence), rows.finding)
        for one, rows in zip(check.declared, conditions.values(), strict=True)
    ]
    enough = check.needed(None, confidence)
    tables: dict[str, NDArray[np.int64]] = {}
    if isinstance(classes, Codes):
        groups += _values(classes, "class", enough)
    for name, codes in columns.items():
        groups += _values(codes, "group", enough)
        if not len(codes.names):
            groups.append(Group(name, "group", 0, tally.rows, enough, f"{name!r} is missing in every row"))
        if isinstance(classes, Codes) and len(codes.names):
            tables[name] = tally.table(name)
            groups += _joint(classes, codes, tables[name], enough) if check.joint else []
        if len(groups) > MOST_GROUPS:
            raise InputError(
                f"{check.dataset} has {len(groups):,} groups with those of {name!r}, more than {MOST_GROUPS:,}",
                remedy="say `joint: false`, so that classes within groups don't count",
            )
    groups += _declared_only(check, tally, {one.name for one in groups}, enough)
    known = {one.name: one for one in reversed(groups)}
    if len(known) < len(groups):
        twice = next(one.name for one in groups if known[one.name] is not one)
        raise InputError(f"two groups of {check.dataset} are called {twice!r}", remedy="rename the condition")
    return Covered(tally.rows, conditions, classes, columns, tables, tuple(groups))


def _label_codes(check: Coverage, inputs: Inputs, tally: Tally) -> dict[str, Codes]:
    """The label where `by:` names it, beside a dataset: its values are no groups of their own, but have shares."""
    label = inputs.label(check.dataset)
    if label is None or label not in check.by or not isinstance(check.population, str):
        return {}
    return {label: column_codes(tally, label, check.dataset)}


def _declared_only(check: Coverage, tally: Tally, known: set[str], enough: int) -> list[Group]:
    """Declared values without a row, of any column: groups of 0 rows."""
    groups = []
    for column, shares in check.shares.items():
        there, unknown = known, tally.rows
        if column in tally.columns:
            codes = column_codes(tally, column, check.dataset)
            there, unknown = known | {codes.name(i) for i in range(len(codes.names))}, codes.missing
        wanted = (f"{column}={value}" for value, share in shares.items() if share > 0)
        groups += [Group(name, "group", 0, unknown, enough) for name in wanted if name not in there]
    return groups


def _values(codes: Codes, kind: str, enough: int) -> list[Group]:
    counts = codes.counts.tolist()
    return [Group(codes.name(i), kind, rows, codes.missing, enough) for i, rows in enumerate(counts)]


def _joint(classes: Codes, codes: Codes, table: NDArray[np.int64], enough: int) -> list[Group]:
    return [
        Group(f"{classes.name(i)} & {codes.name(j)}", "class in group", int(table[i, j]), codes.missing, enough)
        for i in range(len(classes.names))
        for j in range(len(codes.names))
    ]


def _of_classes(
    covered: Covered, estimates: dict[str, Estimate | Fact | Parts | Measured], missing: dict[str, str]
) -> None:
    if isinstance(covered.classes, str):
        missing |= dict.fromkeys(("class_imbalance", "class_association"), covered.classes)
        return
    counts = covered.classes.counts
    if len(counts) < 2:
        missing |= dict.fromkeys(("class_imbalance", "class_association"), "there is one class only")
        return
    rows = int(counts.sum())
    largest, smallest = (covered.classes.names[int(index)] for index in (counts.argmax(), counts.argmin()))
    ratio = float(counts.max() / counts.min())
    first = f"{largest} {counts.max():,} rows, {smallest} {counts.min():,}"
    estimates["class_imbalance"] = Fact(ratio, rows, f"{COUNTED}: {largest} against {smallest}", first=first)
    found: dict[str, Fact] = {}
    for name, table in covered.tables.items():
        value = association(table)
        if value is None:
            missing[f"class_association({name})"] = f"{name!r} has one value only"
        else:
            found[name] = Fact(value, int(table.sum()), f"{COUNTED}: Cramer's V, corrected for bias")
    if found:
        estimates["class_association"] = Parts(found)


def _absent(covered: Covered, gaps: Represented) -> dict[str, str]:
    """Declared conditions, values and columns of which there is no row: why."""
    found = {name: one.finding for name, one in covered.conditions.items() if one.finding is not None}
    found |= {one.name: one.finding for one in covered.groups if one.kind == "group" and one.finding is not None}
    return found | gaps.absent


def _listed(names: Sequence[str] | Mapping[str, str], most: int = 5) -> str:
    """Names as they follow a method."""
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f": {', '.join(list(names)[:most])}{more}"


def _why_not(metric: str) -> str:
    return {
        "smallest_slice": "there are no groups: no conditions, no classes, no columns in `by:`",
        "slices_too_small": "there are no groups: no conditions, no classes, no columns in `by:`",
        "missing_conditions": "no conditions are declared",
        "class_association": "no column in `by:` has groups",
    }.get(metric, "no shares of a population are declared")


def _left_out(check: Coverage, inputs: Inputs, here: Tally, covered: Covered) -> str | None:
    """Why nothing passes: a label of whole numbers, which may be classes, makes no groups."""
    label = inputs.label(check.dataset)
    if label is None or not isinstance(covered.classes, str) or inputs.label_unit(check.dataset) is not None:
        return None
    if not pa.types.is_integer(here.columns[label].type):
        return None
    return NoEvidence(f"no group is a class: {covered.classes}, or say `label_unit:` of values")


def _notes(check: Coverage, covered: Covered) -> list[str]:
    if isinstance(covered.classes, str):
        return []
    counts = covered.classes.counts
    most, share = covered.classes.names[int(counts.argmax())], 100.0 * counts.max() / counts.sum()
    return [f"Always answering {most[:LETTERS_SHOWN]!r} is right in {share:.3g} % of {check.dataset}."]


def _blocks(check: Coverage, covered: Covered, gaps: Represented, absent: Mapping[str, str]) -> tuple[AnyBlock, ...]:
    found: list[AnyBlock] = []
    if covered.groups:
        found.append(_groups(check, covered))
    if gaps.shares:
        found.append(_gaps(check, gaps))
    for name, table in covered.tables.items():
        assert isinstance(covered.classes, Codes)
        if max(table.shape) <= MATRIX_SIDE:
            found.append(
                Matrix(
                    title=f"{covered.classes.column} by {name}",
                    caption="Rows of each class in each group.",
                    row_label=covered.classes.column,
                    column_label=name,
                    rows=covered.classes.names,
                    columns=covered.columns[name].names,
                    values=tuple(tuple(float(one) for one in row) for row in table),
                )
            )
    if absent:
        columns = (Column(name="condition"), Column(name="why"))
        rows = tuple((name, why) for name, why in absent.items())
        title = f"Not covered by {check.dataset}"
        found.append(Table(title=title, caption="Declared conditions without a row.", columns=columns, rows=rows))
    return tuple(found)


def _scarcest(groups: Sequence[Group]) -> list[Group]:
    """Those that have least of what they need first."""
    return sorted(groups, key=lambda one: (one.rows / one.needed, one.name))


def _groups(check: Coverage, covered: Covered) -> Table:
    """The groups that have least of what they need, first."""
    order = _scarcest(covered.groups)
    more = f" The {GROUPS_SHOWN} scarcest of {len(order)}." if len(order) > GROUPS_SHOWN else ""
    units = (("group", ""), ("kind", ""), ("rows", "rows"), ("needs", "rows"), ("share", "%"), ("not known", "rows"))

    def row(one: Group) -> tuple[Cell, ...]:
        return (one.name, one.kind, one.rows, one.needed, 100.0 * one.rows / covered.rows, one.unknown)

    return Table(
        title=f"Groups of {check.dataset}",
        caption=f"Of {covered.rows:,} rows.{more} Not known: rows in which what decides it is missing.",
        columns=tuple(Column(name=name, unit=unit) for name, unit in units),
        rows=tuple(row(one) for one in order[:GROUPS_SHOWN]),
    )


def _gaps(check: Coverage, gaps: Represented) -> Table:
    population = check.population if isinstance(check.population, str) else "the declared population"

    def gap(name: str) -> float:
        value = gaps.parts[name].value
        return 0.0 if value is None else value

    order = sorted(gaps.shares, key=lambda name: -gap(name))[:GROUPS_SHOWN]
    units = (("value", ""), (f"in {check.dataset}", "%"), ("in the population", "%"), ("apart", "pp"))
    rows = []
    for name in order:
        here, there = gaps.shares[name]
        rows.append((name, None if here is None else 100.0 * here, 100.0 * there, 100.0 * gap(name)))
    return Table(
        title=f"{check.dataset} beside {population}",
        caption="Shares of rows.",
        columns=tuple(Column(name=name, unit=unit) for name, unit in units),
        rows=tuple(rows),
    )


def _write(check: Coverage, inputs: Inputs, groups: Sequence[Group]) -> list[tuple[str, str]]:
    if not groups:
        return []
    columns = {
        "group": pa.array([one.name for one in groups], pa.string()),
        "kind": pa.array([one.kind for one in groups], pa.string()),
        "rows": pa.array([one.rows for one in groups], pa.int64()),
        "not_known": pa.array([one.unknown for one in groups], pa.int64()),
        "needed": pa.array([one.needed for one in groups], pa.int64()),
        "finding": pa.array([one.finding for one in groups], pa.string()),
    }
    name = f"coverage-{check.name}.parquet"
    pq.write_table(pa.table(columns), inputs.evidence / name)
    return [(name, "every group with its rows")]
