"""A share that a rough mark tells of all rows, and people of a random sample of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.binomial import drawn_at_most
from evalspec.stats.invert import NByScaling, bound_not_beyond, p_not_beyond
from evalspec.stats.shares.label_errors import true_accuracy
from evalspec.stats.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class AuditedShare(NByScaling):
    """The share by people's word; marks on all rows make its bounds closer where they may.

    The value is post-stratified: how often marked rows count, and rows without a mark, in the sample, weighed by how
    many of all rows are marked. The bound on the side of the middle is MOVER's of these three shares, so that it has
    the errors of the mark in it. The one on the other side, towards 0 or 1, is that of the sample alone: where both
    kinds of error are rare, MOVER takes two shares that can each be 0 for less uncertain than they are (of samples of
    100 rows with a share of 0.5 % its 99.8 % bound missed in 5 %).

    Args:
        weighed: The post-stratified share; the sample alone where one of the two kinds has no row in it, or rows come
            in clusters.
        alone: The share in the sample.

    References:
        Holt and Smith (1979), JRSS A 142; Zou and Donner (2008), Statistics in Medicine 27; Clopper and Pearson (1934),
        Biometrika 26.
    """

    weighed: Estimate
    alone: Estimate

    @property
    def value(self) -> float | None:
        """The share, in 0..1; None without a sample."""
        return self.weighed.value

    @property
    def n(self) -> int:
        """Rows of the sample."""
        return self.alone.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        if self.weighed is self.alone:
            return f"{self.alone.method} of the audited rows"
        return f"{self.weighed.method}; towards {'0' if self._near == 'lower' else '1'} of the audited rows alone"

    @property
    def _near(self) -> Side:
        """The side on which 0 or 1 is near."""
        return "lower" if (self.value or 0.0) <= 0.5 else "upper"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, in 0..1."""
        if self.value is None or side != self._near or self.weighed is self.alone:
            limit = self.weighed.bound(confidence, side)
            return None if limit is None else min(1.0, max(0.0, limit))
        limit = self.alone.bound(confidence, side)
        return None if limit is None else bound_not_beyond(limit, self.value, confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The p-value of whichever gives the bound on this side."""
        if self.value is None or side != self._near or self.weighed is self.alone:
            return self.weighed.p_value(threshold, side)
        p = self.alone.p_value(threshold, side)
        return None if p is None else p_not_beyond(p, self.value, threshold, side)


def audited_share(
    marked: BoolArray, audited: BoolArray, counts: BoolArray, clusters: IntArray | None = None
) -> AuditedShare:
    """The share of rows that count, from a mark on every row and an audited random sample.

    Args:
        marked: shape (n,), rows that the mark takes for such.
        audited: shape (n,), rows that people have looked at, drawn at random.
        counts: shape (n,), rows that count by their word; looked at where audited.
        clusters: shape (n,), cluster of each row, or None where rows are independent.

    Raises:
        InputError: The arrays differ in length.
    """
    found = true_accuracy(marked, audited, marked != counts, counts, clusters)
    return AuditedShare(found.corrected, found.audited)


def p_drawn_evenly(marked: BoolArray, audited: BoolArray) -> float:
    """Exact p-value, two-sided by doubling, that marked rows are as often among the audited as a random draw has them.

    Args:
        marked: shape (n,).
        audited: shape (n,).

    References:
        Fisher (1935), JRSS 98 (the hypergeometric distribution of a draw).
    """
    n, drawn, all_marked = len(marked), int(np.count_nonzero(audited)), int(np.count_nonzero(marked))
    both = int(np.count_nonzero(marked & audited))
    few = drawn_at_most(both, n, all_marked, drawn)
    many = 1.0 if both == 0 else 1.0 - drawn_at_most(both - 1, n, all_marked, drawn)
    return min(1.0, 2.0 * min(few, many))
