"""Rows and values that stand more than once, found by digests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.checks.data.integrity.rules import shown
from evalspec.errors import InputError
from evalspec.sources.reading.rows import hash_values, row_digests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Digests = NDArray[np.uint64]

GROUPS_SHOWN = 10
"""Groups of equal rows that are looked up again to be shown."""
COLUMNS_SHOWN = 12
LONGEST_NAME = 64
"""Letters; what is longer is a text that rows are compared by."""
# White space, and letters of scripts that put none between words.
_OF_TEXT = r"[\s\p{Z}\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
MOST_LOOKED_AT = 10_000
"""Of the rows of a batch."""


class Repeats:
    """Digests of rows that go by: 8 bytes a row are held.

    Args:
        digest: Digests of a batch's rows, and which rows count.
    """

    def __init__(self, digest: Callable[[pa.RecordBatch], tuple[Digests, NDArray[np.bool_] | None]]) -> None:
        self.digest = digest
        self.rows = 0
        self._parts: list[Digests] = []

    def update(self, batch: pa.RecordBatch) -> None:
        """More rows."""
        digests, counted = self.digest(batch)
        self._parts.append(digests if counted is None else digests[counted])
        self.rows += len(self._parts[-1])

    def found(self) -> tuple[int, Digests]:
        """Rows that are equal to an earlier one, and some digests that stand more than once."""
        ordered = np.empty(self.rows, np.uint64)
        place = 0
        while self._parts:
            part = self._parts.pop()
            ordered[place : place + len(part)] = part
            place += len(part)
        ordered.sort()
        again = ordered[1:] == ordered[:-1]
        count = int(np.count_nonzero(again))
        some = ordered[1:][again][: 100 * GROUPS_SHOWN] if count else ordered[:0]
        return count, np.unique(some)[:GROUPS_SHOWN]


class Mixed:
    """Rows that stand in several splits.

    Args:
        split: Column that names the split.
        names: Columns that count.
    """

    def __init__(self, split: str, names: Sequence[str]) -> None:
        self._split = split
        self._names = [name for name in names if name != split]
        if not self._names:
            raise InputError(
                f"there is no column beside {split!r} in which rows could be equal",
                remedy="name some in `duplicates_by:`",
            )
        self._splits: dict[str, int] = {}
        self._digests: list[Digests] = []
        self._codes: list[NDArray[np.int32]] = []
        self.unnamed = 0

    def digest(self, batch: pa.RecordBatch) -> tuple[Digests, NDArray[np.bool_] | None]:
        """Of what stands in a row beside its split."""
        return row_digests(pa.Table.from_batches([batch]), self._names)[:, 0], None

    def update(self, batch: pa.RecordBatch) -> None:
        """More rows."""
        encoded = batch.column(self._split).cast(pa.string()).dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = np.array([self._splits.setdefault(name, len(self._splits)) for name in names] + [-1], np.int32)
        indices = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        self.unnamed += encoded.null_count
        self._codes.append(codes[indices])
        self._digests.append(self.digest(batch)[0])

    @property
    def splits(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._splits)

    def found(self) -> tuple[int, Digests]:
        """Rows that stand in two splits or more, and some of their digests."""
        digests, codes = np.concatenate(self._digests), np.concatenate(self._codes)
        named = codes >= 0
        digests, codes = digests[named], codes[named]
        order = np.lexsort((codes, digests))
        digests, codes = digests[order], codes[order]
        other = (digests[1:] == digests[:-1]) & (codes[1:] != codes[:-1])
        mixed = np.unique(digests[1:][other])
        left, right = (np.searchsorted(digests, mixed, side=side) for side in ("left", "right"))
        return int((right - left).sum()), mixed[:GROUPS_SHOWN]


def may_name(kind: pa.DataType) -> bool:
    """Values of this type may be names of rows: whole numbers, texts."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def all_differ(column: pa.Array) -> bool:
    """Each cell may be the name of its row: no two are equal, none is missing, and texts are single words."""
    if column.null_count or pc.count_distinct(column).as_py() < len(column):
        return False
    if pa.types.is_integer(column.type):
        return True
    longest = pc.max(pc.utf8_length(column)).as_py() or 0
    return longest <= LONGEST_NAME and not pc.any(pc.match_substring_regex(column, _OF_TEXT)).as_py()


def of_rows(names: Sequence[str]) -> Callable[[pa.RecordBatch], tuple[Digests, NDArray[np.bool_] | None]]:
    """Digests of rows by these columns."""

    def digest(batch: pa.RecordBatch) -> tuple[Digests, NDArray[np.bool_] | None]:
        return row_digests(pa.Table.from_batches([batch]), names)[:, 0], None

    return digest


def of_values(name: str) -> Callable[[pa.RecordBatch], tuple[Digests, NDArray[np.bool_] | None]]:
    """Digests of a column's values; missing ones don't count."""

    def digest(batch: pa.RecordBatch) -> tuple[Digests, NDArray[np.bool_] | None]:
        column = batch.column(name)
        missing = np.asarray(column.is_null(nan_is_null=pa.types.is_floating(column.type)))
        return hash_values(column, name)[0], ~missing

    return digest


@dataclass(frozen=True)
class RepeatedRow:
    """A row to look at."""

    number: int
    cells: dict[str, str]


def rows_of(batches: Iterator[pa.RecordBatch], repeats: Repeats | Mixed, wanted: Digests) -> list[RepeatedRow]:
    """The first two rows of each of these digests, equal ones together.

    Args:
        batches: All rows once more.
        repeats: Makes the digests.
        wanted: Those that stand more than once.
    """
    groups: dict[int, list[RepeatedRow]] = {int(one): [] for one in wanted}
    offset = 0
    for batch in batches:
        digests, counted = repeats.digest(batch)
        # numpy 2.0 overflows on wide integers where it chooses for itself.
        among = np.isin(digests, wanted, kind="sort")
        hits = among if counted is None else among & counted
        for row in np.flatnonzero(hits)[:MOST_LOOKED_AT]:
            group = groups[int(digests[row])]
            if len(group) < 2:
                cells = batch.slice(int(row), 1).to_pylist()[0]
                some = list(cells.items())[:COLUMNS_SHOWN]
                group.append(RepeatedRow(int(row) + offset, {name: shown(value) for name, value in some}))
        offset += batch.num_rows
        if all(len(group) == 2 for group in groups.values()):
            break
    pairs = sorted(groups.values(), key=lambda group: [row.number for row in group])
    return [row for group in pairs for row in group]
