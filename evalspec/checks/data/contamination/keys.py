"""Rows of the test set whose key a training row has too, whatever else they contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.checks.data.contamination.detector import Level, RowPair, TestSide
from evalspec.checks.data.contamination.examples import PAIRS_SHOWN, example
from evalspec.evidence.words import plural, verb
from evalspec.sources.reading.open import missing_values
from evalspec.sources.reading.rows import row_digests
from evalspec.stats.sets.duplicates import Rows, exact_matches
from evalspec.tables.comparable import check_comparable, family

if TYPE_CHECKING:
    from evalspec.stats.sets.hashing import Words

KIND, METRIC, TITLE = "key", "shared_keys", "same key"


@dataclass
class _Found:
    """Keys of one training set, by the first test row of each key.

    Args:
        row: shape (m,), the first training row with the key; -1: none.
        content: shape (m, 2), digest of what stands in it.
        several: shape (m,), another training row with the key holds something else.
        shown: Test row: the training row that differs from it, and a table of it alone.
    """

    row: Rows
    content: Words
    several: NDArray[np.bool_]
    shown: dict[int, tuple[int, pa.Table]] = field(default_factory=dict)


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
        self._sets: dict[str, _Found] = {}
        self._nameless: dict[str, int] = {}
        self._now = ""

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
        counts = {self._asked.name: int((~self._named).sum()), **self._nameless}
        rows = [f"{count:,} of {name}" for name, count in counts.items() if count]
        if not rows:
            return None
        return (
            f"rows without {', '.join(self._key)} ({', '.join(rows)}) may be of anybody; "
            "fill them in, or leave them out with `where:`"
        )

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        self._nameless[train_set] = 0
        rows = self._rows.num_rows
        nothing = np.zeros((rows, 2), np.uint64)
        self._now, self._sets[train_set] = train_set, _Found(np.full(rows, -1, np.int64), nothing, np.zeros(rows, bool))

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Look up the keys of some training rows among those of the test set.

        Raises:
            InputError: Keys are of another type there, so that they could never be equal.
        """
        check_comparable(rows, self._rows, self._key, self._now)
        theirs, named = keyed(rows, self._key)
        self._nameless[self._now] += int((~named).sum())
        at = exact_matches(self._keys, theirs)
        hit = np.flatnonzero(named & (at >= 0))
        if not len(hit):
            return
        one, ours = self._sets[self._now], self._first[at[hit]]
        content = row_digests(rows.take(pa.array(hit)), self._content)
        keys, first = np.unique(ours, return_index=True)
        new = one.row[keys] < 0
        one.row[keys[new]], one.content[keys[new]] = first_row + hit[first[new]], content[first[new]]
        unlike = (content != one.content[ours]).any(axis=1)
        one.several[ours[unlike]] = True
        differs = np.flatnonzero((content != self._digests[ours]).any(axis=1))
        for index in differs[: PAIRS_SHOWN * 4]:
            row, train_row = int(ours[index]), int(hit[index])
            if len(one.shown) < PAIRS_SHOWN and row not in one.shown:
                one.shown[row] = (first_row + train_row, rows.take(pa.array([train_row])))

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
            for row, (train_row, theirs) in one.shown.items():
                left = example(self._asked, self._rows, row, TITLE)
                right = example(self._asked, theirs, 0, TITLE, name=name, number=train_row)
                made.append(RowPair(KIND, row, name, train_row, left, right))
        return tuple(made)

    def _train_row(self, one: _Found) -> Rows:
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
