"""Inversion of tests and bounds: p-values from bounds, bounds from p-values, the n that would decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.types import FloatArray

POWER = 0.8
FEWEST_CARRYING = 10.0
"""Rows' worth of deviations that must carry a bootstrap's variance; with fewer its bounds err too often."""
_Z_LIMIT = 8.0


def carrying(deviations: FloatArray, units: FloatArray | None = None) -> float:
    """Number of equally large deviations that would have this kurtosis: n / kurtosis, between 1 and n.

    Args:
        deviations: shape (n,), what each unit adds to a statistic, summing to 0.
        units: shape (n,), how many equal units each stands for; None: one each.
    """
    squares = scaled(deviations) ** 2
    weights = np.ones_like(squares) if units is None else units
    fourth = float(weights @ squares**2)
    return float(weights @ squares) ** 2 / fourth if fourth > 0 else 0.0


def scaled(values: FloatArray) -> FloatArray:
    """The values over a power of two, the largest of them about 1: none of their digits change, and powers are finite.

    Args:
        values: shape (n,), finite.
    """
    return np.ldexp(values, -math.frexp(float(np.abs(values).max(initial=0.0)))[1])


def clears(bound: float | None, threshold: float, side: Side) -> bool:
    """True if a bound lies on the far side of the threshold, or on it."""
    if bound is None:
        return False
    return bound >= threshold if side == "lower" else bound <= threshold


def p_from_bounds(bound: Callable[[float, Side], float | None], threshold: float, side: Side) -> float:
    """The smallest a at which ``bound(1 - a, side)`` clears the threshold, by bisection on the normal scale.

    Args:
        bound: The one-sided bound at a confidence; it must move outwards as the confidence rises.
        threshold: What is to be cleared.
        side: ``lower`` or ``upper``.

    Returns:
        The p-value; 1 where no confidence clears, and never below that of 8 standard errors.
    """
    from scipy.special import ndtr

    low, high = -_Z_LIMIT, _Z_LIMIT
    if not clears(bound(float(ndtr(low)), side), threshold, side):
        return 1.0
    for _ in range(48):
        middle = 0.5 * (low + high)
        if clears(bound(float(ndtr(middle)), side), threshold, side):
            low = middle
        else:
            high = middle
    return float(ndtr(-low))


def bound_from_p(
    p_value: Callable[[float, Side], float], confidence: float, side: Side, start: float, limits: tuple[float, float]
) -> float:
    """The threshold furthest from ``limits``' outer end that is still cleared at 1 - confidence, by bisection.

    Args:
        p_value: The p-value at a threshold and side; monotone on either side of ``start``.
        confidence: One-sided.
        side: ``lower`` or ``upper``.
        start: The inner end of the search: the value for confidences above one half.
        limits: Smallest and largest value of the parameter.

    Returns:
        The bound; the limit itself where nothing short of it is cleared.
    """
    alpha = 1.0 - confidence
    outer = limits[0] if side == "lower" else limits[1]
    inner = start
    if p_value(inner, side) <= alpha:
        inner = limits[1] if side == "lower" else limits[0]
        outer = start
    if p_value(outer, side) > alpha:
        return outer
    while abs(outer - inner) > 1e-10 * (1.0 + abs(outer)):
        middle = 0.5 * (outer + inner)
        if p_value(middle, side) <= alpha:
            outer = middle
        else:
            inner = middle
    return outer


def upper_of_largest(
    p_values: Sequence[Callable[[float], float]], confidence: float, start: float, limits: tuple[float, float]
) -> float:
    """The upper `bound_from_p` of the largest of several p-values.

    One that is cleared at a threshold is cleared at all larger ones, and is not asked there again.

    Args:
        p_values: Each falls, or stays, as the threshold rises.
        confidence: One-sided.
        start: As in `bound_from_p`.
        limits: As in `bound_from_p`.
    """
    cleared = [math.inf] * len(p_values)

    def largest(threshold: float, _: Side) -> float:
        largest_p = 0.0
        for index, p_value in enumerate(p_values):
            if threshold < cleared[index]:
                here = p_value(threshold)
                largest_p = max(largest_p, here)
                if here <= 1.0 - confidence:
                    cleared[index] = threshold
        return largest_p

    return bound_from_p(largest, confidence, "upper", start, limits)


def p_not_beyond(p_value: float, value: float | None, threshold: float, side: Side) -> float:
    """A p-value that is at least one half where the estimate itself lies on the wrong side of the threshold.

    Tests of several views of the same rows may clear a threshold that the printed value does not meet.
    """
    wrong = value is not None and (threshold < value if side == "upper" else threshold > value)
    return max(p_value, 0.5) if wrong else p_value


def bound_not_beyond(bound: float, value: float, confidence: float, side: Side) -> float:
    """The bound that inverts `p_not_beyond`: the estimate lies between its bounds."""
    if confidence <= 0.5:
        return bound
    return max(bound, value) if side == "upper" else min(bound, value)


def far_side(value: float | None, threshold: float) -> Side | None:
    """The side that would be shown if ``value`` were the truth; None on the threshold or without a value."""
    if value is None or value == threshold:
        return None
    return "lower" if value > threshold else "upper"


def n_by_scaling(
    value: float | None, n: int, bound: Callable[[float, Side], float | None], threshold: float, alpha: float
) -> int | None:
    """The n that decides with 80 % power, for a bound whose distance from the value shrinks as 1 / sqrt(n).

    Args:
        value: The estimate, taken for the truth.
        n: Rows it comes from.
        bound: Its one-sided bounds.
        threshold: What it is held against.
        alpha: One-sided level.

    Returns:
        Rows needed, or None where the value is on the threshold or there is no bound.
    """
    from scipy.special import ndtri

    side = far_side(value, threshold)
    if side is None or value is None:
        return None
    limit = bound(1.0 - alpha, side)
    if limit is None:
        return None
    z_level, z_power = -float(ndtri(alpha)), float(ndtri(POWER))
    needed = abs(value - limit) * (1.0 + z_power / z_level)
    return max(2, math.ceil(n * (needed / abs(value - threshold)) ** 2))


class PFromBounds(Estimate):
    """An estimate with bounds alone: its p-value is the level at which the bound reaches the threshold."""

    __slots__ = ()

    def p_value(self, threshold: float, side: Side) -> float | None:
        return None if self.bound(0.95, side) is None else p_from_bounds(self.bound, threshold, side)


class NByScaling(Estimate):
    """An estimate whose bounds come closer with the root of n; more than 20 times n is given too."""

    __slots__ = ()

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        return n_by_scaling(self.value, self.n, self.bound, threshold, alpha)
