"""An area under the ROC curve of few wrong pairs: a bound that counts rows that were not drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evalspec.evidence.estimate import Side
from evalspec.stats.clusters import cluster_sums
from evalspec.stats.exponential_sum import sum_z
from evalspec.stats.means.bounded import SHARE, Limits, Weighted
from evalspec.stats.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class BoundedArea(Weighted):
    """An AUC, or a difference of two on the same rows, where too few pairs are wrong for a variance.

    A positive row is added that stands below all others, and another row above all positive ones. Rows have the random
    weights of `Weighted`; the AUC of the weighted rows is taken to first order in the weights. Of independent rows
    Hoeffding's bound holds too, and is the better one where nearly all pairs are right and the classes are of like
    size: the AUC is an average over ways to pair each row of the smaller class with a row of its own of the larger, so
    that its tail is at most Chernoff's for so many pairs.

    Args:
        positive: shape (u,), sum of the placements of each unit's positive rows: the share of other rows below them.
        positives: shape (u,), positive rows of each unit.
        other: shape (u,), sum of the placements of its other rows: the share of positive rows above them.
        others: shape (u,), other rows of each unit.
        counts: shape (u,), units that are alike.
        n: Rows.
        limits: Of a placement.
        name: Of the method.
        paired: Rows are independent.

    References:
        Hoeffding (1963), Probability inequalities for sums of bounded random variables, JASA 58, sections 2 and 5a.
    """

    positive: FloatArray = field(repr=False)
    positives: FloatArray = field(repr=False)
    other: FloatArray = field(repr=False)
    others: FloatArray = field(repr=False)
    counts: FloatArray = field(repr=False)
    n: int
    limits: Limits
    name: str
    paired: bool

    @property
    def value(self) -> float:
        """The AUC, or the difference."""
        return float(self.counts @ self.positive / (self.counts @ self.positives))

    @property
    def method(self) -> str:
        """Method of the bounds, and the reason for it."""
        return self.name

    @property
    def reach(self) -> Limits:
        """The limits of a placement."""
        return self.limits

    def z(self, at: float, side: Side, times: float = 1.0) -> float:
        low, high = self.limits
        first, second, at = (
            (self.positive - low * self.positives, self.other - low * self.others, at - low)
            if side == "lower"
            else (high * self.positives - self.positive, high * self.others - self.other, high - at)
        )
        most = float(self.positives.max()), float(self.others.max())
        drawn = times * float(self.counts @ self.positives), times * float(self.counts @ self.others)
        m, n = drawn[0] + most[0], drawn[1] + most[1]
        share = times * float(self.counts @ first) / drawn[0] / (high - low)
        # What was not drawn is on the wrong side of all rows of the other kind.
        first, second = first * (drawn[1] / n), second * (drawn[0] / m)
        mean = times * float(self.counts @ first) / m
        centre = (at, mean) if drawn[0] <= drawn[1] else (mean, at)
        own = (centre[0] * self.positives - first) / m + (centre[1] * self.others - second) / n
        weights = np.concatenate((own, [centre[0] * most[0] / m, centre[1] * most[1] / n]))
        weighted = sum_z(weights, np.concatenate((times * self.counts, [1.0, 1.0])))
        if not self.paired:
            return weighted
        return max(weighted, _pairs_z(share, at / (high - low), min(drawn)))


def bounded_area(
    placed: FloatArray,
    positive: BoolArray,
    codes: IntArray | None = None,
    groups: int = 0,
    *,
    limits: Limits = SHARE,
    name: str,
) -> BoundedArea:
    """The bounds of an AUC from what each row adds to it.

    Args:
        placed: shape (n,), of a positive row the share of other rows below it, of another row the share of positive
            ones above it; or a difference of two such.
        positive: shape (n,), rows of the class; there are rows of both kinds.
        codes: shape (n,), cluster of each row as 0..G-1, or None.
        groups: G.
        limits: The smallest and the largest value that ``placed`` can have.
        name: Of the method.
    """
    n = len(placed)
    if codes is None or groups == n:
        ours, their = (np.unique(placed[side], return_counts=True) for side in (positive, ~positive))
        return from_counts(*ours, *their, limits, name)
    first, positives, second, others = (
        cluster_sums(each.astype(np.float64), codes, groups)
        for each in (np.where(positive, placed, 0.0), positive, np.where(positive, 0.0, placed), ~positive)
    )
    name = f"{name}, over {groups} clusters"
    return BoundedArea(first, positives, second, others, np.ones(groups), n, limits, name, paired=False)


def from_counts(
    first: FloatArray, positives: FloatArray | IntArray, second: FloatArray, others: FloatArray | IntArray,
    limits: Limits, name: str,
) -> BoundedArea:  # fmt: skip
    """The same, from placements and how many independent rows have each.

    Args:
        first: shape (k,), placements of positive rows.
        positives: shape (k,), how many rows have each.
        second: shape (l,), of the other rows.
        others: shape (l,).
        limits: Of a placement.
        name: Of the method.
    """
    counts = np.concatenate((positives, others)).astype(np.float64)
    is_first = np.arange(len(counts)) < len(first)
    placed = np.concatenate((first, second))
    some = counts > 0.0
    one, other = is_first[some].astype(np.float64), (~is_first)[some].astype(np.float64)
    placed, counts = placed[some], counts[some]
    n = round(float(counts.sum()))
    return BoundedArea(placed * one, one, placed * other, other, counts, n, limits, name, paired=True)


def _pairs_z(mean: float, at: float, pairs: float) -> float:
    """Normal score of the evidence of so many independent numbers in 0..1 that their mean lies above ``at``."""
    from scipy.special import ndtri_exp, xlogy

    mean = min(mean, 1.0)
    if at <= 0.0 or mean <= at:
        return -math.inf if mean <= at else math.inf
    divergence = float(xlogy(mean, mean / at) + xlogy(1.0 - mean, (1.0 - mean) / (1.0 - at)))
    return -float(ndtri_exp(-pairs * max(0.0, divergence)))
