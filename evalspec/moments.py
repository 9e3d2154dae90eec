"""Columns of days and times held against a moment that is written as text."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""How many of each unit of Arrow's times make a second."""
_ZONE = re.compile(r"(Z|[+-][0-9:]{4,5})$")
_NANOSECONDS = re.compile(r"[.,]\d{6}(\d{1,3})")


class NoMoment(ValueError):
    """A text is no moment of a column's type."""


def held_against(
    column: pa.Array | pa.ChunkedArray, word: Comparison, text: str, *, utc: bool = False
) -> pa.BooleanArray:
    """The truth of a comparison in each row, null where the column has no value.

    Args:
        column: Dates, times, or times of a day.
        word: How they are compared.
        text: The moment.
        utc: One without a zone is that of UTC where the column has a zone.

    Raises:
        NoMoment: It is none of the column's type.
    """
    import pyarrow as pa

    try:
        return compared(column, word, _moment(text.strip(), column.type, utc))
    except (pa.ArrowException, ValueError) as error:
        raise NoMoment(str(error)) from error


def compared(column: pa.Array | pa.ChunkedArray, word: Comparison, moment: pa.Scalar) -> pa.BooleanArray:
    """As `held_against`, with any scalar; a moment may be of a coarser unit where the column's can't count it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    functions = {
        "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
    }  # fmt: skip
    clock = pa.types.is_timestamp(column.type) or pa.types.is_time(column.type)
    if clock and column.type != moment.type:
        # What is cut off decides nothing: the moment is beyond all that the column's unit counts.
        column = column.cast(moment.type, safe=not pa.types.is_timestamp(column.type))
    return functions[word](column, moment)


def begin_of_day(day: int, kind: pa.DataType) -> pa.Scalar:
    """When a day begins, for `compared`.

    Args:
        day: Since 1970.
        kind: Of a column of dates or timestamps; in a zone, it is a day of UTC.
    """
    import pyarrow as pa

    if not pa.types.is_timestamp(kind):
        return pa.scalar(day, pa.int32()).cast(pa.date32()).cast(kind)
    count = day * 86_400 * PER_SECOND[kind.unit]
    if abs(count) < 2**63:
        return pa.scalar(count, pa.int64()).cast(kind)
    return begin_of_day(day, pa.timestamp("us", kind.tz))


def _moment(text: str, kind: pa.DataType, utc: bool) -> pa.Scalar:
    import pyarrow as pa

    if pa.types.is_time(kind):
        return pa.scalar(_nanoseconds(text), pa.int64()).cast(pa.time64("ns"))
    if not pa.types.is_timestamp(kind):
        return pa.scalar(text).cast(kind)
    try:
        return _instant(text, kind, utc)
    except pa.ArrowInvalid as error:
        if kind.unit != "ns":
            raise
        try:
            # Nanoseconds end in 2262.
            return _instant(text, pa.timestamp("us", kind.tz), utc)
        except pa.ArrowInvalid:
            raise error from None


def _instant(text: str, kind: pa.DataType, utc: bool) -> pa.Scalar:
    import pyarrow as pa
    import pyarrow.compute as pc

    written = pa.scalar(text)
    if not utc or kind.tz is None or _ZONE.search(text[10:]):
        return written.cast(kind)
    return pc.assume_timezone(written.cast(pa.timestamp(kind.unit)), "UTC").cast(kind)


def _nanoseconds(text: str) -> int:
    """Since midnight."""
    clock = datetime.time.fromisoformat(text)
    if clock.tzinfo is not None:
        raise ValueError(f"{text!r} has a zone, and times of a day have none")
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    finest = _NANOSECONDS.search(text)
    return (seconds * 10**6 + clock.microsecond) * 1000 + (int(finest[1].ljust(3, "0")) if finest else 0)
