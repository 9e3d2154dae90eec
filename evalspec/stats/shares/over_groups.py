"""A percentile over groups: at least nine in ten users get so much, where each user is known by a few rows only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.binomial import above, at_most
from evalspec.stats.invert import far_side
from evalspec.stats.shares.proportion import rows_for_power
from evalspec.stats.types import FloatArray

HOLDING = 0.2
"""A group is shown to be good enough at this level of its own."""
VIOLATED = 0.05
"""A group is shown not to be good enough at this level of its own."""


@dataclass(frozen=True, eq=False)
class OverGroups(Estimate):
    """The value that all but a share of the groups reach, in the population that the groups were drawn from.

    Each group has bounds of its own, at a level that is fixed beforehand; then groups are counted. A group below the
    threshold is shown to reach it in at most 20 % of samples, so that where more than a tenth of all groups lie below,
    the groups not shown are at least Binomial(K, 0.1 x 0.8): PASS when they are fewer than that can be. A group that
    reaches it is shown to lie below in at most 5 %, so that the groups shown to lie below are at most
    Binomial(K, 0.1 + 0.9 x 0.05): FAIL when they are more. Rows within a group make its bounds wide; they are never
    mixed up with how much groups differ. What holds for the population holds for these K groups as well.

    Args:
        values: shape (K,), of each group.
        holding: shape (K,), each group's bound towards worse at 80 %: the lower one where higher is better.
        violated: shape (K,), each group's bound towards better at 95 %.
        share: Of groups that may be worse, in 0..1.
        higher: Higher is better.

    References:
        Clopper and Pearson (1934), Biometrika 26; David and Nagaraja (2003), Order Statistics, 7.1; Koh et al. (2021),
        WILDS, ICML.
    """

    values: FloatArray = field(repr=False)
    holding: FloatArray = field(repr=False)
    violated: FloatArray = field(repr=False)
    share: float = 0.1
    higher: bool = True

    @property
    def value(self) -> float | None:
        """The plain percentile of the groups' values, by linear interpolation as WILDS has it; None without groups.

        Groups of few rows spread more than their truth does, so that it lies too far out.
        """
        if not len(self.values):
            return None
        return float(np.quantile(self.values, self.share if self.higher else 1.0 - self.share))

    @property
    def n(self) -> int:
        """Groups."""
        return len(self.values)

    @property
    def method(self) -> str:
        """Method of the bounds, and from how many groups on there is one."""
        text = f"count over {self.n} groups (binomial), each by its own {100 * (1 - HOLDING):g} % bound"
        least = math.ceil(math.log(0.05) / math.log1p(-self._missed))
        if self.n >= least:
            return text
        return f"{text}; no bound: {self.n} groups; at 95 % it takes {least}, all of them shown"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound: a group's own, the one up to which enough groups are counted; None with too few groups."""
        k, alpha = self.n, 1.0 - confidence
        counts = np.arange(k + 1)
        if self._holds(side):
            allowed = np.flatnonzero(at_most(counts, k, self._missed) <= alpha)
            place = int(allowed[-1]) if len(allowed) else k
            ordered = self._worst_first(self.holding)
        else:
            needed = np.flatnonzero(above(counts - 1, k, self._alarmed) <= alpha)
            place = int(needed[0]) - 1 if len(needed) else k
            ordered = self._worst_first(self.violated)
        if place >= k:
            return None
        limit = float(ordered[place])
        return limit if math.isfinite(limit) else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The binomial tail of the groups that are not shown to hold (or that are shown to violate) the threshold."""
        if not self.n:
            return None
        if self._holds(side):
            return float(at_most(self._not_shown(threshold), self.n, self._missed))
        reached = self.violated <= threshold if self.higher else self.violated >= threshold
        return float(above(int(np.count_nonzero(reached)) - 1, self.n, self._alarmed))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Groups, of as many rows as these have, for 80 % power; None where it takes more rows in each."""
        side = far_side(self.value, threshold)
        if side is None:
            return None
        if self._holds(side):
            truth, null = self._not_shown(threshold) / self.n, self._missed
            return rows_for_power(truth, null, alpha) if truth < null else None
        reached = self.violated <= threshold if self.higher else self.violated >= threshold
        truth = float(np.mean(reached))
        return rows_for_power(truth, self._alarmed, alpha) if truth > self._alarmed else None

    @property
    def _missed(self) -> float:
        """Chance at least that a group drawn from too bad a population is not shown to hold."""
        return self.share * (1.0 - HOLDING)

    @property
    def _alarmed(self) -> float:
        """Chance at most that a group drawn from a good enough population is shown to violate."""
        return self.share + (1.0 - self.share) * VIOLATED

    def _holds(self, side: Side) -> bool:
        return (side == "lower") == self.higher

    def _not_shown(self, threshold: float) -> int:
        missed = self.holding < threshold if self.higher else self.holding > threshold
        return int(np.count_nonzero(missed))

    def _worst_first(self, bounds: FloatArray) -> FloatArray:
        return np.sort(bounds) if self.higher else -np.sort(-bounds)


def share_bounds(hits: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's bounds of the shares of many groups of independent rows.

    Args:
        hits: shape (K,), rows that count.
        rows: shape (K,), rows, at least one each.

    Returns:
        Lower bounds at 80 % and upper ones at 95 %, shape (K,) each.
    """
    from scipy.special import betaincinv

    some, lacking = np.maximum(hits, 1.0), np.maximum(rows - hits, 1.0)
    lower = np.where(hits > 0, betaincinv(some, rows - some + 1.0, HOLDING), 0.0)
    upper = np.where(hits < rows, betaincinv(rows - lacking + 1.0, lacking, 1.0 - VIOLATED), 1.0)
    return lower, upper
