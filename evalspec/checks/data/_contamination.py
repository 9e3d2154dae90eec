"""What `contamination` reads, counts and shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evalspec.checks.data._duplicates import (
    Found,
    Settings,
    check_comparable,
    comparable,
    empty_rows,
    find_duplicates,
)
from evalspec.checks.model._thumbnails import picture, png
from evalspec.errors import InputError
from evalspec.evidence.blocks import Column, Example, Examples, Table
from evalspec.evidence.estimate import Fact
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import Counts
from evalspec.language.inputs import Inputs
from evalspec.language.parts import CheckResult
from evalspec.sources._rows import row_digests

PAIRS_SHOWN = 8
FIELDS_SHOWN = 8
LETTERS_SHOWN = 400
EVIDENCE = "duplicates.parquet"


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared, and what was found.

    Args:
        columns: Columns compared.
        left_out: Columns that the model reads and a training set lacks.
        usable: shape (m,), test rows that hold something to compare.
        found: Training set: its duplicates.
        repeats: Test rows that repeat an earlier test row.
        rows: Training set: its rows.
    """

    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    usable: NDArray[np.bool_]
    found: Mapping[str, Found]
    repeats: int
    rows: Mapping[str, int]

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Test rows with an exact duplicate anywhere; shape (m,)."""
        return np.asarray(np.logical_or.reduce([one.exact >= 0 for one in self.found.values()]))

    @property
    def near(self) -> NDArray[np.bool_]:
        """Test rows with an exact or near duplicate anywhere; shape (m,)."""
        near = [one.near.found for one in self.found.values()]
        return np.asarray(np.logical_or.reduce([self.exact, *near]))


def contamination(
    inputs: Inputs, train: Sequence[str], test: str, columns: Sequence[str], key: str | None, settings: Settings
) -> CheckResult:
    """Compare each training set with the test set.

    Raises:
        InputError: There is nothing to compare.
    """
    tables = {name: inputs.table(name) for name in (*train, test)}
    empty = [name for name, table in tables.items() if not table.num_rows]
    if empty:
        raise InputError(f"dataset {empty[0]} has no rows to compare")
    chosen, left_out = _columns(inputs, tables, train, test, columns, key)
    compared = _compare(inputs, tables, train, test, chosen, left_out, settings)
    used = int(compared.usable.sum())
    if not used:
        raise InputError(f"every row of {test} is missing or empty in what is compared ({', '.join(chosen)})")
    evidence = _write(inputs, compared)
    first = next(iter(compared.found.values())).near
    what = f"equal in {', '.join(chosen)}" if len(chosen) <= 4 else f"equal in {len(chosen)} columns"
    return CheckResult(
        estimates={
            "exact_duplicates": Fact(float(compared.exact.sum()), used, f"counted: {what}, digests of 128 bits"),
            "near_duplicates": Fact(float(compared.near.sum()) / used, used, f"counted: {first.method}"),
        },
        blocks=(_table(compared, test), *_examples(tables, compared, test, key)),
        counts=Counts(attempted=len(compared.usable), used=used, dropped=len(compared.usable) - used),
        conditions={"columns": ", ".join(chosen), "recall at the limit": round(first.recall, 4)},
        notes=_notes(compared, test),
        evidence=evidence,
    )


def _columns(
    inputs: Inputs,
    tables: Mapping[str, pa.Table],
    train: Sequence[str],
    test: str,
    columns: Sequence[str],
    key: str | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns to compare, and those of the model's that a training set lacks."""
    named = (*columns, *((key,) if key else ()))
    for name, table in tables.items():
        for column in named:
            if column not in table.column_names:
                raise InputError(f"dataset {name} has no column {column!r}", choices=table.column_names)
    if columns:
        return tuple(dict.fromkeys(columns)), ()
    wanted = [column for column in inputs.feature_columns(test) if column != key]
    shared = tuple(column for column in wanted if all(column in tables[name].column_names for name in train))
    if not shared:
        raise InputError(
            f"{test} and {', '.join(train)} share none of the columns that the model reads ({', '.join(wanted)})",
            remedy="name what to compare in `column:`",
        )
    return shared, tuple(column for column in wanted if column not in shared)


def _compare(
    inputs: Inputs,
    tables: Mapping[str, pa.Table],
    train: Sequence[str],
    test: str,
    columns: tuple[str, ...],
    left_out: tuple[str, ...],
    settings: Settings,
) -> Compared:
    for name in train:
        check_comparable(tables[name], tables[test], columns, name)
    ours = comparable(tables[test], columns)
    usable = ~empty_rows(ours)
    found = {}
    for done, name in enumerate(train):
        inputs.progress(done, len(train), f"comparing {test} with {name}")
        found[name] = find_duplicates(comparable(tables[name], columns, ours), ours, usable, settings, inputs.rng)
    inputs.progress(len(train), len(train), f"comparing {test}")
    distinct = len(np.unique(row_digests(ours.filter(pa.array(usable))), axis=0))
    rows = {name: tables[name].num_rows for name in train}
    return Compared(columns, left_out, usable, found, int(usable.sum()) - distinct, rows)


def _notes(compared: Compared, test: str) -> tuple[str, ...]:
    notes = []
    if compared.left_out:
        notes.append(f"Not compared, since a training set lacks them: {', '.join(compared.left_out)}.")
    empty = int((~compared.usable).sum())
    if empty:
        notes.append(f"{empty:,} rows of {test} hold nothing to compare and are left out.")
    if compared.repeats:
        notes.append(f"Inside {test} {compared.repeats:,} rows repeat an earlier one.")
    return tuple(notes)


def _table(compared: Compared, test: str) -> Table:
    used = int(compared.usable.sum())

    def row(name: str, rows: int, exact: NDArray[np.bool_], near: NDArray[np.bool_]) -> tuple[Cell, ...]:
        share = 100 * float((exact | near).sum()) / used
        return (name, rows, int(exact.sum()), int((near & ~exact).sum()), share)

    rows = [row(name, compared.rows[name], one.exact >= 0, one.near.found) for name, one in compared.found.items()]
    if len(rows) > 1:
        rows.append(row("any of them", sum(compared.rows.values()), compared.exact, compared.near))
    units = (("training set", ""), ("its rows", "rows"), ("equal", "rows"), ("nearly equal", "rows"), ("together", "%"))
    return Table(
        title=f"Rows of {test} that occur in training",
        caption=f"Of {used:,} rows of {test}, each counted once. Compared: {', '.join(compared.columns)}.",
        columns=tuple(Column(name=name, unit=unit) for name, unit in units),
        rows=tuple(rows),
    )


def _write(inputs: Inputs, compared: Compared) -> list[tuple[str, str]]:
    """All pairs, as row numbers of the two sets."""
    parts = []
    for name, one in compared.found.items():
        for kind, train_row in (("exact", one.exact), ("near", one.near.train_row)):
            rows = np.flatnonzero(train_row >= 0)
            close = np.full(len(rows), np.nan) if kind == "exact" else one.near.closeness[rows]
            parts.append(
                pa.table(
                    {
                        "test_row": rows,
                        "training_set": pa.array([name] * len(rows), pa.string()),
                        "train_row": train_row[rows],
                        "kind": pa.array([kind] * len(rows), pa.string()),
                        "closeness": pa.array(close, pa.float64(), from_pandas=True),
                    }
                )
            )
    pq.write_table(pa.concat_tables(parts), inputs.evidence / EVIDENCE)
    return [(EVIDENCE, "every test row that occurs in training, with the training row it was found in")]


def _examples(tables: Mapping[str, pa.Table], compared: Compared, test: str, key: str | None) -> tuple[Examples, ...]:
    pairs: list[tuple[int, str, int, str]] = []
    for name, one in compared.found.items():
        for kind, train_row in (("equal", one.exact), ("nearly equal", one.near.train_row)):
            rows = np.flatnonzero(train_row >= 0)[:PAIRS_SHOWN]
            pairs += [(int(row), name, int(train_row[row]), kind) for row in rows]
    if not pairs:
        return ()
    # Both kinds are shown where there are both.
    pairs = [*[pair for pair in pairs if pair[3] == "equal"][: PAIRS_SHOWN // 2],
             *[pair for pair in pairs if pair[3] != "equal"],
             *[pair for pair in pairs if pair[3] == "equal"][PAIRS_SHOWN // 2 :]][:PAIRS_SHOWN]  # fmt: skip
    examples = []
    for test_row, name, other_row, kind in pairs:
        examples.append(_example(tables[test], test_row, test, kind, compared.columns, key))
        examples.append(_example(tables[name], other_row, name, kind, compared.columns, key))
    return (
        Examples(
            title="Duplicate pairs, side by side",
            caption=f"Left the row of {test}, right the training row it was found in.",
            examples=tuple(examples),
            total=int(compared.near.sum()),
            pairs=True,
        ),
    )


def _example(table: pa.Table, row: int, name: str, kind: str, columns: Sequence[str], key: str | None) -> Example:
    fields: dict[str, Cell] = {"found": kind}
    text = image = None
    for column in columns:
        value = table.column(column)[row]
        if isinstance(value, pa.ExtensionScalar):
            value = value.type.wrap_array(pa.array([value.value], value.type.storage_type)).to_numpy_ndarray()[0]
        cell = value.as_py() if isinstance(value, pa.Scalar) else value
        pixels = picture(cell) if image is None else None
        if pixels is not None:
            image = png(pixels)
        elif isinstance(cell, str) and text is None:
            text = cell if len(cell) <= LETTERS_SHOWN else cell[:LETTERS_SHOWN] + " ..."
        elif len(fields) <= FIELDS_SHOWN:
            fields[column] = _cell(cell)
    which = table.column(key)[row].as_py() if key else f"row {row:,}"
    return Example(title=f"{name}, {which}", fields=fields, text=text, image=image)


def _cell(value: Any) -> Cell:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value[:LETTERS_SHOWN]
    return str(value)[:60]
