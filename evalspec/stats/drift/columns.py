"""Summaries of a column whose values arrive in parts: bounded in size, and any two can be merged into one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from evalspec.language.states import State, Value, under
from evalspec.stats.drift.ranks import Ranks, RankSketch
from evalspec.stats.types import FloatArray

MOST_CATEGORIES = 10_000
"""Different values of which each is counted; a column with more is no column of categories."""
MOST_CHARACTERS = 32 * 2**20
"""Characters of all values that are counted, together."""
_KEPT = ("missing", "nan", "infinite", "n", "low", "high", "mean", "squares")
"""Fields of `Numbers` that are plain numbers."""


class Numbers:
    """Counts, extremes, moments and ranks of a column of numbers.

    Args:
        missing: Cells without a value.
        nan: Cells that are not a number.
        infinite: Cells that are infinite.
        n: All others: finite numbers.
        low: The smallest finite number; infinite where there is none.
        high: The largest, likewise.
        mean: Of the finite numbers; 0 where there is none.
        squares: Sum of their squared differences from the mean.

    References:
        Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37.
    """

    def __init__(self) -> None:
        self.missing = self.nan = self.infinite = self.n = 0
        self.low, self.high = math.inf, -math.inf
        self.mean = self.squares = 0.0
        self._sketch = RankSketch()
        self._ranks: Ranks | None = None

    def update(self, values: FloatArray, missing: int = 0) -> None:
        """More cells.

        Args:
            values: shape (n,), NaN where the cell has no value.
            missing: Cells of these that have none; all other NaN are no numbers.
        """
        finite = np.isfinite(values)
        count = int(np.count_nonzero(finite))
        if count < len(values):
            nan = int(np.count_nonzero(np.isnan(values)))
            self.nan += nan - missing
            self.infinite += len(values) - count - nan
            values = values[finite]
        self.missing += missing
        if not count:
            return
        self._ranks = None
        self._sketch.update(values)
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        mean = float(values.mean())
        # A product of a library of linear algebra has other bits on another processor.
        apart = values - mean
        self._moments(count, mean, float(np.add.reduce(apart * apart)))

    def _moments(self, n: int, mean: float, squares: float) -> None:
        total = self.n + n
        apart = mean - self.mean
        self.squares += squares + apart**2 * self.n * n / total
        self.mean += apart * n / total
        self.n = total

    def merge(self, other: Numbers) -> None:
        """Take over what another one has seen."""
        self.missing += other.missing
        self.nan += other.nan
        self.infinite += other.infinite
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        if other.n:
            self._moments(other.n, other.mean, other.squares)
        self._sketch.merge(other._sketch)
        self._ranks = None

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return {name: getattr(self, name) for name in _KEPT} | under("sketch", self._sketch.fields())

    @classmethod
    def of_fields(cls, fields: State) -> Numbers:
        """The summary of which these are the fields."""
        numbers = cls()
        for name in _KEPT:
            setattr(numbers, name, fields.scalar(name))
        numbers._sketch = RankSketch.of_fields(fields.at("sketch"))
        return numbers

    @property
    def absent(self) -> int:
        """Cells without a finite number."""
        return self.missing + self.nan + self.infinite

    @property
    def variance(self) -> float | None:
        """Variance of the population, from the sample; None below two numbers."""
        return self.squares / (self.n - 1) if self.n > 1 else None

    def ranks(self) -> Ranks:
        """Ranks of the numbers: how many of them lie below any point."""
        if self._ranks is None:
            self._ranks = self._sketch.ranks()
        return self._ranks


class CategoryCounts:
    """Counts of each value of a column.

    Args:
        missing: Cells without a value.
        n: Cells with one.
        overflown: There are more different values, or longer ones, than are counted; then none is.
    """

    def __init__(self) -> None:
        self.missing = self.n = 0
        self.overflown = False
        self._counts: Counter[str] = Counter()
        self._characters = 0

    def update(self, counts: Mapping[str, int], missing: int = 0) -> Mapping[str, int]:
        """More cells: how many of each value, and without one.

        Returns:
            What is given up where there are too many by now: the counts of all cells so far; else nothing.
        """
        self.missing += missing
        self.n += sum(counts.values())
        if self.overflown:
            return {}
        self._characters += sum(len(name) for name in counts if name not in self._counts)
        self._counts.update(counts)
        if len(self._counts) > MOST_CATEGORIES or self._characters > MOST_CHARACTERS:
            self.overflown, given_up = True, self._counts
            self._counts = Counter()
            return given_up
        return {}

    def merge(self, other: CategoryCounts) -> None:
        """Take over what another one has seen."""
        self.update(other._counts)
        self.missing += other.missing
        self.n += other.n - sum(other._counts.values())
        if other.overflown:
            self.overflown = True
            self._counts = Counter()

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        counts = np.fromiter(self._counts.values(), np.int64, len(self._counts))
        return {
            "missing": self.missing, "n": self.n, "overflown": self.overflown, "characters": self._characters,
            "names": list(self._counts), "counts": counts,
        }  # fmt: skip

    @classmethod
    def of_fields(cls, fields: State) -> CategoryCounts:
        """The counts of which these are the fields."""
        found = cls()
        found.missing, found.n, found.overflown, found._characters = (
            fields.scalar(name) for name in ("missing", "n", "overflown", "characters")
        )
        found._counts = Counter(dict(zip(fields.texts("names"), fields.numbers("counts").tolist(), strict=True)))
        return found

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows of each value; empty where there are too many."""
        return self._counts
