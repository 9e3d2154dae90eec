"""Means: BCa without resamples for item losses, Gaffke's bound where few rows carry, t for blocks and processes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.clusters import cluster_codes, cluster_sums
from evalspec.stats.invert import FEWEST_CARRYING, NByScaling, carrying, scaled
from evalspec.stats.means.bounded import BoundedMean, BoundedRatio, Limits
from evalspec.stats.means.saddlepoint import mean_at, tail_z
from evalspec.stats.roots import brentq
from evalspec.stats.types import FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

SMALLEST_N = 200
LARGEST = 1e150
"""The square of a value, and the sum of many of them, must be a number."""


@dataclass(frozen=True, eq=False)
class Mean(NByScaling):
    """A mean, or a ratio of two means, with BCa bounds from the saddlepoint form of the bootstrap distribution.

    Args:
        numerator: shape (g,), one independent unit each (a row, or the sum of a cluster).
        denominator: shape (g,), positive sum; ones for a plain mean.
        n: Rows.

    References:
        Efron (1987), JASA 82 (BCa); Davison and Hinkley (1988), Biometrika 75 (saddlepoint in place of resamples).
    """

    numerator: FloatArray
    denominator: FloatArray
    n: int

    @cached_property
    def value(self) -> float:
        """The mean, in the values' unit."""
        return float(self.numerator.sum() / self.denominator.sum())

    @property
    def method(self) -> str:
        """Method of the bounds."""
        units = len(self.numerator)
        return "BCa of the mean" if units == self.n else f"BCa of the mean over {units} clusters"

    @cached_property
    def residuals(self) -> FloatArray:
        """Contribution of each unit to the mean's deviation, shape (g,)."""
        return self.numerator - self.value * self.denominator

    @cached_property
    def skewness(self) -> float:
        """Skewness of the residuals; 0 where they don't vary."""
        deviations = scaled(self.residuals)
        spread = float(np.mean(deviations**2))
        return float(np.mean(deviations**2 * deviations)) / spread**1.5 if spread > 0 else 0.0

    @cached_property
    def standard_error(self) -> float:
        """Standard error of the value."""
        return float(np.sqrt(np.sum(self.residuals**2)) / self.denominator.sum())

    @cached_property
    def _acceleration(self) -> float:
        """BCa's acceleration, which for a mean is its bias correction too."""
        return self.skewness / (6.0 * math.sqrt(len(self.numerator)))

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound."""
        from scipy.special import ndtri

        level = 1.0 - confidence if side == "lower" else confidence
        a = self._acceleration
        reach = a + float(ndtri(level))
        if a * reach >= 1.0:
            return None
        return self._quantile(a + reach / (1.0 - a * reach))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The level at which the bound reaches the threshold."""
        from scipy.special import ndtr

        a = self._acceleration
        distance = self._tail(threshold) - a
        if math.isinf(distance) or 1.0 + a * distance <= 0.0:
            # Beyond the pole of BCa's map every level clears on one side, none on the other.
            return 0.0 if (distance < 0) == (side == "lower") else 1.0
        z = distance / (1.0 + a * distance) - a
        return float(ndtr(z if side == "lower" else -z))

    def _tail(self, point: float) -> float:
        return tail_z(self.numerator - point * self.denominator, 0.0)

    def _quantile(self, z: float) -> float:
        """Quantile of the bootstrap distribution at normal score ``z``."""
        if len(self.numerator) == self.n and float(np.ptp(self.denominator)) == 0.0:
            return mean_at(self.numerator, z) / float(self.denominator[0])
        sign = math.copysign(1.0, z)
        step = sign * max(abs(z), 1.0) * self.standard_error
        inner, outer = self.value - 0.5 * step, self.value + step
        while (self._tail(outer) - z) * sign < 0:
            inner, outer = outer, outer + step
        return brentq(lambda x: _finite(self._tail(x)) - z, inner, outer, xtol=1e-8 * self.standard_error)


@dataclass(frozen=True, slots=True)
class TMean(Estimate):
    """A mean of few, roughly normal values, by Student's t with n - 1 degrees.

    Args:
        value: The mean.
        standard_deviation: Of the values.
        n: How many values.

    References:
        Student (1908), Biometrika 6.
    """

    value: float
    standard_deviation: float
    n: int

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"t with {self.n - 1} degrees"

    @property
    def standard_error(self) -> float:
        """Standard error of the mean."""
        return self.standard_deviation / math.sqrt(self.n)

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound."""
        from scipy.special import stdtrit

        step = float(stdtrit(self.n - 1, confidence)) * self.standard_error
        return self.value - step if side == "lower" else self.value + step

    def p_value(self, threshold: float, side: Side) -> float | None:
        """One-sided t test."""
        from scipy.special import stdtr

        t = (self.value - threshold) / self.standard_error
        return float(stdtr(self.n - 1, -t if side == "lower" else t))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Values at which the t test has 80 % power; more than 20 times n is given too."""
        from evalspec.stats.power import values_for_t

        if self.value == threshold:
            return None
        return values_for_t(abs(self.value - threshold) / self.standard_deviation, alpha)


@dataclass(frozen=True, eq=False)
class PairedMean(Comparison):
    """Two models' item scores on the same rows.

    Args:
        candidate: shape (g,), one independent unit each.
        baseline: shape (g,).
        sizes: shape (g,), rows in each unit.
        n: Rows.
        limits: The smallest and the largest score of a row; None: not known.
    """

    candidate: FloatArray
    baseline: FloatArray
    sizes: FloatArray
    n: int
    limits: Limits | None = None

    @property
    def candidate_value(self) -> float | None:
        """The candidate's mean."""
        return float(self.candidate.sum()) / self.n if self.n else None

    @property
    def baseline_value(self) -> float | None:
        """The baseline's mean."""
        return float(self.baseline.sum()) / self.n if self.n else None

    def difference(self, factor: float = 1.0, margin: float = 0.0) -> Estimate:
        """Estimate of candidate - factor x baseline, in the scores' unit; ``margin`` is not needed."""
        limits = None
        if self.limits is not None:
            low, high = self.limits
            limits = (low - factor * high, high - factor * low)
        return _mean_of_units(self.candidate - factor * self.baseline, self.sizes, self.n, limits)

    def ratio(self) -> Estimate | None:
        """Estimate of candidate / baseline; None where a score of the baseline is negative or all are 0."""
        if self.n == 0 or float(self.baseline.min()) < 0 or not float(self.baseline.sum()) > 0:
            return None
        estimate = _mean_of_units(self.candidate, self.baseline, self.n)
        if self.limits is None or self._carried(float(estimate.value or 0.0)):
            return estimate
        largest = float(self.sizes.max())
        return BoundedRatio(self.candidate, self.baseline, self.n, (0.0, self.limits[1]), largest)

    def _carried(self, ratio: float) -> bool:
        """BCa's bounds of the ratio hold, whatever rows were not drawn."""
        assert self.limits is not None
        furthest = self.limits[1] * max(1.0, ratio) * float(self.sizes.max())
        return _carried(self.candidate - ratio * self.baseline, furthest)


def mean(
    values: FloatArray,
    *,
    rng: np.random.Generator | None = None,
    clusters: IntArray | None = None,
    alpha: float | None = None,
    limits: Limits | None = None,
) -> Estimate:
    """The mean of item losses.

    With known ``limits`` of a row, there are bounds for any number of rows, and they hold whatever the sample has not
    drawn. They are BCa's for at least 200 rows (or clusters), if the variance comes from at least ten rows' worth of
    deviations. This must hold even with one more row at the far limit; otherwise they are Gaffke's. Without limits,
    they are BCa's, if the variance of the sample comes from ten rows' worth of deviations. They can't account for a
    loss so rare and large that the sample has none of it.

    Args:
        values: shape (n,), finite.
        rng: Not used: the saddlepoint form needs no resampling. All estimators have this argument.
        clusters: shape (n,), cluster of each row, or None if rows are independent.
        alpha: Not used: the bounds reach any level.
        limits: The smallest and the largest possible value of a row; None: not known.

    Returns:
        The estimate, in the values' unit.

    Raises:
        InputError: A value isn't finite, or there is not one cluster for each row.

    References:
        Efron (1987), JASA 82; Davison and Hinkley (1988), Biometrika 75; Gaffke (2005), Mathematical Methods of
        Statistics 14.
    """
    rows = _checked(values)
    n = rows.shape[0]
    limits = _around(limits, rows)
    if clusters is None or n == 0:
        return _mean_of_units(rows, np.ones(n), n, limits)
    codes, groups = cluster_codes(clusters, n)
    sizes = np.bincount(codes, minlength=groups).astype(np.float64)
    return _mean_of_units(cluster_sums(rows, codes, groups), sizes, n, limits)


def ratio_of_sums(
    numerator: FloatArray,
    denominator: FloatArray,
    *,
    clusters: IntArray | None = None,
    limits: Limits | None = None,
) -> Estimate:
    """The sum of one number by the sum of another, of units that were drawn: nats by tokens, over documents.

    It is the parameter R at which numerator - R x denominator has mean 0, and is tested so: no delta method.

    Args:
        numerator: shape (n,), finite, of each unit.
        denominator: shape (n,), positive.
        clusters: shape (n,), cluster of each unit, or None where they are independent.
        limits: The smallest and the largest value of numerator / denominator in a unit; None: not known.

    Returns:
        The estimate, with bounds where those of `mean` have some.

    Raises:
        InputError: The arrays differ in length, or a value isn't finite, or a denominator isn't positive.

    References:
        As of `mean`.
    """
    above, below = _checked(numerator), _checked(denominator)
    n = above.shape[0]
    if below.shape[0] != n or (n and float(below.min()) <= 0.0):
        raise InputError(f"{n} numerators need as many denominators, all of them positive")
    if clusters is not None and n:
        codes, groups = cluster_codes(clusters, n)
        above, below = cluster_sums(above, codes, groups), cluster_sums(below, codes, groups)
    return _mean_of_units(above, below, n, limits)


def paired_mean(
    candidate: FloatArray,
    baseline: FloatArray,
    *,
    rng: np.random.Generator | None = None,
    clusters: IntArray | None = None,
    alpha: float | None = None,
    limits: Limits | None = None,
) -> PairedMean:
    """Compare two models' item losses on the same rows.

    Args:
        candidate: shape (n,), finite.
        baseline: shape (n,), the same rows.
        rng: Not used, as in `mean`.
        clusters: shape (n,), cluster of each row, or None.
        alpha: Not used, as in `mean`.
        limits: As in `mean`, for both models.

    Returns:
        The comparison; its estimates have bounds under the conditions of `mean`.

    Raises:
        InputError: The arrays differ in length, or a value isn't finite.

    References:
        Efron (1987), JASA 82; Davison and Hinkley (1988), Biometrika 75.
    """
    first, second = _checked(candidate), _checked(baseline)
    n = first.shape[0]
    if second.shape[0] != n:
        raise InputError(f"{n} rows of the candidate and {second.shape[0]} of the baseline are not pairs")
    limits = _around(limits, first, second)
    if clusters is None or n == 0:
        return PairedMean(first, second, np.ones(n), n, limits)
    codes, groups = cluster_codes(clusters, n)
    sizes = np.bincount(codes, minlength=groups).astype(np.float64)
    return PairedMean(cluster_sums(first, codes, groups), cluster_sums(second, codes, groups), sizes, n, limits)


def t_mean(values: FloatArray) -> Estimate:
    """The mean of blocks, processes or log ratios, by t with n - 1 degrees.

    Args:
        values: shape (n,), finite.

    Returns:
        The estimate; one value, or values that are all equal, give no bound.

    Raises:
        InputError: A value isn't finite.

    References:
        Student (1908), Biometrika 6.
    """
    rows = _checked(values)
    n = rows.shape[0]
    if n < 2:
        return ValueOnly(float(rows[0]) if n else None, n, "no bound: t needs at least 2 values")
    spread = float(rows.std(ddof=1))
    if spread <= 1e-15 * abs(float(rows.mean())):
        return ValueOnly(float(rows.mean()), n, "no bound: all values are equal")
    return TMean(float(rows.mean()), spread, n)


def _checked(values: FloatArray) -> FloatArray:
    rows = np.asarray(values, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise InputError(f"{int(np.count_nonzero(~np.isfinite(rows)))} of {rows.shape[0]} values are not finite")
    largest = float(np.abs(rows).max(initial=0.0))
    if largest > LARGEST:
        raise InputError(f"a value is as large as {largest:.3g}, and a mean takes none above {LARGEST:g}")
    return rows


def _around(limits: Limits | None, *rows: FloatArray) -> Limits | None:
    """The limits, a little wider where rounding put a row beyond them."""
    if limits is None:
        return None
    low, high = limits
    return (
        min(low, *(float(one.min(initial=low)) for one in rows)),
        max(high, *(float(one.max(initial=high)) for one in rows)),
    )


def _carried(residuals: FloatArray, furthest: float = 0.0) -> bool:
    """BCa's bounds can be trusted: so many rows carry the variance, also with one more that lies furthest away."""
    units = len(residuals)
    return units >= SMALLEST_N and carrying(np.append(residuals, furthest)) >= FEWEST_CARRYING


def _mean_of_units(numerator: FloatArray, denominator: FloatArray, n: int, limits: Limits | None = None) -> Estimate:
    """A mean with bounds, or without where the sample can't carry them."""
    if n == 0:
        return ValueOnly(None, 0, "no bound: no rows")
    estimate = Mean(numerator, denominator, n)
    if limits is None:
        why = _why_none(estimate)
        return estimate if why is None else ValueOnly(estimate.value, n, f"no bound: {why}")
    furthest = max(limits[1] - estimate.value, estimate.value - limits[0]) * float(denominator.max())
    if _carried(estimate.residuals, furthest):
        return estimate
    return BoundedMean(numerator, denominator, n, limits)


def _why_none(estimate: Mean) -> str | None:
    """Reason why a mean of numbers without known limits has no bound; None: it has one."""
    units, n = len(estimate.numerator), estimate.n
    if units < SMALLEST_N:
        what = "rows" if units == n else "clusters"
        return f"a mean has one with at least {SMALLEST_N} {what}, and there are {units}"
    if float(np.ptp(estimate.residuals)) <= 1e-12 * (1.0 + abs(estimate.value)):
        return "all values are equal"
    if _carried(estimate.residuals):
        return None
    share = carrying(estimate.residuals) / FEWEST_CARRYING
    return f"few rows carry the mean's variance; like these it has one from about {n / share:,.0f} rows on"


def _finite(z: float) -> float:
    return max(-1e3, min(1e3, z))
