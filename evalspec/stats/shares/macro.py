"""Averages over classes, differences of separate estimates, and F1 as a proportion in disguise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.invert import POWER, NByScaling, PFromBounds, bound_from_p, far_side
from evalspec.stats.roots import brentq
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.shares.score import without_skewness
from evalspec.stats.types import BoolArray, FloatArray, IntArray

_WIDEST = 60.0
"""Of the multiplier, as asinh: beyond any that rows can need."""
_EXACT = 1e-10


@dataclass(frozen=True, slots=True)
class MoverSum(PFromBounds, NByScaling):
    """A weighted sum of estimates, its bounds recovered from theirs (method of variance estimates recovery).

    Args:
        estimates: What is summed.
        weights: One each.
        name: Begins the name of the method.
        cautious: Each estimate reaches as far to one side as to the other, by the longer of the two: of many classes
            without an error none reaches upwards, and their average would be far too sure.

    References:
        Zou and Donner (2008), Statistics in Medicine 27; Newcombe (1998), Statistics in Medicine 17.
    """

    estimates: tuple[Estimate, ...]
    weights: tuple[float, ...]
    name: str = "MOVER"
    cautious: bool = False

    @property
    def value(self) -> float | None:
        """The weighted sum; None where one of the estimates has no value."""
        values = [estimate.value for estimate in self.estimates]
        if any(value is None for value in values):
            return None
        return sum(weight * value for weight, value in zip(self.weights, values, strict=True) if value is not None)

    @property
    def n(self) -> int:
        """Rows behind all of them together."""
        return sum(estimate.n for estimate in self.estimates)

    @property
    def method(self) -> str:
        """Method of the bounds."""
        kinds = dict.fromkeys(estimate.method for estimate in self.estimates)
        return f"{self.name} over {len(self.estimates)} x {next(iter(kinds))}" if len(kinds) == 1 else self.name

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; None where one of the estimates has none."""
        value, squares = self.value, 0.0
        if value is None:
            return None
        for estimate, weight in zip(self.estimates, self.weights, strict=True):
            towards: Side = side if weight >= 0 else _opposite(side)
            distance = self._distance(estimate, confidence, towards)
            if distance is None:
                return None
            # At low confidence a bound may lie on the near side of its value; its square then counts against the rest.
            squares += math.copysign((weight * distance) ** 2, distance)
        reach = math.copysign(math.sqrt(abs(squares)), squares)
        return value - reach if side == "lower" else value + reach

    def _distance(self, estimate: Estimate, confidence: float, side: Side) -> float | None:
        """Distance from the value outwards to the bound; None where there is no bound."""
        limit, middle = estimate.bound(confidence, side), estimate.value
        if limit is None or middle is None:
            return None
        distance = middle - limit if side == "lower" else limit - middle
        if self.cautious:
            other = estimate.bound(confidence, _opposite(side))
            if other is None:
                return None
            distance = max(distance, other - middle if side == "lower" else middle - other)
        return distance


@dataclass(frozen=True, slots=True)
class Transformed(Estimate):
    """An estimate seen through a rising function: bounds and p-values are those of the estimate.

    Args:
        estimate: What has the bounds.
        forward: The function.
        backward: Its inverse.
        name: What it is now called, put before the method.
    """

    estimate: Estimate
    forward: Callable[[float], float]
    backward: Callable[[float], float]
    name: str

    @property
    def value(self) -> float | None:
        """The function of the estimate's value."""
        return None if self.estimate.value is None else self.forward(self.estimate.value)

    @property
    def n(self) -> int:
        """Rows of the estimate."""
        return self.estimate.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"{self.name}: {self.estimate.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """The function of the estimate's bound."""
        limit = self.estimate.bound(confidence, side)
        return None if limit is None else self.forward(limit)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The estimate's p-value at the inverse of the threshold."""
        return self.estimate.p_value(self.backward(threshold), side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number that decides the estimate at the inverse of the threshold."""
        return self.estimate.n_to_decide(self.backward(threshold), alpha)


@dataclass(frozen=True, slots=True)
class MeanComparison(Comparison):
    """The average over classes of comparisons on separate rows.

    Args:
        comparisons: One for each class, on the rows of that class.
    """

    comparisons: tuple[Comparison, ...]
    same_candidate: ClassVar[bool] = True

    @property
    def baseline_value(self) -> float | None:
        """The baseline's average; None where one class has none."""
        values = [comparison.baseline_value for comparison in self.comparisons]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) else None

    def difference(self, factor: float = 1.0, margin: float = 0.0) -> Estimate:
        """Estimate of the average of candidate - factor x baseline."""
        return mover_mean([comparison.difference(factor, margin) for comparison in self.comparisons])


@dataclass(frozen=True, eq=False)
class MeanOfProportions(Estimate):
    """The plain average of shares of separate rows, by a score test over the classes.

    The shares of the classes are taken at their likeliest values whose average is the threshold; the statistic has
    half a row of continuity correction and is corrected for skewness. MOVER over the classes' Clopper-Pearson bounds
    is not used: with ten classes of 20 rows at 0.95 its upper bound at 99.8 % misses in 4 % of samples, since a class
    without an error adds nothing to its reach.

    Args:
        successes: shape (K,), rows that count in each class.
        rows: shape (K,), rows of each class, at least one.

    References:
        Miettinen and Nurminen (1985), Statistics in Medicine 4 (score tests over strata); Gart and Nam (1990),
        Biometrics 46; Laud (2017), Pharmaceutical Statistics 16 (skewness).
    """

    successes: FloatArray
    rows: FloatArray

    @property
    def value(self) -> float | None:
        """The average of the shares."""
        return float(np.mean(self.successes / self.rows))

    @property
    def n(self) -> int:
        """Rows of all classes."""
        return int(self.rows.sum())

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"score interval over {len(self.rows)} classes, corrected for skewness and continuity"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, by inversion of the score test: in the multiplier, from which shares and average follow."""
        alpha, inner, outer = 1.0 - confidence, 0.0, _WIDEST if side == "lower" else -_WIDEST
        if confidence <= 0.5 or self._p_of(self._shares_at(0.0), side) <= alpha:
            # It may lie beyond the value.
            return bound_from_p(self._p, confidence, side, float(np.mean(self.successes / self.rows)), (0.0, 1.0))
        near, far = (float(np.mean(self._shares_at(math.sinh(one)))) for one in (inner, outer))
        if self._p_of(self._shares_at(math.sinh(outer)), side) > alpha:
            return 0.0 if side == "lower" else 1.0
        while abs(near - far) > _EXACT and abs(outer - inner) > _EXACT * max(1.0, abs(outer)):
            middle = 0.5 * (outer + inner)
            shares = self._shares_at(math.sinh(middle))
            if self._p_of(shares, side) <= alpha:
                outer, far = middle, float(np.mean(shares))
            else:
                inner, near = middle, float(np.mean(shares))
        return far

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The score test at the threshold."""
        return self._p(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows, in these shares of classes, for 80 % power; more than 20 times n is given too."""
        from scipy.special import ndtri

        value = self.value
        side = far_side(value, threshold)
        if side is None or value is None or not 0.0 < threshold < 1.0:
            return None
        null, here = self._variance(self._shares_under(threshold)), self._variance(self.successes / self.rows)
        reach = -float(ndtri(alpha)) * math.sqrt(null) + float(ndtri(POWER)) * math.sqrt(here)
        distance = abs(value - threshold)
        return math.ceil(self.n * ((reach / distance) ** 2 + 2.0 * self._half_step / distance))

    def _p(self, threshold: float, side: Side) -> float:
        if not 0.0 < threshold < 1.0:
            return 0.0 if (threshold <= 0.0) == (side == "lower") else 1.0
        return self._p_of(self._shares_under(threshold), side)

    def _p_of(self, shares: FloatArray, side: Side) -> float:
        """The p-value at the average of these shares, which are the likeliest ones with it."""
        from scipy.special import ndtr

        sign, threshold = 1.0 if side == "lower" else -1.0, float(np.mean(shares))
        variance = self._variance(shares)
        weights = 1.0 / (len(self.rows) * self.rows)
        third = float(np.sum(weights**3 * self.rows * shares * (1.0 - shares) * (1.0 - 2.0 * shares)))
        surplus = sign * (float(np.mean(self.successes / self.rows)) - threshold) - self._half_step
        if variance <= 1e-15:
            return 0.0 if surplus > 0.0 else 1.0
        z = without_skewness(surplus / math.sqrt(variance), sign * third / variance**1.5 / 6.0)
        return float(ndtr(-z))

    @property
    def _half_step(self) -> float:
        """Half of what one row moves the average, itself averaged over the classes."""
        return 0.5 * float(np.mean(1.0 / self.rows)) / len(self.rows)

    def _variance(self, shares: FloatArray) -> float:
        return float(np.sum(shares * (1.0 - shares) / self.rows)) / len(self.rows) ** 2

    def _shares_under(self, average: float) -> FloatArray:
        """The likeliest shares with this average, shape (K,)."""

        def excess(scaled: float) -> float:
            return float(np.mean(self._shares_at(math.sinh(scaled)))) - average

        return self._shares_at(math.sinh(brentq(excess, -_WIDEST, _WIDEST, xtol=1e-10)))

    def _shares_at(self, multiplier: float) -> FloatArray:
        """Root in 0..1 of m p^2 - (m + n) p + x for each class: the likelihood with a multiplier m on the sum."""
        linear = multiplier + self.rows
        root = np.sqrt(np.maximum(linear**2 - 4.0 * multiplier * self.successes, 0.0))
        # Two forms of the same root, so that neither cancels.
        rising = 2.0 * self.successes / np.maximum(linear + root, 1e-300)
        falling = (linear - root) / (2.0 * min(multiplier, -1e-300))
        return np.clip(np.where(linear > 0, rising, falling), 0.0, 1.0)


def mover_mean(estimates: Sequence[Estimate]) -> Estimate:
    """The plain average over classes: balanced accuracy, macro recall, macro precision.

    Args:
        estimates: One for each class.

    Returns:
        The estimate, in the estimates' unit: by a score test where all are shares of separate, independent rows, else
        by MOVER. A class without a value leaves the average without one.

    Raises:
        InputError: There is nothing to average.

    References:
        Miettinen and Nurminen (1985), Statistics in Medicine 4; Zou and Donner (2008), Statistics in Medicine 27.
    """
    if not estimates:
        raise InputError("an average over no classes")
    shares = [e for e in estimates if isinstance(e, Proportion) and e.clusters is None and e.n > 0]
    if len(shares) < len(estimates):
        return MoverSum(tuple(estimates), (1.0 / len(estimates),) * len(estimates), "MOVER mean", cautious=True)
    successes = np.array([share.successes for share in shares])
    return MeanOfProportions(successes, np.array([float(share.n) for share in shares]))


def mover_difference(first: Estimate, second: Estimate) -> MoverSum:
    """The difference of two estimates from separate rows (rows in both only make its bounds wider than needed).

    References:
        Newcombe (1998), Statistics in Medicine 17; Zou and Donner (2008), Statistics in Medicine 27.
    """
    return MoverSum((first, second), (1.0, -1.0), "MOVER difference")


def mean_comparison(comparisons: Sequence[Comparison]) -> MeanComparison:
    """The plain average of comparisons, one for each class on that class's rows: balanced accuracy against a baseline.

    Raises:
        InputError: There is nothing to average.
    """
    if not comparisons:
        raise InputError("an average over no classes")
    return MeanComparison(tuple(comparisons))


def f1(actual: BoolArray, predicted: BoolArray, clusters: IntArray | None = None) -> Transformed:
    """F1 of one class.

    F1 = 2 J / (1 + J) with J the share of hits among the rows that are of the class or called so; given how many
    these are the hits are binomial, so that the bounds are Clopper and Pearson's.

    Args:
        actual: shape (n,), rows of the class.
        predicted: shape (n,), rows called so.
        clusters: shape (n,), or None where rows are independent.

    Returns:
        The estimate, in 0..1; its n is the rows that are of the class or called so.

    Raises:
        InputError: There is not one cluster for each row.
    """
    truth, called = np.asarray(actual, dtype=np.bool_), np.asarray(predicted, dtype=np.bool_)
    either = truth | called
    share = proportion((truth & called)[either], None if clusters is None else np.asarray(clusters)[either])
    return Transformed(share, _f1_of_share, _share_of_f1, "F1 by hits among rows of or called the class")


def _opposite(side: Side) -> Side:
    return "upper" if side == "lower" else "lower"


def _f1_of_share(share: float) -> float:
    return 2.0 * share / (1.0 + share)


def _share_of_f1(score: float) -> float:
    return score / (2.0 - score) if score < 2.0 else math.inf
