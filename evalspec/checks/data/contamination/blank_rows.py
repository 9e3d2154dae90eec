"""Rows that hold nothing to compare: whether they occur in training can't be known.

A training row in which a text is there and holds nothing is known: nothing of the test set is in it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.checks.data.contamination.detector import Level, Mask, RowPair, TestSide
from evalspec.errors import InputError
from evalspec.evidence.estimate import Fact, Measured
from evalspec.evidence.reasons import NoEvidence
from evalspec.sources.reading.open import missing_values
from evalspec.tables.comparable import comparable, empty_rows, family
from evalspec.tables.shared_rows import counted


class BlankRows:
    """Counts training rows that hold nothing in the compared columns. Implements `Detector`.

    Args:
        asked: The test side.
        blank: Training set: rows that hold nothing.
        missing: Those of them in which a value is missing; all others hold blank texts.
    """

    def __init__(self, asked: TestSide) -> None:
        self.columns = asked.columns
        self.blank: dict[str, int] = {}
        self.missing: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self._held: dict[str, set[str]] = {}
        self._asked_of = {name for name in asked.columns if not missing_values(asked.ours.column(name)).all()}
        self._set = ""

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        self._set = train_set
        self.blank[train_set] = self.missing[train_set] = self.rows[train_set] = 0
        self._held[train_set] = set()

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Count the rows that are blank."""
        compared = rows.select(list(self.columns))
        blank = _blank(compared)
        self.blank[self._set] += int(blank.sum())
        if blank.any():
            gone = [missing_values(column) for column in compared.columns]
            self.missing[self._set] += int((blank & np.logical_or.reduce(gone)).sum())
        self.rows[self._set] += rows.num_rows
        held = self._held[self._set]
        held |= {name for name in self._asked_of - held if rows.column(name).null_count < rows.num_rows}

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
        empty = next((name for name, count in self.blank.items() if count == self.rows[name]), None)
        if empty is not None:
            raise InputError(
                f"every row of {empty} is missing or empty in what is compared ({', '.join(self.columns)})",
                remedy="compare other columns",
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Training rows that hold blank texts alone."""
        blank = {name: count - self.missing[name] for name, count in self.blank.items()}
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
        counts = {test: int((~usable).sum()), **self.missing}
        rows = [f"{counted(count)} of {name}" for name, count in counts.items() if count]
        if not rows:
            lost = [(name, column) for name, held in self._held.items() for column in sorted(self._asked_of - held)]
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
