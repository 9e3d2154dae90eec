"""The groups of a test set: conditions, classes, values of columns, and classes within these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.checks.data._duplicates import family
from evalspec.checks.data._leakage_shared import counted
from evalspec.errors import InputError
from evalspec.language.where import Not, Where, mask, parse_where
from evalspec.sources._open import missing_values

if TYPE_CHECKING:
    from evalspec.checks.data.coverage import Condition
    from evalspec.language.inputs import Inputs

MOST_VALUES = 200
MOST_CLASSES = 100
"""So many different texts may always be classes; more only where most of them come twice."""
MOST_NUMBERS = 20
"""A label of more distinct numbers is a value, not a class."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of a condition, a class, or a value.

    Args:
        name: As it stands in a requirement.
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
        codes: shape (n,), -1 where it is missing.
    """

    column: str
    names: tuple[str, ...]
    codes: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows of each category."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names)).astype(np.int64)

    @property
    def missing(self) -> int:
        """Rows without a value."""
        return int((self.codes < 0).sum())

    def name(self, index: int) -> str:
        """A category as it stands in a requirement."""
        return f"{self.column}={self.names[index]}"


@dataclass(frozen=True, slots=True)
class Inside:
    """Rows of a condition.

    Args:
        inside: shape (n,).
        unknown: Rows of which it can't be said.
        finding: Why nothing can be said, or that there is no row; None: there are some.
        known: shape (n,), rows of which it can be said; None: only their number is known.
    """

    inside: NDArray[np.bool_]
    unknown: int
    finding: str | None
    known: NDArray[np.bool_] | None = None

    @property
    def said(self) -> bool:
        """Something is known of some row."""
        return self.finding is None or self.unknown < len(self.inside)


def condition_rows(inputs: Inputs, condition: Condition, dataset: str) -> Inside:
    """The rows of a condition; that its columns are not there, or hold nothing, is a finding.

    Args:
        inputs: What the check is handed.
        condition: The condition.
        dataset: Name of the dataset.

    Raises:
        InputError: A column holds something else than what it is held against.
    """
    table = inputs.table(dataset)
    nothing = np.zeros(table.num_rows, dtype=np.bool_)
    if condition.where is None:
        try:
            found = inputs.slice_mask(condition.name, dataset)
        except InputError as error:
            return Inside(nothing, table.num_rows, f"nothing in {dataset} says so: {error}")
        known = None if found.missing else ~nothing
        empty = None
    else:
        where = parse_where(condition.where)
        absent = next((name for name in where.columns if name not in table.column_names), None)
        if absent is not None:
            return Inside(nothing, table.num_rows, f"{dataset} has no column {absent!r}")
        found = mask(table, where)
        known = found.inside | mask(table, Where(where.text, Not(where.term), where.columns)).inside
        empty = next((name for name in where.columns if missing_values(table.column(name)).all()), None)
    if found.inside.any():
        return Inside(found.inside, found.missing, None, known)
    if found.missing == table.num_rows:
        reason = f"{empty!r} is missing in every row" if empty else "its columns are missing in every row"
        return Inside(nothing, found.missing, f"nothing in {dataset} says so: {reason}")
    unknown = f"; of {counted(found.missing)} it can't be said" if found.missing else ""
    return Inside(found.inside, found.missing, f"no row of {dataset}{unknown}", known)


def class_codes(inputs: Inputs, dataset: str) -> Codes | str:
    """The classes of a dataset's label; or why it has none."""
    label = inputs.label(dataset)
    if label is None:
        return f"{dataset} names no label"
    column = inputs.table(dataset).column(label)
    kind = family(column.type)
    if kind not in ("text", "truth value", "number"):
        return f"the label is {column.type}, which is no class"
    found = _encoded(column, label)
    if kind == "number" and len(found.names) > MOST_NUMBERS:
        return f"the label holds {len(found.names):,} distinct numbers, which are values; store classes as text"
    if kind == "text" and len(found.names) > max(MOST_CLASSES, len(found.codes) // 2):
        return f"the label holds {len(found.names):,} distinct texts in {len(found.codes):,} rows, which are no classes"
    return found if found.names else f"the label {label!r} is missing in every row"


def column_codes(table: pa.Table, name: str, dataset: str) -> Codes:
    """The values of a column, as groups.

    Raises:
        InputError: It isn't there, or its values are no groups.
    """
    if name not in table.column_names:
        raise InputError(f"dataset {dataset} has no column {name!r}", choices=table.column_names)
    column = table.column(name)
    kind = family(column.type)
    remedy = f"name the ranges that matter in `conditions:`, such as `where: {name} < 100`"
    floats = pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    if kind not in ("text", "truth value", "number", "nothing", "time") or floats:
        raise InputError(f"column {name!r} of {dataset} holds {column.type}, not groups", remedy=remedy)
    found = _encoded(column, name)
    if len(found.names) > MOST_VALUES:
        raise InputError(
            f"column {name!r} of {dataset} has {len(found.names):,} distinct values, more than {MOST_VALUES}",
            remedy=remedy,
        )
    return found


def _encoded(column: pa.ChunkedArray, name: str) -> Codes:
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], column.type)
    missing = missing_values(column)
    if pa.types.is_null(values.type):
        return Codes(name, (), np.full(len(values), -1, dtype=np.int64))
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    encoded = values.dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)).astype(np.int64)
    codes[missing] = -1
    used = np.unique(codes[codes >= 0])
    kept = encoded.dictionary.take(pa.array(used))
    order = np.asarray(pc.sort_indices(kept).to_numpy())
    place = np.full(len(encoded.dictionary) + 1, -1, dtype=np.int64)
    place[used[order]] = np.arange(len(order))
    names = tuple(_text(value) for value in kept.take(pa.array(order)))
    return Codes(name, names, place[codes])


def _text(scalar: pa.Scalar) -> str:
    """A value as it stands in a requirement: 3 for 3.0, true for True."""
    if pa.types.is_temporal(scalar.type):
        return str(scalar)
    value = scalar.as_py()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
