"""Groups of rows that the columns of a dataset make: categories, and quarters of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.language.where import parse_where
from evalspec.screens.pairs import independent
from evalspec.tables.entities import has_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.screens.evidence import Evidence

FEWEST = 40
"""Rows of a group."""
MOST_VALUES = 20
"""Of a column whose values are groups."""
MOST_GROUPS = 400
"""Of a dataset: the more are looked at, the less each can show."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that have something in common.

    Args:
        column: The column that makes them.
        name: ``site=north``, or ``1.5 <= age < 3``.
        where: The same as a slice of the spec says it.
        inside: shape (k,), of the rows of `independent`.
    """

    column: str
    name: str
    where: str
    inside: NDArray[np.bool_]


def row_groups(evidence: Evidence, dataset: str) -> Iterator[RowGroup]:
    """Groups of the rows of `independent`, each of `FEWEST` rows at least, `MOST_GROUPS` in all."""
    table = independent(evidence, dataset)
    part = evidence.dataset(dataset)
    aside = {part.label, part.key, part.cluster}
    for check in evidence.checks:
        aside |= set(getattr(check, "raters", ()))
    label = None if part.label is None or part.label not in table.column_names else table.column(part.label)
    count = 0
    for name in table.column_names:
        if name in aside:
            continue
        column = table.column(name).combine_chunks()
        if label is not None and _names_the_label(column, label):
            continue
        for group in _of_column(name, column):
            if group.inside.sum() < FEWEST or (~group.inside).sum() < FEWEST:
                continue
            yield group
            count += 1
            if count == MOST_GROUPS:
                return


def decided(evidence: Evidence, dataset: str, column: str) -> bool:
    """A requirement of the spec looks at slices of this column."""
    slices = evidence.slices()
    for check in evidence.checks:
        if getattr(check, "dataset", "") != dataset or not check.requirements:
            continue
        named = [name for one in getattr(check, "by", ()) for name in (getattr(one, "cross", None) or (one,))]
        sliced = [name for one in named if one in slices for name in parse_where(slices[one]).columns]
        if column in (*named, *sliced):
            return True
        discover = getattr(check, "discover", None)
        if discover is not None and column in discover.columns:
            return True
    return False


def quoted(name: str) -> str:
    """A column as ``where`` writes it."""
    return name if name.isidentifier() else f"`{name}`"


def _names_the_label(column: pa.Array, label: pa.ChunkedArray) -> bool:
    """Each value stands for one label and each label for one value: the label by another name."""
    if not (has_order(column.type) and has_order(label.type)):
        return False
    # Of columns without a value, and of dictionaries, the different ones are found but not counted.
    few = len(label.unique())
    if few > MOST_VALUES or len(column.unique()) != few:
        return False
    both = pa.table({"column": column, "label": label}).group_by(["column", "label"]).aggregate([])
    return bool(both.num_rows == few)


def _of_column(name: str, column: pa.Array) -> Iterator[RowGroup]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_float16(kind):
        # They can be neither sorted nor compared.
        column, kind = column.cast(pa.float32()), pa.float32()
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
            or pa.types.is_integer(kind) or pa.types.is_floating(kind)):  # fmt: skip
        return
    values = column.unique().drop_null()
    if 2 <= len(values) <= MOST_VALUES:
        for value in sorted(values.to_pylist(), key=str):
            inside = np.asarray(pc.fill_null(pc.equal(column, pa.scalar(value, kind)), False))
            yield RowGroup(name, f"{name}={value}", f"{quoted(name)} == {value!r}", inside)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        yield from _quarters(name, np.asarray(column.cast(pa.float64()).fill_null(np.nan)))


def _quarters(name: str, cells: NDArray[np.float64]) -> Iterator[RowGroup]:
    known = cells[np.isfinite(cells)]
    if not len(known):
        return
    edges = [f"{edge:.4g}" for edge in np.unique(np.quantile(known, [0.25, 0.5, 0.75]))]
    column = quoted(name)
    for low, high in zip(["", *edges], [*edges, ""], strict=True):
        inside = np.isfinite(cells)
        if low:
            inside &= cells >= float(low)
        if high:
            inside &= cells < float(high)
        where = (
            f"{low} <= {column} < {high}" if low and high else f"{column} < {high}" if high else f"{column} >= {low}"
        )
        yield RowGroup(name, where.replace("`", ""), where, inside)
