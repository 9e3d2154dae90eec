"""Rows that hold nothing to compare: whether they occur in training can't be known.

A training row in which a text is there and holds nothing is known: nothing of the test set is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.checks.data.contamination.detector import Level, Mask, RowPair, TestSide
from evalspec.errors import InputError
from evalspec.evidence.estimate import Fact, Measured
from evalspec.evidence.reasons import NoEvidence
from evalspec.language.states import State, Value
from evalspec.sources.reading.open import missing_values
from evalspec.tables.comparable import comparable, empty_rows, family
from evalspec.tables.shared_rows import counted


@dataclass
class BlankCounts:
    """Rows of one training set.

    Args:
        rows: All of them.
        blank: Those that hold nothing.
        missing: Those of them in which a value is missing; all others hold blank texts.
        held: Columns, of those that hold something in the test set, with a value.
    """

    rows: int = 0
    blank: int = 0
    missing: int = 0
    held: set[str] = field(default_factory=set)

    def merge(self, later: BlankCounts) -> None:
        """Take over rows that come after."""
        self.rows += later.rows
        self.blank += later.blank
        self.missing += later.missing
        self.held |= later.held

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return {"rows": self.rows, "blank": self.blank, "missing": self.missing, "held": sorted(self.held)}

    @classmethod
    def of_fields(cls, fields: State) -> BlankCounts:
        """The counts of which these are the fields."""
        rows, blank, missing = (fields.scalar(name) for name in ("rows", "blank", "missing"))
        return cls(rows, blank, missing, set(fields.texts("held")))


class BlankRows:
    """Counts training rows that hold nothing in the compared columns. Implements `Detector`.

    Args:
        asked: The test side.
        sets: Training set: its counts.
    """

    def __init__(self, asked: TestSide) -> None:
        self.columns = asked.columns
        self.sets: dict[str, BlankCounts] = {}
        self._asked_of = {name for name in asked.columns if not missing_values(asked.ours.column(name)).all()}
        self._set = ""

    def fresh(self) -> BlankRows:
        """The same one, without any training set."""
        other = copy(self)
        other.sets = {}
        return other

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        self._set = train_set
        self.sets[train_set] = BlankCounts()

    @property
    def now(self) -> tuple[BlankCounts]:
        """Counts of the training set that goes by."""
        return (self.sets[self._set],)

    def take(self, found: Sequence[Any]) -> None:
        """Take over counts of the training set that goes by."""
        self.sets[self._set] = found[0]

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Count the rows that are blank."""
        compared, (counts,) = rows.select(list(self.columns)), self.now
        blank = _blank(compared)
        counts.blank += int(blank.sum())
        if blank.any():
            gone = [missing_values(column) for column in compared.columns]
            counts.missing += int((blank & np.logical_or.reduce(gone)).sum())
        counts.rows += rows.num_rows
        counts.held |= {name for name in self._asked_of - counts.held if rows.column(name).null_count < rows.num_rows}

    def levels(self) -> tuple[Level, ...]:
        """None: it flags no test row."""
        return ()

    def pairs(self) -> tuple[RowPair, ...]:
        """None."""
        return ()

    def refuse(self) -> None:
        """Refuse training sets in which no row holds anything, which would read as no duplicates.

        Raises:
            InputError: There is one.
        """
        empty = next((name for name, one in self.sets.items() if one.blank == one.rows), None)
        if empty is not None:
            raise InputError(
                f"every row of {empty} is missing or empty in what is compared ({', '.join(self.columns)})",
                remedy="compare other columns",
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Training rows that hold blank texts alone."""
        blank = {name: one.blank - one.missing for name, one in self.sets.items()}
        rows = [f"{counted(count)} of {name}" for name, count in blank.items() if count]
        if not rows:
            return ()
        what = ", ".join(self.columns)
        return (f"{' and '.join(rows)} with nothing but blank text in {what}: nothing of the test set is in them.",)

    def unknown(self, test: str, usable: Mask) -> str | None:
        """Why a count can't be shown to hold; None: every row holds something.

        Args:
            test: Name of the test set.
            usable: shape (m,), test rows that hold something.
        """
        counts = {test: int((~usable).sum()), **{name: one.missing for name, one in self.sets.items()}}
        rows = [f"{counted(count)} of {name}" for name, count in counts.items() if count]
        if not rows:
            lost = [(name, column) for name, one in self.sets.items() for column in sorted(self._asked_of - one.held)]
            return f"{lost[0][1]!r} is missing in every row of {lost[0][0]}" if lost else None
        return (
            f"{' and '.join(rows)} without anything in {', '.join(self.columns)}: what they held is not known; "
            "leave such rows out with `where:`, or fill them in"
        )


def withheld(facts: Mapping[str, Fact], why: str | None) -> dict[str, Fact | Measured]:
    """The facts, kept from PASS where rows could not be compared."""
    return {name: fact if why is None else Measured(fact, withhold=NoEvidence(why)) for name, fact in facts.items()}


def _blank(rows: pa.Table) -> Mask:
    """Rows that hold nothing; only those that look so are normalised."""
    looks = np.ones(rows.num_rows, bool)
    for column in rows.columns:
        if not looks.any():
            return looks
        looks &= missing_values(column) | _starts_blank(column)
    some = np.flatnonzero(looks)
    if len(some):
        looks[some] = empty_rows(comparable(rows.take(pa.array(some)), rows.column_names))
    return looks


def _starts_blank(column: pa.ChunkedArray) -> Mask:
    """Texts that don't start with a letter, digit or sign of ASCII, as blank ones don't."""
    if family(column.type) != "text":
        return np.zeros(len(column), bool)
    first = pc.utf8_slice_codeunits(column.cast(pa.large_string()), 0, 1)
    solid = pc.and_(pc.greater(first, " "), pc.less(first, "\x7f"))
    return ~np.asarray(pc.fill_null(solid, False).to_numpy())
