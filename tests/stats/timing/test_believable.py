"""Bounds of times lie within what was seen, or at most ten times further out; otherwise there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evalspec.evidence.estimate import Estimate
from evalspec.stats.timing.inverse import Inverse
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.pooled import pooled_percentile
from evalspec.stats.timing.processes import over_processes, paired_log_ratio
from evalspec.stats.timing.share_over import share_over
from tests.stats.simulated import SIDES

TIMES = 10.000001
CONFIDENCES = (0.6, 0.95, 0.999)
Series = list[NDArray[np.float64]]


@st.composite
def runs(draw: st.DrawFn) -> Series:
    """Five processes whose levels, share of failures and share of answers that took no time are anything."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    shares = st.sampled_from([0.0, 0.02, 0.3, 0.95, 1.0])
    drawn = []
    for _ in range(5):
        one = np.exp(draw(st.floats(-20.0, 20.0)) + draw(st.sampled_from([0.0, 0.1, 1.5])) * rng.standard_normal(120))
        one[rng.random(120) < draw(shares)] = 0.0
        one[rng.random(120) < draw(shares)] = np.inf
        drawn.append(one)
    return drawn


def held(estimate: Estimate, seen: NDArray[np.float64], *, linear: bool = False) -> None:
    """Every bound is believable, and p-values agree with it; t from below may come near 0, where it stops."""
    took = seen[np.isfinite(seen) & (seen > 0.0)]
    fastest, slowest = (took.min(), took.max()) if len(took) else (0.0, 0.0)
    for confidence in CONFIDENCES:
        for side in SIDES:
            bound = estimate.bound(confidence, side)
            if bound is None:
                continue
            least = 0.0 if bound == 0.0 or (linear and side == "lower") else fastest / TIMES
            assert math.isfinite(bound) and least <= bound <= TIMES * slowest
            # What is counted steps at its bound, and a mean that can't be below 0 has its bound there.
            p = estimate.p_value(bound * (1.000001 if side == "upper" else 0.999999), side)
            assert p is None or bound == 0.0 or p <= 1.0 - confidence + 1e-6
    assert estimate.method


def one_process_in_one_read() -> Series:
    """Pieces of a process that stood still came all at once: no time apart."""
    rng = np.random.default_rng(1)
    series = [rng.lognormal(1.5, 0.8, 200) for _ in range(5)]
    series[2][rng.random(200) < 0.93] = 0.0
    return series


@settings(max_examples=60, deadline=None)
@example(one_process_in_one_read(), 0.9)
@given(runs(), st.sampled_from([0.5, 0.9, 0.95]))
def test_percentiles(series: Series, p: float) -> None:
    seen = np.concatenate(series)
    time = percentile(series, p)
    held(time, seen)
    with np.errstate(divide="ignore"):
        held(Inverse(time), 1000.0 / seen)


@settings(max_examples=30, deadline=None)
@given(runs())
def test_pooled_percentiles(series: Series) -> None:
    held(pooled_percentile(series, [np.full(60, 2) for _ in series], 0.9), np.concatenate(series))


@pytest.mark.proof
@settings(max_examples=20, deadline=None)
@given(runs(), st.floats(-3.0, 3.0))
def test_shares(series: Series, log: float) -> None:
    estimate = share_over(series, math.exp(log))
    for side in SIDES:
        bound = estimate.bound(0.95, side)
        assert bound is not None and 0.0 <= bound <= 1.0


@settings(max_examples=100, deadline=None)
@example([-20.0, 0.0, 20.0])
@example([12.78125, 13.09375])
@given(st.lists(st.floats(-20.0, 20.0), min_size=2, max_size=8))
def test_means_of_times_and_ratios(logs: list[float]) -> None:
    times = np.exp(logs)
    held(over_processes(times, least=0.0, skewed=True), times, linear=True)
    ratio = paired_log_ratio(times, np.ones(len(times))).ratio()
    assert ratio is not None
    held(ratio, times)


def test_no_pairs_have_no_ratio_bound() -> None:
    ratio = paired_log_ratio([], []).ratio()
    assert ratio is not None and ratio.value is None and ratio.bound(0.95, "upper") is None


def test_answers_in_one_read_do_not_put_a_process_a_billion_times_apart() -> None:
    """It printed 1.9e14 ms: a process that took no time stood there as one of a millionth of a microsecond."""
    series = one_process_in_one_read()
    upper = percentile(series, 0.9).bound(0.95, "upper")
    assert upper is not None and upper < 10 * max(one.max() for one in series)


def test_processes_too_far_apart_have_no_bound_and_say_why() -> None:
    rng = np.random.default_rng(1)
    series = [rng.lognormal(level, 0.8, 200) for level in (-6, 0, 0, 1, 6)]
    estimate = percentile(series, 0.9)
    assert estimate.bound(0.95, "upper") is None
    assert estimate.reason is not None and "more `processes:` narrow the bounds" in estimate.reason
    # Nor does a threshold pass that is further out than levels are believed.
    far = estimate.p_value(1e12, "upper")
    assert far is not None and far > 0.05


@pytest.mark.parametrize("limit", [100.0, 1e6])
def test_processes_alike_pass_a_limit_far_above(limit: float) -> None:
    rng = np.random.default_rng(1)
    estimate = percentile([rng.lognormal(0.05 * k, 0.3, 200) for k in range(5)], 0.9)
    p = estimate.p_value(limit, "upper")
    assert p is not None and p < 0.001
