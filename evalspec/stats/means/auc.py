"""Area under the ROC curve: DeLong on the logit, a bound for few wrong pairs, paired DeLong for two models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.clusters import cluster_codes, cluster_sums, degrees_of
from evalspec.stats.invert import NByScaling
from evalspec.stats.means.bounded_area import bounded_area
from evalspec.stats.tails import upper_tail
from evalspec.stats.types import BoolArray, FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

FEWEST_WRONG = 4.0
"""(1 - AUC) x rows of the smaller class from which on DeLong's variance can be trusted."""
ONE_CLUSTER = "no bound: all rows are one cluster; needs at least 2"
FEW_WRONG = f"Gaffke's bound of the placements: DeLong needs (1 - AUC) x rows of the smaller class of {FEWEST_WRONG:g}"


@dataclass(frozen=True, slots=True)
class LogitAuc(NByScaling):
    """An AUC with DeLong's variance, on the logit.

    Args:
        value: The AUC, in 0..1, not at an end.
        n: Rows.
        standard_error: DeLong's.
        degrees: Of freedom, where the variance is one over clusters or carried by few rows; None: normal.
        name: Of the method; default: what the degrees tell.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44; Obuchowski (1997), Biometrics 53 (clusters);
        Pepe (2003), The Statistical Evaluation of Medical Tests, 5.2 (logit).
    """

    value: float
    n: int
    standard_error: float
    degrees: float | None = None
    name: str | None = None

    @property
    def method(self) -> str:
        """Method of the bounds."""
        if self.name is not None:
            return self.name
        return "DeLong on the logit" if self.degrees is None else "DeLong on the logit, over clusters"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, in 0..1."""
        step = quantile(confidence, self.degrees) * self._logit_error
        return _expit(logit(self.value) + (-step if side == "lower" else step))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Wald's test on the logit."""
        if not 0.0 < threshold < 1.0:
            return 0.0 if (threshold <= 0.0) == (side == "lower") else 1.0
        z = (logit(self.value) - logit(threshold)) / self._logit_error
        return upper_tail(z if side == "lower" else -z, self.degrees)

    @property
    def _logit_error(self) -> float:
        return self.standard_error / (self.value * (1.0 - self.value))


@dataclass(frozen=True, slots=True)
class NormalDifference(NByScaling):
    """A difference with a normal (with clusters: t) interval.

    Args:
        value: The difference.
        n: Rows.
        standard_error: Of the difference.
        method: How the standard error is made.
        degrees: Of freedom, where the variance is one over clusters; None: normal.
    """

    value: float
    n: int
    standard_error: float
    method: str
    degrees: float | None = None

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound."""
        step = quantile(confidence, self.degrees) * self.standard_error
        return self.value - step if side == "lower" else self.value + step

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Wald's test."""
        z = (self.value - threshold) / self.standard_error
        return upper_tail(z if side == "lower" else -z, self.degrees)


@dataclass(frozen=True, eq=False)
class Placements:
    """Placement of each row, which is its part in an AUC.

    Args:
        value: The AUC.
        scores: shape (n,): for a positive row the share of negatives below it, for a negative one the share of
            positives above it (ties count half).
        positive: shape (n,).
    """

    value: float
    scores: FloatArray = field(repr=False)
    positive: BoolArray = field(repr=False)


@dataclass(frozen=True, eq=False)
class PairedAuc(Comparison):
    """The AUC of two models on the same rows.

    Args:
        candidate: The candidate's placements.
        baseline: The baseline's.
        codes: shape (n,), cluster of each row as 0..G-1, or None.
        groups: G, 0 without clusters.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44.
    """

    candidate: Placements
    baseline: Placements
    codes: IntArray | None = None
    groups: int = 0

    @property
    def candidate_value(self) -> float | None:
        """The candidate's AUC."""
        return self.candidate.value

    @property
    def baseline_value(self) -> float | None:
        """The baseline's AUC."""
        return self.baseline.value

    def difference(self, factor: float = 1.0, margin: float = 0.0) -> Estimate:
        """Estimate of candidate - factor x baseline; ``margin`` is not needed."""
        value = self.candidate.value - factor * self.baseline.value
        n, positive = len(self.candidate.positive), self.candidate.positive
        smaller = min(int(positive.sum()), n - int(positive.sum()))
        influence = self.candidate.scores - factor * self.baseline.scores
        if min(_wrong(self.candidate.value, smaller), _wrong(self.baseline.value, smaller)) < FEWEST_WRONG:
            if self.codes is not None and self.groups < 2:
                return ValueOnly(value, n, ONE_CLUSTER)
            return bounded_area(
                influence, positive, self.codes, self.groups, limits=(-factor, 1.0), name=f"{FEW_WRONG} for both models"
            )
        spread = spread_of(Placements(value, influence, positive), self.codes, self.groups)
        if spread is None or spread.error <= 1e-12:
            return ValueOnly(value, n, "no bound: the two models order all rows alike, or all rows are one cluster")
        name = "paired DeLong" if spread.degrees is None else f"paired DeLong over {self.groups} clusters"
        return NormalDifference(value, n, spread.error, name, spread.degrees)


def roc_auc(scores: FloatArray, positive: BoolArray, clusters: IntArray | None = None) -> Estimate:
    """Area under the ROC curve.

    Args:
        scores: shape (n,), higher for positives.
        positive: shape (n,).
        clusters: shape (n,), cluster of each row, or None where rows are independent.

    Returns:
        The estimate, in 0..1. Near 1, where (1 - AUC) x rows of the smaller class is under 4, its bounds are Gaffke's;
        without rows of both classes it has no value.

    Raises:
        InputError: A score isn't finite, or the arrays differ in length.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44; Gaffke (2005), Mathematical Methods of
        Statistics 14.
    """
    placed = placements(scores, positive)
    n = len(np.asarray(positive))
    if placed is None:
        return ValueOnly(None, n, "no value: an AUC needs rows of both classes")
    smaller = min(int(placed.positive.sum()), n - int(placed.positive.sum()))
    codes, groups = (None, 0) if clusters is None else cluster_codes(clusters, n)
    if _wrong(placed.value, smaller) < FEWEST_WRONG:
        if codes is not None and groups < 2:
            return ValueOnly(placed.value, n, ONE_CLUSTER)
        return bounded_area(placed.scores, placed.positive, codes, groups, name=FEW_WRONG)
    spread = spread_of(placed, codes, groups)
    if spread is None or spread.error <= 0.0:
        return ValueOnly(placed.value, n, "no bound: DeLong needs two rows of each class, in two clusters, that vary")
    return LogitAuc(placed.value, n, spread.error, spread.degrees)


def paired_roc_auc(
    candidate_scores: FloatArray,
    baseline_scores: FloatArray,
    positive: BoolArray,
    clusters: IntArray | None = None,
) -> PairedAuc:
    """Compare the AUC of two models on the same rows.

    Args:
        candidate_scores: shape (n,), higher for positives.
        baseline_scores: shape (n,).
        positive: shape (n,).
        clusters: shape (n,), or None.

    Returns:
        The comparison.

    Raises:
        InputError: A score isn't finite, the arrays differ in length, or a class has no rows.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44.
    """
    first, second = placements(candidate_scores, positive), placements(baseline_scores, positive)
    if first is None or second is None:
        raise InputError("an AUC needs rows of both classes, and here is only one")
    n = len(first.positive)
    codes, groups = (None, 0) if clusters is None else cluster_codes(clusters, n)
    return PairedAuc(first, second, codes, groups)


def placements(scores: FloatArray, positive: BoolArray) -> Placements | None:
    """Placement of each row among the rows of the other class, from one sort; None without rows of both.

    Raises:
        InputError: A score isn't finite, or the arrays differ in length.

    References:
        Sun and Xu (2014), Fast implementation of DeLong's algorithm, IEEE Signal Processing Letters 21.
    """
    values, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=np.bool_)
    if values.shape != is_positive.shape:
        raise InputError(f"{values.shape[0]} scores for {is_positive.shape[0]} rows")
    if not np.isfinite(values).all():
        raise InputError(f"{int(np.count_nonzero(~np.isfinite(values)))} of {values.shape[0]} scores are not finite")
    positives = int(np.count_nonzero(is_positive))
    negatives = len(values) - positives
    if positives == 0 or negatives == 0:
        return None
    order = np.argsort(values)
    own, sorted_values = is_positive[order], values[order]
    to_here = np.cumsum(own, dtype=np.float64)
    below, above = np.arange(1.0, len(values) + 1.0) - to_here, positives - to_here
    rising = sorted_values[1:] > sorted_values[:-1]
    if not rising.all():
        # Of rows with the same score half count.
        starts = np.flatnonzero(np.append(True, rising))
        ends = np.append(starts[1:], len(values))
        tied = np.repeat(np.add.reduceat(own.astype(np.float64), starts), ends - starts)
        rows, last = np.repeat((ends - starts).astype(np.float64), ends - starts), np.repeat(ends - 1, ends - starts)
        below, above = below[last] - 0.5 * (rows - tied), above[last] + 0.5 * tied
    placed = np.empty(len(values))
    placed[order] = np.where(own, below / negatives, above / positives)
    return Placements(float(placed[is_positive].mean()), placed, is_positive)


@dataclass(frozen=True, slots=True)
class AreaSpread:
    """Standard error of an AUC or of a difference of two.

    Args:
        error: The standard error.
        degrees: Of freedom, where it comes from clusters; None: normal.
    """

    error: float
    degrees: float | None


def spread_of(placed: Placements, codes: IntArray | None, groups: int) -> AreaSpread | None:
    """DeLong's standard error, with clusters Obuchowski's; None where there are too few rows or clusters.

    Args:
        placed: Placements, or a difference of them.
        codes: shape (n,), cluster of each row as 0..G-1, or None.
        groups: G.
    """
    positives = int(placed.positive.sum())
    negatives = len(placed.positive) - positives
    if codes is not None and groups < len(codes):
        if groups < 2:
            return None
        residuals = placed.scores - placed.value
        sums = cluster_sums(np.where(placed.positive, residuals / positives, residuals / negatives), codes, groups)
        return AreaSpread(math.sqrt(float(np.sum(sums**2)) * groups / (groups - 1)), degrees_of(sums))
    if min(positives, negatives) < 2:
        return None
    inside = float(placed.scores[placed.positive].var(ddof=1)) / positives
    return AreaSpread(math.sqrt(inside + float(placed.scores[~placed.positive].var(ddof=1)) / negatives), None)


def quantile(confidence: float, degrees: float | None) -> float:
    """Normal quantile, or that of t."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(confidence)) if degrees is None else float(stdtrit(degrees, confidence))


def _wrong(value: float, smaller: int) -> float:
    return min(value, 1.0 - value) * smaller


def logit(share: float) -> float:
    """Logarithm of the odds."""
    return math.log(share / (1.0 - share))


def _expit(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0
