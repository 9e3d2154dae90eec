"""Root mean squared calibration error: its distribution, its debiased value, error rates and power."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.calibration.expected_error import RmsCalibrationError, rms_calibration_error
from evalspec.stats.calibration.rms_error import _quantile
from evalspec.stats.calibration.squared_normals import quadratic_tails
from tests.stats.simulated import ALLOWED, REPEATS, SIDES, Pair, bounded, enough, p_values, wrong_claims


def answers(n: int, rng: np.random.Generator, gap: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Beta(8, 2) confidences, and answers that are right less often by ``gap`` in all rows."""
    confidences = rng.beta(8, 2, n)
    return confidences, rng.random(n) < confidences - gap


def test_tails_of_equal_weights_are_those_of_chi_squared() -> None:
    for shift in (0.0, 1.0, 4.0):
        for level in (0.001, 0.05, 0.5, 0.95, 0.999):
            at = float(stats.ncx2.ppf(level, 6, shift**2) if shift else stats.chi2.ppf(level, 6))
            below, above = quadratic_tails(3.0 * at, np.full(6, 3.0), np.array([shift, 0, 0, 0, 0, 0]))
            assert below == pytest.approx(level, rel=0.02) and below + above == pytest.approx(1.0)
    assert quadratic_tails(0.0, np.ones(2), np.zeros(2)) == (0.0, 1.0)


def test_tails_of_unequal_weights_are_what_simulation_says() -> None:
    rng = np.random.default_rng(1)
    weights, shifts = np.array([1.0, 0.5, 0.2, 0.05]), np.array([2.0, 0.0, 1.0, 0.0])
    totals = (shifts + rng.standard_normal((200_000, 4))) ** 2 @ weights
    for level in (0.01, 0.05, 0.5, 0.95, 0.99):
        at = float(np.quantile(totals, level))
        assert quadratic_tails(at, weights, shifts)[0] == pytest.approx(level, abs=0.005)
    mean = float(weights @ (1 + shifts**2))
    around = [quadratic_tails(mean * (1 + step), weights, shifts)[0] for step in (-1e-6, 0.0, 1e-6)]
    assert np.ptp(around) < 1e-5, "the limit at the mean is met from both sides"


def test_the_square_is_debiased_as_kumar_does() -> None:
    confidences = np.repeat([0.6, 0.8], [40, 60])
    correct = np.concatenate([np.arange(40) < 20, np.arange(60) < 45])
    found = rms_calibration_error(confidences, correct)
    plug_in = 0.4 * 0.1**2 + 0.6 * 0.05**2
    noise = 0.4 * 0.25 / 39 + 0.6 * 0.75 * 0.25 / 59
    assert found.plug_in == pytest.approx(math.sqrt(plug_in))
    assert found.squared == pytest.approx(plug_in - noise)


def test_of_a_calibrated_model_the_square_is_centred_on_0() -> None:
    rng = np.random.default_rng(2)
    found = [rms_calibration_error(*answers(1000, rng)) for _ in range(300)]
    squares = np.array([one.squared for one in found])
    assert abs(squares.mean()) < 3 * squares.std() / math.sqrt(300)
    assert 0.4 < np.mean(squares < 0) < 0.7
    below = next(one for one in found if one.squared is not None and one.squared < 0)
    assert below.value is not None and below.value >= 0 and "below 0" in below.method


def test_a_single_bin_is_clopper_pearsons() -> None:
    found = rms_calibration_error(np.full(300, 0.999), np.arange(300) >= 30)
    lower = stats.binomtest(270, 300).proportion_ci(0.9, "exact")
    assert found.bound(0.95, "upper") == pytest.approx(0.999 - lower.low, abs=1e-6)
    assert "Clopper-Pearson" in found.method


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(40, 1500), gap=st.floats(0, 0.2), confidence=st.floats(0.8, 0.999))
def test_value_lies_between_its_bounds_and_bounds_invert_p_values(
    seed: int, n: int, gap: float, confidence: float
) -> None:
    found = rms_calibration_error(*answers(n, np.random.default_rng(seed), gap))
    lower, upper = found.bound(confidence, "lower"), found.bound(confidence, "upper")
    assert isinstance(found, Estimate)
    assert lower is not None and upper is not None and found.value is not None and found.plug_in is not None
    assert lower <= found.value + 1e-9 and found.value <= upper + 1e-9 and found.value <= found.plug_in + 1e-9
    if 0 < upper < 1:
        assert found.p_value(upper, "upper") == pytest.approx(1 - confidence, abs=1e-6)


def test_it_finds_what_cancels_in_the_mean() -> None:
    rng = np.random.default_rng(3)
    confidences = rng.uniform(0.5, 0.9, 4000)
    correct = rng.random(4000) < np.where(confidences < 0.7, confidences + 0.1, confidences - 0.1)
    found = rms_calibration_error(confidences, correct)
    p_fail = found.p_value(0.06, "lower")
    assert found.value == pytest.approx(0.1, abs=0.02) and p_fail is not None and p_fail < 0.001


def test_no_rows_few_clusters_and_what_is_no_confidence() -> None:
    nothing = rms_calibration_error(np.empty(0), np.empty(0, dtype=bool))
    assert nothing.value is None and nothing.bound(0.95, "upper") is None and nothing.p_value(0.1, "upper") is None
    few = rms_calibration_error(*answers(100, np.random.default_rng(4)), clusters=np.repeat(np.arange(5), 20))
    assert few.value is not None and few.bound(0.95, "upper") is None and "20 are needed" in few.method
    with pytest.raises(InputError, match=r"confidences lie in 0\.\.1"):
        rms_calibration_error(np.array([np.nan]), np.array([True]))


def test_always_right_and_sure_of_it() -> None:
    found = rms_calibration_error(np.ones(100), np.ones(100, dtype=bool))
    # The rule of three, for rows that were said to be right in half of cases and always are: a quarter each.
    assert found.value == 0.0 and found.bound(0.95, "upper") == pytest.approx(0.5 * math.sqrt(1 - 0.05**0.01))
    assert found.n_to_decide(0.05, 0.05) == 299


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_error_rates_at_the_threshold(n: int) -> None:
    rng = np.random.default_rng([50, n])
    found = enough(p_values(rms_calibration_error(*answers(n, rng, 0.1)), 0.1) for _ in range(REPEATS))
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()


def in_one_bin(n: int, rng: np.random.Generator) -> tuple[RmsCalibrationError, float]:
    """All of the error in the lowest third, and the error over the sample's own bins."""
    confidences = rng.beta(8, 2, n)
    off = np.where(confidences < 0.7635, 0.3, 0.0)
    found = rms_calibration_error(confidences, rng.random(n) < confidences - off)
    starts = np.cumsum(found.bins.count) - found.bins.count
    gaps = np.add.reduceat(off[np.argsort(confidences, kind="stable")], starts) / found.bins.count
    return found, float(np.sqrt(np.sum(found.bins.weight * gaps**2)))


@pytest.mark.proof
@pytest.mark.slow
def test_error_rates_with_all_of_the_error_in_few_bins() -> None:
    """The least favourable spread for PASS."""
    rng = np.random.default_rng(51)
    found = enough((p_values(*in_one_bin(500, rng)) for _ in range(1500)), ALLOWED + 0.003, 1500)
    assert (wrong_claims(found) <= ALLOWED + 0.003).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("gap", "alpha"), [(0.0, 0.05), (0.03, 0.05), (0.1, 0.05), (0.1, 0.0025)])
def test_n_to_decide_decides_in_four_of_five_samples(gap: float, alpha: float) -> None:
    """Asked of rows that show this error evenly, then 600 samples of so many rows."""
    confidences = stats.beta.ppf((np.arange(20_000) + 0.5) / 20_000, 8, 2)
    even = np.diff(np.floor(np.cumsum(confidences - gap) + 0.5), prepend=0) > 0
    n = rms_calibration_error(confidences, even).n_to_decide(0.06, alpha)
    assert n is not None
    rng, side = np.random.default_rng(52), SIDES[gap < 0.06]
    found = [rms_calibration_error(*answers(n, rng, gap)).p_value(0.06, side) for _ in range(600)]
    # A chance of 0.80 gives 0.75 to 0.85 in 998 of 1,000 such simulations.
    assert np.mean(np.array(found) <= alpha) == pytest.approx(0.8, abs=0.05)


@pytest.mark.proof
@pytest.mark.slow
def test_error_rates_with_clusters() -> None:
    """Half of a cluster's rows are right or wrong together."""
    rng, groups, size = np.random.default_rng(53), 50, 4

    def samples() -> Iterator[Pair]:
        while True:
            said, right = rng.beta(8, 2, groups), rng.random(groups)
            luck = np.where(rng.random((groups, size)) < 0.5, right[:, None], rng.random((groups, size)))
            correct = (luck < said[:, None] - 0.1).ravel()
            estimate = rms_calibration_error(said.repeat(size), correct, clusters=np.arange(groups).repeat(size))
            yield p_values(estimate, 0.1)

    found = enough(samples(), ALLOWED + 0.003, 1500)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED + 0.003).all()


@pytest.mark.parametrize("level", [0.5, 0.05, 1e-6, 1e-9])
def test_a_quantile_far_in_the_lower_tail(level: float) -> None:
    """Of one bin without an error it lies far below 1e-9 of the mean, where `n_to_decide` crashed."""
    one = _quantile(level, np.array([0.25]), np.zeros(1))
    assert one == pytest.approx(0.25 * stats.chi2.ppf(level, 1), rel=0.4)
    assert quadratic_tails(one, np.array([0.25]), np.zeros(1))[0] == pytest.approx(level, rel=1e-3)
    ten = _quantile(level, np.full(10, 0.1), np.zeros(10))
    assert ten == pytest.approx(0.1 * stats.chi2.ppf(level, 10), rel=0.01)


def test_rows_to_decide_where_all_rows_lie_in_one_bin() -> None:
    rng = np.random.default_rng(10)
    said = np.full(300, 0.8)
    right = rng.random(300) < 0.8
    found = rms_calibration_error(said, right, clusters=np.minimum(np.arange(300) // 2, 25))
    needed = found.n_to_decide(0.05, 0.05)
    assert needed is None or needed > 300
