"""Columns as `leakage` compares them: ids by value and type, times and positions by their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.language.where import is_moment
from evalspec.sources.reading.open import missing_values
from evalspec.sources.reading.rows import row_digests
from evalspec.stats.sets.hashing import Words
from evalspec.tables.comparable import family

LOOKED_AT = 100_000
"""Rows in which a cell that is no time is looked for."""
WHOLE_DIGITS = 15
"""Decimal digits that a float holds exactly."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids of one set's rows.

    Args:
        words: shape (n, 2), digests; of missing ids too.
        missing: shape (n,).
    """

    words: Words
    missing: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Places:
    """Times or positions of one set's rows, on a scale that all sets share.

    Args:
        values: shape (n,), int64 or float64; of missing ones anything.
        missing: shape (n,).
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @property
    def present(self) -> NDArray[np.bool_]:
        """Shape (n,)."""
        return ~self.missing


def check_ids(heads: Mapping[str, pa.Table], names: Sequence[str]) -> None:
    """Refuse ids that could never be equal, or that name nothing.

    Args:
        heads: Set: its first rows.
        names: The column, or columns together.

    Raises:
        InputError: Two sets hold types whose values are never equal, or a type that names nothing.
    """
    for name in names:
        _refuse_unlike({one: _plain(head.column(name)) for one, head in heads.items()}, name)


def ids_of(rows: pa.Table, names: Sequence[str]) -> Ids:
    """Ids of some rows; one is missing where a column of it is.

    Args:
        rows: n rows.
        names: The column, or columns together.
    """
    columns = {name: _plain(rows.column(name)) for name in names}
    missing = np.logical_or.reduce([_nameless(column) for column in columns.values()])
    return Ids(row_digests(pa.table(columns)), missing)


def _nameless(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Cells that name nothing: missing, or blank text."""
    missing = missing_values(column)
    if family(column.type) != "text":
        return missing
    blank = pc.equal(pc.utf8_trim_whitespace(column.cast(pa.large_string())), "")
    return np.asarray(missing | np.asarray(pc.fill_null(blank, True).to_numpy()))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as numbers, where a float holds all their digits: they are equal by value then."""
    kind = column.type
    if pa.types.is_decimal(kind) and kind.precision <= WHOLE_DIGITS:
        return column.cast(pa.float64())
    return column


def _sort(kind: pa.DataType) -> str:
    """Kind of values that values of this type can be equal to."""
    if pa.types.is_decimal(kind):
        return str(kind)
    if pa.types.is_timestamp(kind):
        return "time with a zone" if kind.tz else "time without a zone"
    if pa.types.is_date(kind):
        return "date"
    found = family(kind)
    return str(kind) if found in ("time", "other", "array") else found


def _refuse_unlike(columns: Mapping[str, pa.ChunkedArray], name: str) -> None:
    known = {one: column.type for one, column in columns.items() if not pa.types.is_null(column.type)}
    for one, kind in known.items():
        if family(kind) == "array" or pa.types.is_nested(kind):
            raise InputError(f"column {name!r} of {one} is {kind}, which names nothing", remedy="name another column")
    sorts = {one: _sort(kind) for one, kind in known.items()}
    if len(set(sorts.values())) > 1:
        first, *others = known
        other = next(one for one in others if sorts[one] != sorts[first])
        raise InputError(
            f"column {name!r} is {known[first]} in {first} and {known[other]} in {other}: such values are never equal",
            remedy="give both the same type",
        )


class TooFar(Exception):
    """A time is beyond what its unit can count."""


def scale_of(heads: Mapping[str, pa.Table], name: str, what: str) -> pa.DataType:
    """Type as which times or positions of all sets are compared.

    Args:
        heads: Set: its first rows.
        name: The column.
        what: What the column is for, for sentences: ``time``, ``position``.

    Raises:
        InputError: Texts, or types that have no order among each other.
    """
    columns = {one: _plain(head.column(name)) for one, head in heads.items()}
    known = {one: column.type for one, column in columns.items() if not pa.types.is_null(column.type)}
    for one, kind in known.items():
        _refuse_orderless(columns[one], name, one, kind, what)
    if len({family(kind) for kind in known.values()}) > 1:
        told = " and ".join(f"{kind} in {one}" for one, kind in known.items())
        raise InputError(f"column {name!r} is {told}: they have no common order", remedy="give both the same type")
    if any(pa.types.is_temporal(kind) for kind in known.values()):
        return _time_scale(known, name)
    return _number_scale(known)


def coarser(scale: pa.DataType | None) -> pa.DataType | None:
    """Microseconds in the place of nanoseconds, which end in 2262."""
    if scale is None or not pa.types.is_timestamp(scale) or scale.unit != "ns":
        return scale
    return pa.timestamp("us", scale.tz)


def places_of(column: pa.ChunkedArray, scale: pa.DataType | None) -> Places:
    """Times as whole numbers of one unit (dates as days), and positions, of some rows.

    Args:
        column: n cells.
        scale: Of all sets.

    Raises:
        TooFar: A time does not fit into nanoseconds.
    """
    column = _plain(column)
    assert scale is not None
    try:
        typed = _typed(column, scale)
    except pa.ArrowInvalid as error:
        raise TooFar from error
    if pa.types.is_temporal(scale):
        typed = typed.cast(pa.int32() if pa.types.is_date32(scale) else pa.int64())
    return Places(_filled(typed), missing_values(column))


def _refuse_orderless(column: pa.ChunkedArray, name: str, one: str, kind: pa.DataType, what: str) -> None:
    if family(kind) == "text":
        some = [value for value in column.slice(0, LOOKED_AT).to_pylist() if value is not None]
        # What makes a column of times text is the one cell that is no time.
        shown = next((value for value in some if not is_moment(str(value))), some[0] if some else "")
        raise InputError(
            f"column {name!r} of {one} holds text ({str(shown)[:40]!r}), which has no order of {what}",
            remedy=f"store it as a date, a timestamp or a number; a csv reads it as one with `types: {{{name}: time}}`",
        )
    ordered = family(kind) == "number" or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if not ordered:
        raise InputError(
            f"column {name!r} of {one} is {kind}, which has no order of {what}",
            remedy="name a column of dates, timestamps or numbers",
        )


def _number_scale(known: Mapping[str, pa.DataType]) -> pa.DataType:
    return pa.int64() if all(pa.types.is_signed_integer(kind) for kind in known.values()) else pa.float64()


def _time_scale(known: Mapping[str, pa.DataType], name: str) -> pa.DataType:
    """Days where one set has dates, else the finest unit of all."""
    zoned = {one: pa.types.is_timestamp(kind) and kind.tz is not None for one, kind in known.items()}
    if len(set(zoned.values())) > 1:
        with_zone = next(one for one, zone in zoned.items() if zone)
        without = next(one for one, zone in zoned.items() if not zone)
        raise InputError(
            f"column {name!r} has a time zone in {with_zone} and none in {without}: which is later is unknown",
            remedy="give both a zone, or neither",
        )
    if any(pa.types.is_date(kind) for kind in known.values()):
        return pa.date32()
    units = ("s", "ms", "us", "ns")
    finest = max((kind.unit for kind in known.values()), key=units.index)
    return pa.timestamp(finest, next(iter(known.values())).tz)


def _typed(column: pa.ChunkedArray, scale: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), scale)])
    # Parts below the unit are cut off, never the sign or the order.
    return column.cast(scale, safe=pa.types.is_timestamp(scale) and scale.unit == "ns")


def _filled(column: pa.ChunkedArray) -> NDArray[Any]:
    return np.asarray(pc.fill_null(column, pa.scalar(0, column.type)).to_numpy())
