"""Blocks of `integrity`, and the rows that it writes down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.evidence.blocks import AnyBlock, Column, Example, Examples, Table

if TYPE_CHECKING:
    from evalspec.checks.data.integrity.repeats import RepeatedRow
    from evalspec.checks.data.integrity.rules import Broken, ColumnState
    from evalspec.checks.data.integrity.spec import Integrity
    from evalspec.evidence.frozen import Cell

COLUMNS_SHOWN = 200
CELLS_SHOWN = 5
RULES_SHOWN = 60


def blocks(
    dataset: str,
    columns: Mapping[str, ColumnState],
    broken: Sequence[tuple[str, Broken]],
    shown: Mapping[str, Sequence[RepeatedRow]],
) -> list[AnyBlock]:
    """All blocks.

    Args:
        dataset: Its name.
        columns: Of the dataset.
        broken: Rules that are broken, each with the column.
        shown: Title: rows that are equal, in pairs.
    """
    made: list[AnyBlock] = []
    if broken:
        made.append(_violations(broken))
    made.append(_columns(dataset, columns))
    for title, rows in shown.items():
        examples = tuple(Example(title=f"row {row.number:,}", fields=dict(row.cells)) for row in rows)
        made.append(Examples(title=title, caption="Rows are counted from 0.", examples=examples, total=len(rows)))
    return made


def _violations(broken: Sequence[tuple[str, Broken]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, one in sorted(broken, key=lambda pair: -pair[1].count)[:RULES_SHOWN]:
        cells = ", ".join(
            f"row {row:,}: {value[:60]!r}" for row, value in zip(one.rows[:CELLS_SHOWN], one.values, strict=False)
        )
        rows.append((name or "file", one.rule, one.count, cells))
    heads = (Column(name="column"), Column(name="rule"), Column(name="violations", unit="count"), Column(name="first"))
    more = f" {RULES_SHOWN} of {len(broken)}." if len(broken) > RULES_SHOWN else ""
    return Table(
        title="Broken rules", caption=f"Most broken first; rows from 0.{more}", columns=heads, rows=tuple(rows)
    )


def _columns(dataset: str, columns: Mapping[str, ColumnState]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, state in list(columns.items())[:COLUMNS_SHOWN]:
        facts = state.facts
        rows.append((
            name, facts.type, 100.0 * facts.missing / facts.rows, *map(_cell, facts.ends),
            "no value" if facts.missing == facts.rows else "constant" if facts.constant else "",
        ))  # fmt: skip
    heads = (
        Column(name="column"), Column(name="type"), Column(name="missing", unit="%"), Column(name="smallest"),
        Column(name="largest"), Column(name="stands out"),
    )  # fmt: skip
    more = f" The first {COLUMNS_SHOWN} of {len(columns)}." if len(columns) > COLUMNS_SHOWN else ""
    return Table(title=f"Columns of {dataset}", caption=f"Over all rows.{more}", columns=heads, rows=tuple(rows))


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)[:60]


def write(check: Integrity, folder: Path, broken: Sequence[tuple[str, Broken]]) -> list[tuple[str, str]]:
    """Cells that break a rule, as evidence; nothing where none does.

    Args:
        check: Names the file.
        folder: Of the evidence.
        broken: Rules that are broken, each with the column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells = [
        (row, name, one.rule, value) for name, one in broken for row, value in zip(one.rows, one.values, strict=True)
    ]
    if not cells:
        return []
    file = f"violations-{check.name}.parquet"
    columns = [list(column) for column in zip(*cells, strict=True)]
    types = (pa.int64(), pa.string(), pa.string(), pa.string())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    pq.write_table(pa.table(arrays, names=["row", "column", "rule", "value"]), folder / file, compression="zstd")
    return [(file, "cells that break a rule: row, column, rule, value")]
