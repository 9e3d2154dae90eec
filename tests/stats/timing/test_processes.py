"""Processes, pairs, blocks, trends, warm-up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.timing.processes import (
    block_cv,
    block_medians,
    drift,
    jitter,
    over_processes,
    paired_log_ratio,
)

SIDES: tuple[Side, Side] = ("lower", "upper")
CANDIDATE = np.array([10.0, 11.0, 12.0, 10.5, 11.2])
BASELINE = np.array([8.0, 8.7, 9.5, 8.8, 8.9])
COLD = np.array([15.2, 12.1, 10.8, 10.5, 10.6, 10.4])
WARM = np.array([10.5, 10.6, 10.4, 10.7, 10.5, 10.6])


def test_processes_agree_with_scipy() -> None:
    estimate = over_processes(CANDIDATE)
    assert isinstance(estimate, Estimate)
    sides: tuple[tuple[Side, str], ...] = (("upper", "less"), ("lower", "greater"))
    for side, alternative in sides:
        expected = stats.ttest_1samp(CANDIDATE, 11.5, alternative=alternative)
        assert estimate.p_value(11.5, side) == pytest.approx(expected.pvalue, rel=1e-9)
        bound = estimate.bound(0.95, side)
        assert bound is not None
        assert estimate.p_value(bound, side) == pytest.approx(0.05, rel=1e-9)


@pytest.mark.parametrize(("n", "multiplier"), [(3, 4.3027), (5, 2.7764), (10, 2.2622), (30, 2.0452), (100, 1.9842)])
def test_the_multiplier_is_that_of_t(n: int, multiplier: float) -> None:
    # REQUIREMENTS N16: two-sided 95 % is one-sided 97.5 %.
    values = np.linspace(0, 1, n)
    upper = over_processes(values).bound(0.975, "upper")
    assert upper is not None
    assert (upper - values.mean()) / (values.std(ddof=1) / math.sqrt(n)) == pytest.approx(multiplier, abs=5e-5)


@pytest.mark.parametrize("values", [[], [3.0], [3.0, 3.0, 3.0]])
def test_too_little_to_see_spread_has_no_bound(values: list[float]) -> None:
    # N17 is replaced: one sample has no interval and decides nothing.
    estimate = over_processes(values)
    assert estimate.value == (3.0 if values else None)
    assert "no bound" in estimate.method
    assert estimate.bound(0.95, "upper") is None
    assert estimate.p_value(5.0, "upper") is None
    assert estimate.n_to_decide(5.0, 0.05) is None


def test_a_lower_bound_stops_at_what_no_value_is_below() -> None:
    steps = [0.1, 0.1, 0.1, 0.1, 2.0]
    free, held = over_processes(steps), over_processes(steps, least=0.0)
    below = free.bound(0.95, "lower")
    assert below is not None and below < 0.0
    assert held.bound(0.95, "lower") == 0.0
    assert held.bound(0.6, "lower") == free.bound(0.6, "lower")
    assert held.bound(0.95, "upper") == free.bound(0.95, "upper")
    assert held.p_value(1.0, "upper") == free.p_value(1.0, "upper")


def test_ratio_is_t_on_the_logs() -> None:
    ratio = paired_log_ratio(CANDIDATE, BASELINE).ratio()
    assert ratio is not None
    expected = stats.ttest_rel(np.log(CANDIDATE), np.log(1.2 * BASELINE), alternative="greater")
    assert ratio.p_value(1.2, "lower") == pytest.approx(expected.pvalue, rel=1e-9)
    assert ratio.value == pytest.approx(float(stats.gmean(CANDIDATE / BASELINE)))
    upper = ratio.bound(0.95, "upper")
    assert upper is not None and ratio.value is not None
    assert upper > ratio.value
    assert ratio.p_value(0.0, "lower") == 0.0 and ratio.p_value(0.0, "upper") == 1.0


def test_difference_is_t_on_the_differences() -> None:
    difference = paired_log_ratio(CANDIDATE, BASELINE).difference(1.1, 0.5)
    expected = stats.ttest_1samp(CANDIDATE - 1.1 * BASELINE, 0.5, alternative="less")
    assert difference.p_value(0.5, "upper") == pytest.approx(expected.pvalue, rel=1e-9)


def test_a_pair_without_time_has_no_ratio() -> None:
    comparison = paired_log_ratio([0.0, 1.0], [1.0, 1.0])
    assert comparison.ratio() is None
    assert comparison.difference(1.0, 0.0).value == -0.5
    assert paired_log_ratio([1.0], [0.0]).baseline_value is None


def test_unequal_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="not pairs"):
        paired_log_ratio([1.0, 2.0], [1.0])


def test_n_to_decide_has_the_power_it_promises() -> None:
    estimate = over_processes(CANDIDATE)
    n = estimate.n_to_decide(12.0, 0.05)
    assert n is not None and (n.unit, n.now) == ("processes", 5)
    effect = (12.0 - CANDIDATE.mean()) / CANDIDATE.std(ddof=1)

    def power(k: int) -> float:
        return float(stats.nct.sf(stats.t.isf(0.05, k - 1), k - 1, effect * math.sqrt(k)))

    assert power(n - 1) < 0.8 <= power(n)
    assert estimate.n_to_decide(float(CANDIDATE.mean()), 0.05) is None


def test_block_medians_leave_a_rest_out() -> None:
    assert block_medians([1, 2, 3, 4, 5, 6, 7, 99], 2).tolist() == [2.5, 6.5]
    assert block_medians([1, 2, 3, 4, 5, 6, 7, 8, 99], 2).tolist() == [2.5, 6.5]
    assert block_medians([], 5).tolist() == []
    assert block_medians([3.0, 1.0], 5).tolist() == [3.0, 1.0]


def test_cv_tells_cold_from_warm() -> None:
    # REQUIREMENTS N9: 0.16128 and 0.00994, one value a block.
    assert block_cv([COLD], blocks=6) == pytest.approx(0.16128, abs=5e-6)
    assert block_cv([WARM], blocks=6) == pytest.approx(0.00994, abs=5e-6)
    # N13: CV .0098 and .1673.
    assert block_cv([np.array([10.2, 10.3, 10.1])]) == pytest.approx(0.0099, abs=1e-4)
    assert block_cv([np.array([9.5, 12.1, 8.9])]) == pytest.approx(0.1673, abs=5e-5)
    assert block_cv([]) is None and block_cv([np.array([1.0])]) is None


def test_one_slow_query_is_not_a_noisy_run() -> None:
    latencies = np.random.default_rng(0).lognormal(0, 0.05, 1000)
    latencies[500] = 1000.0
    cv = block_cv([latencies])
    assert cv is not None and cv < 0.02


def test_drift_finds_a_rise_and_a_fall_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    flat = [rng.lognormal(0, 0.2, 400) for _ in range(5)]
    ramp = np.linspace(1.0, 1.3, 400)
    found = drift(flat)
    assert found is not None and found.steady and found.direction == "none"
    rising = drift([series * ramp for series in flat])
    assert rising is not None and rising.direction == "up" and rising.change == pytest.approx(0.24, abs=0.05)
    falling = drift([series * ramp[::-1] for series in flat])
    assert falling is not None and falling.direction == "down"
    assert drift([np.ones(3)]) is None
    small = drift([series * np.linspace(1.0, 1.03, 400) for series in flat])
    assert small is not None and small.steady


@pytest.mark.slow
def test_drift_is_rarely_seen_in_a_steady_run() -> None:
    rng = np.random.default_rng(4)
    runs = [drift([rng.lognormal(0, 0.5, 100) for _ in range(5)]) for _ in range(1000)]
    # 1 % two-sided, and only changes over 10 % count: at most 23 of 1,000 would come of 1 % once in 1,000.
    assert sum(run is not None and not run.steady for run in runs) <= 23


def test_jitter_is_the_mean_step() -> None:
    assert jitter([1.0, 2.0, 4.0, 3.0]) == pytest.approx(4 / 3)
    assert jitter([1.0]) is None


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 10])
@pytest.mark.parametrize("noise", ["normal", "lognormal"])
def test_processes_and_pairs_err_no_more_often_than_allowed(k: int, noise: str) -> None:
    """Noise of 10 %, both sides, both levels; of a lognormal one t over the values is only roughly right."""
    rng = np.random.default_rng([6, k])
    drawn = rng.normal(0, 0.1, (4000, 2, k))
    values = 10.0 * (1.0 + drawn if noise == "normal" else np.exp(drawn))
    mean = 10.0 if noise == "normal" else 10.0 * math.exp(0.005)
    found = []
    for candidate, baseline in values:
        pair = paired_log_ratio(1.2 * candidate, baseline)
        ratio = pair.ratio()
        assert ratio is not None
        cases = ((over_processes(candidate), mean), (ratio, 1.2), (pair.difference(1.1, 0.0), 0.1 * mean))
        found.append([[estimate.p_value(truth, side) for side in SIDES] for estimate, truth in cases])
    p = np.array(found, dtype=np.float64)
    for level, allowed in ((0.05, 0.065), (0.002, 0.006)):
        errors = (p <= level).sum(axis=0)
        assert (errors <= 4000 * allowed).all(), errors
        # What is normal, or nearly so, errs as often as it says: this much it exceeds once in 1,000.
        exact = errors if noise == "normal" else errors[1]
        assert (exact <= stats.binom.ppf(0.999, 4000, level)).all(), errors
