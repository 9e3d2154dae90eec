"""Columns cut into pieces for the search for weak slices: categories, ranges, missing; each slice as a `where`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.answers.arrays import plain_values
from evalspec.cells import values_of
from evalspec.errors import SpecError
from evalspec.language.where import parse_where
from evalspec.stats.drift.discovery import Axis

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

FINEST = 120
"""Most pieces that a column of numbers is cut into."""
WIDEST = 1.2
"""Width in pieces from which on the bulk of a slice can be found."""
COARSE = 8
"""Pieces of a column of numbers where it is crossed."""
WHERE_MOST = 900
"""Most characters of one column's part of a `where`, which must hold two."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Column cut into pieces.

    Args:
        name: Name of the column.
        axis: Its pieces and slices.
        wheres: The `where` of each of its slices.
        unseen: Reasons why a slice of the share that is asked for may not be among them, one sentence each.
    """

    name: str
    axis: Axis
    wheres: Sequence[str]
    unseen: Sequence[str] = ()


def cut(name: str, values: pa.ChunkedArray, share: float, *, category: bool = False) -> Cuts | str:
    """Cut a column into pieces.

    Args:
        name: Name of the column.
        values: shape (n,).
        share: Share of the rows, in 0..1, of a typical slice: categories have half of it at least, and ranges are cut
            at four times as many places, up to `FINEST`.
        category: True if its numbers are names (the label of a classifier).

    Returns:
        The pieces, or the reason why there are none, in one sentence.
    """
    import pyarrow as pa

    quoted = _quoted(name)
    if quoted is None:
        return f"column {name!r} is not searched: its name can't be used in a `where`"
    plain = plain_values(values)
    kind = plain.type
    if plain.null_count == len(plain):
        return _no_value(name)
    ordered = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ordered = ordered or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if ordered and not category:
        return _ranges(name, quoted, plain, share)
    named = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
    if named or pa.types.is_integer(kind):
        return _categories(name, quoted, plain, share)
    return f"column {name!r} is not searched: it holds {kind}"


def _quoted(name: str) -> str | None:
    """Name of a column as it is written in a `where`; None where it can't be."""
    for written in (name, f"`{name}`"):
        try:
            if parse_where(f"{written} is None").columns == (name,):
                return written
        except SpecError:
            continue
    return None


def _no_value(name: str) -> str:
    return f"column {name!r} is not searched: no row has a value"


def _too_long(name: str, rows: int) -> str:
    return f"column {name!r} is not searched whole: what would name {rows:,} rows of it is too long for a `where`"


def _too_wide(name: str, share: float) -> str:
    return (
        f"column {name!r} is not searched finely: its {FINEST} ranges are too wide for slices of {100 * share:g} % of "
        f"the rows, and do for {100 * WIDEST / FINEST:g} %"
    )


def _literal(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str) else repr(str(value))


def _categories(name: str, quoted: str, values: pa.ChunkedArray, share: float) -> Cuts | str:
    """Cut into categories, each by itself; rare ones are pooled."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counted = pc.value_counts(pc.drop_null(values))
    counts = counted.field("counts").to_numpy(zero_copy_only=False)
    fewest = max(1, math.ceil(0.5 * share * len(values)))
    common = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i] >= fewest]
    names = counted.field("values").take(pa.array(common, pa.int64()))
    if not common and not values.null_count:
        return f"column {name!r} is not searched: none of its {len(counts):,} values has {fewest:,} rows"
    codes = np.asarray(pc.fill_null(pc.index_in(values, value_set=names), len(common)).to_numpy(), dtype=np.int64)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    written = [_literal(value) for value in values_of(names)]
    wheres = [f"{quoted} == {one}" for one in written]
    pieces = len(common)
    if len(counts) > len(common):
        wheres.append(f"{quoted} not in [{', '.join(written)}]" if common else f"{quoted} is not None")
        pieces += 1
    if missing.any():
        codes[missing] = pieces
        wheres.append(f"{quoted} is None")
        pieces += 1
    kept = np.array([len(where) <= WHERE_MOST for where in wheres], dtype=np.bool_)
    slices = np.eye(pieces, dtype=np.bool_)[kept]
    axis = Axis(_small(codes, pieces), slices, np.arange(pieces), slices)
    lost = int(np.max(np.bincount(codes, minlength=pieces)[~kept], initial=0))
    unseen = () if lost < share * len(values) else (_too_long(name, lost),)
    return Cuts(name, axis, [where for where, short in zip(wheres, kept, strict=True) if short], unseen)


def _ranges(name: str, quoted: str, values: pa.ChunkedArray, share: float) -> Cuts | str:
    """Cut into ranges between quantiles; a value with as many rows as a piece should have is a piece of its own."""
    numbers, unknown = _numbers(values)
    if unknown.all():
        return _no_value(name)
    known = numbers[~unknown]
    distinct, counts = np.unique(known, return_counts=True)
    if len(distinct) == 1 and not unknown.any():
        return f"column {name!r} is not searched: all rows have the same value"
    most = min(FINEST, math.ceil(4.0 / share))
    starts = _starts(counts, most)
    unseen = (_too_wide(name, share),) if len(counts) > most and most * share < WIDEST else ()
    pieces = len(starts)
    codes = np.searchsorted(distinct[starts], numbers, side="right") - 1
    firsts, lasts = distinct[starts], distinct[np.append(starts[1:], len(distinct)) - 1]
    ends = [(i, j) for i in range(pieces) for j in range(i, pieces) if j - i < pieces - 1]
    wheres = _Ranges(quoted, _writer(values.type), firsts, lasts, tuple(ends))
    slices = np.array([[i <= k <= j for k in range(pieces)] for i, j in ends], dtype=np.bool_).reshape(-1, pieces)
    merged = _merged(np.add.reduceat(counts, starts))
    groups = int(merged[-1]) + 1
    coarse = [(i, j) for i in range(groups) for j in range(i, groups) if j - i < groups - 1]
    unions = np.array([[i <= k <= j for k in range(groups)] for i, j in coarse], dtype=np.bool_).reshape(-1, groups)
    if not unknown.any():
        return Cuts(name, Axis(_small(codes, pieces), slices, merged, unions), wheres, unseen)
    codes[unknown] = pieces
    merged = np.append(merged, groups)
    axis = Axis(_small(codes, pieces + 1), _with_one_more(slices), merged, _with_one_more(unions))
    return Cuts(name, axis, _Last(wheres, f"{quoted} is None"), unseen)


@dataclass(frozen=True, eq=False)
class _Ranges(Sequence[str]):
    """Sequence of the `where` of every range, each written when it is asked for.

    Args:
        quoted: Name of the column, as it is written in a `where`.
        write: Function that writes a literal for a number of the column, or between it and the one below.
        firsts: shape (p,), the lowest value of each piece.
        lasts: shape (p,), the highest value of each piece.
        ends: First and last piece of each range.
    """

    quoted: str
    write: Callable[[Any, Any], str]
    firsts: NDArray[Any]
    lasts: NDArray[Any]
    ends: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: Any) -> Any:
        first, last = self.ends[index]
        if self.firsts[first] == self.lasts[last] and np.isfinite(self.firsts[first]):
            return f"{self.quoted} == {self.write(None, self.firsts[first])}"
        low = self.write(self.lasts[first - 1], self.firsts[first]) if first else None
        high = self.write(self.lasts[last], self.firsts[last + 1]) if last + 1 < len(self.firsts) else None
        if low is None:
            return f"{self.quoted} < {high}"
        return f"{self.quoted} >= {low}" if high is None else f"{low} <= {self.quoted} < {high}"


@dataclass(frozen=True, eq=False)
class _Last(Sequence[str]):
    """Sequence of texts, and one more."""

    texts: Sequence[str]
    last: str

    def __len__(self) -> int:
        return len(self.texts) + 1

    def __getitem__(self, index: Any) -> Any:
        place = range(len(self))[index]
        return self.last if place == len(self.texts) else self.texts[place]


def _numbers(values: pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Numbers in the order of the column's values, shape (n,), and a mask of where there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit)).cast(pa.int64())
    elif not pa.types.is_integer(values.type):
        values = values.cast(pa.float64())
    missing = pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False)
    return pc.fill_null(values, pa.scalar(0, values.type)).to_numpy(), np.asarray(missing, dtype=np.bool_)


def _writer(kind: pa.DataType) -> Callable[[Any, Any], str]:
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return lambda below, at: repr(int(at))
    if pa.types.is_date(kind):
        return lambda below, at: repr(np.datetime_as_string(np.datetime64(int(at), "ms"), unit="D").item())
    if pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        return lambda below, at: repr(str(np.datetime64(int(at), kind.unit)).replace("T", " ") + zone)
    return lambda below, at: repr(shortest(None if below is None else float(below), float(at)))


def shortest(below: float | None, at: float) -> float:
    """Number with the fewest digits in (below, at]; ``at`` itself where there is no ``below``."""
    if below is None:
        return at
    if math.isinf(at):
        at = below + abs(below) + 1.0
    if math.isinf(below):
        return at
    for digits in range(1, 17):
        step = 10.0 ** (math.floor(math.log10(max(abs(below), abs(at)))) - digits + 1)
        rounded = float(f"{math.floor(at / step) * step:.{digits}g}")
        if below < rounded <= at:
            return rounded
    return at


def _starts(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Indices of the distinct values that pieces begin with, shape (p,)."""
    if len(counts) <= most:
        return np.arange(len(counts))
    reached = np.cumsum(counts) / counts.sum()
    after = np.searchsorted(reached, np.arange(1, most) / most - 1e-12) + 1
    heavy = np.flatnonzero(counts / counts.sum() >= 1.0 / most)
    starts = np.unique(np.concatenate([[0], after, heavy, heavy + 1]))
    return starts[starts < len(counts)]


def _merged(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups of neighbouring pieces, `COARSE` of about as many rows each: group of each piece, shape (p,)."""
    if len(counts) <= COARSE:
        return np.arange(len(counts))
    middle = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    return np.unique(np.floor(middle * COARSE), return_inverse=True)[1].astype(np.int64)


def _with_one_more(slices: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Slices over one more piece, with one more slice that is this piece."""
    larger = np.zeros((slices.shape[0] + 1, slices.shape[1] + 1), dtype=np.bool_)
    larger[:-1, :-1] = slices
    larger[-1, -1] = True
    return larger


def _small(codes: NDArray[np.int64], pieces: int) -> NDArray[Any]:
    """Codes in the smallest type that holds them: they are copied in every round of a search."""
    return codes.astype(np.uint8 if pieces <= 256 else np.uint16)
