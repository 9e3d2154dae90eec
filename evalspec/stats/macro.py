"""Averages over classes by MOVER, and F1 as a proportion in disguise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats._invert import n_by_scaling, p_from_bounds
from evalspec.stats._types import BoolArray, IntArray
from evalspec.stats.proportion import proportion


@dataclass(frozen=True, slots=True)
class MoverSum:
    """A weighted sum of estimates, its bounds recovered from theirs (method of variance estimates recovery).

    Args:
        estimates: Independent ones, or with ``inflation`` for what they share.
        weights: One each.
        name: Begins the name of the method.
        inflation: Of the variance: 1 for independent estimates.

    References:
        Zou and Donner (2008), Statistics in Medicine 27; Newcombe (1998), Statistics in Medicine 17.
    """

    estimates: tuple[Estimate, ...]
    weights: tuple[float, ...]
    name: str = "MOVER"
    inflation: float = 1.0

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
        """How the bounds are made."""
        kinds = dict.fromkeys(estimate.method for estimate in self.estimates)
        return f"{self.name} over {len(self.estimates)} x {next(iter(kinds))}" if len(kinds) == 1 else self.name

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; None where one of the estimates has none."""
        value, squares = self.value, 0.0
        if value is None:
            return None
        for estimate, weight in zip(self.estimates, self.weights, strict=True):
            towards: Side = side if weight >= 0 else ("upper" if side == "lower" else "lower")
            limit, middle = estimate.bound(confidence, towards), estimate.value
            if limit is None or middle is None:
                return None
            distance = weight * (limit - middle) * (-1.0 if side == "lower" else 1.0)
            # At low confidence a bound may lie on the near side of its value; its square then counts against the rest.
            squares += math.copysign(distance**2, distance)
        reach = math.copysign(math.sqrt(self.inflation * abs(squares)), squares)
        return value - reach if side == "lower" else value + reach

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The level at which the bound reaches the threshold."""
        if self.bound(0.95, side) is None:
            return None
        return p_from_bounds(self.bound, threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows, in these shares of classes, that decide with 80 % power; more than 20 times n is given too."""
        return n_by_scaling(self.value, self.n, self.bound, threshold, alpha)


@dataclass(frozen=True, slots=True)
class Transformed:
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
        """How the bounds are made."""
        return f"{self.name}: {self.estimate.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """The function of the estimate's bound."""
        limit = self.estimate.bound(confidence, side)
        return None if limit is None else self.forward(limit)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The estimate's p-value at the inverse of the threshold."""
        return self.estimate.p_value(self.backward(threshold), side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """As the estimate says at the inverse of the threshold."""
        return self.estimate.n_to_decide(self.backward(threshold), alpha)


@dataclass(frozen=True, slots=True)
class MeanComparison:
    """The average over classes of comparisons on separate rows.

    Args:
        comparisons: One for each class, on the rows of that class.
    """

    comparisons: tuple[Comparison, ...]

    @property
    def baseline_value(self) -> float | None:
        """The baseline's average; None where one class has none."""
        values = [comparison.baseline_value for comparison in self.comparisons]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) else None

    def difference(self, factor: float = 1.0, margin: float = 0.0) -> Estimate:
        """Estimate of the average of candidate - factor x baseline."""
        return mover_mean([comparison.difference(factor, margin) for comparison in self.comparisons])

    def ratio(self) -> Estimate | None:
        """None: only differences are defined."""
        return None


def mover_mean(estimates: Sequence[Estimate], *, inflation: float = 1.0) -> MoverSum:
    """The plain average of estimates: balanced accuracy, macro recall, macro precision.

    Args:
        estimates: One for each class, from separate rows.
        inflation: Of the variance, where rows are shared. Macro F1 needs 2: a wrong row counts against two classes,
            and (a + b)^2 is at most 2 (a^2 + b^2).

    Returns:
        The estimate, in the estimates' unit.

    Raises:
        InputError: There is nothing to average.

    References:
        Zou and Donner (2008), Statistics in Medicine 27.
    """
    if not estimates:
        raise InputError("an average over no classes")
    return MoverSum(tuple(estimates), (1.0 / len(estimates),) * len(estimates), "MOVER mean", inflation)


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


def _f1_of_share(share: float) -> float:
    return 2.0 * share / (1.0 + share)


def _share_of_f1(score: float) -> float:
    return score / (2.0 - score) if score < 2.0 else math.inf
