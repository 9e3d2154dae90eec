"""Ratios of geometric means: worked numbers, Welch's test of scipy, and error rates by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from evalspec.stats.training.scaling import log_ratio


@pytest.mark.parametrize(
    ("workers", "single", "many", "efficiency"),
    [(8, 24.0, 4.0, 0.75), (2, 4000 / 60, 200 / 60, 10.0), (132, 200.0, 2.0, 0.7576)],
)
def test_efficiency_as_worked(workers: int, single: float, many: float, efficiency: float) -> None:
    assert log_ratio([single] * 3, [many] * 3, 1 / workers).value == pytest.approx(efficiency, abs=1e-4)


def test_speed_ups_of_the_table_against_one_gpu() -> None:
    """4000, 200, 110 and 30 minutes: 20x, 36.36x and 133.3x."""
    found = [log_ratio([4000.0], [one]).value for one in (200.0, 110.0, 30.0)]
    assert found == pytest.approx([20.0, 36.36, 133.33], abs=0.005)
    assert [log_ratio([200.0], [one], k).value for one, k in ((110.0, 0.5), (30.0, 0.125))] == pytest.approx(
        [0.9091, 0.8333], abs=1e-4
    )


def test_more_samples_a_second_and_more_iterations_is_slower() -> None:
    """180 to 420 samples a second, 2.5 times the iterations: 0.933x."""
    assert log_ratio([420.0], [180.0], 1 / 2.5).value == pytest.approx(0.933, abs=5e-4)


def test_welch_is_that_of_scipy() -> None:
    draw = np.random.default_rng(1)
    a, b = draw.lognormal(2.0, 0.1, 5), draw.lognormal(1.0, 0.3, 7)
    found = log_ratio(a, b)
    for threshold in (2.0, 2.7, 3.5):
        test = stats.ttest_ind(np.log(a) - math.log(threshold), np.log(b), equal_var=False, alternative="greater")
        assert found.p_value(threshold, "lower") == pytest.approx(test.pvalue)
    bound = found.bound(0.95, "lower")
    assert bound is not None
    assert found.p_value(bound, "lower") == pytest.approx(0.05)


def test_a_run_that_missed_leaves_no_bound() -> None:
    found = log_ratio([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], lost=1)
    assert found.value is not None
    assert found.bound(0.95, "lower") is None
    assert found.p_value(0.1, "lower") is None
    assert "1 run did not get there" in found.method


def test_two_runs_on_a_side_have_no_bound() -> None:
    assert log_ratio([1.0, 1.1], [2.0, 2.1, 2.2]).p_value(0.1, "lower") is None


def test_constant_times_have_the_evaluation_interval_as_their_spread() -> None:
    exact, coarse = log_ratio([4.0] * 5, [6.0] * 5), log_ratio([4.0] * 5, [6.0] * 5, coarse=(0.08, 0.05))
    assert exact.bound(0.95, "lower") == exact.value
    assert coarse.bound(0.95, "lower") < coarse.value  # type: ignore[operator]


def test_what_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        log_ratio([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])


@pytest.mark.proof
@pytest.mark.parametrize(("n", "m", "one", "other"), [(5, 5, 0.05, 0.05), (3, 3, 0.1, 0.1), (10, 5, 0.04, 0.15)])
def test_efficiency_errs_1_time_in_20(n: int, m: int, one: float, other: float) -> None:
    draw, hits, trials = np.random.default_rng(5), np.zeros(2), 6_000
    for _ in range(trials):
        found = log_ratio(draw.lognormal(2.0, one, n), draw.lognormal(2.0, other, m))
        hits += [found.p_value(1.0, side) <= 0.05 for side in ("upper", "lower")]  # type: ignore[operator]
    assert (hits / trials <= 0.06).all()
    assert (hits / trials >= 0.035).all()
