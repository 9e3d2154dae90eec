"""Processes that differ in level: t where their queries vary more, the normal tolerance bound where they vary less."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from scipy.stats import nct, norm, ttest_1samp

from evalspec.stats.timing.levels import Levels, levels
from tests.stats.simulated import SIDES
from tests.stats.timing.designs import tailed

LOGS = np.log([10.0, 11.0, 9.5, 10.4, 11.6])


def spread(within: float, logs: np.ndarray = LOGS, noise: float = 0.0, p: float = 0.99, n: int = 20_000) -> Levels:
    """Queries of a process are lognormal, with this standard deviation of their logarithms."""
    even = (np.arange(n) + 0.5) / n
    about = within * (norm.ppf(even[::-1]) - norm.ppf(p))
    # The quantiles of such processes together are those of the sum.
    together = np.exp(logs.mean() + np.hypot(within, logs.std(ddof=1)) * norm.ppf(even))
    return Levels(p, logs, noise, about, together)


def of(series: list[np.ndarray], p: float, effect: float = 1.0) -> Levels | None:
    return levels(series, np.sort(np.concatenate(series)), p, effect)


@pytest.mark.parametrize("k", [5, 10])
@pytest.mark.parametrize(("p", "confidence"), [(0.99, 0.95), (0.95, 0.95), (0.5, 0.95), (0.95, 0.998)])
def test_where_only_processes_vary_the_bound_is_the_tolerance_bound(p: float, confidence: float, k: int) -> None:
    logs = np.resize(LOGS, k)
    found = spread(1e-9, logs, p=p).bound(confidence, 1 - p, "upper")
    assert found is not None
    factor = nct.ppf(confidence, k - 1, norm.ppf(p) * math.sqrt(k)) / math.sqrt(k)
    assert (math.log(found) - logs.mean()) / logs.std(ddof=1) == pytest.approx(factor, rel=0.02)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_where_queries_vary_much_more_it_is_student_s_t(side: Literal["upper", "lower"]) -> None:
    one = spread(20.0, n=400_000)
    for threshold in (9.0, 10.0, 11.0, 12.0):
        wanted = ttest_1samp(LOGS, math.log(threshold), alternative="less" if side == "upper" else "greater").pvalue
        assert one.p_value(threshold, 0.01, side) == pytest.approx(wanted, abs=0.01)


def test_the_quantile_of_all_is_that_of_the_sum() -> None:
    """Normal in normal: a 99th percentile moves up by z (sqrt(w^2 + S^2) - w)."""
    for within in (0.05, 0.2, 1.0):
        own = np.array([0.05, 0.1, 0.4])
        moved = spread(within, n=400_000)._moved(own, 0.01)
        assert moved == pytest.approx(norm.ppf(0.99) * (np.hypot(within, own) - within), rel=0.05)


def test_a_violation_is_not_shown_by_what_can_t_be_ruled_out() -> None:
    """Five processes may differ by much more than is seen; that makes the upper bound high, and no lower one."""
    one = spread(1e-9)
    lower, upper = one.bound(0.95, 0.01, "lower"), one.bound(0.95, 0.01, "upper")
    assert lower is not None and upper is not None
    moved = LOGS.mean() + norm.ppf(0.99) * LOGS.std(ddof=1)
    assert math.log(lower) < moved < math.log(upper) and math.log(upper) - moved > 2 * (moved - math.log(lower))


def test_no_lower_bound_lies_above_what_was_seen() -> None:
    """Of five processes that only differ among each other the slowest is less than the p99 of all that there may be."""
    series = [np.full(400, math.exp(log)) for log in LOGS]
    one = of(series, 0.99)
    assert one is not None
    lower = one.bound(0.6, 0.01, "lower")
    assert lower is not None and LOGS.mean() < math.log(lower) <= LOGS.max()


@pytest.mark.parametrize("share", [0.01, 0.02, 0.3])
def test_bounds_and_p_values_invert_each_other(share: float) -> None:
    one = spread(0.1, noise=0.02)
    for confidence in (0.6, 0.95, 0.998):
        for side, inwards in zip(SIDES, (1.000001, 0.999999), strict=True):
            bound = one.bound(confidence, share, side)
            assert bound is not None
            assert one.p_value(bound, share, side) <= 1 - confidence < one.p_value(inwards * bound, share, side)
    assert one.p_value(0.0, share, "upper") == 1.0 and one.p_value(0.0, share, "lower") == 0.0


def test_noise_is_that_of_the_number_of_queries() -> None:
    """The median of n normal values has a standard error of sqrt(pi / 2 / n)."""
    rng = np.random.default_rng(2)
    series = [np.sort(np.exp(0.1 * rng.standard_normal(2000))) for _ in range(5)]
    one = of(series, 0.5)
    assert one is not None
    assert one.noise == pytest.approx(0.1 * math.sqrt(math.pi / 2 / 2000), rel=0.15)
    twice = of(series, 0.5, 4.0)
    assert twice is not None and twice.noise == pytest.approx(2 * one.noise, rel=0.15)
    assert one.logs == pytest.approx([math.log(np.median(one)) for one in series], abs=1e-5)


def test_processes_that_are_all_alike_have_no_width() -> None:
    one = of([np.full(100, 2.0)] * 5, 0.9)
    assert one is not None and one.bound(0.95, 0.1, "upper") == pytest.approx(2.0)
    assert one.p_value(2.1, 0.1, "upper") == 0.0 and one.p_value(1.9, 0.1, "upper") == 1.0


def test_where_too_many_queries_failed_there_are_no_levels() -> None:
    series = np.sort(np.append(np.ones(95), np.full(5, np.inf)))
    assert of([series] * 5, 0.99) is None
    assert of([series] * 5, 0.9) is not None
    assert of([np.ones(100)], 0.5) is None


def test_with_more_processes_the_same_spread_says_more() -> None:
    """The p-value of so many times as many is that of a run that has them, and differs as much."""
    exact = np.resize(LOGS, 20)
    exact = LOGS.mean() + (exact - LOGS.mean()) * LOGS.std(ddof=1) / exact.std(ddof=1)
    few, many = spread(0.05), spread(0.05, exact)
    assert few.p_value(13.0, 0.01, "upper", 4) == pytest.approx(many.p_value(13.0, 0.01, "upper"), rel=1e-6)
    assert few.p_value(13.0, 0.01, "upper", 4) < few.p_value(13.0, 0.01, "upper", 2) < few.p_value(13.0, 0.01, "upper")


def test_where_the_bulk_agrees_only_the_tail_is_moved() -> None:
    """2 % of queries about 2.9 ms, moved by a factor of each process; half a millisecond all others."""
    rng = np.random.default_rng(5)
    series = [np.sort(one) for one in tailed(0.6)(rng, 5, 2000)]
    one = of(series, 0.99)
    assert one is not None and one.bulk is not None and one.bulk_spread < 0.01 < one.own
    together = replace(one, bulk=None)
    for threshold in (10.0, 20.0):
        assert one.p_value(threshold, 0.01, "upper") < 0.7 * together.p_value(threshold, 0.01, "upper")
    assert of(series, 0.9).bulk is None  # type: ignore[union-attr]
