"""Rows of several columns, of numbers or of arrays: equal ones and near ones, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evalspec.checks.data.contamination.detector import Level, RowPair, TestSide
from evalspec.checks.data.contamination.first_match import FirstMatches, SetMatches
from evalspec.language.states import State, Value
from evalspec.sources.reading.rows import row_digests
from evalspec.stats.sets.duplicates import DigestIndex
from evalspec.tables.comparable import Nearness, RowComparison, comparable, family


@dataclass
class NearMethod:
    """How near rows were looked for.

    Args:
        name: In words; empty: no row was seen.
        recall: Share of what lies just at the limit that is found.
    """

    name: str = ""
    recall: float = 1.0

    def merge(self, later: NearMethod) -> None:
        """Take over how later rows were looked for."""
        if later.name:
            self.name, self.recall = later.name, later.recall

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return {"name": self.name, "recall": self.recall}

    @classmethod
    def of_fields(cls, fields: State) -> NearMethod:
        """The method of which these are the fields."""
        return cls(fields.scalar("name"), fields.scalar("recall"))


class TableDetector:
    """Equal and near rows, each column by the rule of its type.

    Args:
        asked: The test side.
        nearness: What counts as near.
        rng: For what is drawn.
    """

    def __init__(self, asked: TestSide, nearness: Nearness, rng: np.random.Generator) -> None:
        self._asked, self._nearness, self._rng, self.columns = asked, nearness, rng, asked.named
        self._digests = DigestIndex(asked.digests, asked.usable)
        self._exact, self._near = FirstMatches(asked, "equal"), FirstMatches(asked, "nearly equal")
        self._method = NearMethod()

    @property
    def draws(self) -> bool:
        """True where it draws rows at random, to look for arrays, so that rows must come one after the other."""
        return any(family(column.type) == "array" for column in self._asked.ours.schema)

    def fresh(self) -> TableDetector:
        """The same one, without any training set."""
        other = copy(self)
        other._exact, other._near = (FirstMatches(self._asked, one.title) for one in (self._exact, self._near))
        return other

    @property
    def now(self) -> tuple[SetMatches, SetMatches, NearMethod]:
        """Matches in the training set that goes by, and how near ones were looked for."""
        return self._exact.now, self._near.now, self._method

    def take(self, found: Sequence[Any]) -> None:
        """Take over what was found in the training set that goes by."""
        exact, near, method = found
        self._exact.take(exact)
        self._near.take(near)
        self._method.merge(method)

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        self._exact.begin(train_set)
        self._near.begin(train_set)
        self._method = NearMethod(self._method.name, self._method.recall)

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Look at some training rows.

        Raises:
            InputError: A column is of a type that can't be compared.
        """
        theirs = comparable(rows, self._asked.columns, self._asked.ours)
        tests, trains = self._digests.find(row_digests(theirs))
        self._exact.add(tests, trains, np.full(len(tests), np.nan), rows, first_row)
        rest = np.flatnonzero(self._asked.usable & self._exact.open & self._near.open)
        ours = self._asked.ours
        some = ours if len(rest) == ours.num_rows else ours.take(pa.array(rest))
        near = RowComparison(theirs, some, self._nearness, ranges=ours).near(self._rng)
        self._method.name, self._method.recall = near.method, near.recall
        found = np.flatnonzero(near.found)
        self._near.add(rest[found], near.train_row[found], near.closeness[found], rows, first_row)

    def levels(self) -> tuple[Level, ...]:
        """Equal and near."""
        columns, method = self._asked.columns, self._method
        what = f"equal in {', '.join(columns)}" if len(columns) <= 4 else f"equal in {len(columns)} columns"
        exact = self._exact.level("exact", "exact_duplicates", f"{what}, digests of 128 bits")
        return (exact, self._near.level("near", "near_duplicates", method.name, method.recall, but=exact))

    def pairs(self) -> tuple[RowPair, ...]:
        """Some of each level."""
        return (*self._exact.pairs("exact"), *self._near.pairs("near"))
