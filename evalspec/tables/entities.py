"""Columns that name what several rows are of, such as a patient or a device, told by their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST_VALUES = 20
"""Of a column of entities; fewer are groups."""
REPEATED = 0.5
"""Least share of the rows whose value stands in another row as well."""
MOST_ROWS = 100
"""Of a value, on average: more are a group."""
LONGEST = 40
"""Characters of a code."""
CONSTANT, ALIKE = 0.98, 0.7
"""Of an attribute: least share of neighbouring rows of an entity that have the same value, and most of any two rows."""
FEWEST_PAIRS = 50
MIXED = 0.5
"""Attributes of neighbouring values differ at least so often as those of any two values: of a quantity they don't."""
_ENDING = re.compile(r"(?:^|[_\-. ])(?:id|nr|no|num|number|code|key|uuid|guid)$|[a-z](?:ID|Id|Nr|No)$")
_CODE = r"^\D*\d[\w\-./]*$"
"""A word with a number in it: P00012, DE-117/4."""


@dataclass(frozen=True, slots=True)
class EntityColumn:
    """Column that names what several rows are of.

    Args:
        name: Of the column.
        values: Different ones.
        attributes: Other columns that have one value in all rows of an entity.
        is_code: Its values or its name are those of codes.
    """

    name: str
    values: int
    attributes: tuple[str, ...]
    is_code: bool


def entity_columns(table: pa.Table, names: Sequence[str]) -> Iterator[EntityColumn]:
    """Columns whose values repeat, and which are codes or tell other columns.

    Whole numbers that tell other columns by their order, as an age tells a group of ages, are quantities.

    Args:
        table: Rows.
        names: Columns that are looked at; the others are attributes at most.
    """
    comparable = [name for name in table.column_names if _has_values(table.column(name).type)]
    codes: dict[str, NDArray[np.int64]] = {}
    for name in names:
        if name not in comparable or not _may_name(table.column(name)):
            continue
        own = encoded(table.column(name))
        counts = np.bincount(own[own >= 0])
        values, rows = int((counts > 0).sum()), int(counts.sum())
        if values < FEWEST_VALUES or counts[counts > 1].sum() < REPEATED * rows or rows > MOST_ROWS * values:
            continue
        # Of all columns only where one may name something: most numbers differ in each row, which takes long to order.
        codes = codes or {other: encoded(table.column(other)) for other in comparable}
        attributes = tuple(other for other, cells in codes.items() if other != name and _is_told(own, cells))
        is_code = called_as_code(name) or _of_codes(table.column(name))
        if attributes or is_code:
            yield EntityColumn(name, values, attributes, is_code)


def called_as_code(name: str) -> bool:
    """A name that ends as those of codes do: ``row_nr``, ``case_id``, ``kundeNr``."""
    return _ENDING.search(name) is not None or _ENDING.search(name.lower()) is not None


def encoded(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Place of each row's value among the sorted ones: shape (n,); -1: it is missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_float16(column.type):
        # They can't be sorted.
        column = column.cast(pa.float32())
    kinds = column.unique().drop_null()
    order = pc.array_sort_indices(kinds)
    found = pc.index_in(column, value_set=kinds.take(order))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def has_order(kind: pa.DataType) -> bool:
    """Types for which `encoded` can tell places: neither lists nor structs nor tensors."""
    return not (pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType))


def _has_values(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
        or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    )  # fmt: skip


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _may_name(column: pa.ChunkedArray) -> bool:
    """Whole numbers and short texts."""
    if not _is_text(column.type):
        return bool(pa.types.is_integer(column.type))
    return (pc.max(pc.utf8_length(column.cast(pa.large_string()))).as_py() or LONGEST + 1) <= LONGEST


def _of_codes(column: pa.ChunkedArray) -> bool:
    """Texts that hold a number each."""
    if not _is_text(column.type):
        return False
    kinds = column.unique().drop_null().cast(pa.large_string())
    return (pc.mean(pc.match_substring_regex(kinds, _CODE).cast(pa.float64())).as_py() or 0.0) >= CONSTANT


def _is_told(own: NDArray[np.int64], cells: NDArray[np.int64]) -> bool:
    """All rows of a value have one value of the other column, as rows of two values hardly have."""
    order = np.argsort(own, kind="stable")
    order = order[(own[order] >= 0) & (cells[order] >= 0)]
    ours, theirs = own[order], cells[order]
    if len(ours) < FEWEST_PAIRS:
        return False
    same = ours[1:] == ours[:-1]
    alike = theirs[1:] == theirs[:-1]
    if same.sum() < FEWEST_PAIRS or alike[same].mean() < CONSTANT:
        return False
    shares = np.bincount(theirs) / len(theirs)
    by_chance = float((shares**2).sum())
    # As many values as the column itself: the same thing by another name, which says nothing of either.
    again = len(np.unique(theirs)) >= len(np.unique(ours))
    return by_chance < ALIKE and not again and float((~alike[~same]).mean()) >= MIXED * (1.0 - by_chance)
