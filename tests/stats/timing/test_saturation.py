"""Falling behind: found where a queue grows, not where one waits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.saturation import LateUnderLoad, OfferedLoad, UnderLoad, saturation
from evalspec.stats.timing.share_over import share_over
from tests.checks.system.queueing import sojourns

Run = tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], list[NDArray[np.float64]]]


def queue(utilization: float, n: int, seed: int, processes: int = 1) -> Run:
    """Poisson arrivals, exponential service of 1 ms."""
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(processes):
        gaps = rng.exponential(1.0 / utilization, n)
        spent = sojourns(gaps, rng.exponential(1.0, n))
        due = np.round(np.cumsum(gaps) * 1e6).astype(np.int64)
        runs.append((due, due + np.round(spent * 1e6).astype(np.int64), spent))
    return [due for due, _, _ in runs], [end for _, end, _ in runs], [spent for _, _, spent in runs]


def found(run: Run) -> OfferedLoad:
    result = saturation(*run)
    assert result is not None
    return result


@pytest.mark.parametrize("processes", [1, 5])
def test_an_overloaded_server_falls_behind(processes: int) -> None:
    run = queue(1.2, 20_000 // processes, 1, processes)
    result = found(run)
    assert result.behind and result.growing and result.over(100.0) and not result.over(1e6)
    assert result.offered_qps == pytest.approx(1200, rel=0.05) and result.served_qps == pytest.approx(1000, rel=0.05)
    assert result.served_qps < result.most_served_qps < result.offered_qps
    estimate = UnderLoad(percentile(run[2], 0.99), result)
    assert estimate.p_value(100.0, "lower") == 0.0 and estimate.p_value(100.0, "upper") == 1.0
    lower = estimate.bound(0.95, "lower")
    assert lower is not None and lower >= result.at_end_ms
    assert estimate.n_to_decide(100.0, 0.05) is None and "over-saturated" in estimate.method


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 5])
def test_a_busy_server_does_not(processes: int) -> None:
    """At level 0.001 more than 5 of 1,000 are called behind once in 1,000."""
    results = [found(queue(0.95, 20_000 // processes, seed, processes)) for seed in range(1_000)]
    assert sum(one.behind for one in results) <= 5 and sum(one.growing for one in results) <= 5


def test_a_server_that_drops_every_tenth_is_behind_and_in_time() -> None:
    due, end, spent = queue(0.5, 20_000, 3)
    spent[0][::10] = math.inf
    result = found((due, end, spent))
    assert result.behind and not result.growing and not result.over(20.0)
    plain = percentile(spent, 0.5)
    assert UnderLoad(plain, result).p_value(20.0, "upper") == plain.p_value(20.0, "upper")


def test_where_nothing_is_answered_the_end_is_infinite_and_no_bound_is() -> None:
    due, end, spent = queue(0.5, 2_000, 4)
    spent[0][:] = math.inf
    result = found((due, end, spent))
    assert result.behind and result.at_end_ms == math.inf and result.over(1e9)
    estimate = UnderLoad(percentile(spent, 0.99), result)
    assert estimate.value is None and estimate.bound(0.95, "lower") is None and estimate.bound(0.95, "upper") is None
    assert estimate.p_value(5.0, "lower") == 0.0


def test_the_share_that_is_late_is_more_than_half() -> None:
    run = queue(1.5, 10_000, 5)
    share = LateUnderLoad(share_over(run[2], 20.0), found(run))
    assert share.p_value(0.01, "lower") == 0.0 and share.p_value(0.01, "upper") == 1.0
    lower = share.bound(0.95, "lower")
    assert lower is not None and lower >= 0.5 and share.n_to_decide(0.01, 0.05) is None


def test_too_little_says_nothing() -> None:
    one = np.zeros(1, dtype=np.int64)
    assert saturation([one], [one], [np.ones(1)]) is None
    assert saturation([], [], []) is None


def refusing(seed: int, *, utilization: float = 0.5, n: int = 4_000) -> Run:
    """A server that refuses 2 % of queries at once."""
    due, end, spent = queue(utilization, n, seed)
    refused = np.random.default_rng(seed + 10_000).random(n) < 0.02
    return due, [np.where(refused, due[0], end[0])], [np.where(refused, np.inf, spent[0])]


@pytest.mark.slow
@pytest.mark.parametrize("above", [1.01, 1.05])
def test_a_server_that_refuses_some_is_not_called_over_saturated(above: float) -> None:
    """The median of answers and refusals, held against 1 % and 5 % more: 5 % exceeds 44 of 500 once in 1,000."""
    half = 0.5 / 0.98
    truth = -math.log(1.0 - half) / 0.5
    failed = 0
    for seed in range(500):
        run = refusing(seed)
        p = UnderLoad(percentile(run[2], 0.5), found(run)).p_value(above * truth, "lower")
        failed += p is not None and p <= 0.05
    assert failed <= 44


def test_refusals_alone_decide_nothing_at_the_end() -> None:
    run = refusing(1)
    result = found(run)
    assert result.behind and not result.lost and not result.over(0.1)
    estimate = UnderLoad(percentile(run[2], 0.5), result)
    assert estimate.bound(0.95, "lower") == percentile(run[2], 0.5).bound(0.95, "lower")


def test_a_server_that_stops_answering_is_lost() -> None:
    due, end, spent = queue(0.5, 20_000, 6)
    spent[0][10_000:], end[0][10_000:] = math.inf, due[0][10_000:]
    result = found((due, end, spent))
    assert result.silent and not result.growing and result.over(1e6)
    assert UnderLoad(percentile(spent, 0.4), result).p_value(1e6, "lower") == 0.0
