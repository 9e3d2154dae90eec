"""Rows of the test set whose key a training row has too, whatever else they contain."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.checks.data.contamination.detector import Level, RowPair, TestSide
from evalspec.checks.data.contamination.examples import PAIRS_SHOWN, example
from evalspec.checks.data.contamination.first_match import shown_fields, shown_of
from evalspec.evidence.words import plural, verb
from evalspec.language.states import State, Value
from evalspec.sources.reading.open import missing_values
from evalspec.sources.reading.rows import row_digests
from evalspec.stats.sets.duplicates import Rows, exact_matches
from evalspec.tables.comparable import check_comparable, family

if TYPE_CHECKING:
    from evalspec.stats.sets.hashing import Words

KIND, METRIC, TITLE = "key", "shared_keys", "same key"


class KeyMatches:
    """Keys of one training set, by the first test row of each key.

    Args:
        row: shape (m,), the first training row with the key; -1: none.
        content: shape (m, 2), digest of what stands in it.
        several: shape (m,), another training row with the key holds something else.
        nameless: Training rows without a key.
        shown: A few: test row, the training row that differs from it, and a table of it alone.
    """

    def __init__(self, rows: int) -> None:
        self.row: Rows = np.full(rows, -1, np.int64)
        self.content: Words = np.zeros((rows, 2), np.uint64)
        self.several = np.zeros(rows, bool)
        self.nameless = 0
        self.shown: list[tuple[int, int, pa.Table]] = []

    def show(self, row: int, train_row: int, rows: pa.Table, at: int) -> None:
        """Keep a pair to be shown, where there is room and none of the test row yet."""
        if len(self.shown) < PAIRS_SHOWN and all(row != known for known, _, _ in self.shown):
            self.shown.append((row, train_row, rows.take(pa.array([at]))))

    def merge(self, later: KeyMatches) -> None:
        """Take over keys of rows that come after."""
        there = later.row >= 0
        new = there & (self.row < 0)
        self.several |= later.several | (there & ~new & (later.content != self.content).any(axis=1))
        self.row[new], self.content[new] = later.row[new], later.content[new]
        self.nameless += later.nameless
        for row, train_row, table in later.shown:
            self.show(row, train_row, table, 0)

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        at = np.flatnonzero(self.row >= 0)
        return {
            "size": len(self.row), "at": at, "rows": self.row[at], "content": self.content[at],
            "several": np.flatnonzero(self.several), "nameless": self.nameless, **shown_fields(self.shown),
        }  # fmt: skip

    @classmethod
    def of_fields(cls, fields: State) -> KeyMatches:
        """The keys of which these are the fields."""
        matches, at = cls(fields.scalar("size")), fields.numbers("at")
        matches.row[at], matches.content[at] = fields.numbers("rows"), fields.numbers("content").reshape(-1, 2)
        matches.several[fields.numbers("several")] = True
        matches.nameless, matches.shown = fields.scalar("nameless"), shown_of(fields)
        return matches


class KeyDetector:
    """Test rows whose key occurs in training; a `Detector`.

    Keys are compared by typed digests: 1 is 1.0 and not "1", and ("a,b", "c") is not ("a", "b,c"). A missing or empty
    key names nothing and is left out.

    Args:
        asked: The test side.
        key: Columns that together name a row; what else is compared says whether rows of one key are the same.
    """

    def __init__(self, asked: TestSide, key: Sequence[str]) -> None:
        self._asked, self._rows, self._key = asked, asked.table, tuple(key)
        self._content = tuple(name for name in asked.columns if name not in key)
        self._keys, self._named = keyed(self._rows, self._key)
        self._digests = row_digests(self._rows, self._content)
        places = np.flatnonzero(self._named)
        # Of test rows with the same key the first one stands for all.
        self._first = np.full(self._rows.num_rows, -1, np.int64)
        self._first[places] = places[exact_matches(self._keys[places], self._keys[places])]
        self._sets: dict[str, KeyMatches] = {}
        self._now = ""

    def fresh(self) -> KeyDetector:
        """The same one, without any training set."""
        other = copy(self)
        other._sets = {}
        return other

    @property
    def now(self) -> tuple[KeyMatches]:
        """Keys of the training set that goes by."""
        return (self._sets[self._now],)

    def take(self, found: Sequence[Any]) -> None:
        """Take over keys of the training set that goes by."""
        self._sets[self._now] = found[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """Key, and what is compared."""
        return tuple(dict.fromkeys((*self._key, *self._asked.named)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Rows without a key, and rows that share one and differ."""
        none, other = int((~self._named).sum()), int(self.other_content.sum())
        test, key = self._asked.name, ", ".join(self._key)
        found = (none, f"no {key}"), (other, f"the {key} of a training row that differs from them")
        return tuple(f"{plural(n, 'row')} of {test} {verb(n, 'has', 'have')} {what}." for n, what in found if n)

    @property
    def named(self) -> int:
        """Test rows that have a key."""
        return int(self._named.sum())

    @property
    def unknown(self) -> str | None:
        """Why a count can't be shown to hold: rows without a key may be of anybody; None: every row has one."""
        counts = {
            self._asked.name: int((~self._named).sum()),
            **{name: one.nameless for name, one in self._sets.items()},
        }
        rows = [f"{count:,} of {name}" for name, count in counts.items() if count]
        if not rows:
            return None
        return (
            f"rows without {', '.join(self._key)} ({', '.join(rows)}) may be of anybody; "
            "fill them in, or leave them out with `where:`"
        )

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        self._now, self._sets[train_set] = train_set, KeyMatches(self._rows.num_rows)

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Look up the keys of some training rows among those of the test set.

        Raises:
            InputError: Keys are of another type there, so that they could never be equal.
        """
        check_comparable(rows, self._rows, self._key, self._now)
        theirs, named = keyed(rows, self._key)
        (one,) = self.now
        one.nameless += int((~named).sum())
        at = exact_matches(self._keys, theirs)
        hit = np.flatnonzero(named & (at >= 0))
        if not len(hit):
            return
        ours = self._first[at[hit]]
        content = row_digests(rows.take(pa.array(hit)), self._content)
        keys, first = np.unique(ours, return_index=True)
        new = one.row[keys] < 0
        one.row[keys[new]], one.content[keys[new]] = first_row + hit[first[new]], content[first[new]]
        unlike = (content != one.content[ours]).any(axis=1)
        one.several[ours[unlike]] = True
        differs = np.flatnonzero((content != self._digests[ours]).any(axis=1))
        for index in differs[: PAIRS_SHOWN * 4]:
            one.show(int(ours[index]), first_row + int(hit[index]), rows, int(hit[index]))

    @property
    def other_content(self) -> NDArray[np.bool_]:
        """Test rows that a training row with their key differs from, shape (m,)."""
        differs = np.zeros(self._rows.num_rows, bool)
        for one in self._sets.values():
            found = self._train_row(one) >= 0
            unlike = one.several[self._first] | (one.content[self._first] != self._digests).any(axis=1)
            differs |= found & unlike
        return differs

    def levels(self) -> tuple[Level, ...]:
        """One: the test rows whose key occurs in training."""
        rows = {name: self._train_row(one) for name, one in self._sets.items()}
        found = {name: row >= 0 for name, row in rows.items()}
        return (
            Level(
                kind=KIND,
                metric=METRIC,
                title=TITLE,
                rows=np.asarray(np.logical_or.reduce([np.zeros(self._rows.num_rows, bool), *found.values()])),
                in_set=found,
                train_row=rows,
                closeness={name: np.full(self._rows.num_rows, np.nan) for name in rows},
                method=f"counted: equal in {', '.join(self._key)}, typed digests of 128 bits",
            ),
        )

    def pairs(self) -> tuple[RowPair, ...]:
        """Some rows that share a key and differ."""
        made = []
        for name, one in self._sets.items():
            for row, train_row, theirs in one.shown:
                left = example(self._asked, self._rows, row, TITLE)
                right = example(self._asked, theirs, 0, TITLE, name=name, number=train_row)
                made.append(RowPair(KIND, row, name, train_row, left, right))
        return tuple(made)

    def _train_row(self, one: KeyMatches) -> Rows:
        """The first training row with each test row's key, shape (m,); -1: none."""
        return np.where(self._named, one.row[self._first], -1)


def keyed(rows: pa.Table, key: Sequence[str]) -> tuple[Words, NDArray[np.bool_]]:
    """Digests of keys, shape (n, 2), and which rows have one in every column, shape (n,)."""
    named = np.ones(rows.num_rows, bool)
    for name in key:
        column = rows.column(name)
        named &= ~missing_values(column)
        if family(column.type) == "text":
            empty = pc.fill_null(pc.equal(column.cast(pa.string()), ""), True)
            named &= ~np.asarray(empty.to_numpy())
    return row_digests(rows, key), named
