"""Test rows that share something with other rows, as `leakage` counts and shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Fact, Measured
from evalspec.evidence.words import first_of, plural

Rows = NDArray[np.int64]


def counted(rows: int) -> str:
    """A number of rows, in words."""
    return plural(rows, "row")


@dataclass(frozen=True)
class Shared:
    """Test rows that a metric counts, each with a row that gives it away.

    Args:
        metric: Name of the metric.
        rows: shape (k,), rising, test rows.
        partners: shape (k,), rows of ``sets[partner_sets]``; -1: it needs none.
        partner_sets: shape (k,), index into ``sets``; -1: it needs none.
        sets: Names of the sets that partners are in.
        among: Test rows that could be counted.
        method: How they were counted.
        withhold: Why it is not shown to hold, even where nothing was found.
        notes: Sentences for the reader.
        by_chance: What a split at random would give.
    """

    metric: str
    rows: Rows
    partners: Rows
    partner_sets: Rows
    sets: tuple[str, ...]
    among: int
    method: str
    withhold: str | None = None
    notes: tuple[str, ...] = ()
    by_chance: float | None = None

    @property
    def measured(self) -> Measured:
        """The fact."""
        first = first_of([self._named(index) for index in range(min(2, len(self.rows)))], len(self.rows))
        fact = Fact(float(len(self.rows)), self.among, f"counted: {self.method}", first=first)
        return Measured(fact, withhold=self.withhold)

    def _named(self, index: int) -> str:
        """Name of a row, and of the row that gives it away."""
        row, partner = int(self.rows[index]), int(self.partners[index])
        beside = f" (row {partner:,} of {self.sets[int(self.partner_sets[index])]})" if partner >= 0 else ""
        return f"row {row:,}{beside}"
