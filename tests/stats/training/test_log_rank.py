"""Two recipes compared: worked numbers, an independent log-rank statistic, and error rates by simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from evalspec.stats.training.log_rank import EXACT, RecipeComparison, run_ratio, scores
from tests.trainings.logs import TYCHE


def test_ten_and_ten_that_do_not_overlap_have_the_smallest_p_value() -> None:
    """Two systems of 10 runs each, 15 % apart."""
    other = np.array(TYCHE) * 0.847
    found = run_ratio(other, TYCHE, np.random.default_rng(1))
    assert len(found.arrangements) == EXACT == 184_756
    assert found.p_value(1.0, "upper") == 1 / 184_756
    assert found.value == pytest.approx(0.847, abs=0.01)
    assert found.bound(0.95, "upper") < 0.9  # type: ignore[operator]
    assert found.p_value(0.5, "upper") == pytest.approx(1.0)
    assert found.p_value(0.5, "lower") == 1 / 184_756


def test_scores_are_those_of_peto_and_peto() -> None:
    """An independent way: by the definition, run by run."""
    draw = np.random.default_rng(3)
    times = np.where(draw.random(12) < 0.2, np.inf, np.round(draw.lognormal(2.0, 0.3, 12), 1))
    cut = float(np.quantile(times[np.isfinite(times)], 0.8))
    expected = []
    for one in times:
        seen = math.isfinite(one) and one <= cut
        until = one if seen else cut
        events = sorted({t for t in times if math.isfinite(t) and t <= until})
        hazard = sum((times == t).sum() / (times >= t).sum() for t in events)
        expected.append(float(seen) - hazard)
    assert scores(times, cut) == pytest.approx(expected)
    assert scores(times, cut).sum() == pytest.approx(0.0, abs=1e-12)


def test_the_statistic_orders_arrangements_as_scipys_log_rank_test() -> None:
    draw = np.random.default_rng(4)
    times = draw.lognormal(2.0, 0.3, 8)
    found = scores(times, math.inf)
    sums, oracle = [], []
    for chosen in combinations(range(8), 4):
        rest = [place for place in range(8) if place not in chosen]
        sums.append(found[list(chosen)].sum())
        test = stats.logrank(stats.CensoredData(times[list(chosen)]), stats.CensoredData(times[rest]))
        oracle.append(float(test.statistic))
    # Scipy's variance changes with the arrangement as well, so that the order is nearly, not fully, the same.
    assert abs(stats.spearmanr(sums, oracle).statistic) > 0.97


def test_bounds_are_the_factors_that_are_not_refuted() -> None:
    draw = np.random.default_rng(5)
    found = run_ratio(draw.lognormal(2, 0.1, 6), draw.lognormal(2, 0.1, 6), draw)
    for side in ("lower", "upper"):
        bound = found.bound(0.95, side)
        assert bound is not None
        outside = bound * (1.0 + 1e-6 if side == "upper" else 1.0 - 1e-6)
        inside = bound * (1.0 - 1e-4 if side == "upper" else 1.0 + 1e-4)
        assert found.p_value(outside, side) <= 0.05 < found.p_value(inside, side)  # type: ignore[operator]
    assert found.bound(0.95, "lower") < found.value < found.bound(0.95, "upper")  # type: ignore[operator]


def test_both_are_cut_at_the_smaller_limit() -> None:
    """What one could not have shown counts for neither."""
    slow, fast = [50.0, 60.0, 70.0, math.inf, math.inf], [50.0, 60.0, 70.0, 95.0, 99.0]
    cut = run_ratio(slow, fast, np.random.default_rng(1), (75.0, 100.0))
    assert cut.p_value(1.0, "upper") == pytest.approx(cut.p_value(1.0, "lower"))  # type: ignore[arg-type]
    open_ended = run_ratio(slow, fast, np.random.default_rng(1))
    assert open_ended.p_value(1.0, "lower") < cut.p_value(1.0, "lower")  # type: ignore[operator]


def test_more_runs_are_compared_by_drawn_arrangements() -> None:
    draw = np.random.default_rng(6)
    found = run_ratio(draw.lognormal(2, 0.1, 12) * 0.8, draw.lognormal(2, 0.1, 12), draw)
    assert found.drawn
    assert 0.0 < found.p_value(1.0, "upper") <= 1e-4  # type: ignore[operator]


def test_a_difference_is_shown_by_the_ratio() -> None:
    found = run_ratio(np.array(TYCHE) * 0.847, TYCHE, np.random.default_rng(1))
    compared = RecipeComparison(found, 80.16, 67.9)
    assert compared.difference(1.0, 0.0).p_value(0.0, "upper") == found.p_value(1.0, "upper")
    assert compared.difference(1.0, 0.0).value == pytest.approx((found.value - 1.0) * 80.16)  # type: ignore[operator]


def test_runs_that_never_got_there_on_both_sides() -> None:
    found = run_ratio([math.inf] * 5, [math.inf] * 5, np.random.default_rng(1))
    assert found.p_value(1.0, "upper") == found.p_value(1.0, "lower") == 1.0
    assert found.bound(0.95, "upper") is None
    lost = run_ratio([math.inf] * 5, [10.0] * 5, np.random.default_rng(1))
    assert lost.p_value(1.0, "lower") == 1 / 252


@pytest.mark.proof
@pytest.mark.parametrize("lost", [0.0, 0.15])
@pytest.mark.parametrize("grid", [0.0, 1.0], ids=["continuous", "on a grid"])
def test_log_rank_errs_1_time_in_20(lost: float, grid: float) -> None:
    """6 and 6 runs of one recipe, 3,000 times."""
    draw, hits, trials = np.random.default_rng(11), np.zeros(2), 3_000
    for _ in range(trials):
        times = draw.lognormal(3.0, 0.15, 12)
        times = np.ceil(times / grid) * grid if grid else times
        times[draw.random(12) < lost] = np.inf
        found = run_ratio(times[:6], times[6:], draw, (40.0, 40.0))
        hits += [found.p_value(1.0, side) <= 0.05 for side in ("upper", "lower")]  # type: ignore[operator]
    # With ties fewer arrangements are as extreme as the level allows.
    assert (hits / trials <= 0.06).all()
    assert (hits / trials >= (0.038 if not grid else 0.025)).all()
