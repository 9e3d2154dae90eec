"""Highest rate, goodput, the factor of a spike: what they rest on decides them."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.evidence.estimate import Estimate
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.rates import Factor, Goodput, MaxRate
from evalspec.stats.timing.share_over import share_over


def at(p99_ms: float, n: int = 20_000, seed: int = 1) -> Estimate:
    """Exponential latencies with this p99."""
    rng = np.random.default_rng(seed)
    return percentile([rng.exponential(p99_ms / 4.60517, n)], 0.99)


def test_the_highest_rate_is_decided_by_the_run_at_that_rate() -> None:
    runs = {100.0: at(5.0), 500.0: at(8.0), 900.0: at(30.0)}
    highest = MaxRate(runs, 10.0)
    assert highest.value == 500.0
    for rate in runs:
        assert highest.p_value(rate, "lower") == runs[rate].p_value(10.0, "upper")
        assert highest.p_value(rate, "upper") == runs[rate].p_value(10.0, "lower")
        assert highest.n_to_decide(rate, 0.05) == runs[rate].n_to_decide(10.0, 0.05)
    assert (highest.bound(0.95, "lower"), highest.bound(0.95, "upper")) == (500.0, 900.0)
    # Between two rates the next one beyond speaks.
    assert highest.p_value(300.0, "lower") == runs[500.0].p_value(10.0, "upper")
    assert highest.p_value(600.0, "upper") == runs[500.0].p_value(10.0, "lower")
    assert highest.p_value(1000.0, "lower") is None and highest.p_value(50.0, "upper") is None


def test_a_search_adds_a_value_and_no_evidence() -> None:
    runs = {500.0: at(8.0)}
    assert MaxRate(runs, 10.0, found=640.0).value == 640.0
    assert MaxRate(runs, 10.0, found=640.0).bound(0.95, "lower") == 500.0
    # A rate above one at which the objective was missed is none.
    assert MaxRate({500.0: at(30.0)}, 10.0, found=640.0).value is None
    missed = MaxRate({500.0: at(30.0)}, 10.0, found=320.0)
    assert missed.value == 320.0 and missed.bound(0.95, "upper") == 500.0
    p = missed.p_value(500.0, "upper")
    assert p is not None and p < 1e-6


def test_goodput_is_the_rate_times_the_share_in_time() -> None:
    rng = np.random.default_rng(2)
    spent = [np.where(rng.random(20_000) < 0.05, 50.0, 1.0) + rng.random(20_000)]
    good, late = Goodput(400.0, share_over(spent, 10.0)), share_over(spent, 10.0)
    assert good.value == pytest.approx(380.0, abs=3.0)
    lower, upper = good.bound(0.95, "lower"), good.bound(0.95, "upper")
    assert lower is not None and upper is not None and good.value is not None and lower < good.value < upper
    assert good.p_value(390.0, "upper") == late.p_value(1 - 390 / 400, "lower")
    assert good.n == 20_000 and good.n_to_decide(370.0, 0.05) == late.n_to_decide(1 - 370 / 400, 0.05)


def test_a_factor_has_both_bounds_wrong_at_half_the_level() -> None:
    above, below = at(90.0, seed=3), at(10.0, seed=4)
    factor = Factor(above, below)
    assert factor.value is not None and factor.value == pytest.approx(9.0, rel=0.1)
    upper, lower = factor.bound(0.95, "upper"), factor.bound(0.95, "lower")
    parts = above.bound(0.975, "upper"), below.bound(0.975, "lower")
    assert parts[0] is not None and parts[1] is not None
    assert upper == parts[0] / parts[1]
    assert lower is not None and upper is not None and lower < factor.value < upper
    p_pass, p_fail = factor.p_value(12.0, "upper"), factor.p_value(12.0, "lower")
    assert p_pass is not None and p_pass < 0.01 and p_fail is not None and p_fail > 0.5


def test_a_factor_of_nothing_is_none() -> None:
    nothing = percentile([], 0.99)
    factor = Factor(nothing, at(10.0))
    assert factor.value is None and factor.bound(0.95, "upper") is None and factor.p_value(3.0, "upper") is None
