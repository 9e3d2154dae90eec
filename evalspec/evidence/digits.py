"""Digits of a measured number: as many as its interval can tell apart, and as its threshold needs."""

from __future__ import annotations

import math

from evalspec.evidence.test import Test
from evalspec.evidence.units import WHOLES, decimals_of, format_number

MOST_DECIMALS = 12


def decimals_for(test: Test) -> int | None:
    """Decimals of the value of a test and of its bounds, in the test's unit.

    Two digits of the interval's width, and no more than four significant ones, unless a number would then lie on the
    other side of the threshold, on it, or be the whole or nothing at all.

    Returns:
        Below 0: so many digits before the point are zero. None: there is no interval.
    """
    numbers = [one for one in (test.value, test.lower, test.upper) if one is not None and math.isfinite(one)]
    width = _width(test)
    if test.exact or not numbers or width is None or not 0 < width < math.inf:
        return None
    most = max(decimals_of(format_number(one, test.unit)) for one in numbers)
    decimals = min(1 - math.floor(math.log10(width)), most)
    marks = [test.threshold, 0.0, *([WHOLES[test.unit]] if test.unit in WHOLES else [])]
    while decimals < MOST_DECIMALS and not all(_same_side(one, mark, decimals) for one in numbers for mark in marks):
        decimals += 1
    return decimals


def _width(test: Test) -> float | None:
    if test.lower is not None and test.upper is not None:
        return test.upper - test.lower
    bound = test.lower if test.lower is not None else test.upper
    return None if bound is None or test.value is None else 2.0 * abs(test.value - bound)


def _same_side(value: float, mark: float, decimals: int) -> bool:
    shown = round(value, decimals)
    return (value > mark, value < mark) == (shown > mark, shown < mark)
