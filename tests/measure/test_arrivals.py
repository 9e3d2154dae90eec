"""Schedules beside what theory says of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.measure.arrivals import RateSpike, constant, describe, gamma, poisson, ramp, with_spikes

N = 40_000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def renewal_dispersion(burstiness: float, expected: float = 20.0) -> float:
    """Variance of counts by their mean in a stationary renewal process with gamma gaps (Cox 1962, 4.5).

    var N = c^2 m + 1/6 + c^4 / 2 - mu3 / 3 with c^2 = 1 / k and, for gaps of mean 1, mu3 = 2 / k^2.
    """
    square = 1 / burstiness
    return (square * expected + 1 / 6 + square**2 / 2 - 2 * square**2 / 3) / expected


@pytest.mark.parametrize("burstiness", [0.25, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_gamma_arrivals_are_those_of_theory(burstiness: float, seed: int) -> None:
    found = describe(gamma(500.0, burstiness=burstiness, n=N, rng=rng(seed)))
    cv = 1 / math.sqrt(burstiness)
    assert found.rate_qps == pytest.approx(500.0, rel=3 * max(1.0, cv) / math.sqrt(N))
    # Standard error of a gamma process's CV: CV sqrt((1 + CV^2) / 2n).
    assert found.gap_cv == pytest.approx(cv, abs=4 * cv * math.sqrt((1 + cv**2) / 2 / N))
    # A variance from N / 20 windows has a relative standard error of about sqrt(2 * 20 / N) (3 %), more when bursty.
    assert found.dispersion == pytest.approx(renewal_dispersion(burstiness), rel=0.2)
    assert found.lag1 == pytest.approx(0.0, abs=3.5 / math.sqrt(N))


def test_poisson_arrivals_are_those_of_theory() -> None:
    times = poisson(2000.0, n=N, rng=rng(3))
    found = describe(times, rate_qps=2000.0, gap_cv=1.0)
    assert not found.disagrees and found.gap_cv == pytest.approx(1.0, abs=0.02)
    assert found.dispersion == pytest.approx(1.0, abs=0.1) and abs(found.lag1 or 1.0) < 3 / math.sqrt(N)
    gaps = np.diff(times) / 1e9
    # P(gap > t) = exp(-rate t), to within Kolmogorov's 99.9 % bound.
    empirical = np.arange(1, N) / (N - 1)
    assert np.abs(1 - np.exp(-2000.0 * np.sort(gaps)) - empirical).max() < 1.95 / math.sqrt(N)


def test_burstiness_points_as_it_says() -> None:
    bursty, even = (gamma(100.0, burstiness=shape, n=N, rng=rng(1)) for shape in (0.3, 3.0))
    one, other = describe(bursty), describe(even)
    assert one.gap_cv > 1.5 > 0.7 > other.gap_cv
    assert (one.dispersion or 0) > 2 > 0.5 > (other.dispersion or 1)


def test_constant_arrivals() -> None:
    times = constant(1000.0, n=5)
    assert times.tolist() == [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000] and times.dtype == np.int64
    found = describe(constant(3000.0, n=1000), rate_qps=3000.0, gap_cv=0.0)
    assert not found.disagrees and found.lag1 is None and found.gap_cv < 1e-5
    assert len(constant(1000.0, duration_s=2.0)) == 2000


def test_the_same_seed_gives_the_same_schedule() -> None:
    one, same, other = (poisson(10.0, n=50, rng=rng(seed)) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, same)
    assert one.tolist() != other.tolist()


def test_a_duration_gives_a_poisson_count() -> None:
    counts = [len(poisson(50.0, duration_s=2.0, rng=rng(seed))) for seed in range(400)]
    # Mean 100, standard deviation 10: of 400 their standard errors are 0.5 and 0.35.
    assert np.mean(counts) == pytest.approx(100.0, abs=1.75) and np.std(counts) == pytest.approx(10.0, abs=1.25)
    assert max(poisson(50.0, duration_s=2.0, rng=rng(1))) <= 2e9


def test_a_count_in_a_duration_is_kept_to() -> None:
    """A Poisson process given its count: uniform times, so the first tenth of the time has a tenth of them."""
    made = poisson(1.0, n=N, duration_s=10.0, rng=rng(3))
    assert len(made) == N and made[0] > 0 and made[-1] < 10e9
    assert describe(made, gap_cv=1.0).disagrees == ()
    early = np.array([(poisson(1.0, n=50, duration_s=10.0, rng=rng(seed)) < 1e9).sum() for seed in range(2000)])
    # Binomial(50, 0.1), whose standard deviation is 2.1.
    assert early.mean() == pytest.approx(5.0, abs=4 * 2.13 / 2000**0.5)
    assert early.std() == pytest.approx(2.13, rel=0.08)
    assert constant(3.0, n=4, duration_s=2.0).tolist() == [500_000_000, 1_000_000_000, 1_500_000_000, 2_000_000_000]
    rise = ramp(0.0, 10.0, n=40, duration_s=2.0, burstiness=None, rng=rng())
    assert len(rise) == 40 and rise[-1] == 2_000_000_000
    assert (rise < 1e9).sum() == 9


def test_a_ramp_without_chance_is_where_calculus_puts_it() -> None:
    times = ramp(100.0, 300.0, n=400, burstiness=None, rng=rng()) / 1e9
    # 400 arrivals at a mean of 200 a second take 2 s; k arrive by t where 100 t + 50 t^2 = k.
    assert times[-1] == pytest.approx(2.0)
    np.testing.assert_allclose(100 * times + 50 * times**2, np.arange(1, 401), rtol=1e-6)
    down = ramp(300.0, 0.0, n=300, burstiness=None, rng=rng()) / 1e9
    np.testing.assert_allclose(300 * down - 75 * down**2, np.arange(1, 301), rtol=1e-6)
    np.testing.assert_array_equal(ramp(70.0, 70.0, n=30, burstiness=None, rng=rng()), constant(70.0, n=30))


def test_a_random_ramp_has_the_rates_it_says() -> None:
    times = ramp(1000.0, 5000.0, duration_s=20.0, rng=rng(8)) / 1e9
    # 60,000 expected; the first fifth has 1000 * 4 + 0.5 * 200 * 16 = 5,600.
    assert len(times) == pytest.approx(60_000, abs=4 * math.sqrt(60_000))
    assert (times < 4).sum() == pytest.approx(5_600, abs=4 * math.sqrt(5_600))
    assert times[-1] <= 20.0


def test_a_spike_squeezes_what_falls_into_it() -> None:
    times = with_spikes(constant(100.0, n=1000), [RateSpike(5.0, 2.0, 1.0), RateSpike(2.0, 5.0, 1.0)]) / 1e9
    assert len(times) == 1000
    counts = [int(((times > a) & (times <= b)).sum()) for a, b in ((0, 2), (2, 3), (3, 5), (5, 6))]
    assert counts == [200, 500, 200, 100]
    # 200 + 500 + 200 + 100 are all: the second spike ends the schedule early.
    assert times[-1] == pytest.approx(5.5)
    after = with_spikes(constant(100.0, n=1000), [RateSpike(3.0, 1.0, 1.0)]) / 1e9
    assert after[-1] == pytest.approx(8.0) and np.diff(after)[-1] == pytest.approx(0.01)


def test_a_spike_on_poisson_stays_poisson() -> None:
    times = with_spikes(poisson(1000.0, n=N, rng=rng(2)), [RateSpike(4.0, 5.0, 2.0)]) / 1e9
    inside = np.diff(times[(times > 5) & (times <= 7)])
    assert len(inside) == pytest.approx(8000, abs=4 * math.sqrt(8000))
    assert inside.std() / inside.mean() == pytest.approx(1.0, abs=4 / math.sqrt(8000))


@pytest.mark.parametrize(
    "spikes",
    [
        [RateSpike(0.0, 1.0, 1.0)],
        [RateSpike(2.0, 1.0, 0.0)],
        [RateSpike(2.0, 1.0, 2.0), RateSpike(2.0, 2.0, 1.0)],
        [RateSpike(2, -1, 1)],
    ],
)
def test_spikes_that_are_none(spikes: list[RateSpike]) -> None:
    with pytest.raises(InputError, match=r"of a spike is .*; it must be"):
        with_spikes(constant(10.0, n=100), spikes)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: constant(0.0, n=5), "the rate is 0"),
        (lambda: constant(math.inf, n=5), "the rate is inf"),
        (lambda: constant(math.nan, n=5), "the rate is nan"),
        (lambda: constant(5.0), "a count, a duration, or both"),
        (lambda: constant(5.0, n=1, duration_s=0.0), "the duration is 0; it must be over 0 s"),
        (lambda: constant(5.0, n=0), "the count is 0"),
        (lambda: constant(5.0, duration_s=0.1), "no query arrives in 0.1 s at 5 a second"),
        (lambda: gamma(5.0, burstiness=0.0, n=5, rng=rng()), "the burstiness is 0; it must be over 0; 1 is Poisson"),
        (lambda: ramp(-1.0, 5.0, n=5, rng=rng()), "the rate is 2"),
        (lambda: describe(np.array([5])), "a schedule of 1 arrivals has no rate"),
    ],
)
def test_schedules_that_are_none(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert said in str(caught.value)


def test_a_schedule_that_is_another_than_asked_is_told() -> None:
    times = poisson(1000.0, n=N, rng=rng(5))
    assert "the rate is" in describe(times, rate_qps=1030.0).disagrees[0]
    assert not describe(times, rate_qps=1000.0).disagrees
    assert "the gaps have a CV of" in describe(times, gap_cv=2.0).disagrees[0]
    gaps = np.diff(times)
    # Each gap twice in a row: the rate and the spread of gaps are right, and they are not independent.
    twice = np.cumsum(np.repeat(gaps[: N // 2], 2))
    assert [one[:8] for one in describe(twice, rate_qps=1000.0, gap_cv=1.0).disagrees][-1] == "each gap"


def test_a_true_schedule_is_seldom_called_wrong() -> None:
    wrong = [
        bool(describe(gamma(1.0, burstiness=shape, n=3000, rng=rng(seed)), rate_qps=1.0, gap_cv=shape**-0.5).disagrees)
        for seed in range(100)
        for shape in (0.5, 1.0, 3.0)
    ]
    # Three tests at three standard errors each: 0.8 % expected.
    assert sum(wrong) <= 9


@given(st.floats(0.01, 1e6), st.integers(1, 300), st.sampled_from([None, 0.01, 1.0, 30.0]), st.integers(0, 2**32))
def test_schedules_always_rise(rate: float, n: int, shape: float | None, seed: int) -> None:
    made: NDArray[np.int64] = (
        constant(rate, n=n) if shape is None else gamma(rate, burstiness=shape, n=n, rng=rng(seed))
    )
    spiked = with_spikes(made, [RateSpike(10.0, 0.1, 0.1)])
    for times in (made, spiked):
        assert len(times) == n and times[0] >= 0 and (np.diff(times) > 0).all()
    assert (spiked <= made + n).all()
