"""Inversion of tests and bounds: p-values from bounds, bounds from p-values, the n that would decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.roots import brentq
from evalspec.stats.types import FloatArray

POWER = 0.8
FEWEST_CARRYING = 10.0
"""Rows' worth of deviations that must carry a bootstrap's variance; with fewer its bounds err too often."""
CLOSE = 1e-11
"""Width at which a search ends and bisection begins: less than that at which bisection ends."""
_Z_LIMIT = 8.0
_STEEPEST = 40.0
_SMALLEST = 1e-300


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


class Falling:
    """A function that falls, or stays, as its argument rises; it is evaluated once at each argument.

    Args:
        function: Of a finite argument, such as the p-value that an error lies within a threshold.
    """

    __slots__ = ("_function", "_known")

    def __init__(self, function: Callable[[float], float]) -> None:
        self._function = function
        self._known: dict[float, float] = {}

    def __call__(self, argument: float) -> float:
        """Its value."""
        value = self._known.get(argument)
        if value is None:
            value = self._known[argument] = self._function(argument)
        return value

    def crossing(self, level: float) -> Crossing:
        """Search for the arguments at which it is at most ``level``; what it was asked before is known."""
        return Crossing(self, level, self._known)


class Crossing:
    """Search for the arguments at which a falling function is at most a level: all from some argument on.

    Args:
        falling: The function.
        level: The level.
        known: Argument: value.
    """

    __slots__ = ("_above", "_falling", "_level", "_under")

    def __init__(self, falling: Falling, level: float, known: Mapping[float, float]) -> None:
        self._falling, self._level = falling, level
        self._above = max((at for at, value in known.items() if value > level), default=-math.inf)
        self._under = min((at for at, value in known.items() if value <= level), default=math.inf)

    def reached(self, argument: float) -> bool:
        """True if the function is at most the level there; it is evaluated only where that is not known."""
        if argument >= self._under:
            return True
        if argument <= self._above:
            return False
        reached = self._falling(argument) <= self._level
        if reached:
            self._under = argument
        else:
            self._above = argument
        return reached

    def close_in(self, low: float, high: float, scale: Callable[[float], float], tolerance: float) -> float:
        """Look for where the level is reached, after which `reached` is known nearly everywhere.

        Args:
            low: An argument at which it may not be reached.
            high: A larger one.
            scale: On which the function is nearly straight.
            tolerance: Width that is narrow enough.

        Returns:
            The largest argument from ``low`` on at which the level is known not to be reached.
        """
        if self.reached(low) or not self.reached(high):
            return low
        level = scale(self._level)

        def excess(argument: float) -> float:
            beyond = scale(self._falling(argument)) - level
            # Rounding on the scale must not say on which side of the level a value lies.
            return min(beyond, 0.0) if self.reached(argument) else max(beyond, _SMALLEST)

        # What is not found is left to bisection.
        with suppress(ValueError, RuntimeError):
            brentq(excess, max(low, self._above), min(high, self._under), xtol=tolerance)
        return max(low, self._above)


def _normal_score(p_value: float) -> float:
    """The p-value on the normal scale, finite."""
    from scipy.special import ndtri

    return min(max(float(ndtri(p_value)), -_STEEPEST), _STEEPEST)


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

    def room(score: float) -> float:
        reached = bound(float(ndtr(score)), side)
        return -1.0 if reached is None else reached - threshold if side == "lower" else threshold - reached

    low, high = -_Z_LIMIT, _Z_LIMIT
    missed = Falling(room).crossing(math.nextafter(0.0, -1.0))
    if missed.reached(low):
        return 1.0
    for _ in range(48):
        middle = 0.5 * (low + high)
        if not missed.reached(middle):
            low = middle
            continue
        if high == _Z_LIMIT:
            missed.close_in(low, middle, float, 1e-13)
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
    if side == "upper":
        return upper_of_largest([Falling(lambda threshold: p_value(threshold, side))], confidence, start, limits)
    return lower_bound(Falling(lambda mirrored: p_value(-mirrored, side)), confidence, start, limits)


def lower_bound(mirrored: Falling, confidence: float, start: float, limits: tuple[float, float]) -> float:
    """The lower `bound_from_p`.

    Args:
        mirrored: The p-value at a threshold times -1.
        confidence: One-sided.
        start: As in `bound_from_p`.
        limits: As in `bound_from_p`.
    """
    return -upper_of_largest([mirrored], confidence, -start, (-limits[1], -limits[0]))


def upper_of_largest(
    p_values: Sequence[Falling], confidence: float, start: float, limits: tuple[float, float]
) -> float:
    """The upper `bound_from_p` of the largest of several p-values.

    Args:
        p_values: Of a threshold.
        confidence: One-sided.
        start: As in `bound_from_p`.
        limits: As in `bound_from_p`.
    """
    searches = [one.crossing(1.0 - confidence) for one in p_values]

    def cleared(threshold: float) -> bool:
        return all(one.reached(threshold) for one in searches)

    inner, outer = start, limits[1]
    if cleared(inner):
        inner, outer = limits[0], start
    if not cleared(outer):
        return outer
    low = inner
    for one in searches:
        low = one.close_in(low, outer, _normal_score, CLOSE)
    while abs(outer - inner) > 1e-10 * (1.0 + abs(outer)):
        middle = 0.5 * (outer + inner)
        if cleared(middle):
            outer = middle
        else:
            inner = middle
    return outer


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
