"""Ratio of two shares, of separate rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.invert import n_by_scaling, p_from_bounds
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.value_only import ValueOnly


@dataclass(frozen=True, slots=True)
class _Ratio(Estimate):
    """Value and n of a ratio of shares, whatever its bounds are.

    Args:
        first: The share above.
        second: The share below; with no row of it the value takes half a row for it.
    """

    first: Proportion
    second: Proportion

    @property
    def value(self) -> float:
        """The ratio."""
        return (self.first.successes / self.first.n) / (max(self.second.successes, 0.5) / self.second.n)

    @property
    def n(self) -> int:
        """Rows of both."""
        return self.first.n + self.second.n

    @abstractmethod
    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, or None where there is none."""

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows of both, in these shares, for 80 % power; more than 20 times n is given too."""
        if self.value <= 0.0 or threshold <= 0.0:
            return None

        def bound(confidence: float, side: Side) -> float | None:
            # Bounds of a ratio lie about evenly to either side on the scale of its logarithm.
            limit = self.bound(confidence, side)
            return None if limit is None or limit <= 0.0 else math.log(limit)

        return n_by_scaling(math.log(self.value), self.n, bound, math.log(threshold), alpha)


@dataclass(frozen=True, slots=True)
class ShareRatio(_Ratio):
    """The first share over the second, of independent rows.

    Decided by where the rows that count lie: of all of them, the share in the first group is binomial if counts are
    Poisson, at the odds ratio x rows : rows. Counts out of a number of rows spread less than that, so that the test
    errs no more often than it says, whatever the shares.

    Args:
        first: The share above.
        second: The share below; with no row of it the value takes half a row for it.

    References:
        Przyborowski and Wilenski (1940), Biometrika 31; Clopper and Pearson (1934), Biometrika 26.
    """

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return "exact binomial on where the rows that count lie"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; None where the ratio has no upper one, since no row of the second group counts."""
        from scipy.special import betaincinv

        ours, theirs, alpha = self.first.successes, self.second.successes, 1.0 - confidence
        if side == "lower":
            share = 0.0 if ours <= 0 else float(betaincinv(ours, theirs + 1.0, alpha))
        elif theirs <= 0:
            return None
        else:
            share = float(betaincinv(ours + 1.0, theirs, confidence))
        return share / (1.0 - share) * self.second.n / self.first.n

    def p_value(self, threshold: float, side: Side) -> float:
        """The binomial tail at the threshold."""
        from scipy.special import betainc, betaincc

        ours, theirs = self.first.successes, self.second.successes
        if threshold <= 0.0:
            return 0.0 if side == "lower" else 1.0
        share = threshold * self.first.n / (threshold * self.first.n + self.second.n)
        if side == "lower":
            return 1.0 if ours <= 0 else float(betainc(ours, theirs + 1.0, share))
        return 1.0 if theirs <= 0 else float(betaincc(ours + 1.0, theirs, share))


@dataclass(frozen=True, slots=True)
class ClusteredShareRatio(_Ratio):
    """The first share over the second where rows come in clusters, which may lie in both.

    From the bounds of the two shares at half the level each, so that nothing is asked of how they depend on each other.

    Args:
        first: The share above.
        second: The share below; with no row of it the value takes half a row for it.
    """

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"two bounds at half the level each: {self.first.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; None where one of the shares has none, or the second may be 0."""
        level = 1.0 - (1.0 - confidence) / 2.0
        other: Side = "upper" if side == "lower" else "lower"
        above, below = self.first.bound(level, side), self.second.bound(level, other)
        return None if above is None or not below else above / below

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The level at which the bound reaches the threshold."""
        if self.first.bound(0.95, side) is None or self.second.bound(0.95, "upper") is None:
            return None
        return p_from_bounds(self.bound, threshold, side)


def ratio_of_shares(first: Proportion, second: Proportion) -> Estimate:
    """Ratio of the first share to the second, of separate rows.

    Args:
        first: Of one group.
        second: Of another, with no row of the first.

    Returns:
        The ratio with exact bounds for independent rows, or bounds of both shares where there are clusters; no value
        where no row counts in either group, or one has no rows.
    """
    n = first.n + second.n
    if not first.n or not second.n:
        return ValueOnly(None, n, "no bound: one of the two groups has no rows")
    if first.successes <= 0 and second.successes <= 0:
        return ValueOnly(None, n, "no bound: no row counts in either group, so that there is no ratio")
    if first.clusters is None and second.clusters is None:
        return ShareRatio(first, second)
    return ClusteredShareRatio(first, second)
