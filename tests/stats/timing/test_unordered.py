"""Percentiles of queries in no known order, beside exact binomials and a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from evalspec.stats.timing.unordered import UnorderedShare, unordered_percentile


@pytest.mark.parametrize(("over", "n"), [(0, 300), (3, 300), (150, 300), (300, 300), (1, 5)])
def test_a_share_without_dependence_is_clopper_and_pearsons(over: int, n: int) -> None:
    share = UnorderedShare(over, n, 1.0)
    exact = binomtest(over, n).proportion_ci(0.90, method="exact")
    assert share.bound(0.95, "lower") == pytest.approx(exact.low, abs=1e-9)
    assert share.bound(0.95, "upper") == pytest.approx(exact.high, abs=1e-9)
    assert share.p_value(0.1, "upper") == pytest.approx(float(binom.cdf(over, n, 0.1)), abs=1e-9)
    assert share.p_value(0.1, "lower") == pytest.approx(float(binom.sf(over - 1, n, 0.1)), abs=1e-9)


def test_a_design_effect_divides_counts() -> None:
    wide, narrow = UnorderedShare(50, 5000, 50.0), UnorderedShare(1, 100, 1.0)
    for side in ("lower", "upper"):
        assert wide.bound(0.95, side) == pytest.approx(narrow.bound(0.95, side))
        assert wide.p_value(0.02, side) == pytest.approx(narrow.p_value(0.02, side))


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("effect", [1.0, 4.0])
def test_bounds_are_where_the_p_value_turns(p: float, effect: float) -> None:
    rng = np.random.default_rng(3)
    values = rng.lognormal(3.0, 1.0, 4000)
    values[::97] = math.inf
    estimate = unordered_percentile(values, p, effect)
    for side, step in (("upper", -1), ("lower", 1)):
        bound = estimate.bound(0.95, side)
        if bound is None:
            assert side == "upper" and p == 0.99, "too many failed"
            continue
        at = int(np.searchsorted(estimate.ordered, bound))
        # Of a lower bound the observation itself lies above what is shown.
        just = bound if side == "upper" else float(np.nextafter(bound, -math.inf))
        assert (estimate.p_value(just, side) or 0.0) <= 0.05
        beside = float(estimate.ordered[at + step])
        beside = beside if side == "upper" else float(np.nextafter(beside, -math.inf))
        assert (estimate.p_value(beside, side) or 1.0) > 0.05


def test_little_or_nothing() -> None:
    assert unordered_percentile([], 0.9, 50.0).value is None
    assert unordered_percentile([], 0.9, 50.0).bound(0.95, "upper") is None
    assert unordered_percentile([1.0], 0.9, 50.0).bound(0.95, "upper") is None
    failed = unordered_percentile([math.inf] * 3000, 0.5, 50.0)
    assert failed.value is None and failed.bound(0.95, "upper") is None
    assert (failed.p_value(100.0, "lower") or 1.0) < 0.01
    with pytest.raises(ValueError, match="a percentile is between 0 and 1"):
        unordered_percentile([1.0], 1.0, 50.0)
    assert unordered_percentile([1.0, 2.0], 0.5, 1.0).n_to_decide(1.0, 0.05) is None, "on the threshold"


@pytest.mark.parametrize("spell", [1, 50])
def test_a_percentile_at_its_limit_passes_in_one_of_twenty_runs(spell: int) -> None:
    """Slow queries that come 50 at a time say as much as one, which is what the design effect takes for granted."""
    rng = np.random.default_rng(11)
    passed, runs = 0, 1500
    for _ in range(runs):
        slow = np.repeat(rng.random(4000 // spell) < 0.05, spell)
        estimate = unordered_percentile(np.where(slow, 900.0, 100.0), 0.95, 50.0)
        passed += (estimate.p_value(500.0, "upper") or 0.0) <= 0.05
    assert passed / runs <= 0.065
