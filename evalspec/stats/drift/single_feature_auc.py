"""AUC of one column by itself for a class: its values cut into cells, each with a share, ranked on other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.invert import PFromBounds
from evalspec.stats.means.auc import FEW_WRONG, FEWEST_WRONG, LogitAuc, roc_auc
from evalspec.stats.means.bounded import SHARE
from evalspec.stats.means.bounded_area import from_counts
from evalspec.stats.shares.macro import Transformed
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.types import BoolArray, FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

CELLS = 64
"""Quantiles that numbers are cut at."""
DISTINCT = 256
"""Most distinct numbers of which each is a cell of its own."""
FEWEST_ROWS = 50
FEWEST_OF_CLASS = 20
FEWEST_ELSEWHERE = 20
"""Rows of a class (clusters) beside the most frequent cell from which on DeLong's variance can be trusted."""


@dataclass(frozen=True, slots=True)
class TiedAuc(PFromBounds):
    """An AUC of rows that nearly all stand at the same place.

    DeLong's variance would rest on the few others. Where shares a and b of the two classes stand elsewhere, the AUC
    lies at least (1 - a) (1 - b) / 2 from either end, whatever these say; each share has half the level.

    Args:
        value: The AUC.
        positives: Share of positive rows that stand elsewhere.
        negatives: The same of the others.
    """

    value: float
    positives: Proportion
    negatives: Proportion

    @property
    def n(self) -> int:
        """Rows of both classes."""
        return self.positives.n + self.negatives.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"nearly all rows stand at the same place: {self.positives.method} of those that don't"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, in 0..1."""
        level = 0.5 * (1.0 + confidence)
        elsewhere = self.positives.bound(level, "upper"), self.negatives.bound(level, "upper")
        if elsewhere[0] is None or elsewhere[1] is None:
            return None
        tied = 0.5 * (1.0 - elsewhere[0]) * (1.0 - elsewhere[1])
        return tied if side == "lower" else 1.0 - tied


@dataclass(frozen=True, slots=True)
class GuardedAuc(Estimate):
    """An AUC with few rows of a class beside the most frequent cell.

    DeLong's upper bound then errs in up to 20 % of samples at 95 %, where scores that stand out are rare; its place is
    taken by that of `TiedAuc`, which holds always.

    Args:
        plain: By DeLong's variance, or Gaffke's bound.
        tied: By the rows that stand elsewhere.
    """

    plain: Estimate
    tied: TiedAuc

    @property
    def value(self) -> float | None:
        """The AUC."""
        return self.plain.value

    @property
    def n(self) -> int:
        """Rows of both classes."""
        return self.plain.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"from below {self.plain.method}; from above: {self.tied.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, in 0..1."""
        return self._of(side).bound(confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of the bound on this side."""
        return self._of(side).p_value(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number that decides, by DeLong's variance."""
        return self.plain.n_to_decide(threshold, alpha)

    def _of(self, side: Side) -> Estimate:
        return self.plain if side == "lower" else self.tied


def cuts_of(values: FloatArray) -> FloatArray:
    """Cuts between numbers: each distinct value by itself where there are few, else quantiles.

    Args:
        values: shape (n,), NaN where missing.

    Returns:
        shape (k,), rising; cell i holds the values above cut i - 1 and up to cut i.
    """
    ordered = np.sort(values[np.isfinite(values)])
    if not len(ordered):
        return np.zeros(0)
    rises = np.flatnonzero(np.diff(ordered) > 0)
    if len(rises) < DISTINCT:
        return np.asarray(ordered[rises])
    places = np.linspace(0, len(ordered) - 1, CELLS + 1)[1:-1].astype(np.int64)
    return np.unique(ordered[places])


def cells_of(values: FloatArray, cuts: FloatArray) -> IntArray:
    """The cell of each number.

    Args:
        values: shape (n,), NaN where missing.
        cuts: shape (k,), of `cuts_of`.

    Returns:
        shape (n,), 0..k, and k + 1 where it is missing.
    """
    cells = np.searchsorted(cuts, values, side="left")
    return np.asarray(np.where(np.isfinite(values), cells, len(cuts) + 1), dtype=np.int64)


def shares_of(cells: IntArray, positive: BoolArray, count: int) -> FloatArray:
    """Share of positive rows in each cell, drawn to that of all rows by one row's weight; it is that of empty cells.

    Args:
        cells: shape (n,), 0..count-1.
        positive: shape (n,).
        count: Cells.

    Returns:
        shape (count,).
    """
    rows = np.bincount(cells, minlength=count)
    hits = np.bincount(cells[positive], minlength=count)
    overall = float(positive.mean()) if len(positive) else 0.0
    return np.asarray((hits + overall) / (rows + 1.0))


def auc_of_counts(shares: FloatArray, positives: FloatArray, negatives: FloatArray) -> Estimate:
    """Area under the ROC curve of rows that are ranked by their cell's share; as `roc_auc` of the rows themselves.

    Args:
        shares: shape (k,), of each cell.
        positives: shape (k,), positive rows in each cell.
        negatives: shape (k,), other rows.

    Returns:
        The estimate, in 0..1; without rows of both classes it has no value.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44.
    """
    held = (positives + negatives) > 0
    _, place = np.unique(shares[held], return_inverse=True)
    p, q = (np.bincount(place, weights=side[held]).astype(np.float64) for side in (positives, negatives))
    first, second = float(p.sum()), float(q.sum())
    n, smaller = round(first + second), min(first, second)
    if smaller <= 0:
        return ValueOnly(None, n, "no value: an AUC needs rows of both classes")
    below = (np.cumsum(q) - 0.5 * q) / second
    above = (first - np.cumsum(p) + 0.5 * p) / first
    value = float(p @ below) / first
    top = int(np.argmax(p + q))
    elsewhere = tuple((float(rows.sum() - rows[top]), round(float(rows.sum()))) for rows in (p, q))
    tied = TiedAuc(value, *(Proportion.of_counts(*counts) for counts in elsewhere))
    return _guarded(_by_variance(value, p, q, below, above), tied, [rows for rows, _ in elsewhere])


def _by_variance(value: float, p: FloatArray, q: FloatArray, below: FloatArray, above: FloatArray) -> Estimate:
    """Estimate as `roc_auc` of the rows, from their counts and placements in rising cells."""
    first, second = float(p.sum()), float(q.sum())
    n, smaller = round(first + second), min(first, second)
    if min(value, 1.0 - value) * smaller < FEWEST_WRONG:
        return from_counts(below, p, above, q, SHARE, FEW_WRONG)
    if smaller < 2:
        return ValueOnly(value, n, "no bound: DeLong needs two rows of each class")
    variance = sum(
        float(rows @ (placed - value) ** 2) / (total - 1.0) / total
        for rows, placed, total in ((p, below, first), (q, above, second))
    )
    if variance <= 0.0:
        return ValueOnly(value, n, "no bound: the cells don't rank the rows")
    return LogitAuc(value, n, variance**0.5)


def _guarded(plain: Estimate, tied: TiedAuc, elsewhere: Sequence[float]) -> Estimate:
    """DeLong's where enough rows of either class (clusters) stand beside the most frequent cell."""
    if sum(elsewhere) < FEWEST_ELSEWHERE:
        return tied
    return GuardedAuc(plain, tied) if min(elsewhere) < FEWEST_ELSEWHERE else plain


def separation(shares: FloatArray, cells: IntArray, positive: BoolArray, clusters: IntArray | None = None) -> Estimate:
    """Separation of positive rows from others by a ranking of cells: 2 AUC - 1, and 0 where it is below.

    Args:
        shares: shape (k,), of each cell, from other rows than these.
        cells: shape (n,), cell of each row.
        positive: shape (n,).
        clusters: shape (n,), cluster of each row, or None where rows are independent.

    Returns:
        The estimate, in 0..1, of the population that these rows are drawn from; no bound below 50 rows, or 20 of
        either class.

    Raises:
        InputError: The arrays differ in length.
    """
    if cells.shape != positive.shape:
        raise InputError(f"{len(cells)} cells for {len(positive)} rows")
    if clusters is not None:
        auc = _clustered(shares[cells], positive, clusters)
    else:
        counts = [np.bincount(cells[rows], minlength=len(shares)) for rows in (positive, ~positive)]
        auc = auc_of_counts(shares, *(count.astype(np.float64) for count in counts))
    smaller = min(int(positive.sum()), int((~positive).sum()))
    if auc.value is not None and (len(cells) < FEWEST_ROWS or smaller < FEWEST_OF_CLASS):
        reason = f"no bound: {len(cells)} rows, {smaller} of the rarer class; {FEWEST_ROWS} and {FEWEST_OF_CLASS} are"
        return ValueOnly(_scaled(auc.value), auc.n, f"{reason} needed")
    if isinstance(auc, ValueOnly):
        return ValueOnly(None if auc.value is None else _scaled(auc.value), auc.n, auc.method)
    return Transformed(auc, _scaled, _unscaled, "2 AUC - 1")


def _clustered(scores: FloatArray, positive: BoolArray, clusters: IntArray) -> Estimate:
    """Estimate as `auc_of_counts`, of rows that share clusters."""
    auc = roc_auc(scores, positive, clusters)
    if auc.value is None:
        return auc
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    elsewhere = place != int(np.argmax(counts))
    sides = (positive, ~positive)
    tied = TiedAuc(auc.value, *(proportion(elsewhere[rows], clusters[rows]) for rows in sides))
    return _guarded(auc, tied, [float(len(np.unique(clusters[elsewhere & rows]))) for rows in sides])


def _scaled(auc: float) -> float:
    return max(0.0, 2.0 * auc - 1.0)


def _unscaled(score: float) -> float:
    return 0.5 * (1.0 + score)
