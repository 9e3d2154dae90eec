"""Blocks of `leakage`, and the rows that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.cells import value_of
from evalspec.evidence.blocks import AnyBlock, Column, Example, Examples, Table
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import in_percent
from evalspec.sources.reading.open import rows_at
from evalspec.tables.shared_rows import Shared

if TYPE_CHECKING:
    from evalspec.checks.data.leakage.spec import Leakage
    from evalspec.checks.data.leakage.target import LabelSignal
    from evalspec.language.inputs import Inputs

PAIRS_SHOWN = 8
COLUMNS_SHOWN = 30
LETTERS_SHOWN = 100


def blocks(
    check: Leakage, inputs: Inputs, test: pa.Table, shared: Mapping[str, Shared], told: LabelSignal | None
) -> tuple[AnyBlock, ...]:
    """Blocks on what is shared, on what each column tells, and rows to look at.

    Args:
        check: Its fields.
        inputs: Labels.
        test: Rows of the test set: who, when and where they are, and their label.
        shared: Metric: test rows that it counts.
        told: What each column tells of the label.
    """
    found: list[AnyBlock] = []
    if shared:
        found.append(_counts(check, shared))
    if told is not None and told.parts:
        found.append(_columns(told, inputs.confidence))
    pairs = _pairs(check, inputs, test, shared)
    return (*found, pairs) if pairs is not None else tuple(found)


def _counts(check: Leakage, shared: Mapping[str, Shared]) -> Table:
    units = (("what", ""), ("found", "rows"), ("among", "rows"), ("by chance", "rows"))
    return Table(
        title=f"What {check.test} shares with {', '.join(check.train) or 'itself'}",
        caption="By chance: what a split at random would give, where that can be said.",
        columns=tuple(Column(name=name, unit=unit) for name, unit in units),
        rows=tuple(
            (name, len(one.rows), one.among, None if one.by_chance is None else round(one.by_chance))
            for name, one in shared.items()
        ),
    )


def _columns(told: LabelSignal, confidence: float) -> Table:
    order = sorted(told.parts, key=lambda name: -(told.parts[name].value or 0.0))
    percent = in_percent(confidence)
    names = ("column", "score", f"lower {percent}", f"upper {percent}", "most informative value", "rows")
    rows: list[tuple[Cell, ...]] = []
    for name in order[:COLUMNS_SHOWN]:
        one = told.parts[name]
        bounds = one.bound(confidence, "lower"), one.bound(confidence, "upper")
        rows.append((name, one.value, *bounds, told.strongest[name], one.n))
    more = f" The {COLUMNS_SHOWN} highest of {len(order)}." if len(order) > COLUMNS_SHOWN else ""
    return Table(
        title="How well each column alone tells the label",
        caption=f"2 AUC - 1 on rows that were not fitted; fitted: {told.fitted}.{more}",
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(rows),
    )


def _pairs(check: Leakage, inputs: Inputs, test: pa.Table, shared: Mapping[str, Shared]) -> Examples | None:
    """Test rows beside what gives them away, some of each metric."""
    paired = [one for one in shared.values() if len(one.rows) and one.sets]
    if not paired:
        return None
    share = max(1, PAIRS_SHOWN // len(paired))
    pairs = [(one, index) for one in paired for index in range(min(share, len(one.rows)))]
    partners = _partners(check, inputs, pairs)
    examples: list[Example] = []
    for one, index in pairs:
        ours, place = int(one.rows[index]), _place(one, index)
        both = ((check.test, ours, test.slice(ours, 1)), (*place, partners[place]))
        for name, row, cells in both:
            fields = {"counted as": one.metric, **_fields(check, inputs, cells, name)}
            examples.append(Example(title=f"{name}, row {row:,}", fields=fields))
    return Examples(
        title="Rows that leak, side by side",
        caption=f"Left the row of {check.test}; right the row that it shares something with.",
        examples=tuple(examples),
        total=sum(len(one.rows) for one in paired),
        pairs=True,
    )


def _place(one: Shared, index: int) -> tuple[str, int]:
    """Set and row of a partner."""
    return one.sets[int(one.partner_sets[index])], int(one.partners[index])


def _partners(check: Leakage, inputs: Inputs, pairs: Sequence[tuple[Shared, int]]) -> dict[tuple[str, int], pa.Table]:
    """Set and row: the row, looked up once more."""
    found: dict[tuple[str, int], pa.Table] = {}
    wanted = {_place(one, index) for one, index in pairs}
    for name in sorted({name for name, _ in wanted}):
        rows = rows_at(inputs.batches(name, _shown(check, inputs, name)), [row for one, row in wanted if one == name])
        found |= {(name, row): cells for row, cells in rows.items()}
    return found


def _shown(check: Leakage, inputs: Inputs, name: str) -> list[str]:
    """Columns of a set that are shown: who, when and where a row is, and its label."""
    columns = (*check.placing, inputs.label(name))
    return list(dict.fromkeys(column for column in columns if column is not None)) or [inputs.column_names(name)[0]]


def _fields(check: Leakage, inputs: Inputs, row: pa.Table, name: str) -> dict[str, Cell]:
    return {
        column: _cell(row.column(column)[0]) for column in (*check.placing, inputs.label(name)) if column is not None
    }


def _cell(scalar: pa.Scalar) -> Cell:
    value = value_of(scalar)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    return str(value)[:LETTERS_SHOWN]


def evidence_file(check: Leakage) -> str:
    """Name of the evidence that lists all rows that are counted."""
    return f"leakage-{check.name}.parquet"


def write(check: Leakage, inputs: Inputs, shared: Mapping[str, Shared]) -> list[tuple[str, str]]:
    """All rows that are counted, as row numbers of their sets.

    Args:
        check: Its name.
        inputs: Folder for evidence.
        shared: Metric: test rows that it counts.
    """
    parts = []
    for name, one in shared.items():
        sets = np.array([*one.sets, ""], dtype=object)
        missing = one.partners < 0
        parts.append(
            pa.table(
                {
                    "metric": pa.array([name] * len(one.rows), pa.string()),
                    "test_row": pa.array(one.rows, pa.int64()),
                    "other_set": pa.array(sets[one.partner_sets], pa.string(), mask=missing),
                    "other_row": pa.array(one.partners, pa.int64(), mask=missing),
                }
            )
        )
    if not parts:
        return []
    file = evidence_file(check)
    pq.write_table(pa.concat_tables(parts), inputs.evidence / file)
    return [(file, "every test row that is counted, with a row that it shares something with")]
