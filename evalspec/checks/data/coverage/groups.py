"""The groups of a test set: conditions, classes, values of columns, and classes within these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.cells import value_of
from evalspec.checks.data.coverage.tally import MOST_KNOWN, MOST_NUMBERS, CountedColumns, Tally, Values
from evalspec.errors import InputError
from evalspec.language.scans import Scan
from evalspec.language.where import parse_where
from evalspec.tables.comparable import family
from evalspec.tables.shared_rows import counted

if TYPE_CHECKING:
    from evalspec.checks.data.coverage.spec import Condition
    from evalspec.language.inputs import Inputs

MOST_VALUES = 200
MOST_CLASSES = 100
"""So many different texts may always be classes; more only where most of them come twice."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of a condition, a class, or a value.

    Args:
        name: As written in a requirement.
        kind: ``condition``, ``class``, ``group``, ``class in group``.
        rows: Rows inside.
        unknown: Rows of which it can't be said, since what decides it is missing there.
        needed: Rows that it needs.
        finding: Why nothing can be said of a condition, or that it has no row; None: it has some.
    """

    name: str
    kind: str
    rows: int
    unknown: int
    needed: int
    finding: str | None = None


@dataclass(frozen=True, slots=True)
class Codes:
    """A column of categories.

    Args:
        column: Its name.
        names: Text of each category, sorted by value.
        counts: Rows of each category.
        missing: Rows without a value.
        codes: shape (n,), category of each row, -1 where it is missing; None: not kept.
    """

    column: str
    names: tuple[str, ...]
    counts: NDArray[np.int64]
    missing: int
    codes: NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        """All rows of the dataset."""
        return int(self.counts.sum()) + self.missing

    def name(self, index: int) -> str:
        """A category as it stands in a requirement."""
        return f"{self.column}={self.names[index]}"


@dataclass(frozen=True, slots=True)
class ConditionRows:
    """Rows of a condition.

    Args:
        inside: How many.
        rows: All rows of the dataset.
        unknown: Rows of which it can't be said.
        finding: Why nothing can be said, or that there is no row; None: there are some.
        masks: Rows inside, and rows of which it can be said, shape (n,) each; None: not kept.
    """

    inside: int
    rows: int
    unknown: int
    finding: str | None
    masks: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None

    @property
    def said(self) -> bool:
        """Something is known of some row."""
        return self.finding is None or self.unknown < self.rows


def tally_scan(
    inputs: Inputs, dataset: str, key: str, conditions: Sequence[Condition], counted: CountedColumns
) -> Scan:
    """Scan that counts the rows of a dataset.

    Args:
        inputs: Names of columns.
        dataset: Its name.
        key: Of the scan.
        conditions: Those of columns that are there are counted.
        counted: Columns whose values are counted; those that are not there are left out.
    """
    there = inputs.column_names(dataset)
    wheres = {one.name: parse_where(where_of(inputs, one)) for one in conditions}
    wheres = {name: where for name, where in wheres.items() if all(column in there for column in where.columns)}
    counted = replace(counted, columns=tuple(name for name in counted.every if name in there))
    seen = dict.fromkeys((*counted.columns, *(name for where in wheres.values() for name in where.columns)))
    # Rows are counted even where no column is looked at.
    return Scan(dataset, key, tuple(seen) or there[:1], partial(Tally, wheres, counted, there), counted.keep)


def where_of(inputs: Inputs, condition: Condition) -> str:
    """Condition as a ``where``; without one of its own that of the slice of its name."""
    return inputs.slice_where(condition.name) if condition.where is None else condition.where


def condition_rows(inputs: Inputs, condition: Condition, dataset: str, tally: Tally) -> ConditionRows:
    """The rows of a condition; that its columns are not there, or hold nothing, is a finding.

    Args:
        inputs: What the check is handed.
        condition: The condition.
        dataset: Name of the dataset.
        tally: Its rows, counted.
    """
    held = tally.conditions.get(condition.name)
    if held is None:
        where = parse_where(where_of(inputs, condition))
        absent = next(name for name in where.columns if name not in tally.there)
        return ConditionRows(0, tally.rows, tally.rows, f"{dataset} has no column {absent!r}")
    unknown = held.rows - held.inside - held.outside
    finding = None if held.inside else _no_row(unknown, held.rows, held.empty, dataset)
    return ConditionRows(held.inside, held.rows, unknown, finding, held.kept())


def _no_row(unknown: int, rows: int, empty: str | None, dataset: str) -> str:
    if unknown == rows:
        reason = f"{empty!r} is missing in every row" if empty else "its columns are missing in every row"
        return f"nothing in {dataset} says so: {reason}"
    return f"no row of {dataset}" + (f"; of {counted(unknown)} it can't be said" if unknown else "")


def class_codes(inputs: Inputs, dataset: str, tally: Tally) -> Codes | str:
    """The classes of a dataset's label; or why it has none."""
    label = inputs.label(dataset)
    if label is None:
        return f"{dataset} names no label"
    column = tally.columns[label]
    kind = _family(column)
    if kind not in ("text", "truth value", "number"):
        return f"the label is {column.type}, which is not a class"
    found, distinct = _codes(label, column), _distinct(column)
    if kind == "number" and (column.over or len(found.names) > MOST_NUMBERS):
        return f"the label holds {distinct} distinct numbers, which are values; store classes as text"
    if kind == "text" and (column.over or len(found.names) > max(MOST_CLASSES, tally.rows // 2)):
        return f"the label holds {distinct} distinct texts in {tally.rows:,} rows, which are not classes"
    return found if found.names else f"the label {label!r} is missing in every row"


def column_codes(tally: Tally, name: str, dataset: str) -> Codes:
    """The values of a column, as groups.

    Raises:
        InputError: It isn't there, or its values are no groups.
    """
    if name not in tally.columns:
        raise InputError(f"dataset {dataset} has no column {name!r}", choices=tally.there)
    column = tally.columns[name]
    kind = column.type
    remedy = f"name the ranges that matter in `conditions:`, such as `where: {name} < 100`"
    floats = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if _family(column) not in ("text", "truth value", "number", "nothing", "time") or floats:
        raise InputError(f"column {name!r} of {dataset} holds {kind}, not groups", remedy=remedy)
    found = _codes(name, column)
    if column.over or len(found.names) > MOST_VALUES:
        raise InputError(
            f"column {name!r} of {dataset} has {_distinct(column)} distinct values, more than {MOST_VALUES}",
            remedy=remedy,
        )
    return found


def _family(column: Values) -> str:
    assert column.type is not None
    return family(column.type)


def _distinct(column: Values) -> str:
    return f"more than {MOST_KNOWN:,}" if column.over else f"{len(column.sorted()[0]):,}"


def _codes(name: str, column: Values) -> Codes:
    values, counts, _ = column.sorted()
    return Codes(name, tuple(_text(value) for value in values), counts, column.missing, column.kept())


def _text(scalar: pa.Scalar) -> str:
    """A value as it stands in a requirement: 3 for 3.0, true for True."""
    value = value_of(scalar)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
