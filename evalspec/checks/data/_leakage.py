"""What `leakage` counts: entities, times, positions and labels that two sets share."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.checks.data._leakage_blocks import blocks, write
from evalspec.checks.data._leakage_columns import Ids, Places, codes, ids, places
from evalspec.checks.data._leakage_labels import conflicts, descriptive, features_of
from evalspec.checks.data._leakage_shared import Rows, Shared, counted
from evalspec.checks.data._row_names import row_names, row_names_note
from evalspec.checks.data._target_leakage import OTHERS, target_leakage
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.stats.duplicates import exact_matches

if TYPE_CHECKING:
    from evalspec.checks.data.leakage import Leakage
    from evalspec.language.inputs import Inputs


@dataclass
class Findings:
    """What was found so far.

    Args:
        shared: Metric: test rows that it counts.
        missing: Metric: why it has no value.
    """

    shared: dict[str, Shared] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, metric: str, found: Shared | str) -> None:
        """What was found, or why there is nothing."""
        if isinstance(found, str):
            self.missing[metric] = found
        else:
            self.shared[metric] = found


def measure(check: Leakage, inputs: Inputs) -> CheckResult:
    """Count what the sets share, and let each column tell the label.

    Raises:
        InputError: A set has no rows, or columns hold what could never be equal or has no order.
    """
    tables = {name: inputs.table(name) for name in (check.test, *check.train)}
    empty = next((name for name, table in tables.items() if not table.num_rows), None)
    if empty is not None:
        raise InputError(f"dataset {empty} has no rows to look at")
    _refuse_absent(check, tables)
    findings = Findings()
    for metric in (one.name for one in check.metrics):
        lacking = check.lacks(metric)
        if lacking:
            findings.missing[metric] = f"the check has no {' and no '.join(f'`{name}:`' for name in lacking)}"
    _count(check, tables, findings)
    notes: list[str] = []
    estimates: dict[str, Estimate | Fact | Parts | Measured] = {}
    features, left_out = features_of(check, inputs, tables)
    told = None
    if inputs.label(check.test) is None:
        findings.missing |= dict.fromkeys(("conflicting_labels", "target_leakage"), f"{check.test} names no label")
    else:
        described = descriptive(check, features)
        stated = (*check.columns, *inputs.stated_columns(check.test))
        named_by = row_names([tables[check.test]], described, stated)
        notes += [row_names_note(name, check.test, "columns") for name in named_by]
        described = tuple(name for name in described if name not in named_by)
        findings.add("conflicting_labels", conflicts(check, inputs, tables, described))
        inputs.progress(1, 2, "letting each column tell the label")
        told = target_leakage(inputs, tables, check.test, check.train, features)
        notes += told.notes
        if told.parts:
            parts = Parts(told.parts)
            estimates["target_leakage"] = parts if told.withhold is None else Measured(parts, withhold=told.withhold)
            lacks = told.lacks | dict.fromkeys(left_out, f"a training set lacks it; {OTHERS}")
            findings.missing |= {f"target_leakage({name})": why for name, why in lacks.items()}
        else:
            findings.missing["target_leakage"] = told.why
    if left_out:
        notes.append(f"Not looked at, since a training set lacks them: {', '.join(left_out)}.")
    estimates |= {metric: one.measured for metric, one in findings.shared.items()}
    notes += [note for one in findings.shared.values() for note in one.notes]
    rows = tables[check.test].num_rows
    return CheckResult(
        estimates=estimates,
        missing=findings.missing,
        blocks=blocks(check, inputs, tables, findings.shared, told),
        counts=Counts(attempted=rows, used=rows),
        conditions={"train": ", ".join(check.train) or "none", "test": check.test, "columns": len(features)},
        notes=notes,
        evidence=write(check, inputs, findings.shared),
    )


def _refuse_absent(check: Leakage, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        for column in (*check.placing, *check.columns):
            if column not in table.column_names:
                raise InputError(f"dataset {name} has no column {column!r}", choices=table.column_names)


def _count(check: Leakage, tables: Mapping[str, pa.Table], findings: Findings) -> None:
    """Entities, times and positions."""
    known = ids(tables, check.entity) if check.entity else None
    times = places(tables, check.time, "time") if check.time else None
    if known is not None and check.train:
        findings.add("group_overlap", _groups(check, tables, known))
    if times is not None and check.train:
        findings.add("time_overlap", _times(check, times))
    if times is not None and known is not None and check.train:
        findings.add("entity_time_overlap", _entity_times(check, times, known))
    if check.after is not None and check.time is not None and times is not None:
        findings.add("rows_before_cutoff", _before(check, tables[check.test], times[check.test]))
    if check.index is not None and check.train:
        findings.add("index_overlap", _between(check, places(tables, check.index, "position")))


def _unknown(
    check: Leakage, missing: Mapping[str, NDArray[np.bool_]], columns: tuple[str, ...], what: str
) -> str | None:
    """Why rows without a value keep a count from being shown to hold; None: there are none."""
    counts = {name: int(missing[name].sum()) for name in (check.test, *check.train)}
    rows = [f"{counted(count)} of {name}" for name, count in counts.items() if count]
    if not rows:
        return None
    verb = "has" if rows[1:] == [] and rows[0].startswith("1 row ") else "have"
    where = " and ".join(f"{column} is not None" for column in columns)
    return (
        f"{' and '.join(rows)} {verb} no {' or no '.join(map(repr, columns))}, so {what} is not known; "
        f"leave such rows out with `where: {where}`, or fill them in"
    )


def _joined(check: Leakage, sizes: Mapping[str, int]) -> tuple[Rows, Rows]:
    """Set and row of every training row, one set after the other."""
    of_set = np.repeat(np.arange(len(check.train)), [sizes[name] for name in check.train])
    row = np.concatenate([np.arange(sizes[name]) for name in check.train])
    return of_set.astype(np.int64), row.astype(np.int64)


def _groups(check: Leakage, tables: Mapping[str, pa.Table], known: Mapping[str, Ids]) -> Shared | str:
    test = known[check.test]
    if test.missing.all():
        return f"no row of {check.test} has a {check.who!r}"
    words = np.concatenate([known[name].words for name in check.train])
    absent = np.concatenate([known[name].missing for name in check.train])
    of_set, row = _joined(check, {name: tables[name].num_rows for name in check.train})
    present = np.flatnonzero(~absent)
    match = exact_matches(words[present], test.words)
    hits = np.flatnonzero((match >= 0) & ~test.missing)
    partner = present[match[hits]]
    missing = {name: one.missing for name, one in known.items()}
    return Shared(
        "group_overlap", hits, row[partner], of_set[partner], check.train, int((~test.missing).sum()),
        f"rows of {check.test} whose {check.who!r} occurs in {', '.join(check.train)}",
        withhold=_unknown(check, missing, check.entity, "whether theirs is new"),
        notes=_alike(check, tables, len(hits)),
    )  # fmt: skip


def _alike(check: Leakage, tables: Mapping[str, pa.Table], found: int) -> tuple[str, ...]:
    """A note on ids that would be equal but for case and white space."""
    if len(check.entity) > 1:
        return ()
    columns = {name: tables[name].column(check.entity[0]) for name in (check.test, *check.train)}
    if not all(pa.types.is_string(column.type) or pa.types.is_large_string(column.type) for column in columns.values()):
        return ()
    folded = {name: pc.utf8_lower(pc.utf8_trim_whitespace(column)) for name, column in columns.items()}
    there = pa.chunked_array([chunk for name in check.train for chunk in folded[name].chunks]).drop_null()
    count = int(pc.sum(pc.is_in(folded[check.test].drop_null(), value_set=there.combine_chunks())).as_py() or 0)
    if count <= found:
        return ()
    return (f"Of {check.test}, {counted(count - found)} more would share a {check.who!r} but for case or white space.",)


def _last(check: Leakage, times: Mapping[str, Places]) -> tuple[int, int] | None:
    """Set and row of the latest training row."""
    best: tuple[int, int] | None = None
    for index, name in enumerate(check.train):
        rows = np.flatnonzero(times[name].present)
        if not len(rows):
            continue
        row = int(rows[np.argmax(times[name].values[rows])])
        if best is None or times[name].values[row] > times[check.train[best[0]]].values[best[1]]:
            best = (index, row)
    return best


def _times(check: Leakage, times: Mapping[str, Places]) -> Shared | str:
    assert check.time is not None
    test, last = times[check.test], _last(check, times)
    if last is None or not test.present.any():
        return f"no row of {check.test if last else ' and '.join(check.train)} has a {check.time!r}"
    latest = times[check.train[last[0]]].values[last[1]]
    hits = np.flatnonzero(test.present & (test.values <= latest))
    return Shared(
        "time_overlap", hits, np.full(len(hits), last[1]), np.full(len(hits), last[0]), check.train,
        int(test.present.sum()), f"rows of {check.test} that are not later than the last row of training",
        withhold=_unknown(check, {n: one.missing for n, one in times.items()}, (check.time,), "when they were"),
    )  # fmt: skip


def _entity_times(check: Leakage, times: Mapping[str, Places], known: Mapping[str, Ids]) -> Shared | str:
    assert check.time is not None
    test = times[check.test]
    usable = test.present & ~known[check.test].missing
    if not usable.any():
        return f"no row of {check.test} has both {check.who!r} and {check.time!r}"
    of_set, row = _joined(check, {name: len(times[name].missing) for name in check.train})
    entity = codes(np.concatenate([known[name].words for name in (*check.train, check.test)]))
    trained, tested = entity[: len(row)], entity[len(row) :]
    moment = np.concatenate([times[name].values for name in check.train])
    present = np.concatenate([times[name].present & ~known[name].missing for name in check.train])
    order = np.flatnonzero(present)
    order = order[np.lexsort((moment[order], trained[order]))]
    # The last one in this order is the latest row of its entity.
    latest = np.full(int(entity.max()) + 1, -1, dtype=np.int64)
    latest[trained[order]] = order
    partner = latest[tested]
    hits = np.flatnonzero(usable & (partner >= 0))
    hits = hits[test.values[hits] <= moment[partner[hits]]]
    missing = {name: times[name].missing | known[name].missing for name in (check.test, *check.train)}
    return Shared(
        "entity_time_overlap", hits, row[partner[hits]], of_set[partner[hits]], check.train, int(usable.sum()),
        f"rows of {check.test} that are not later than the last training row of the same {check.who!r}",
        withhold=_unknown(check, missing, (*check.entity, check.time), "whose or when they were"),
    )  # fmt: skip


def _before(check: Leakage, table: pa.Table, times: Places) -> Shared | str:
    """Rows that are not later than the day in ``after:``."""
    assert check.time is not None and check.after is not None
    kind = table.column(check.time).type
    if not times.present.any():
        return f"no row of {check.test} has a {check.time!r}"
    if not pa.types.is_temporal(kind):
        raise InputError(
            f"column {check.time!r} of {check.test} is {kind} and `after: {check.after}` is a day",
            remedy="store it as a date or timestamp",
        )
    day_after = datetime.date.fromisoformat(check.after) + datetime.timedelta(days=1)
    zone = datetime.UTC if pa.types.is_timestamp(kind) and kind.tz else None
    start = day_after if pa.types.is_date(kind) else datetime.datetime.combine(day_after, datetime.time(), zone)
    earlier = pc.fill_null(pc.less(table.column(check.time), pa.scalar(start, kind)), False)
    hits = np.flatnonzero(np.asarray(earlier.to_numpy()))
    none = np.full(len(hits), -1)
    count = int(times.missing.sum())
    return Shared(
        "rows_before_cutoff", hits, none, none, (), int(times.present.sum()),
        f"rows of {check.test} that are not later than {check.after}",
        withhold=f"in {counted(count)} of {check.test} {check.time!r} is missing" if count else None,
    )  # fmt: skip


def _between(check: Leakage, places: Mapping[str, Places]) -> Shared | str:
    """Test rows between two training rows, in the order of ``index:``."""
    assert check.index is not None
    test = places[check.test]
    of_set, row = _joined(check, {name: len(places[name].missing) for name in check.train})
    values = np.concatenate([places[name].values for name in check.train])
    trained = np.flatnonzero(np.concatenate([places[name].present for name in check.train]))
    tested = np.flatnonzero(test.present)
    n, m = len(trained), len(tested)
    if not n or not m:
        return f"no row of {check.test if n else ' and '.join(check.train)} has a {check.index!r}"
    ours, theirs = test.values[tested], np.sort(values[trained])
    # Of the sorted positions of both: what stands right before and right after each test row.
    order = np.argsort(np.concatenate((theirs, ours)), kind="stable")
    is_train = order < n
    before, after = np.roll(is_train, 1), np.roll(is_train, -1)
    before[0], after[-1] = False, False
    inside = np.zeros(m, dtype=np.bool_)
    inside[order[~is_train] - n] = (before & after)[~is_train]
    nearest = np.searchsorted(theirs, ours, side="right") - 1
    same = (nearest >= 0) & (theirs[np.maximum(nearest, 0)] == ours)
    found = np.flatnonzero(inside | same)
    partner = trained[np.argsort(values[trained], kind="stable")][np.maximum(nearest[found], 0)]
    chance = m * n * (n - 1) / ((n + m) * max(1, n + m - 1))
    return Shared(
        "index_overlap", tested[found], row[partner], of_set[partner], check.train, m,
        f"rows of {check.test} between two training rows in the order of {check.index!r}; "
        f"a split at random would give about {chance:,.0f}",
        by_chance=chance,
        withhold=_unknown(check, {k: one.missing for k, one in places.items()}, (check.index,), "where they stood"),
    )  # fmt: skip
