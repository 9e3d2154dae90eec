"""Bounds by inversion: those that plain bisection finds, with fewer evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr

from evalspec.evidence.estimate import Side
from evalspec.stats.invert import Falling, bound_from_p, p_from_bounds, upper_of_largest

LEVELS = (0.5, 0.8, 0.95, 0.99, 0.9999)
Curve = Callable[[float], float]


def bisected(curves: Sequence[Curve], confidence: float, start: float, limits: tuple[float, float]) -> float:
    """The upper bound of the largest of some p-values, by nothing but halves."""

    def cleared(threshold: float) -> bool:
        return all(curve(threshold) <= 1.0 - confidence for curve in curves)

    inner, outer = (limits[0], start) if cleared(start) else (start, limits[1])
    if not cleared(outer):
        return outer
    while abs(outer - inner) > 1e-10 * (1.0 + abs(outer)):
        middle = 0.5 * (outer + inner)
        inner, outer = (inner, middle) if cleared(middle) else (middle, outer)
    return outer


class Counted:
    """A curve that counts how often it is evaluated."""

    def __init__(self, curve: Curve) -> None:
        self.curve, self.count = curve, 0

    def __call__(self, at: float) -> float:
        self.count += 1
        return self.curve(at)


def normal(centre: float, width: float) -> Curve:
    return lambda at: float(ndtr((centre - at) / width))


def stepped(centre: float, width: float, steps: int) -> Curve:
    smooth = normal(centre, width)
    return lambda at: math.ceil(steps * smooth(math.floor(at * steps) / steps)) / steps


CURVES = st.one_of(
    st.builds(normal, st.floats(0.0, 1.0), st.floats(1e-6, 0.5)),
    st.builds(stepped, st.floats(0.0, 1.0), st.floats(1e-3, 0.5), st.integers(1, 60)),
    st.builds(lambda level: lambda _: level, st.sampled_from((0.0, 0.05, 0.5, 1.0))),
    st.builds(lambda cut: lambda at: 1.0 if at < cut else 0.0, st.floats(0.0, 1.0)),
)


@given(curves=st.lists(CURVES, min_size=1, max_size=5), start=st.floats(0.0, 1.0))
def test_the_largest_of_p_values_has_the_bound_that_halves_find(curves: list[Curve], start: float) -> None:
    fallings = [Falling(curve) for curve in curves]
    # What was asked at one level is known at the next.
    for confidence in LEVELS:
        wanted = bisected(curves, confidence, start, (0.0, 1.0))
        assert upper_of_largest(fallings, confidence, start, (0.0, 1.0)) == wanted


@given(curve=CURVES, start=st.floats(0.0, 1.0), confidence=st.sampled_from(LEVELS))
def test_either_bound_is_the_mirror_of_the_other(curve: Curve, start: float, confidence: float) -> None:
    def p_value(threshold: float, side: Side) -> float:
        return curve(threshold if side == "upper" else 1.0 - threshold)

    upper = bound_from_p(p_value, confidence, "upper", start, (0.0, 1.0))
    lower = bound_from_p(p_value, confidence, "lower", 1.0 - start, (0.0, 1.0))
    assert lower == pytest.approx(1.0 - upper, abs=1e-9)


def test_a_smooth_curve_is_evaluated_a_third_as_often() -> None:
    for centre, width in ((0.02, 0.01), (0.3, 0.2), (0.7, 0.003)):
        ours, plain = Counted(normal(centre, width)), Counted(normal(centre, width))
        bound = upper_of_largest([Falling(ours)], 0.95, centre, (0.0, 1.0))
        assert bound == bisected([plain], 0.95, centre, (0.0, 1.0))
        assert bound == pytest.approx(stats.norm.isf(0.05, centre, width), abs=1e-9)
        assert 3 * ours.count <= plain.count


def test_a_curve_is_evaluated_once_at_each_argument() -> None:
    counted = Counted(normal(0.3, 0.1))
    falling = Falling(counted)
    first = upper_of_largest([falling], 0.95, 0.3, (0.0, 1.0))
    before = counted.count
    assert upper_of_largest([falling], 0.95, 0.3, (0.0, 1.0)) == first and counted.count == before


def test_one_p_value_that_is_cleared_where_another_is_not_costs_one_evaluation() -> None:
    binding, other = Counted(normal(0.5, 0.1)), Counted(normal(0.1, 0.01))
    upper_of_largest([Falling(binding), Falling(other)], 0.95, 0.5, (0.0, 1.0))
    assert other.count <= 3


@given(value=st.floats(-2.0, 2.0), error=st.floats(1e-3, 2.0), threshold=st.floats(-3.0, 3.0))
def test_the_p_value_of_a_bound_is_that_of_its_test(value: float, error: float, threshold: float) -> None:
    def bound(confidence: float, side: Side) -> float:
        reach = float(stats.norm.ppf(confidence)) * error
        return value - reach if side == "lower" else value + reach

    for side, score in (("lower", (value - threshold) / error), ("upper", (threshold - value) / error)):
        p = p_from_bounds(bound, threshold, side)  # type: ignore[arg-type]
        wanted = 1.0 if score < -8.0 else float(ndtr(-min(score, 8.0)))
        assert p == pytest.approx(wanted, rel=1e-6)


def test_a_bound_that_is_missing_or_infinite_clears_nothing() -> None:
    def missing(confidence: float, side: Side) -> float | None:
        return None if confidence > 0.9 else 1.0

    assert p_from_bounds(missing, 0.5, "lower") == pytest.approx(0.1, rel=1e-9)
    assert p_from_bounds(lambda *_: None, 0.5, "lower") == 1.0

    def endless(confidence: float, side: Side) -> float:
        return -math.inf if confidence > 0.9 else math.inf

    assert p_from_bounds(endless, 0.5, "lower") == pytest.approx(0.1, rel=1e-9)


def test_a_p_value_that_is_no_number_clears_nothing() -> None:
    assert upper_of_largest([Falling(lambda at: math.nan)], 0.95, 0.3, (0.0, 1.0)) == 1.0
    only_above = Falling(lambda at: math.nan if at < 0.6 else 0.0)
    assert upper_of_largest([only_above], 0.95, 0.3, (0.0, 1.0)) == pytest.approx(0.6, abs=1e-9)


def test_the_bound_of_a_binomial_share_is_that_of_clopper_and_pearson() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        n = int(rng.integers(2, 3000))
        hits = int(rng.integers(0, n))
        bound = upper_of_largest([Falling(partial(stats.binom.cdf, hits, n))], 0.95, hits / n, (0.0, 1.0))
        assert bound == pytest.approx(stats.beta.ppf(0.95, hits + 1, n - hits), abs=1e-9)
