"""Roots of a function of one number: `scipy.optimize.brentq`, step by step, without the long import of its package."""

from __future__ import annotations

import math
from collections.abc import Callable

LEAST_RELATIVE = 8.881784197001252e-16
"""Four times the distance from 1 to the next number, as scipy has it."""
MOST_STEPS = 100


def brentq(
    function: Callable[[float], float], low: float, high: float, xtol: float = 2e-12, rtol: float = LEAST_RELATIVE
) -> float:
    """The place between two points at which a continuous function is zero.

    Args:
        function: Has values of opposite signs, or a zero, at the two points.
        low: One point.
        high: The other one.
        xtol: Largest error.
        rtol: Largest error, as a share of the place; the larger of the two errors is allowed.

    Raises:
        ValueError: The signs are alike, or a value is not a number.
        RuntimeError: `MOST_STEPS` steps were not enough.

    References:
        Brent (1973), Algorithms for Minimization Without Derivatives, chapter 4.
    """
    before, now = low, high
    value_before, value_now = float(function(before)), float(function(now))
    if value_before == 0.0:
        return before
    if value_now == 0.0:
        return now
    if not _opposite(value_before, value_now):
        raise ValueError(f"no change of sign between {low:g} ({value_before:g}) and {high:g} ({value_now:g})")
    block, value_block, last, this = 0.0, 0.0, 0.0, 0.0
    for _ in range(MOST_STEPS):
        if _opposite(value_before, value_now):
            block, value_block = before, value_before
            last = this = now - before
        if abs(value_block) < abs(value_now):
            before, now, block = now, block, now
            value_before, value_now, value_block = value_now, value_block, value_now
        delta = (xtol + rtol * abs(now)) / 2.0
        half = (block - now) / 2.0
        if value_now == 0.0 or abs(half) < delta:
            return now
        if abs(last) > delta and abs(value_now) < abs(value_before):
            step = _secant(before, value_before, now, value_now, block, value_block)
            last, this = (this, step) if 2.0 * abs(step) < min(abs(last), 3.0 * abs(half) - delta) else (half, half)
        else:
            last = this = half
        before, value_before = now, value_now
        now += this if abs(this) > delta else math.copysign(delta, half)
        value_now = float(function(now))
        if math.isnan(value_now):
            raise ValueError(f"the function is not a number at {now:g}")
    raise RuntimeError(f"no root within {MOST_STEPS} steps between {low:g} and {high:g}")


def _secant(
    before: float, value_before: float, now: float, value_now: float, block: float, value_block: float
) -> float:
    """The way from ``now`` to where a line through two points, or an inverse parabola through three, is zero."""
    if before == block:
        return _quotient(-value_now * (now - before), value_now - value_before)
    slope = _quotient(value_before - value_now, before - now)
    to_block = _quotient(value_block - value_now, block - now)
    away = -value_now * (value_block * to_block - value_before * slope)
    return _quotient(away, to_block * slope * (value_block - value_before))


def _quotient(one: float, other: float) -> float:
    """As IEEE 754 has it: a divisor too small for a number makes it infinite or none, and the interval is halved."""
    if other != 0.0:
        return one / other
    return math.nan if one == 0.0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1.0, other)


def _opposite(one: float, other: float) -> bool:
    """One is below zero, and the other one above; their product may be too small for a number."""
    return one < 0.0 < other or other < 0.0 < one
