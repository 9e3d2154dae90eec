"""Rows and values that stand more than once, found by digests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.cells import value_of
from evalspec.checks.data.integrity.rules import shown
from evalspec.errors import InputError
from evalspec.language.states import State, Value, under
from evalspec.sources.reading.rows import hash_values
from evalspec.tables.buckets import Buckets, coded, counted, maybe_repeated
from evalspec.tables.row_hashes import RowHashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Digests = NDArray[np.uint64]
    Mask = NDArray[np.bool_]

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
    """Digests of rows that go by, or of values of a column, which don't count where they are missing.

    Args:
        names: Columns that count.
        kept: Keeps digests of 128 bits.
        value: It is values of a single column.
    """

    def __init__(self, names: Sequence[str], kept: Buckets, *, value: bool = False) -> None:
        self._names, self._kept, self._value = tuple(names), kept, value

    def digest(self, hashes: RowHashes) -> tuple[Digests, Mask | None]:
        """Digests of a batch's rows, shape (2, n), and which rows count; None: all."""
        if not self._value:
            return hashes.rows(self._names), None
        (name,) = self._names
        column = hashes.batch.column(name)
        missing = np.asarray(column.is_null(nan_is_null=pa.types.is_floating(column.type)))
        return hashes.values(name), ~missing if missing.any() else None

    def update(self, hashes: RowHashes) -> None:
        """More rows."""
        digests, counts = self.digest(hashes)
        self._kept.add(digests if counts is None else digests[:, counts])

    def merge(self, later: Repeats) -> None:
        """Take over what another one has seen."""
        self._kept.merge(later._kept)

    def found(self) -> tuple[int, Digests]:
        """Rows that are equal to an earlier one, and the first of the digests that stand more than once, shape (2, k).

        Those that stand very often leave room for fewer.
        """
        count, some = 0, _Some()
        for rows, times in self._kept.each():
            digests, each = _repeated(rows, times)
            count += int(each.sum()) - len(each)
            some.add(digests, each - 1)
        return count, some.end()

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return {"names": list(self._names), "value": self._value} | under("kept", self._kept.fields())

    @classmethod
    def of_fields(cls, fields: State) -> Repeats:
        """The digests of which these are the fields."""
        return cls(fields.texts("names"), Buckets.of_fields(fields.at("kept")), value=fields.scalar("value"))


class Mixed:
    """Rows that stand in several splits.

    Args:
        split: Column that names the split.
        names: Columns that count.
        kept: Keeps digests of 128 bits, and one of the split.
        unnamed: Rows without a split.
    """

    def __init__(self, split: str, names: Sequence[str], kept: Buckets) -> None:
        self._split = split
        self._names = [name for name in names if name != split]
        if not self._names:
            raise InputError(
                f"there is no column beside {split!r} in which rows could be equal",
                remedy="name some in `duplicates_by:`",
            )
        self._kept = kept
        self._splits: dict[str, None] = {}
        self.unnamed = 0

    def digest(self, hashes: RowHashes) -> tuple[Digests, Mask | None]:
        """Of what stands in a row beside its split, shape (2, n)."""
        return hashes.rows(self._names), None

    def update(self, hashes: RowHashes) -> None:
        """More rows."""
        splits = hashes.batch.column(self._split).cast(pa.string())
        self._splits |= dict.fromkeys(splits.drop_null().unique().to_pylist())
        self.unnamed += splits.null_count
        lanes = np.concatenate([self.digest(hashes)[0], hash_values(splits)[:1]])
        self._kept.add(lanes if not splits.null_count else lanes[:, np.asarray(splits.is_valid())])

    def merge(self, later: Mixed) -> None:
        """Take over what another one has seen."""
        self._splits |= later._splits
        self.unnamed += later.unnamed
        self._kept.merge(later._kept)

    @property
    def splits(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._splits)

    def found(self) -> tuple[int, Digests]:
        """Rows that stand in two splits or more, and the first of their digests, shape (2, k)."""
        count, some = 0, _Some()
        for rows, times in self._kept.each():
            digests, each = _mixed(rows, times)
            count += int(each.sum())
            some.add(digests, np.zeros(len(each), np.int64))
        return count, some.end()

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return {
            "split": self._split, "names": self._names, "splits": list(self._splits), "unnamed": self.unnamed,
        } | under("kept", self._kept.fields())  # fmt: skip

    @classmethod
    def of_fields(cls, fields: State) -> Mixed:
        """The rows of which these are the fields."""
        kept = Buckets.of_fields(fields.at("kept"))
        mixed = cls(fields.scalar("split"), fields.texts("names"), kept)
        mixed._splits, mixed.unnamed = dict.fromkeys(fields.texts("splits")), fields.scalar("unnamed")
        return mixed


class _Some:
    """The first of the digests to be shown."""

    def __init__(self) -> None:
        self._parts: list[Digests] = [np.zeros((2, 0), np.uint64)]
        self._left, self._room = GROUPS_SHOWN, 100 * GROUPS_SHOWN

    def add(self, digests: Digests, rooms: NDArray[np.int64]) -> None:
        """More digests, rising, and how much room each takes."""
        taken = min(self._left, int(np.count_nonzero(np.cumsum(rooms) - rooms < self._room)))
        self._parts.append(digests[:, :taken])
        self._left -= taken
        self._room -= int(rooms[:taken].sum())

    def end(self) -> Digests:
        """All of them, shape (2, k)."""
        return np.concatenate(self._parts, axis=1)


def _repeated(rows: Digests, times: NDArray[np.int64] | None) -> tuple[Digests, NDArray[np.int64]]:
    """Digests that stand more than once, rising, shape (2, k), and how often each does."""
    if times is None:
        rows = rows[:, maybe_repeated(rows[0])]
    digests, each = counted(rows, times)
    more = each > 1
    digests, each = digests[:, more], each[more]
    order = np.lexsort(digests[::-1])
    return digests[:, order], each[order]


def _mixed(rows: Digests, times: NDArray[np.int64] | None) -> tuple[Digests, NDArray[np.int64]]:
    """Digests that stand in two splits or more, rising, shape (2, k), and how many rows have each."""
    if times is None:
        rows = rows[:, maybe_repeated(rows[0])]
    pairs, each = counted(rows, times)
    codes, first = coded(pairs[:2])
    total = np.zeros(len(first), np.int64)
    np.add.at(total, codes, each)
    several = np.bincount(codes, minlength=len(first)) > 1
    digests, total = pairs[:2, first[several]], total[several]
    order = np.lexsort(digests[::-1])
    return digests[:, order], total[order]


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
        wanted: Those that stand more than once, shape (2, k).
    """
    groups: dict[tuple[int, int], list[RepeatedRow]] = {(a, b): [] for a, b in wanted.T.tolist()}
    offset = 0
    for batch in batches:
        digests, counts = repeats.digest(RowHashes(batch))
        # numpy 2.0 overflows on wide integers where it chooses for itself.
        among = np.isin(digests[0], wanted[0], kind="sort")
        hits = among if counts is None else among & counts
        for row in np.flatnonzero(hits)[:MOST_LOOKED_AT]:
            group = groups.get((int(digests[0, row]), int(digests[1, row])))
            if group is not None and len(group) < 2:
                some = batch.schema.names[:COLUMNS_SHOWN]
                cells = {name: shown(value_of(batch.column(name)[int(row)])) for name in some}
                group.append(RepeatedRow(int(row) + offset, cells))
        offset += batch.num_rows
        if all(len(group) == 2 for group in groups.values()):
            break
    pairs = sorted(groups.values(), key=lambda group: [row.number for row in group])
    return [row for group in pairs for row in group]
