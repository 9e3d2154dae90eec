"""Percentiles of numbers of which each request has several, by hand and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.timing.pooled import PooledPercentile, pooled_percentile

STALL_MS = 10.0
LIMIT_MS = 5.0
"""Between calm gaps and those of a stall."""
RUNS = 150


def requests(
    rng: np.random.Generator,
    processes: int,
    queries: int,
    *,
    slow: float,
    gaps: int = 30,
    over: float = 0.01,
    alike: float = 0.0,
    levels: float = 0.0,
    unequal: bool = True,
) -> PooledPercentile:
    """Gaps of which a share is over the limit, all of them in a share of the requests.

    Args:
        rng: Their source.
        processes, queries: How many, and requests of each.
        slow: Share of requests that stall.
        gaps: Of a request, on average.
        over: Share of all gaps that stall.
        alike: Correlation of a request with the one before.
        levels: Standard deviation of the logarithm of the share of slow requests, from process to process.
        unequal: Requests are of geometric length.
    """
    values: list[NDArray[np.float64]] = []
    counts: list[NDArray[np.int64]] = []
    for _ in range(processes):
        count = rng.geometric(1.0 / gaps, queries) if unequal else np.full(queries, gaps)
        level = slow * float(np.exp(levels * rng.standard_normal() - levels**2 / 2))
        drawn, kept = rng.random(queries) < level, np.cumsum(rng.random(queries) >= alike)
        stalls = np.repeat(drawn[np.minimum(kept, queries - 1)], count)
        calm = rng.lognormal(0.0, 0.2, int(count.sum()))
        values.append(calm + STALL_MS * (stalls & (rng.random(len(calm)) < over / slow)))
        counts.append(count)
    return pooled_percentile(values, counts, 0.99)


def test_the_value_is_the_nearest_rank_of_all_numbers() -> None:
    found = pooled_percentile([np.arange(1.0, 151.0), np.arange(151.0, 201.0)], [np.full(15, 10), np.full(5, 10)], 0.99)
    assert found.value == 198.0 and found.n == 20


def test_requests_without_such_a_number_are_none_of_it() -> None:
    found = pooled_percentile([np.arange(40.0)], [np.array([0, 10, 0, 30, 0])], 0.5)
    assert found.n == 2
    assert pooled_percentile([np.empty(0)], [np.zeros(4, dtype=np.int64)], 0.99).n == 0


def test_nothing_says_nothing() -> None:
    none = pooled_percentile([], [], 0.99)
    assert none.value is None and none.bound(0.95, "upper") is None and none.p_value(5.0, "upper") is None
    assert none.n_to_decide(5.0, 0.05) is None and none.reason is not None


def test_what_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="another number"):
        pooled_percentile([np.arange(3.0)], [np.array([2])], 0.9)
    with pytest.raises(ValueError, match="between 0 and 1"):
        pooled_percentile([np.arange(2.0)], [np.array([2])], 1.0)


def test_one_process_of_independent_requests_is_the_share_of_clusters() -> None:
    """Beside Korn and Graubard of the same rows: a little more, since it also asks whether requests depend."""
    found = requests(np.random.default_rng(1), 1, 600, slow=0.3, over=0.005)
    plain = proportion(found.processes[0] > LIMIT_MS, np.repeat(np.arange(600), found.counts[0]))
    ours, theirs = found.p_value(LIMIT_MS, "upper"), plain.p_value(0.01, "upper")
    assert ours is not None and theirs is not None and theirs <= ours < theirs + 0.02


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_bounds_are_where_the_evidence_begins(side: str) -> None:
    found = requests(np.random.default_rng(2), 3, 300, slow=0.5, over=0.01)
    bound = found.bound(0.95, side)  # type: ignore[arg-type]  # one of the two
    assert bound is not None and found.value is not None
    further, nearer = (1.001 * bound, 0.995 * bound) if side == "upper" else (0.999 * bound, 1.005 * bound)
    p_far, p_near = (found.p_value(at, side) for at in (further, nearer))  # type: ignore[arg-type]
    assert p_far is not None and p_near is not None and p_far <= 0.051 and p_near > 0.049
    assert bound >= found.value if side == "upper" else bound <= found.value


def test_gaps_that_all_stand_in_one_request_count_as_one() -> None:
    """Of 40,000 numbers 1 % are over: pooled that decides; in 4 of 400 requests it decides nothing."""
    slow = np.zeros(400, dtype=bool)
    slow[[50, 150, 250, 350]] = True
    values = np.where(np.repeat(slow, 100) & (np.tile(np.arange(100), 400) < 70), 10.0, 1.0)
    clustered = pooled_percentile([values], [np.full(400, 100)], 0.99)
    naive = Proportion.of_counts(float((values > LIMIT_MS).sum()), len(values)).p_value(0.01, "upper")
    p = clustered.p_value(LIMIT_MS, "upper")
    assert naive is not None and naive < 1e-8
    assert p is None or p > 0.05


def test_failed_requests_are_longer_than_any_and_give_no_infinite_bound() -> None:
    rng = np.random.default_rng(3)
    values = [np.where(np.repeat(rng.random(400) < 0.05, 20), np.inf, rng.lognormal(0.0, 0.2, 8000))]
    found = pooled_percentile(values, [np.full(400, 20)], 0.99)
    assert found.value is not None and math.isfinite(found.value)
    assert found.bound(0.95, "upper") is None
    p = found.p_value(1000.0, "lower")
    assert p is not None and p < 0.002


def test_more_requests_are_asked_for_where_these_do_not_decide() -> None:
    found = requests(np.random.default_rng(4), 1, 400, slow=0.1, over=0.006)
    needed = found.n_to_decide(LIMIT_MS, 0.05)
    assert needed is not None and int(needed) > 400 and needed.unit == "queries"


@pytest.mark.proof
@pytest.mark.parametrize(
    "design",
    [
        {"processes": 1, "queries": 800, "slow": 0.05},
        {"processes": 5, "queries": 400, "slow": 0.02},
        {"processes": 5, "queries": 400, "slow": 0.5},
        {"processes": 5, "queries": 800, "slow": 0.05, "alike": 0.8},
        {"processes": 5, "queries": 400, "slow": 0.2, "levels": 0.3},
    ],
    ids=str,
)
def test_a_percentile_at_its_limit_passes_and_fails_as_seldom_as_is_said(design: dict[str, float]) -> None:
    """Exactly 1 % of gaps are over, in few requests; pooled as single numbers a third would pass."""
    rng = np.random.default_rng(5)
    passed = failed = pooled = 0
    for _ in range(RUNS):
        found = requests(rng, **design)  # type: ignore[arg-type]  # whole numbers where they are whole
        upper, lower = found.p_value(LIMIT_MS, "upper"), found.p_value(LIMIT_MS, "lower")
        passed += upper is not None and upper <= 0.05
        failed += lower is not None and lower <= 0.002
        every = np.concatenate(found.processes)
        naive = Proportion.of_counts(float((every > LIMIT_MS).sum()), len(every)).p_value(0.01, "upper")
        pooled += naive is not None and naive <= 0.05
    assert passed <= 0.065 * RUNS and failed <= max(1, 0.01 * RUNS)
    assert pooled > passed


@pytest.mark.proof
def test_gaps_that_are_clearly_within_pass_and_those_clearly_beyond_fail() -> None:
    rng = np.random.default_rng(6)
    within = [requests(rng, 5, 400, slow=0.1, over=0.003).p_value(LIMIT_MS, "upper") for _ in range(30)]
    beyond = [requests(rng, 5, 400, slow=0.2, over=0.03).p_value(LIMIT_MS, "lower") for _ in range(30)]
    assert sum(p is not None and p <= 0.05 for p in within) >= 27
    assert sum(p is not None and p <= 0.002 for p in beyond) >= 27
