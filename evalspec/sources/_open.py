"""A dataset as the checks see it: read, ``where`` applied, label and clusters looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.errors import InputError, did_you_mean
from evalspec.language.parts import Access, Dataset
from evalspec.language.where import mask, parse_where
from evalspec.sources._table import choose


@dataclass(frozen=True, slots=True)
class Opened:
    """A dataset that was read.

    Args:
        table: The rows for which ``where`` holds; at least one.
        rows: Rows before ``where``.
        unknown: Rows of which ``where`` says nothing, since a column that it needs is missing there; they are left out.
    """

    table: pa.Table
    rows: int
    unknown: int


def open_dataset(dataset: Dataset, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of a dataset for which its ``where`` holds: the table of `open_counted`."""
    return open_counted(dataset, access, columns).table


def open_counted(dataset: Dataset, access: Access, columns: Sequence[str] | None = None) -> Opened:
    """Rows of a dataset for which its ``where`` holds, and what became of the others.

    Args:
        dataset: A dataset of the spec.
        access: Where it may be read from.
        columns: Columns wanted; label, key and cluster come along. None: all.

    Raises:
        InputError: It can't be read, a column isn't there, labels or clusters are missing, or no row is left.
    """
    where = parse_where(dataset.where) if dataset.where else None
    marked = {"label": dataset.label, "key": dataset.key, "cluster": dataset.cluster}
    there = list(dataset.header(access).columns)
    for what, name in marked.items():
        if name is not None and name not in there:
            raise InputError(f"there is no {what} column {name!r}", choices=there, remedy=did_you_mean(name, there))
    wanted = there if columns is None else [*columns, *(name for name in marked.values() if name is not None)]
    wanted = list(dict.fromkeys(wanted))
    needed = where.columns if where else ()
    table = dataset.read(access, None if columns is None else list(dict.fromkeys([*wanted, *needed])))
    rows, unknown = table.num_rows, 0
    if where is not None:
        chosen = mask(table, where)
        unknown = chosen.missing
        table = table.filter(pa.array(chosen.inside))
    if columns is not None:
        table = table.select(wanted)
    if not table.num_rows:
        left = f"`where: {dataset.where}` holds for none of its {rows:,} rows" if rows else "it has no rows"
        raise InputError(f"there is nothing to look at: {left}")
    for what in ("label", "cluster"):
        name = marked[what]
        if name is not None:
            _refuse_missing(table, name, what)
    return Opened(table=table, rows=rows, unknown=unknown)


def missing_values(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which values are missing: null, or NaN.

    Returns:
        shape (n,).
    """
    is_float = pa.types.is_floating(column.type)
    return np.asarray(pc.is_null(column, nan_is_null=is_float).to_numpy())


def _refuse_missing(table: pa.Table, name: str, what: str) -> None:
    missing = int(missing_values(table.column(name)).sum())
    if missing:
        raise InputError(
            f"{what} column {name!r} is missing (null or NaN) in {missing:,} of {table.num_rows:,} rows",
            remedy=f"drop them with `where: {name} is not None`, or fill them in",
        )


def clusters(table: pa.Table, column: str) -> NDArray[np.int64]:
    """What rows share, as codes 0..k-1 in the order of first appearance.

    Returns:
        shape (n,).

    Raises:
        InputError: The column isn't there, or is missing in some rows: what these share with others is unknown.
    """
    choose([column], table.column_names, "the dataset")
    _refuse_missing(table, column, "cluster")
    values = table.column(column).combine_chunks()
    return np.asarray(pc.dictionary_encode(values).indices.to_numpy()).astype(np.int64)
