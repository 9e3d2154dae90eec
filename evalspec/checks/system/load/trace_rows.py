"""A trace of arrivals as the rows of a dataset give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.system.load.arrivals import Arrivals
from evalspec.errors import InputError
from evalspec.measure.trace import Trace
from evalspec.measure.trace import trace as recorded

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

MOST_SHOWN = 60
"""Letters of a wrong value that a sentence shows."""


def read_trace(arrivals: Arrivals, table: pa.Table, rows: int | None) -> Trace:
    """Trace of a dataset, each value of it looked at.

    Args:
        arrivals: A trace.
        table: Its rows.
        rows: Of the dataset that it asks for; None: not known.

    Raises:
        InputError: The first value that can't be replayed, with its column and row (counted from 0) and the remedy.
    """
    name = str(arrivals.dataset)
    try:
        return recorded(
            _times(table, arrivals.time),
            items=None if arrivals.payload is None else _numbers(table, arrivals.payload),
            sizes=None if arrivals.size is None else _numbers(table, arrivals.size),
            rows=rows,
            speed_up=arrivals.speed_up,
        )
    except InputError as error:
        raise InputError(f"the trace {name}: {error.problem.message}", remedy=error.problem.remedy) from error


def _times(table: pa.Table, column: str) -> NDArray[Any]:
    """Seconds, or points in time."""
    import pyarrow as pa

    values = table.column(column).combine_chunks()
    kind = values.type
    if not pa.types.is_timestamp(kind):
        return _numbers(table, column, "give seconds as numbers, or points in time")
    return np.asarray(
        values.cast(pa.timestamp("ns", tz=kind.tz)).cast(pa.timestamp("ns")).to_numpy(zero_copy_only=False)
    )


def _numbers(table: pa.Table, column: str, remedy: str = "write numbers") -> NDArray[Any]:
    """Of a column, as floats where some are missing (NaN)."""
    import pyarrow as pa

    values = table.column(column).combine_chunks()
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    found = values.to_pylist()
    row = next((row for row, value in enumerate(found) if not _is_number(value)), 0)
    shown = "nothing" if found[row] is None else repr(found[row])
    if len(shown) > MOST_SHOWN:
        shown = f"{shown[:MOST_SHOWN]}..."
    raise InputError(
        f"column {column!r} has {shown} in row {row:,} (counted from 0), which is not a number", remedy=remedy
    )


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool)
