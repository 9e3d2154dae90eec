"""Ranks of a sample, how many values lie below any point, from a summary of bounded size that can be merged.

A summary holds some of the values and, for each of them, between which numbers the count of values below it and up to
it lies. While all distinct values fit, the counts are exact. A sample that comes in parts is summarized part by part:
merging adds counts, and pruning leaves values out but never makes a stated bound wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.language.states import State, Value, under
from evalspec.stats.types import BoolArray, FloatArray, IntArray

MOST_POINTS = 1 << 14
"""Values that a summary holds. Where it prunes, the count below a point is known to about one part in so many, times
the logarithm of the number of parts."""
BUFFER = 1 << 18
"""Values that are sorted at a time."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Counts of a sample's values below and up to some of them.

    Args:
        points: shape (k,), rising values; the smallest and the largest of the sample are among them.
        below: shape (2, k), least and most values under each point.
        upto: shape (2, k), least and most values under it or equal to it.
        n: Values of the sample.

    References:
        Greenwald and Khanna (2001), Space-efficient online computation of quantile summaries, SIGMOD. Chen and
        Guestrin (2016), XGBoost, KDD, appendix A (merging and pruning).
    """

    points: FloatArray
    below: IntArray
    upto: IntArray
    n: int

    @classmethod
    def of(cls, values: FloatArray, most: int | None = None) -> Ranks:
        """A sample that is at hand.

        Args:
            values: shape (n,), finite, in any order.
            most: Points at most; None: all values are.
        """
        ordered = np.sort(values)
        n = len(ordered)
        first = _changes(ordered)
        if most is None or np.count_nonzero(first) <= most:
            below = np.flatnonzero(first)
            points, upto = ordered[below], np.append(below[1:], n)[: len(below)]
        else:
            points = ordered[np.linspace(0, n - 1, most).astype(np.int64)]
            points = points[_changes(points)]
            below, upto = (np.searchsorted(ordered, points, side=side) for side in ("left", "right"))
        return cls(points, np.stack((below, below)), np.stack((upto, upto)), n)

    @property
    def exact(self) -> bool:
        """Every value of the sample is a point, so that all counts are known."""
        after = np.concatenate(([0], self.upto[0]))[: len(self.points)]
        return bool((self.below[0] == after).all() and (self.below[1] == after).all())

    def at(self, points: FloatArray) -> tuple[IntArray, IntArray]:
        """Counts below and up to any points.

        Args:
            points: shape (p,).

        Returns:
            Least and most values below each point, and up to it, both shape (2, p).
        """
        place = np.searchsorted(self.points, points, side="left")
        return self._counts(place, np.append(self.points, np.nan).take(place) == points)

    def _counts(self, place: IntArray, known: BoolArray) -> tuple[IntArray, IntArray]:
        """As `at`.

        Args:
            place: shape (p,), how many of the points lie below each.
            known: shape (p,), it is one of the points.
        """
        k = len(self.points)
        # Rows: least and most below, least and most up to. Columns: before each point and after all, then at each.
        # Between two points there are at least all up to the first, and at most all below the second.
        counts = np.empty((4, 2 * k + 1), dtype=np.int64)
        counts[::2, 0], counts[1::2, k] = 0, self.n
        counts[::2, 1 : k + 1], counts[1::2, :k] = self.upto[0], self.below[1]
        counts[:2, k + 1 :], counts[2:, k + 1 :] = self.below, self.upto
        at = place + (k + 1) * known
        found = np.stack([row.take(at) for row in counts])
        return found[:2], found[2:]

    def beside(self, other: Ranks) -> tuple[FloatArray, tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        """The points of both in rising order, shape (p,), and what `at` says of them here and there."""
        mine, theirs = self.points, other.points
        below = np.searchsorted(theirs, mine, side="left")
        equal = np.append(theirs, np.nan).take(below) == mine
        at = np.arange(len(mine)) + below - _before(equal)
        only_theirs = np.ones(len(theirs), dtype=bool)
        only_theirs[below[equal]] = False
        size = len(mine) + int(np.count_nonzero(only_theirs))
        points, is_mine, is_both = np.empty(size), np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        is_mine[at], is_both[at] = True, equal
        points[at], points[~is_mine] = mine, theirs[only_theirs]
        of_mine = _before(is_mine)
        of_theirs = np.arange(size) - of_mine + _before(is_both)
        return points, self._counts(of_mine, is_mine), other._counts(of_theirs, ~is_mine | is_both)

    def merged(self, other: Ranks) -> Ranks:
        """The summary of both samples together."""
        if not self.n or not other.n:
            return self if self.n else other
        points, (first_below, first_upto), (second_below, second_upto) = self.beside(other)
        return Ranks(points, first_below + second_below, first_upto + second_upto, self.n + other.n)

    def pruned(self, most: int = MOST_POINTS) -> Ranks:
        """At most so many points, evenly spread over the sample; both ends stay."""
        if len(self.points) <= most:
            return self
        middle = self.upto.sum(axis=0)
        wanted = np.linspace(0, 2 * self.n, most - 2)
        kept = np.minimum(np.searchsorted(middle, wanted), len(middle) - 1)
        kept = np.concatenate(([0], kept, [len(middle) - 1]))
        kept = kept[_changes(kept)]
        return Ranks(self.points[kept], self.below[:, kept], self.upto[:, kept], self.n)

    def quantile(self, shares: Sequence[float] | FloatArray) -> FloatArray:
        """Points at or under which these shares of the values lie, as near as is known; shape as ``shares``."""
        middle = self.upto.mean(axis=0)
        place = np.searchsorted(middle, np.asarray(shares, dtype=np.float64) * self.n, side="left")
        quantiles: FloatArray = self.points[np.minimum(place, len(self.points) - 1)]
        return quantiles


class RankSketch:
    """`Ranks` of values that come in parts.

    Args:
        most: Points of a summary.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._buffer: list[FloatArray] = []
        self._waiting = 0
        # At place i a summary of 2^i buffers, or none: so any value is pruned as rarely as can be.
        self._levels: list[Ranks | None] = []

    def update(self, values: FloatArray) -> None:
        """More values, shape (n,), finite."""
        if not len(values):
            return
        self._buffer.append(values)
        self._waiting += len(values)
        if self._waiting >= BUFFER:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._add(Ranks.of(np.concatenate(self._buffer), self._most))
            self._buffer, self._waiting = [], 0

    def _add(self, ranks: Ranks, level: int = 0) -> None:
        while level < len(self._levels) and (there := self._levels[level]) is not None:
            ranks = there.merged(ranks).pruned(self._most)
            self._levels[level] = None
            level += 1
        self._levels += [None] * (level + 1 - len(self._levels))
        self._levels[level] = ranks

    def merge(self, other: RankSketch) -> None:
        """Take over what another one has seen."""
        other._flush()
        self._flush()
        for level, ranks in enumerate(other._levels):
            if ranks is not None:
                self._add(ranks, level)

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        self._flush()
        fields: dict[str, Value] = {"most": self._most, "levels": len(self._levels)}
        for level, ranks in enumerate(self._levels):
            if ranks is not None:
                fields |= under(str(level), {name: getattr(ranks, name) for name in ("n", "points", "below", "upto")})
        return fields

    @classmethod
    def of_fields(cls, fields: State) -> RankSketch:
        """The sketch of which these are the fields."""
        sketch = cls(fields.scalar("most"))
        for level in range(fields.scalar("levels")):
            sketch._levels.append(_ranks(fields.at(str(level))))
        return sketch

    def ranks(self) -> Ranks:
        """Ranks of all values so far."""
        self._flush()
        all_ranks = Ranks(np.zeros(0), np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int64), 0)
        for ranks in self._levels:
            if ranks is not None:
                all_ranks = all_ranks.merged(ranks)
        return all_ranks.pruned(self._most)


def _ranks(fields: State) -> Ranks | None:
    if not fields:
        return None
    below, upto = (fields.numbers(name).reshape(2, -1) for name in ("below", "upto"))
    return Ranks(fields.numbers("points"), below, upto, fields.scalar("n"))


def _before(mask: BoolArray) -> IntArray:
    """How many are true before each place."""
    return np.cumsum(mask) - mask


def _changes(rising: NDArray[Any]) -> BoolArray:
    """Mask of the values that differ from the one before, the first one included."""
    changes = np.ones(len(rising), dtype=bool)
    np.not_equal(rising[1:], rising[:-1], out=changes[1:])
    return changes
