"""Rows that are copies of each other: they say as much as one.

Rows that are equal in all that counts are copies only where chance does not make them equal. Of a table of a few
categories equal rows are natural, as many draws from few possible ones; rows with numbers to several digits, long
texts, times, lists or pictures hardly ever meet by themselves. So equal rows are copies where there are over ten times
as many pairs of them as the columns of that kind would give, were their values dealt out anew to the different rows;
where such a column, or one of whole numbers far apart, tells nearly all different rows apart; and where all rows of a
dataset are one. A row of which more than half is missing is no copy: what was lost may have told it apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.sources.reading.rows import row_digests

MORE_THAN_CHANCE = 10.0
"""Times the pairs that chance would give."""
TELLS_APART = 0.9
"""Of the different rows, by one column alone."""
FEW = 0.01
"""Of all rows: so few surplus ones change no bound that anyone could see, and are let be."""
LONG_TEXT = 20
"""Letters on average from which on a text is no category."""
BEGINNING = 64
"""Bytes of a long text that mostly tell it from all others."""
SPREAD = 10
"""Whole numbers for each that occurs, from which on they are no codes."""
LOOKED_AT = 20_000
"""Different rows by which columns are judged."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Equal rows of a dataset.

    Args:
        groups: shape (n,), index of the group of equal rows that each row is in.
        different: Rows that differ.
    """

    groups: NDArray[np.int64]
    different: int

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.groups)


def find_copies(column: Callable[[str], pa.ChunkedArray], names: Sequence[str]) -> Copies | None:
    """Rows that are copies of each other, or None: there are none but a few, or chance makes as many.

    Columns are looked at one after the other, those first that tell rows apart best, and only in rows that are equal so
    far: where there are no copies the first one mostly settles it.

    Args:
        column: From a name to all its values.
        names: Columns that count.

    Raises:
        InputError: A column can't be compared.
    """
    read: dict[str, pa.ChunkedArray] = {}
    codes: NDArray[np.uint64] | None = None
    alive, missing = np.empty(0, np.int64), np.empty(0, np.int64)
    for name in names:
        values = read[name] = column(name)
        if codes is None:
            codes, alive = np.zeros(len(values), np.uint64), np.arange(len(values))
            missing = np.zeros(len(values), np.int64)
        part = values if len(alive) == len(values) else values.take(pa.array(alive))
        if part.null_count:
            missing[alive] += np.asarray(part.is_null())
        some = _begin_alike(part)
        if some is not None:
            alive, part = alive[some], part.take(pa.array(some))
        hashed = row_digests(pa.table({name: part}))[:, 0]
        codes[alive] = codes[alive] * np.uint64(0x9E3779B97F4A7C15) + hashed
        _, place, counts = np.unique(codes[alive], return_inverse=True, return_counts=True)
        alive = alive[counts[place] > 1]
        if len(alive) < 2:
            return None
    if codes is None:
        return None
    n = len(codes)
    alive = alive[2 * missing[alive] <= len(read)]
    _, first, again, counts = np.unique(codes[alive], return_index=True, return_inverse=True, return_counts=True)
    surplus = len(alive) - len(first)
    if surplus < max(2.0, FEW * n):
        return None
    groups = np.full(n, -1, np.int64)
    groups[alive] = again
    alone = np.flatnonzero(groups < 0)
    groups[alone] = len(first) + np.arange(len(alone))
    different = n - surplus
    kept = np.sort(np.concatenate([alive[first], alone]))
    pairs = float((counts.astype(np.float64) * (counts - 1) / 2.0).sum())
    return Copies(groups, different) if _beyond_chance(read, kept, n, pairs) else None


def _begin_alike(values: pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Rows whose long texts begin as another one's does, and are as long: no others need be read to their ends.

    Returns:
        shape (k,), rising; None: these are no long texts.
    """
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    sizes = pc.binary_length(values)
    if (pc.mean(sizes).as_py() or 0.0) < 4 * BEGINNING:
        return None
    heads = pc.binary_slice(values.cast(pa.large_binary()), 0, BEGINNING)
    _, place, counts = np.unique(
        row_digests(pa.table({"head": heads, "size": sizes}))[:, 0], return_inverse=True, return_counts=True
    )
    return np.flatnonzero(counts[place] > 1)


def _beyond_chance(read: dict[str, pa.ChunkedArray], kept: NDArray[np.int64], n: int, pairs: float) -> bool:
    """So many equal pairs of n rows don't come by chance; ``kept`` are the rows that differ, one of each kind."""
    if len(kept) == 1:
        return True
    if len(kept) > LOOKED_AT:
        kept = kept[np.linspace(0, len(kept) - 1, LOOKED_AT).astype(np.int64)]
    of_all = math.comb(len(kept), 2)
    expected = float(math.comb(n, 2))
    for name, values in read.items():
        part = values.take(pa.array(kept))
        fine = _fine(part)
        if not fine and not _wide(part):
            continue
        _, counts = np.unique(row_digests(pa.table({name: part}))[:, 0], return_counts=True)
        if len(counts) >= TELLS_APART * len(kept):
            return True
        if not fine:
            continue
        # One pair more than was seen: of few rows nothing is known of what is rare.
        expected *= (float((counts * (counts - 1.0) / 2.0).sum()) + 1.0) / (of_all + 1.0)
    return expected < math.comb(n, 2) and pairs > MORE_THAN_CHANCE * expected


def _wide(values: pa.ChunkedArray) -> bool:
    """Whole numbers far apart: an income and no code of a few. Codes go together, so chance is not told by these."""
    if not pa.types.is_integer(values.type) or values.null_count == len(values):
        return False
    ends = pc.min_max(values).as_py()
    return bool(ends["max"] - ends["min"] >= SPREAD * (pc.count_distinct(values).as_py() - 1) > 0)


def _fine(values: pa.ChunkedArray) -> bool:
    """Two rows hardly ever have the same by chance: no category, no whole number, no day."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = values.cast(pa.float64()).to_numpy()
        numbers = numbers[np.isfinite(numbers)]
        return bool((numbers != np.round(numbers)).any())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        letters = pc.mean(pc.utf8_length(values.cast(kind))).as_py()
        return letters is not None and letters >= LONG_TEXT
    return (
        pa.types.is_timestamp(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_nested(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )


def finest_first(columns: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Columns in the order in which to look: those first that tell rows apart best and cost least.

    Args:
        columns: Column: arrow type as text; of those that aren't there nothing is known.
        names: Those to put in order.
    """

    def rank(name: str) -> int:
        kind = columns.get(name, "")
        if kind.startswith(("float", "double", "timestamp")):
            return 0
        return 1 if "string" in kind else 3 if kind.startswith(("list", "fixed_size", "bool", "extension")) else 2

    return sorted(names, key=rank)


def joined_groups(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups of rows that are in one group of either: what shares a row is one.

    Args:
        first: shape (n,), codes from 0.
        second: shape (n,), likewise.

    Returns:
        shape (n,), codes from 0.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = int(first.max(initial=-1)) + 1
    size = ones + int(second.max(initial=-1)) + 1
    ties = coo_array((np.ones(len(first)), (first, ones + second)), shape=(size, size))
    _, parts = connected_components(ties, directed=False)
    return np.asarray(parts[first], dtype=np.int64)
