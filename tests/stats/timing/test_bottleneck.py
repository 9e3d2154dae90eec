"""Roofline and Amdahl: worked numbers, and bounds that carry over."""

from __future__ import annotations

import math

import pytest

from evalspec.stats.timing.bottleneck import (
    AmdahlCeiling,
    amdahl_ceiling,
    attainable,
    bound_by,
    least_time_s,
    overhead_ratio,
    ridge,
    speedup,
    spent_on_calls,
)
from evalspec.stats.timing.processes import over_processes

A100_FP16, A100_FP32 = 312e12, 19.5e12


@pytest.mark.parametrize(("bandwidth", "expected"), [(2.04e12, 152.941), (2.0e12, 156.0)])
def test_ridge_of_the_same_processor_with_two_memories(bandwidth: float, expected: float) -> None:
    assert ridge(A100_FP16, bandwidth) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("intensity", "bandwidth", "expected"),
    [
        (200.0, 2.0e12, 312e12),
        (1.0, 2.0e12, 2.0e12),
        # A language model with 440 MB of fp32 weights and 22 GFLOP an item: 50 FLOP/B at batch 1, 1,600 at 32.
        (22e9 / 440e6, 2.04e12, 102e12),
        (704e9 / 440e6, 2.04e12, 312e12),
        # The same with fp16 weights.
        (22e9 / 220e6, 2.04e12, 204e12),
    ],
)
def test_attainable(intensity: float, bandwidth: float, expected: float) -> None:
    assert attainable(intensity, A100_FP16, bandwidth) == pytest.approx(expected)


def test_share_of_the_peak_at_batch_1() -> None:
    assert attainable(50.0, A100_FP16, 2.04e12) / A100_FP16 == pytest.approx(0.326923, abs=1e-6)
    assert attainable(100.0, A100_FP16, 2.04e12) / A100_FP16 == pytest.approx(0.653846, abs=1e-6)


def test_85_percent_is_of_the_peak_in_the_same_precision() -> None:
    """265.2 TFLOP/s; 16.6 would be 85 % of the fp32 peak."""
    assert 0.85 * attainable(1e4, A100_FP16, 2.04e12) == pytest.approx(265.2e12)
    assert 0.85 * attainable(1e4, A100_FP32, 2.04e12) == pytest.approx(16.575e12)


@pytest.mark.parametrize(("weight_bytes", "batch"), [(440e6, 4), (220e6, 2)])
def test_smallest_batch_beyond_the_ridge(weight_bytes: float, batch: int) -> None:
    assert math.ceil(ridge(A100_FP16, 2.04e12) / (22e9 / weight_bytes)) == batch


def test_shortest_time_under_the_roof() -> None:
    assert least_time_s(22e9, 440e6, A100_FP16, 2.04e12) == pytest.approx(0.215686e-3, abs=1e-9)
    assert least_time_s(0.0, 2.04e9, A100_FP16, 2.04e12) == pytest.approx(1e-3)


def test_share_of_the_peak_by_precision() -> None:
    assert pytest.approx(0.010111, abs=1e-6) == 10e12 / 989e12
    assert pytest.approx(0.784, abs=1e-3) == 1.6e12 / 2.04e12


def test_gap_between_kernels() -> None:
    assert overhead_ratio(3.0, 7.0) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("larger_s", "weights_s", "expected"),
    [
        (4.0e-3, 0.0, 0.0),
        (1.0e-3, 0.0, 1.0),
        (1.0e-3, 0.6e-3, 0.4),
        (2.5e-3, 0.0, 0.5),
        (0.9e-3, 0.0, 1.0),
        (9.0e-3, 0.0, 0.0),
    ],
    ids=["all by the item", "all by the call", "weights", "half", "faster with more", "falls out of the cache"],
)
def test_what_is_spent_on_calls(larger_s: float, weights_s: float, expected: float) -> None:
    assert spent_on_calls(1e-3, larger_s, 4.0, weights_s) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("fraction", "on_calls", "intensity", "expected"),
    [
        (0.6, 0.1, 300.0, "compute"),
        (0.6, 0.1, 153.0, "compute"),
        (0.6, 0.1, 20.0, "memory"),
        (0.02, 0.9, 300.0, "overhead"),
        (0.02, 0.1, 300.0, "compute"),
        (0.02, None, 300.0, "overhead"),
        (0.5, None, 20.0, "memory"),
    ],
)
def test_what_bounds(fraction: float, on_calls: float | None, intensity: float, expected: str) -> None:
    assert bound_by(fraction, on_calls, intensity, 153.0) == expected


def test_preprocessing_of_8_ms_beside_inference_of_10() -> None:
    assert speedup(10 / 18, 5.0) == pytest.approx(1.8)
    assert amdahl_ceiling(10 / 18) == pytest.approx(2.25)
    assert pytest.approx(0.444444, abs=1e-6) == 8 / 18


def test_three_times_faster_on_a_fifth_of_the_pipeline() -> None:
    """1.154, not 1.2; and never more than 1.25."""
    assert speedup(10 / 50, 3.0) == pytest.approx(1.153846, abs=1e-6)
    assert amdahl_ceiling(10 / 50) == pytest.approx(1.25)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2.0), (3 / 80, 1.038961), (5 / 80, 1.066667), (0.0, 1.0)])
def test_ceilings(share: float, expected: float) -> None:
    assert amdahl_ceiling(share) == pytest.approx(expected, abs=1e-6)


def test_three_times_faster_inference_is_half_as_much_again_end_to_end_at_one_half() -> None:
    assert speedup(0.5, 3.0) == pytest.approx(1.5)


def test_the_whole_has_no_ceiling() -> None:
    assert amdahl_ceiling(1.0) == math.inf
    share = over_processes([1.0, 1.01, 1.02])
    whole = AmdahlCeiling(share)
    assert whole.value == math.inf and whole.bound(0.95, "upper") == math.inf
    low = share.bound(0.95, "lower")
    assert low is not None and low < 1.0 and whole.bound(0.95, "lower") == pytest.approx(1 / (1 - low))
    assert whole.p_value(2.0, "lower") == share.p_value(0.5, "lower")
    assert AmdahlCeiling(over_processes([])).value is None


def test_bounds_and_p_values_are_those_of_the_share() -> None:
    share = over_processes([0.40, 0.42, 0.44, 0.46, 0.48])
    ceiling = AmdahlCeiling(share)
    low = share.bound(0.95, "lower")
    assert low is not None
    assert ceiling.bound(0.95, "lower") == pytest.approx(1 / (1 - low))
    assert ceiling.p_value(1.5, "lower") == share.p_value(1 - 1 / 1.5, "lower")
    at = ceiling.bound(0.95, "lower")
    assert at is not None
    assert ceiling.p_value(at, "lower") == pytest.approx(0.05)
    assert ceiling.n_to_decide(1.5, 0.05) == share.n_to_decide(1 - 1 / 1.5, 0.05)
    assert ceiling.n == 5 and "t over 5 processes" in ceiling.method


def test_a_ceiling_never_falls_below_one() -> None:
    """A share whose lower bound is below zero."""
    assert AmdahlCeiling(over_processes([-0.05, 0.0, 0.1])).bound(0.95, "lower") == 1.0
