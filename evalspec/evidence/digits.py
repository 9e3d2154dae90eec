"""Digits of a measured number: as many as its interval can tell apart, and as its threshold needs."""

from __future__ import annotations

import math

from evalspec.evidence.test import Test
from evalspec.evidence.units import WHOLES, decimals_of, format_number

MOST_DECIMALS = 12


def decimals_for(test: Test) -> int | None:
    """Decimals of the value of a test and of its bounds, in the test's unit.

    Two digits of the interval's width, by its nearer bound, and no more than four significant ones, unless a number
    would then lie on the other side of the threshold, on it, or be the whole, nothing at all, or a ratio of one.

    Returns:
        Below 0: so many digits before the point are zero. None: there is no interval.
    """
    numbers = [one for one in (test.value, test.lower, test.upper) if one is not None and math.isfinite(one)]
    width = _width(test)
    if test.exact or not numbers or width is None or not 0 < width < math.inf:
        return None
    most = max(decimals_of(format_number(one, test.unit)) for one in numbers)
    decimals = min(1 - math.floor(math.log10(width)), most)
    marks = [
        test.threshold,
        0.0,
        *([WHOLES[test.unit]] if test.unit in WHOLES else []),
        *([1.0] if test.unit == "x" else []),
    ]
    while decimals < MOST_DECIMALS and not all(_same_side(one, mark, decimals) for one in numbers for mark in marks):
        decimals += 1
    return decimals


def _width(test: Test) -> float | None:
    """Twice the way from the value to the nearer bound that is not the value itself."""
    bounds = [one for one in (test.lower, test.upper) if one is not None]
    if test.value is None:
        return bounds[1] - bounds[0] if len(bounds) == 2 else None
    ways = [way for one in bounds if (way := abs(one - test.value)) > 0]
    return 2.0 * min(ways) if ways else (0.0 if bounds else None)


def _same_side(value: float, mark: float, decimals: int) -> bool:
    shown = round(value, decimals)
    return (value > mark, value < mark) == (shown > mark, shown < mark)
