"""Arrivals that were recorded: what a trace says, checked value by value before anything is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import InputError
from evalspec.measure.arrivals import rising

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["MOST_ROWS", "Trace", "trace"]

NS = 1e9
MOST_ROWS = 65_536
"""Rows of one query: as many as a batch may have anywhere else."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Arrivals that were recorded.

    Args:
        times_ns: shape (n,), from the first arrival, strictly rising.
        items: shape (n,), row of the dataset that each asked for (its first, where it asked for several); None: not
            recorded.
        sizes: shape (n,), rows that each asked for, 1 or more; None: not recorded.
    """

    times_ns: NDArray[np.int64]
    items: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None

    @property
    def rate_qps(self) -> float:
        """Gaps by the time that they take."""
        return (len(self.times_ns) - 1) * NS / float(self.times_ns[-1])


def trace(
    times: ArrayLike,
    *,
    items: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    rows: int | None = None,
    speed_up: float = 1.0,
) -> Trace:
    """Arrivals as they were recorded.

    Args:
        times: shape (n,), in seconds, 0 or more, or points in time; not falling. The first is where it starts.
        items: shape (n,), row of the dataset that each asked for.
        sizes: shape (n,), rows that each asked for.
        rows: Of the dataset; None: not known, so that a row beyond its end is not seen.
        speed_up: 2 replays in half the time.

    Raises:
        InputError: The first value that can't be replayed, with its row (counted from 0) and what to do.
    """
    if not (speed_up > 0 and math.isfinite(speed_up)):
        raise InputError(f"the speed_up is {speed_up:g}; it must be over 0")
    recorded = np.asarray(times)
    if recorded.ndim != 1 or len(recorded) < 2:
        count = f"{recorded.size} {'query' if recorded.size == 1 else 'queries'}"
        raise InputError(f"it holds {count}, which gives no rate", remedy="record 2 or more")
    for name, column in (("item", items), ("size", sizes)):
        if column is not None and np.shape(column) != recorded.shape:
            raise InputError(f"there are {len(recorded)} times and {np.size(column)} entries of `{name}`")
    return Trace(
        times_ns=rising(_seconds(recorded) / speed_up * NS),
        items=None if items is None else _whole(items, "asks for the row", 0, None if rows is None else rows - 1),
        sizes=None if sizes is None else _whole(sizes, "has the size", 1, MOST_ROWS),
    )


def _seconds(recorded: NDArray[Any]) -> NDArray[np.float64]:
    """From the first arrival on, shape (n,)."""
    points = np.issubdtype(recorded.dtype, np.datetime64)
    if points:
        missing = np.isnat(recorded)
        seconds = np.where(missing, np.nan, (recorded - recorded[:1]).astype("timedelta64[ns]").astype(np.int64) / NS)
    else:
        seconds = recorded.astype(np.float64)
        missing = ~np.isfinite(seconds)
    _refuse(missing, "has no time", "leave it out, or fill it in")
    if not points and (seconds < 0).any():
        row = int(np.argmax(seconds < 0))
        raise InputError(f"{_row(row)} has the time {seconds[row]:g}", remedy="count seconds from 0")
    falls = np.diff(seconds) < 0
    if falls.any():
        row = int(np.argmax(falls)) + 1
        raise InputError(
            f"{_row(row)} has the time {recorded[row]}, before {recorded[row - 1]} of the row above it",
            remedy="sort the trace by time",
        )
    if seconds[-1] == seconds[0]:
        raise InputError(
            f"all {len(seconds):,} times are {recorded[0]}, which gives no rate",
            remedy="record times finer",
        )
    return np.asarray(seconds - seconds[0])


def _whole(column: ArrayLike, what: str, least: int, most: int | None) -> NDArray[np.int64]:
    """Whole numbers from the least to the most; None: without an end."""
    values = np.asarray(column)
    _refuse(~np.isfinite(values.astype(np.float64)), what.replace(" the ", " no "), "fill it in")
    wrong = (values != np.floor(values)) | (values < least) | (values > (np.inf if most is None else most))
    if wrong.any():
        row = int(np.argmax(wrong))
        end = "on" if most is None else f"to {most:,}"
        raise InputError(f"{_row(row)} {what} {values[row]:,}", remedy=f"write a whole number from {least} {end}")
    return values.astype(np.int64)


def _refuse(wrong: NDArray[np.bool_], what: str, remedy: str) -> None:
    if wrong.any():
        raise InputError(f"{_row(int(np.argmax(wrong)))} {what}", remedy=remedy)


def _row(row: int) -> str:
    return f"row {row:,} (counted from 0)"
