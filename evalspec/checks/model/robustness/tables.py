"""Tables made worse: missing cells, noisy numbers, slipped units, swapped categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

MISSING = (0.01, 0.05, 0.1, 0.2, 0.3)
NOISE = (0.05, 0.1, 0.2, 0.4, 0.8)
SLIPPED = (0.01, 0.02, 0.05, 0.1, 0.2)
SWAPPED = (0.01, 0.05, 0.1, 0.2, 0.3)
SLIPS = np.array([0.001, 0.1, 10.0, 1000.0])
"""Factors of a slip: metres for millimetres, a shifted decimal point."""
IQR_OF_NORMAL = 1.349


def missing(table: pa.Table, columns: Sequence[str], severity: int, rng: np.random.Generator) -> pa.Table:
    """Empty a share of the cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in columns:
        gone = rng.random(len(table)) < MISSING[severity - 1]
        column = table.column(name)
        table = _put(table, name, pc.if_else(pa.array(gone), pa.scalar(None, column.type), column))
    return table


def number_noise(table: pa.Table, columns: Sequence[str], severity: int, rng: np.random.Generator) -> pa.Table:
    """Add normal noise to every number, in units of the column's own spread (interquartile range / 1.349)."""
    for name in columns:
        values, empty = _numbers(table, name)
        known = values[np.isfinite(values)]
        spread = (np.subtract(*np.percentile(known, [75, 25])) / IQR_OF_NORMAL or known.std()) if known.size else 0.0
        table = _put_numbers(
            table, name, values + NOISE[severity - 1] * spread * rng.standard_normal(len(values)), empty
        )
    return table


def unit_slip(table: pa.Table, columns: Sequence[str], severity: int, rng: np.random.Generator) -> pa.Table:
    """Put one number of a share of the rows in another unit: times 0.001, 0.1, 10 or 1000."""
    n = len(table)
    hit = rng.random(n) < SLIPPED[severity - 1]
    which, factor = rng.integers(0, len(columns), n), rng.choice(SLIPS, n)
    for at, name in enumerate(columns):
        values, empty = _numbers(table, name)
        table = _put_numbers(table, name, np.where(hit & (which == at), values * factor, values), empty)
    return table


def category_swap(table: pa.Table, columns: Sequence[str], severity: int, rng: np.random.Generator) -> pa.Table:
    """Swap a share of the cells for another category of the same column."""
    import pyarrow as pa

    for name in columns:
        column = table.column(name).combine_chunks()
        codes = column.dictionary_encode() if not pa.types.is_dictionary(column.type) else column
        kinds, count = codes.dictionary, len(codes.dictionary)
        if count < 2:
            continue
        at = np.asarray(codes.indices.fill_null(-1))
        hit = (rng.random(len(at)) < SWAPPED[severity - 1]) & (at >= 0)
        other = np.where(hit, (at + rng.integers(1, count, len(at))) % count, at)
        picked = kinds.take(pa.array(np.where(other < 0, 0, other), mask=other < 0))
        table = _put(table, name, picked.cast(column.type))
    return table


def _numbers(table: pa.Table, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values of a column, and a mask of where there are none."""
    import pyarrow as pa

    column = table.column(name)
    empty = np.asarray(column.is_null())
    values = np.asarray(column.cast(pa.float64(), safe=False).fill_null(np.nan), dtype=np.float64)
    return values, empty


def _put_numbers(table: pa.Table, name: str, values: NDArray[np.float64], empty: NDArray[np.bool_]) -> pa.Table:
    """Replace the numbers of a column, in the type that it had: whole numbers stay whole and in its range."""
    import pyarrow as pa

    kind = table.column(name).type
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        # Whole numbers that a double can't tell from the largest one would overflow.
        low, high = float(limits.min), np.nextafter(float(limits.max), 0.0)
        values = np.round(np.clip(np.where(empty, 0.0, values), low, high))
        return _put(table, name, pa.array(values.astype(kind.to_pandas_dtype()), type=kind, mask=empty))
    return _put(table, name, pa.array(values, mask=empty).cast(kind, safe=False))


def _put(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)
