"""Quantiles over runs: worked numbers, an independent binomial, and error rates by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from evalspec.stats.training.reached import HigherQuantile, run_quantile, runs_to_pass
from tests.trainings.logs import TYCHE

RUNS = 40_000


def exact(minutes: object, q: float = 0.5):  # type: ignore[no-untyped-def]
    return run_quantile(minutes, minutes, q)


def test_llama_on_8_gpus_comes_out_as_worked() -> None:
    found = exact(TYCHE)
    assert found.value == pytest.approx(80.16, abs=0.001)
    assert (found.bound(0.95, "lower"), found.bound(0.95, "upper")) == (75.592, 81.471)
    assert found.p_value(82, "upper") == pytest.approx(11 / 1024)
    assert found.p_value(80, "upper") == pytest.approx(0.623, abs=5e-4)
    assert found.p_value(78, "lower") == pytest.approx(0.172, abs=5e-4)


def test_p_values_are_those_of_scipys_binomial() -> None:
    draw = np.random.default_rng(1)
    for n in (1, 2, 5, 8, 14, 29):
        times = draw.lognormal(size=n)
        for q in (0.5, 0.8, 0.9):
            for limit in (0.0, 0.7, 1.0, 3.0, 1e9):
                k = int((times <= limit).sum())
                assert exact(times, q).p_value(limit, "upper") == pytest.approx(stats.binom.sf(k - 1, n, q))
                below = int((times < limit).sum())
                assert exact(times, q).p_value(limit, "lower") == pytest.approx(stats.binom.cdf(below, n, q))


def test_bounds_invert_the_p_values() -> None:
    times = np.random.default_rng(2).lognormal(size=14)
    for q in (0.5, 0.8):
        found = exact(times, q)
        upper = found.bound(0.95, "upper")
        assert upper is not None
        assert found.p_value(upper, "upper") <= 0.05 < found.p_value(upper - 1e-9, "upper")  # type: ignore[operator]
        lower = found.bound(0.95, "lower")
        assert lower is not None
        assert found.p_value(lower, "lower") <= 0.05 < found.p_value(lower + 1e-9, "lower")  # type: ignore[operator]


def test_the_fewest_runs_are_those_of_the_method() -> None:
    assert [runs_to_pass(q, 0.95) for q in (0.5, 0.8, 0.9)] == [5, 14, 29]
    assert [runs_to_pass(q, 0.95, 1) for q in (0.5, 0.8, 0.9)] == [8, 22, 46]


def test_pass_counts_the_evaluation_and_fail_the_one_before() -> None:
    """Five runs between 9 and 11: at 10 nothing is shown, at 11 that all are within, at 9 that none is."""
    found = run_quantile([9.0] * 5, [11.0] * 5, 0.5)
    assert found.p_value(10, "upper") == found.p_value(10, "lower") == 1.0
    assert found.p_value(11, "upper") == found.p_value(9, "lower") == 1 / 32
    assert (found.bound(0.95, "lower"), found.bound(0.95, "upper")) == (9.0, 11.0)


def test_a_run_that_never_got_there_is_later_than_any_limit() -> None:
    found = run_quantile([1.0, 1, 1, 1, math.inf], [2.0, 2, 2, 2, math.inf], 0.5)
    assert found.p_value(1e12, "upper") == 6 / 32
    assert found.bound(0.95, "upper") is None
    assert "1 of 5 runs did not get there" in found.notes[0]
    none = run_quantile([math.inf] * 5, [math.inf] * 5, 0.5, [30.0] * 5)
    assert none.value == 30.0
    assert none.p_value(40, "lower") == 1 / 32


def test_a_value_that_is_only_as_far_as_runs_went_says_so() -> None:
    lost = [math.inf] * 9 + [2.0, 2.5, 3.0]
    seen = [2.7] * 9 + [2.0, 2.5, 3.0]
    half = run_quantile(lost, lost, 0.5, seen)
    assert half.value == 3.0 and half.p_value(3.3, "lower") > 0.05  # type: ignore[operator]
    assert half.method.endswith("no bound: 9 of 12 runs did not get there")
    assert "no bound" not in run_quantile(lost, lost, 0.2, seen).method


def test_no_run_shows_nothing() -> None:
    found = run_quantile([], [], 0.5)
    assert found.value is None
    assert found.bound(0.95, "upper") is None
    assert found.p_value(1, "upper") is None


def test_four_of_five_seeds_end_above() -> None:
    values = np.array([0.95] * 14)
    closed = np.zeros(14, dtype=bool)
    found = HigherQuantile(values, 0.2, closed)
    assert found.value == 0.95
    assert found.bound(0.95, "lower") == 0.95
    assert found.p_value(0.95, "lower") == pytest.approx(0.8**14)
    assert found.p_value(0.96, "upper") == pytest.approx(0.2**14)
    open_runs = HigherQuantile(values, 0.2, np.ones(14, dtype=bool))
    assert open_runs.p_value(0.5, "lower") == 1.0
    assert open_runs.p_value(0.99, "upper") == 1.0


POPULATIONS = {
    "lognormal": lambda draw, shape: draw.lognormal(3.0, 0.05, shape),
    "wide lognormal": lambda draw, shape: draw.lognormal(3.0, 0.25, shape),
    "a grid of evaluations": lambda draw, shape: np.ceil(draw.lognormal(3.0, 0.1, shape) / 2.0) * 2.0,
    "skewed": lambda draw, shape: 20.0 + draw.exponential(3.0, shape),
    "two peaks": lambda draw, shape: np.where(draw.random(shape) < 0.4, 20.0, 30.0) + draw.normal(0, 0.1, shape),
    "a few that diverge": lambda draw, shape: np.where(
        draw.random(shape) < 0.1, np.inf, draw.lognormal(3.0, 0.1, shape)
    ),
}


@pytest.mark.proof
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("q", [0.5, 0.8])
def test_the_quantile_rule_errs_at_most_1_time_in_20(name: str, q: float) -> None:
    """PASS at a threshold below the true quantile, and FAIL at it or above."""
    draw = np.random.default_rng(7)
    truth = float(np.quantile(POPULATIONS[name](draw, 2_000_000), q, method="inverted_cdf"))
    for n in (5, 8, 10, 14):
        times = POPULATIONS[name](draw, (RUNS, n))
        within, below = (times < truth - 1e-9).sum(axis=1), (times < truth).sum(axis=1)
        passes = np.array([stats.binom.sf(k - 1, n, q) <= 0.05 for k in range(n + 1)])
        fails = np.array([stats.binom.cdf(k, n, q) <= 0.05 for k in range(n + 1)])
        assert passes[within].mean() <= 0.053
        # On the grid the truth itself has weight, and a value on the threshold meets it.
        at = (times <= truth).sum(axis=1)
        assert fails[at].mean() <= 0.053
        assert (below <= at).all()
