"""Ways in which a test row can occur in training: what a detector is asked, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.evidence.blocks import Example
from evalspec.evidence.words import first_of
from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.hashing import Words

Mask = NDArray[np.bool_]
COPIES = ("exact_duplicates", "near_duplicates", "ngram_overlap")
"""Metrics of rows that a model was trained on; neighbours and shared keys are none."""


@dataclass(frozen=True, slots=True)
class Level:
    """Matches of one way of looking, over all training sets.

    Args:
        kind: One word for it, in evidence: ``exact``, ``near``, ``span``.
        metric: The metric that it counts to: ``exact_duplicates`` (which ``near_duplicates`` counts too),
            ``near_duplicates``, ``ngram_overlap``, or one of rows that are not copies; empty: none.
        title: Head of its column in the table: ``equal``, ``shares a span``.
        rows: shape (m,), test rows that it flags; more than the sets' own together where sets add up.
        in_set: Training set: test rows that it alone flags, shape (m,).
        train_row: Training set: row that each test row was found in, shape (m,); -1: none.
        closeness: Training set: how close, as the method says, shape (m,); NaN: none.
        method: How it was looked for, as it stands in a fact.
        recall: Share of what lies just at the limit that is found.
        what: Column of the evidence: shape (m,), text of what was found (a span), or None.
        judged: shape (m,), rows that it can say something of (long enough for a span); None: all that are compared.
    """

    kind: str
    metric: str
    title: str
    rows: Mask
    in_set: Mapping[str, Mask]
    train_row: Mapping[str, Rows]
    closeness: Mapping[str, NDArray[np.float64]]
    method: str
    recall: float = 1.0
    what: NDArray[np.object_] | None = None
    judged: Mask | None = None


@dataclass(frozen=True, slots=True)
class RowPair:
    """A test row and a training row to be shown side by side."""

    level: str
    test_row: int
    train_set: str
    train_row: int
    test: Example
    train: Example


@dataclass(frozen=True, slots=True)
class TestSide:
    """The test side.

    Args:
        name: Of the test set.
        table: Its rows, m of them, as they were read.
        columns: What is compared.
        key: Column that names a row in examples, or None.
        ours: The compared columns, texts normalised.
        usable: shape (m,), rows that hold something to compare.
        digests: shape (m, 2), of ``ours``.
    """

    name: str
    table: pa.Table
    columns: tuple[str, ...]
    key: str | None
    ours: pa.Table
    usable: Mask
    digests: Words

    @property
    def named(self) -> tuple[str, ...]:
        """Columns compared, and the one that names a row."""
        return tuple(dict.fromkeys((*self.columns, *((self.key,) if self.key else ()))))


class Detector(Protocol):
    """Looks at training rows as they stream past, batch by batch, and keeps no more than the test side is large.

    It is made from the test rows. For each training set `begin` is called once, then `see` for each batch; `levels`
    and `pairs` after the last one.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of training that it reads."""
        ...

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        ...

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Look at some training rows.

        Args:
            rows: n rows with its columns, as they were read.
            first_row: Number of the first of them in its training set.

        Raises:
            InputError: They hold what can't be compared.
        """
        ...

    def levels(self) -> tuple[Level, ...]:
        """Matches of each way of looking."""
        ...

    def pairs(self) -> tuple[RowPair, ...]:
        """A few of what was found, to look at."""
        ...


def contaminated(levels: tuple[Level, ...], rows: int) -> Mask:
    """Test rows that any of the levels flags; shape (m,)."""
    return np.asarray(np.logical_or.reduce([np.zeros(rows, bool), *(level.rows for level in levels)]))


def first_found(levels: Sequence[Level], counted: Mask) -> str:
    """The first test rows that any of the levels found, each with a training row that it was found in.

    Args:
        levels: What was found.
        counted: shape (m,), rows that count.
    """
    rows = np.flatnonzero(contaminated(tuple(levels), len(counted)) & counted)
    return first_of([f"row {row:,}{_found_in(levels, int(row))}" for row in rows[:2]], len(rows))


def _found_in(levels: Sequence[Level], row: int) -> str:
    places = ((name, found[row]) for level in levels for name, found in level.train_row.items() if found[row] >= 0)
    name, found = next(places, ("", -1))
    return f" (row {found:,} of {name})" if name else ""
