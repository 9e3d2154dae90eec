"""Brent's method, beside scipy's own."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize

from evalspec.stats.midranks import midranks
from evalspec.stats.roots import brentq

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "a line": lambda x: x - 0.3,
    "a cubic": lambda x: (x - 0.3) ** 3 + 0.01 * (x - 0.3),
    "a step": lambda x: math.copysign(1.0, x - 0.3),
    "flat, then steep": lambda x: math.expm1(40.0 * (x - 0.9)),
    "tiny values": lambda x: 1e-200 * (x - 0.7),
    "values near no number": lambda x: 1e-300 * (math.exp(3.0 * x) - math.exp(2.1)),
    "flat on both sides": lambda x: 1e-160 * math.tanh(50.0 * (x - 0.7)),
    "a wave": lambda x: math.cos(3.0 * x) - 0.2 * x,
    "a numpy value": lambda x: np.tanh(np.float64(5.0 * x - 1.0)) - 0.25,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("low, high", [(-1.0, 1.0), (1.0, -1.0), (0.0, 0.95), (-0.013, 17.3)])
@pytest.mark.parametrize("tolerance", [{}, {"xtol": 1e-9, "rtol": 1e-9}, {"rtol": 1e-4}])
def test_every_root_is_scipys_to_the_last_bit(name: str, low: float, high: float, tolerance: dict[str, float]) -> None:
    function, calls, theirs = FUNCTIONS[name], [], []

    def counted(into: list[float]) -> Callable[[float], float]:
        def value(x: float) -> float:
            into.append(x)
            return function(x)

        return value

    if not function(low) * function(high) < 0 and not name.startswith(("tiny", "values near", "flat on")):
        with pytest.raises(ValueError, match="different signs"):
            optimize.brentq(function, low, high)
        with pytest.raises(ValueError, match="no change of sign"):
            brentq(function, low, high)
        return
    expected = optimize.brentq(counted(theirs), low, high, **tolerance)
    root = brentq(counted(calls), low, high, **tolerance)
    assert root == expected
    assert type(root) is float
    assert calls[2:] == theirs[-len(calls) + 2 :]


def test_an_end_that_is_a_root_is_the_answer() -> None:
    assert brentq(lambda x: x, 0.0, 1.0) == 0.0
    assert brentq(lambda x: x - 1.0, 0.0, 1.0) == 1.0


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="no change of sign"):
        brentq(lambda x: math.nan, 0.0, 1.0)
    with pytest.raises(ValueError, match="not a number at"):
        brentq(lambda x: x - 0.5 if x in (0.0, 1.0) else math.nan, 0.0, 1.0)


def test_a_root_that_is_approached_too_slowly_is_not_given() -> None:
    with pytest.raises(RuntimeError, match="100 steps"):
        brentq(lambda x: (x - 0.3) ** 3, -1.0, 1.0)


def test_midranks_are_scipys() -> None:
    from scipy.stats import rankdata

    rng = np.random.default_rng(0)
    for values in (rng.normal(size=50), rng.integers(0, 9, 200).astype(float), np.zeros(3), np.empty(0)):
        np.testing.assert_array_equal(midranks(values), rankdata(values))
