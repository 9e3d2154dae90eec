"""Measurement of `leakage`: entities, times, positions and labels that two sets share."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.checks.data.leakage.columns import Ids, Places, check_ids, coarser, scale_of
from evalspec.checks.data.leakage.conflicts import Conflicts, check_labelled, descriptive, features_of
from evalspec.checks.data.leakage.show import blocks, evidence_file, write
from evalspec.checks.data.leakage.target import OTHERS, LabelSignal, judged_columns, target_leakage
from evalspec.checks.data.leakage.train_side import RowIndex, TestRows, Trained, TrainingSet
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.reasons import NoEvidence
from evalspec.evidence.record import Counts
from evalspec.evidence.remedies import MOST_ROWS, RemoveRows
from evalspec.language.parts import CheckResult
from evalspec.language.scans import Scan
from evalspec.moments import begin_of_day, compared
from evalspec.tables.looked_up import looked_up
from evalspec.tables.row_names import row_names, row_names_note
from evalspec.tables.shared_rows import Shared, counted

if TYPE_CHECKING:
    from evalspec.checks.data.leakage.spec import Leakage
    from evalspec.language.inputs import Inputs

MISPLACED = ("group_overlap", "time_overlap", "entity_time_overlap", "rows_before_cutoff", "index_overlap")
"""Metrics of rows that have no place in a test set."""


@dataclass
class Findings:
    """Findings until now.

    Args:
        shared: Metric: test rows that it counts.
        missing: Metric: why it has no value.
    """

    shared: dict[str, Shared] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, metric: str, found: Shared | str) -> None:
        """Add a number, or the reason why there is none."""
        if isinstance(found, str):
            self.missing[metric] = found
        else:
            self.shared[metric] = found


def measure(check: Leakage, inputs: Inputs) -> CheckResult:
    """Count what the sets share, and let each column tell the label.

    Of the test set the columns that are used are held in memory; training rows go by once. Only the columns that are
    judged by how well they tell the label are held of both.

    Raises:
        InputError: A set has no rows, or columns hold what could never be equal or has no order.
    """
    heads = {name: _head(inputs, name) for name in (check.test, *check.train)}
    _refuse_absent(check, heads)
    findings = Findings()
    for metric in (one.name for one in check.metrics):
        lacking = check.lacks(metric)
        if lacking:
            findings.missing[metric] = f"the check has no {' and no '.join(f'`{name}:`' for name in lacking)}"
    features, left_out = features_of(check, inputs, heads)
    label = inputs.label(check.test)
    judged = () if label is None else judged_columns(heads.values(), features)
    test = _read(inputs, check.test, (*check.placing, *judged, label))
    notes: list[str] = []
    estimates: dict[str, Estimate | Fact | Parts | Measured] = {}
    told, conflicts = None, None
    if label is None:
        findings.missing |= dict.fromkeys(("conflicting_labels", "target_leakage"), f"{check.test} names no label")
    else:
        described = descriptive(check, features)
        named_by = _row_names(check, inputs, test, described)
        notes += [row_names_note(name, check.test, "columns") for name in named_by]
        described = tuple(name for name in described if name not in named_by)
        conflicts = _conflicts(check, inputs, heads, label, described)
    asked, trained = _train(check, inputs, heads, test, conflicts)
    _count(check, test, asked, trained, findings)
    if conflicts is not None:
        found = conflicts if isinstance(conflicts, str) else _of_conflicts(check, inputs, conflicts)
        findings.add("conflicting_labels", found)
        inputs.progress(1, 2, "letting each column tell the label")
        told = target_leakage(inputs, _labelled(check, inputs, test, judged), check.test, features, heads)
        notes += told.notes
        estimates |= _of_columns(told, left_out, findings)
    if left_out:
        notes.append(f"Not checked, since a training set lacks them: {', '.join(left_out)}.")
    estimates |= {metric: one.measured for metric, one in findings.shared.items()}
    notes += [note for one in findings.shared.values() for note in one.notes]
    rows = test.num_rows
    return CheckResult(
        estimates=estimates,
        missing=findings.missing,
        blocks=blocks(check, inputs, test, findings.shared, told),
        counts=Counts(attempted=rows, used=rows),
        conditions={"train": ", ".join(check.train) or "none", "test": check.test, "columns": len(features)},
        notes=notes,
        remedies=[
            RemoveRows(
                metrics=(metric,),
                dataset=check.test,
                rows=tuple(int(row) for row in one.rows[:MOST_ROWS]),
                total=len(one.rows),
                file=evidence_file(check),
            )
            for metric, one in findings.shared.items()
            if metric in MISPLACED and len(one.rows)
        ],
        evidence=write(check, inputs, findings.shared),
    )


def _of_columns(told: LabelSignal, left_out: tuple[str, ...], findings: Findings) -> dict[str, Parts | Measured]:
    """How well columns tell the label; adds those of which nothing can be said."""
    if not told.parts:
        findings.missing["target_leakage"] = told.why
        return {}
    lacks = told.lacks | dict.fromkeys(left_out, f"a training set lacks it; {OTHERS}")
    findings.missing |= {f"target_leakage({name})": why for name, why in lacks.items()}
    parts = Parts(told.parts)
    return {"target_leakage": parts if told.withhold is None else Measured(parts, withhold=told.withhold)}


def _head(inputs: Inputs, name: str) -> pa.Table:
    """The first rows of a set."""
    first = next(iter(inputs.batches(name)), None)
    if first is None:
        raise InputError(f"dataset {name} has no rows to look at")
    return pa.Table.from_batches([first])


def _read(inputs: Inputs, name: str, columns: Sequence[str | None]) -> pa.Table:
    """These columns of a set, all rows; without any of them the first one, since rows are counted."""
    wanted = list(dict.fromkeys(one for one in columns if one is not None)) or [inputs.column_names(name)[0]]
    return pa.Table.from_batches(inputs.batches(name, wanted))


def _row_names(check: Leakage, inputs: Inputs, test: pa.Table, described: tuple[str, ...]) -> tuple[str, ...]:
    """Columns that name a row; what was not read names none."""
    for name in described:
        if name not in test.column_names:
            test = test.append_column(name, pa.nulls(test.num_rows))
    return row_names([test], described, (*check.columns, *inputs.stated_columns(check.test)))


def _labelled(
    check: Leakage, inputs: Inputs, test: pa.Table, judged: tuple[str, ...]
) -> dict[str, tuple[pa.Table, str]]:
    """Labelled set: its judged columns and its label, the test set last."""
    labels = {name: label for name in (*check.train, check.test) if (label := inputs.label(name)) is not None}
    return {
        name: (test if name == check.test else _read(inputs, name, (*judged, label)), label)
        for name, label in labels.items()
    }


def _conflicts(
    check: Leakage, inputs: Inputs, heads: Mapping[str, pa.Table], label: str, features: tuple[str, ...]
) -> Conflicts | str:
    """The test rows, to be held against those of training; or why they can't be."""
    if not features:
        return "there is no column in which rows could be equal"
    labels = {name: one for name in (check.test, *check.train) if (one := inputs.label(name)) is not None}
    check_labelled(labels, heads, features)
    batches = inputs.batches(check.test, list(dict.fromkeys((*features, label))))
    try:
        return Conflicts((pa.Table.from_batches([batch]) for batch in batches), label, features)
    except InputError as error:
        return str(error)


def _of_conflicts(check: Leakage, inputs: Inputs, conflicts: Conflicts) -> Shared:
    labelled = [name for name in check.train if inputs.label(name) is not None]
    return conflicts.found(check, (check.test, *labelled), [name for name in check.train if name not in labelled])


def _train(
    check: Leakage, inputs: Inputs, heads: Mapping[str, pa.Table], test: pa.Table, conflicts: Conflicts | str | None
) -> tuple[TestRows, Trained]:
    """One pass over every training set; with coarser times once more where these are beyond nanoseconds."""
    if check.entity:
        check_ids(heads, check.entity)
    times = scale_of(heads, check.time, "time") if check.time else None
    positions = scale_of(heads, check.index, "position") if check.index else None
    seen = conflicts if isinstance(conflicts, Conflicts) else None
    asked = TestRows.of(check, test, heads, (times, positions))
    trained = _passed(check, inputs, asked, seen)
    if trained.too_far:
        asked = TestRows.of(check, test, heads, (coarser(times), coarser(positions)))
        trained = _passed(check, inputs, asked, seen)
    return asked, trained


def _passed(check: Leakage, inputs: Inputs, asked: TestRows, conflicts: Conflicts | None) -> Trained:
    """Findings in the training sets; where a time is beyond nanoseconds, nothing but that."""
    features, keys = ((), None) if conflicts is None else (conflicts.features, conflicts.keys)
    index = RowIndex(check, asked, features, keys)
    trained, labelled = Trained(index), 0
    for number, name in enumerate(check.train):
        label = None if conflicts is None else inputs.label(name)
        labelled += label is not None
        columns = index.columns(label)
        inputs.progress(number, len(check.train), f"comparing {check.test} with {name}")
        if columns:
            make = partial(Trained, index, TrainingSet(name, number, label, labelled))
            key = f"training of {check.name}, {asked.scales}"
            trained.merge(looked_up(inputs, Scan(name, key, columns, make), index.size))
    if conflicts is not None and trained.labels is not None and not trained.too_far:
        conflicts.take(trained.labels)
    return trained


def _refuse_absent(check: Leakage, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        for column in (*check.placing, *check.columns):
            if column not in table.column_names:
                raise InputError(f"dataset {name} has no column {column!r}", choices=table.column_names)


def _count(check: Leakage, test: pa.Table, asked: TestRows, trained: Trained, findings: Findings) -> None:
    """Entities, times and positions."""
    if asked.ids is not None and check.train:
        findings.add("group_overlap", _groups(check, asked, asked.ids, trained))
    if asked.times is not None and check.train:
        findings.add("time_overlap", _times(check, asked.times, trained))
    if asked.times is not None and asked.ids is not None and check.train:
        findings.add("entity_time_overlap", _entity_times(check, asked.ids, asked.times, trained))
    if check.after is not None and asked.times is not None:
        findings.add("rows_before_cutoff", _before(check, test, asked.times))
    if asked.positions is not None and check.train:
        findings.add("index_overlap", _between(check, asked.positions, trained))


def _unknown(
    check: Leakage, test: NDArray[np.bool_], train: Mapping[str, int], columns: tuple[str, ...], what: str
) -> str | None:
    """Why rows without a value keep a count from being shown to hold; None: there are none."""
    counts = {check.test: int(test.sum()), **train}
    rows = [f"{counted(count)} of {name}" for name, count in counts.items() if count]
    if not rows:
        return None
    verb = "has" if rows[1:] == [] and rows[0].startswith("1 row ") else "have"
    where = " and ".join(f"{column} is not None" for column in columns)
    return NoEvidence(
        f"{' and '.join(rows)} {verb} no {' or no '.join(map(repr, columns))}, so {what} is not known; "
        f"leave such rows out with `where: {where}`, or fill them in"
    )


def _groups(check: Leakage, asked: TestRows, test: Ids, trained: Trained) -> Shared | str:
    if test.missing.all():
        return f"no row of {check.test} has a {check.who!r}"
    key = trained.key_of_row
    hits = np.flatnonzero((trained.groups.rows[key] >= 0) & ~test.missing)
    absent = {name: one.ids for name, one in trained.absent.items()}
    return Shared(
        "group_overlap", hits, trained.groups.rows[key[hits]], trained.groups.sets[key[hits]], check.train,
        int((~test.missing).sum()), f"rows of {check.test} whose {check.who!r} occurs in {', '.join(check.train)}",
        withhold=_unknown(check, test.missing, absent, check.entity, "whether theirs is new"),
        notes=_alike(check, asked, trained, len(hits)),
    )  # fmt: skip


def _alike(check: Leakage, asked: TestRows, trained: Trained, found: int) -> tuple[str, ...]:
    """A note on ids that would be equal but for case and white space."""
    if asked.texts is None or trained.texts is None:
        return ()
    shared = pc.is_in(asked.texts.drop_null(), value_set=trained.texts)
    count = int(pc.sum(shared).as_py() or 0)
    if count <= found:
        return ()
    return (f"Of {check.test}, {counted(count - found)} more would share a {check.who!r} but for case or white space.",)


def _times(check: Leakage, test: Places, trained: Trained) -> Shared | str:
    assert check.time is not None
    if trained.last is None or not test.present.any():
        return f"no row of {check.test if trained.last else ' and '.join(check.train)} has a {check.time!r}"
    latest, number, row = trained.last
    hits = np.flatnonzero(test.present & (test.values <= latest))
    absent = {name: one.times for name, one in trained.absent.items()}
    return Shared(
        "time_overlap", hits, np.full(len(hits), row), np.full(len(hits), number), check.train,
        int(test.present.sum()), f"rows of {check.test} that are not later than the last row of training",
        withhold=_unknown(check, test.missing, absent, (check.time,), "when they were"),
    )  # fmt: skip


def _entity_times(check: Leakage, ids: Ids, times: Places, trained: Trained) -> Shared | str:
    assert check.time is not None
    usable = times.present & ~ids.missing
    if not usable.any():
        return f"no row of {check.test} has both {check.who!r} and {check.time!r}"
    latest, key = trained.entities, trained.key_of_row
    hits = np.flatnonzero(usable & (latest.rows[key] >= 0))
    hits = hits[times.values[hits] <= latest.values[key[hits]]]
    absent = {name: one.either for name, one in trained.absent.items()}
    return Shared(
        "entity_time_overlap", hits, latest.rows[key[hits]], latest.sets[key[hits]], check.train, int(usable.sum()),
        f"rows of {check.test} that are not later than the last training row of the same {check.who!r}",
        withhold=_unknown(check, ~usable, absent, (*check.entity, check.time), "whose or when they were"),
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
    day_after = (datetime.date.fromisoformat(check.after) - datetime.date(1970, 1, 1)).days + 1
    earlier = pc.fill_null(compared(table.column(check.time), "<", begin_of_day(day_after, kind)), False)
    hits = np.flatnonzero(np.asarray(earlier.to_numpy()))
    none = np.full(len(hits), -1)
    count = int(times.missing.sum())
    return Shared(
        "rows_before_cutoff", hits, none, none, (), int(times.present.sum()),
        f"rows of {check.test} that are not later than {check.after}",
        withhold=NoEvidence(f"in {counted(count)} of {check.test} {check.time!r} is missing") if count else None,
    )  # fmt: skip


def _between(check: Leakage, test: Places, trained: Trained) -> Shared | str:
    """Test rows between two training rows, in the order of ``index:``."""
    assert check.index is not None and trained.gaps is not None
    gaps = trained.gaps
    tested = np.flatnonzero(test.present)
    n, m = int(gaps.counts.sum()), len(tested)
    if not n or not m:
        return f"no row of {check.test if n else ' and '.join(check.train)} has a {check.index!r}"
    point = np.searchsorted(gaps.points, test.values[tested])
    # Of test rows at one place none stands between two training rows.
    alone = np.bincount(point, minlength=len(gaps.points))[point] == 1
    # A gap ends with its point, so that a training row at the point before is not in it.
    before = (gaps.counts[point] > 0) | np.append(False, gaps.equal)[point]
    found = np.flatnonzero((alone & before & (gaps.counts[point + 1] > 0)) | gaps.equal[point])
    nearest = gaps.below.carried()[point[found]]
    chance = m * n * (n - 1) / ((n + m) * max(1, n + m - 1))
    absent = {name: one.positions for name, one in trained.absent.items()}
    return Shared(
        "index_overlap", tested[found], gaps.below.rows[nearest], gaps.below.sets[nearest], check.train, m,
        f"rows of {check.test} between two training rows in the order of {check.index!r}; "
        f"a split at random would give about {chance:,.0f}",
        by_chance=chance,
        withhold=_unknown(check, test.missing, absent, (check.index,), "where they stood"),
    )  # fmt: skip
