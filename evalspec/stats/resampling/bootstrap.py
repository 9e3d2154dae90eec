"""BCa bootstrap for statistics that have no closed form, vectorised over resamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.clusters import cluster_codes, coded, from_zero
from evalspec.stats.invert import FEWEST_CARRYING, NByScaling, carrying
from evalspec.stats.resampling.resample import ResamplingPlan, Weighted, jackknife, replicates
from evalspec.stats.types import FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

Arrays = tuple[NDArray[Any], ...]
Statistic = Callable[[Arrays, FloatArray], FloatArray]
"""Function from rows (first axis of each array) and weights, shape (r, n), to a number a resample, shape (r,).

It may have an attribute ``without_each``: of the arrays alone, the statistic without each row in turn, shape (n,).
"""

FEWEST_RESAMPLES = 9_999
RESAMPLES_BEYOND = 20
FEWEST_OF_A_CLASS = 20
SMALLEST_N = 50
_DRAWING_A_KIND = 8
"""Drawing how often a kind of row occurs takes as long as drawing so many rows."""


def resamples_for(alpha: float) -> int:
    """B: at least 9,999, and 20 resamples beyond the strictest level."""
    return max(FEWEST_RESAMPLES, math.ceil(RESAMPLES_BEYOND / alpha) - 1)


@dataclass(frozen=True, eq=False)
class Bootstrap(NByScaling):
    """A statistic with BCa bounds.

    Args:
        value: The statistic of the sample.
        n: Rows.
        method: What was resampled, with B.
        ordered: shape (B,), replicates in rising order.
        bias: BCa's z0.
        acceleration: BCa's a.

    References:
        Efron (1987), Better bootstrap confidence intervals, JASA 82; Efron and Tibshirani (1993), chapter 14.
    """

    value: float
    n: int
    method: str
    ordered: FloatArray = field(repr=False)
    bias: float
    acceleration: float

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; None where it would lie beyond the last replicate."""
        from scipy.special import ndtr, ndtri

        reach = self.bias + float(ndtri(1.0 - confidence if side == "lower" else confidence))
        if self.acceleration * reach >= 1.0:
            return None
        share = float(ndtr(self.bias + reach / (1.0 - self.acceleration * reach))) * (len(self.ordered) + 1)
        # 1e-9: a level that is exactly at a replicate must not miss it by rounding.
        rank = math.floor(share + 1e-9) if side == "lower" else math.ceil(share - 1e-9)
        return float(self.ordered[rank - 1]) if 1 <= rank <= len(self.ordered) else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The level at which the bound reaches the threshold; never below that of one replicate."""
        from scipy.special import ndtr, ndtri

        b = len(self.ordered)
        if side == "lower":
            share = (int(np.searchsorted(self.ordered, threshold, side="left")) + 1) / (b + 1)
        else:
            share = int(np.searchsorted(self.ordered, threshold, side="right")) / (b + 1)
        if not 0.0 < share < 1.0:
            return 1.0
        distance = float(ndtri(share)) - self.bias
        if 1.0 + self.acceleration * distance <= 0.0:
            return 1.0
        z = distance / (1.0 + self.acceleration * distance) - self.bias
        return float(ndtr(z if side == "lower" else -z))


@dataclass(frozen=True, eq=False)
class PairedStatistic(Comparison):
    """A statistic of two models on the same resamples.

    Args:
        values: The candidate's and the baseline's.
        n: Rows.
        method: What was resampled, with B.
        replicates: shape (B, 2).
        left_out: shape (j, 2), jackknife values.
        stands_for: shape (j,), units that each jackknife value stands for.
        reason: Why there is no bound, or None.
        fewest_carrying: Rows' worth of deviations that must carry the variance.
    """

    values: tuple[float, float]
    n: int
    method: str
    replicates: FloatArray = field(repr=False)
    left_out: FloatArray = field(repr=False)
    stands_for: FloatArray = field(repr=False)
    reason: str | None = None
    fewest_carrying: float = FEWEST_CARRYING

    @property
    def candidate_value(self) -> float | None:
        """The candidate's statistic."""
        return self.values[0]

    @property
    def baseline_value(self) -> float | None:
        """The baseline's statistic."""
        return self.values[1]

    def difference(self, factor: float = 1.0, margin: float = 0.0) -> Estimate:
        """Estimate of candidate - factor x baseline; ``margin`` is not needed."""
        return self._of(lambda pair: np.asarray(pair[..., 0] - factor * pair[..., 1], dtype=np.float64))

    def ratio(self) -> Estimate | None:
        """Estimate of candidate / baseline; None where the baseline's replicates are not all positive."""
        if self.values[1] <= 0 or bool((self.replicates[:, 1] <= 0).any()) or bool((self.left_out[:, 1] <= 0).any()):
            return None
        return self._of(lambda pair: np.asarray(pair[..., 0] / pair[..., 1], dtype=np.float64))

    def _of(self, function: Callable[[FloatArray], FloatArray]) -> Estimate:
        value = float(function(np.asarray(self.values)))
        if self.reason is not None:
            return ValueOnly(value, self.n, self.reason)
        left_out = (function(self.left_out), self.stands_for)
        return from_replicates(value, self.n, self.method, function(self.replicates), left_out, self.fewest_carrying)


def from_replicates(
    value: float,
    n: int,
    method: str,
    drawn: FloatArray,
    left_out: tuple[FloatArray, FloatArray],
    fewest_carrying: float = FEWEST_CARRYING,
) -> Estimate:
    """BCa from replicates and jackknife values.

    Args:
        value: The statistic of the sample.
        n: Rows.
        method: What was resampled.
        drawn: shape (B,), replicates.
        left_out: Jackknife values, shape (j,), and how many units each stands for, shape (j,).
        fewest_carrying: Rows' worth of deviations that must carry the variance.

    Returns:
        The estimate; without bounds where replicates are constant or undefined, or all on one side of the value.
    """
    from scipy.special import ndtri

    ordered = np.sort(drawn)
    # What is not a number lies at the end.
    if not (math.isfinite(ordered[0]) and math.isfinite(ordered[-1]) and np.isfinite(left_out[0]).all()):
        return ValueOnly(value, n, "no bound: the statistic is undefined in some resamples")
    # Equal values of different sums differ in their last digits, and differently on another processor.
    rounding = 1e-12 * (1.0 + abs(value))
    if ordered[-1] - ordered[0] <= rounding:
        return ValueOnly(value, n, "no bound: all resamples give the same value")
    smaller = int(np.searchsorted(ordered, value - rounding, side="left"))
    tied = int(np.searchsorted(ordered, value + rounding, side="right")) - smaller
    below = smaller / len(ordered) + 0.5 * (tied / len(ordered))
    if not 0.0 < below < 1.0:
        return ValueOnly(value, n, "no bound: all resamples lie on one side of the value")
    left, units = left_out
    lead = np.average(left, weights=units) - left
    share = carrying(lead, units) / fewest_carrying
    if share < 1.0:
        reason = f"no bound: few rows carry the variance; like these it has one from about {n / share:,.0f} rows on"
        return ValueOnly(value, n, reason)
    spread = float(units @ lead**2)
    acceleration = float(units @ lead**3) / (6.0 * spread**1.5)
    return Bootstrap(value, n, method, ordered, float(ndtri(below)), acceleration)


def bca(
    statistic: Statistic,
    arrays: Sequence[NDArray[Any]],
    *,
    rng: np.random.Generator,
    alpha: float,
    clusters: IntArray | None = None,
    strata: IntArray | None = None,
    smallest_class: int | None = None,
    method: str = "BCa",
) -> Estimate:
    """BCa bounds of any statistic of weighted rows.

    There are bounds for at least 50 rows (or clusters), with 20 rows of every class that counts. The variance must come
    from at least ten rows' worth of deviations; a statistic may set another number as its attribute
    ``fewest_carrying``. Rows of few kinds (integer or boolean arrays) are drawn as counts.

    Args:
        statistic: ``statistic(arrays, weights)``: weights, shape (r, n), are how often each row was drawn; returns
            shape (r,).
        arrays: Arrays with n rows each.
        rng: Generator of the resamples.
        alpha: The strictest level that will be used.
        clusters: shape (n,): whole clusters are drawn.
        strata: shape (n,): rows are drawn within each stratum (a cluster must lie inside one).
        smallest_class: Rows of the smallest class that counts, for a statistic of classes.
        method: Start of the method's name.

    Returns:
        The estimate, in the statistic's unit.

    Raises:
        InputError: The arrays differ in length.

    References:
        Efron (1987), JASA 82.
    """
    sample = _rows_of(arrays)
    n = len(sample[0])
    if n == 0:
        return ValueOnly(None, 0, "no bound: no rows")
    sample, plan = _plan(sample, clusters, strata)

    def weighted(weights: FloatArray) -> FloatArray:
        return np.asarray(statistic(sample, weights), dtype=np.float64)[:, None]

    value = float(weighted(plan.whole)[0, 0])
    if not math.isfinite(value):
        return ValueOnly(None, n, "no value: the statistic is undefined on these rows")
    reason = _why_no_bound(plan, n, smallest_class)
    if reason is not None:
        return ValueOnly(value, n, reason)
    count = resamples_for(alpha)
    drawn = replicates(weighted, plan, count, rng)[:, 0]
    left, units = _left_out(statistic, (sample,), plan, weighted, rng)
    return from_replicates(value, n, _named(method, count, plan), drawn, (left[:, 0], units), _fewest(statistic))


def paired_statistic(
    statistic: Statistic,
    candidate: Sequence[NDArray[Any]],
    baseline: Sequence[NDArray[Any]],
    *,
    rng: np.random.Generator,
    alpha: float,
    clusters: IntArray | None = None,
    smallest_class: int | None = None,
    method: str = "paired BCa",
) -> PairedStatistic:
    """Compare a statistic of two models, computed on the same resampled rows.

    Args:
        statistic: As in `bca`.
        candidate: Arrays with n rows.
        baseline: Arrays of the baseline, on the same rows.
        rng: Generator of the resamples.
        alpha: The strictest level that will be used.
        clusters: shape (n,): whole clusters are drawn.
        smallest_class: As in `bca`.
        method: Start of the method's name.

    Returns:
        The comparison, in the statistic's unit.

    Raises:
        InputError: The arrays differ in length, or there are no rows.

    References:
        Efron (1987), JASA 82.
    """
    first, second = _rows_of(candidate), _rows_of(baseline)
    n = len(first[0])
    if len(second[0]) != n or n == 0:
        raise InputError(f"{n} rows of the candidate and {len(second[0])} of the baseline are not pairs")

    sample, plan = _plan((*first, *second), clusters, None)
    first, second = sample[: len(first)], sample[len(first) :]

    def weighted(weights: FloatArray) -> FloatArray:
        return np.stack([statistic(first, weights), statistic(second, weights)], axis=1)

    values = weighted(plan.whole)[0]
    pair = (float(values[0]), float(values[1]))
    reason = _why_no_bound(plan, n, smallest_class)
    if not np.isfinite(values).all():
        reason = "no value: the statistic is undefined on these rows"
    if reason is not None:
        return PairedStatistic(pair, n, method, np.empty((0, 2)), np.empty((0, 2)), np.empty(0), reason)
    count = resamples_for(alpha)
    drawn = replicates(weighted, plan, count, rng)
    left, units = _left_out(statistic, (first, second), plan, weighted, rng)
    return PairedStatistic(pair, n, _named(method, count, plan), drawn, left, units, None, _fewest(statistic))


def _why_no_bound(plan: ResamplingPlan, n: int, smallest_class: int | None) -> str | None:
    units = n if plan.codes is None else plan.groups
    if units < SMALLEST_N:
        return f"no bound: BCa has one with at least {SMALLEST_N} rows or clusters, and there are {units}"
    if smallest_class is not None and smallest_class < FEWEST_OF_A_CLASS:
        return f"no bound: a class has {smallest_class} rows, BCa needs {FEWEST_OF_A_CLASS}"
    return None


def _left_out(
    statistic: Statistic, samples: Sequence[Arrays], plan: ResamplingPlan, weighted: Weighted, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Jackknife values, shape (j, samples), and the units that each stands for; without weights where it can be."""
    quick: Callable[[Arrays], FloatArray] | None = getattr(statistic, "without_each", None)
    if quick is None or plan.codes is not None or plan.multiplicity is not None:
        return jackknife(weighted, plan, rng)
    return np.stack([quick(sample) for sample in samples], axis=1), np.ones(plan.rows)


def _fewest(statistic: Statistic) -> float:
    return float(getattr(statistic, "fewest_carrying", FEWEST_CARRYING))


def _named(method: str, count: int, plan: ResamplingPlan) -> str:
    unit = "rows" if plan.codes is None else f"{plan.units} clusters"
    return f"{method}, {count:,} resamples of {unit}"


def _rows_of(arrays: Sequence[NDArray[Any]]) -> Arrays:
    sample = tuple(np.asarray(array) for array in arrays)
    if not sample or len({len(array) for array in sample}) != 1:
        raise InputError(f"arrays of {', '.join(str(len(a)) for a in sample) or 'no'} rows don't belong together")
    return sample


def _plan(sample: Arrays, clusters: IntArray | None, strata: IntArray | None) -> tuple[Arrays, ResamplingPlan]:
    """Plan of the resampling; equal rows become one entry with a multiplicity, where that is quicker."""
    n = len(sample[0])
    if clusters is None:
        distinct = _distinct(sample) if strata is None else None
        if distinct is None:
            return sample, ResamplingPlan(rows=n, strata=strata)
        first, multiplicity = distinct
        return tuple(array[first] for array in sample), ResamplingPlan(rows=len(first), multiplicity=multiplicity)
    codes, groups = cluster_codes(clusters, n)
    of_cluster = None
    if strata is not None:
        of_cluster = np.zeros(groups, dtype=np.int64)
        of_cluster[codes] = strata
    return sample, ResamplingPlan(rows=n, codes=codes, groups=groups, strata=of_cluster)


def _distinct(sample: Arrays) -> tuple[IntArray, IntArray] | None:
    """First row of each kind and how many there are, for rows of few kinds (true and predicted class); else None."""
    n = len(sample[0])
    if any(array.ndim != 1 or array.dtype.kind not in "iub" for array in sample):
        return None
    kinds, many = np.zeros(n, dtype=np.int64), 1
    for array in sample:
        codes, values = from_zero(array)
        if many * values > n:
            # Coded anew, so that products stay small.
            kinds, many = coded(kinds)
        kinds, many = kinds * values + codes, many * values
    kinds, many = coded(kinds)
    if many * _DRAWING_A_KIND > n:
        return None
    first = np.empty(many, dtype=np.int64)
    # The last row that is written is the first of its kind.
    first[kinds[::-1]] = np.arange(n - 1, -1, -1)
    return first, np.bincount(kinds, minlength=many).astype(np.int64)
