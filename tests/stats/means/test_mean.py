from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import stats

from evalspec.errors import InputError
from evalspec.stats.means.mean import TMean, mean, paired_mean, t_mean
from evalspec.stats.means.saddlepoint import mean_at, tail_z
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import ALLOWED, REPEATS, Pair, bounded, enough, p_values, wrong_claims


@pytest.mark.parametrize("confidence", [0.95, 0.998])
def test_bounds_are_those_of_a_bca_bootstrap(confidence: float) -> None:
    values = np.random.default_rng(0).exponential(size=300)
    estimate = mean(values)
    drawn = stats.bootstrap(
        (values,), np.mean, confidence_level=2 * confidence - 1, n_resamples=100_000, rng=1, batch=5_000
    )
    error = values.std() / np.sqrt(300)
    assert estimate.bound(confidence, "lower") == pytest.approx(drawn.confidence_interval.low, abs=0.1 * error)
    assert estimate.bound(confidence, "upper") == pytest.approx(drawn.confidence_interval.high, abs=0.1 * error)


def test_saddlepoint_is_the_bootstrap_distribution() -> None:
    values = np.random.default_rng(1).gamma(0.7, size=40)
    drawn = np.random.default_rng(2).choice(values, size=(200_000, 40)).mean(axis=1)
    for share in (0.002, 0.05, 0.5, 0.95, 0.998):
        point = float(np.quantile(drawn, share))
        assert tail_z(values, point) == pytest.approx(stats.norm.ppf(share), abs=0.04)


@pytest.mark.parametrize("z", [-6.0, -1.0, -0.01, 0.02, 0.5, 3.0])
def test_the_two_ways_through_the_saddlepoint_agree(z: float) -> None:
    values = np.random.default_rng(3).exponential(size=250)
    assert tail_z(values, mean_at(values, z)) == pytest.approx(z, abs=1e-6)


def test_saddlepoint_ends_at_the_values() -> None:
    values = np.array([1.0, 2.0, 4.0])
    assert tail_z(values, 1.0) == -np.inf
    assert tail_z(values, 4.5) == np.inf
    assert mean_at(values, 60.0) == 4.0


@pytest.mark.parametrize("clusters", [None, np.arange(600) // 2])
def test_p_value_is_the_level_at_which_the_bound_reaches_the_threshold(clusters: np.ndarray | None) -> None:
    estimate = mean(np.random.default_rng(4).exponential(size=600), clusters=clusters)
    for confidence in (0.4, 0.95, 0.9999):
        for side in ("lower", "upper"):
            bound = estimate.bound(confidence, side)
            assert bound is not None
            assert estimate.p_value(bound, side) == pytest.approx(1 - confidence, rel=1e-4)


def test_a_threshold_far_away_is_cleared_or_not() -> None:
    estimate = mean(np.random.default_rng(5).exponential(size=300))
    assert estimate.p_value(-3.0, "lower") == 0.0
    assert estimate.p_value(-3.0, "upper") == 1.0
    assert estimate.p_value(100.0, "upper") == 0.0
    near = [estimate.p_value(x, "lower") for x in (0.3, 0.5, 0.8, 0.95)]
    assert near == sorted(near)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.arange(199.0), "with at least 200 rows, and there are 199"),
        (np.full(300, 0.25), "all values are equal"),
        (np.r_[np.zeros(995), np.ones(5)], "from about 1,9"),
    ],
)
def test_a_sample_that_carries_no_bound_says_so(values: np.ndarray, why: str) -> None:
    estimate = mean(values)
    assert isinstance(estimate, ValueOnly)
    assert estimate.value == pytest.approx(values.mean())
    assert why in estimate.method
    assert estimate.bound(0.95, "upper") is None
    assert estimate.p_value(0.5, "upper") is None


def test_no_rows_have_no_mean() -> None:
    assert mean(np.zeros(0)).value is None
    assert t_mean(np.zeros(0)).value is None


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match="2 of 3 values"):
        mean(np.array([1.0, np.nan, np.inf]))


@pytest.mark.parametrize("power", [30, -30, 300, 490])
@pytest.mark.parametrize("size", [1, 2])
def test_bounds_scale_with_the_values(power: int, size: int) -> None:
    values, clusters = np.random.default_rng(0).exponential(size=500), np.arange(500) // size
    one, other = mean(values, clusters=clusters), mean(np.ldexp(values, power), clusters=clusters)
    assert other.bound(0.95, "upper") == pytest.approx(np.ldexp(one.bound(0.95, "upper"), power), rel=1e-9)
    assert other.p_value(np.ldexp(1.1, power), "upper") == pytest.approx(one.p_value(1.1, "upper"), rel=1e-9)


def test_values_whose_squares_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"as large as 1e\+200, and a mean takes none above 1e\+150"):
        mean(np.array([1.0, -1e200]))


def test_clusters_are_the_units() -> None:
    values = np.random.default_rng(6).exponential(size=400)
    alone, copied = mean(values), mean(np.repeat(values, 3), clusters=np.repeat(np.arange(400), 3))
    assert copied.n == 1200
    assert copied.bound(0.95, "upper") == pytest.approx(alone.bound(0.95, "upper"), rel=1e-9)
    assert "400 clusters" in copied.method
    assert isinstance(mean(np.repeat(values[:150], 3), clusters=np.repeat(np.arange(150), 3)), ValueOnly)


def test_a_difference_is_the_mean_of_differences() -> None:
    rng = np.random.default_rng(7)
    baseline = rng.exponential(size=500)
    candidate = baseline + rng.normal(0.1, 0.2, size=500)
    pairs = paired_mean(candidate, baseline)
    assert pairs.baseline_value == pytest.approx(baseline.mean())
    by_hand = mean(candidate - 1.1 * baseline)
    assert pairs.difference(1.1, 0.0).bound(0.95, "upper") == by_hand.bound(0.95, "upper")


def test_a_ratio_is_decided_as_the_difference_with_that_factor() -> None:
    rng = np.random.default_rng(8)
    baseline = rng.exponential(size=500) + 0.1
    candidate = baseline * rng.uniform(0.9, 1.3, size=500)
    ratio = paired_mean(candidate, baseline).ratio()
    assert ratio is not None
    assert ratio.value == pytest.approx(candidate.sum() / baseline.sum())
    upper = ratio.bound(0.95, "upper")
    assert upper is not None
    drawn = stats.bootstrap(
        (candidate, baseline),
        lambda c, b, axis: c.sum(axis) / b.sum(axis),
        paired=True,
        vectorized=True,
        confidence_level=0.9,
        n_resamples=40_000,
        rng=1,
        batch=4_000,
    )
    assert upper == pytest.approx(drawn.confidence_interval.high, abs=2e-4)
    assert paired_mean(candidate, -baseline).ratio() is None


def test_rows_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="are not pairs"):
        paired_mean(np.ones(3), np.ones(4))


def test_two_arms_of_ten_runs() -> None:
    bounds = [
        (TMean(value, spread, 10).bound(0.975, "lower"), TMean(value, spread, 10).bound(0.975, "upper"))
        for value, spread in ((12.5, 1.2), (11.8, 1.5))
    ]
    assert bounds[0] == (pytest.approx(11.6416, abs=5e-5), pytest.approx(13.3584, abs=5e-5))
    assert bounds[1] == (pytest.approx(10.7270, abs=5e-5), pytest.approx(12.8730, abs=5e-5))


def test_half_a_unit_takes_64_values_with_a_standard_deviation_of_two() -> None:
    # (1.96 x 2 / 0.5)^2 = 61.5, so 62 with the normal quantile; t asks for two more.
    def half_width(n: int) -> float:
        upper = TMean(0.0, 2.0, n).bound(0.975, "upper")
        assert upper is not None
        return upper

    assert half_width(64) <= 0.5 < half_width(63)


def test_cold_and_warm_runs() -> None:
    cold = t_mean(np.array([15.2, 12.1, 10.8, 10.5, 10.6, 10.4]))
    warm = t_mean(np.array([10.5, 10.6, 10.4, 10.7, 10.5, 10.6]))
    assert isinstance(cold, TMean) and isinstance(warm, TMean)
    assert (cold.value, cold.standard_deviation) == (pytest.approx(11.6), pytest.approx(1.870829, abs=1e-6))
    assert (warm.value, warm.standard_deviation) == (pytest.approx(10.55), pytest.approx(0.104881, abs=1e-6))


def test_a_noisy_arm_with_the_better_mean_decides_nothing() -> None:
    quiet, noisy = t_mean(np.array([10.2, 10.3, 10.1])), t_mean(np.array([9.5, 12.1, 8.9]))
    assert isinstance(quiet, TMean) and isinstance(noisy, TMean)
    assert noisy.standard_deviation / noisy.value == pytest.approx(0.1673, abs=5e-5)
    assert quiet.p_value(10.5, "upper") == pytest.approx(0.0177, abs=1e-3)
    p = noisy.p_value(10.5, "upper")
    assert p is not None and p > 0.3


@pytest.mark.parametrize(
    ("n", "multiplier"),
    [(3, 4.3027), (5, 2.7764), (10, 2.2622), (20, 2.0930), (30, 2.0452), (50, 2.0096), (100, 1.9842)],
)
def test_few_values_need_t(n: int, multiplier: float) -> None:
    assert TMean(0.0, np.sqrt(n), n).bound(0.975, "upper") == pytest.approx(multiplier, abs=5e-5)


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0, 3.0]])
def test_one_value_and_equal_values_have_no_interval(values: list[float]) -> None:
    estimate = t_mean(np.array(values))
    assert estimate.value == 3.0
    assert estimate.bound(0.95, "lower") is None
    assert estimate.n_to_decide(2.0, 0.05) is None


def test_t_p_value_is_that_of_scipy() -> None:
    values = np.array([0.2, 0.5, 0.1, 0.4, 0.9])
    expected = stats.ttest_1samp(values, 0.1, alternative="greater").pvalue
    assert t_mean(values).p_value(0.1, "lower") == pytest.approx(expected)


def test_n_to_decide_of_a_mean_is_that_of_its_standard_error() -> None:
    values = np.random.default_rng(9).exponential(size=2000)
    needed = mean(values).n_to_decide(values.mean() - 0.02, 0.05)
    expected = (values.std() * (stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) / 0.02) ** 2
    assert needed == pytest.approx(expected, rel=0.1)
    assert mean(values).n_to_decide(float(values.mean()), 0.05) is None


def _log_loss(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    confidence = rng.beta(8, 2, size)
    return -np.log(np.where(rng.random(size) < confidence, confidence, 1 - confidence))


def _log_loss_mean() -> float:
    grid = (np.arange(200_000) + 0.5) / 200_000
    entropy = -(grid * np.log(grid) + (1 - grid) * np.log(1 - grid))
    return float(np.mean(entropy * stats.beta.pdf(grid, 8, 2)))


LOSSES: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float]] = {
    "absolute error": (lambda rng, size: np.abs(rng.standard_normal(size)), float(np.sqrt(2 / np.pi))),
    "exponential": (lambda rng, size: rng.exponential(size=size), 1.0),
    "squared error": (lambda rng, size: rng.standard_normal(size) ** 2, 1.0),
    "log loss": (_log_loss, _log_loss_mean()),
    "discordance": (lambda rng, size: rng.choice([0.0, 1.0, -1.0], p=[0.94, 0.02, 0.04], size=size), -0.02),
}


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "n"), [*((loss, 200) for loss in LOSSES), ("exponential", 1000), ("log loss", 1000), ("discordance", 1000)]
)
def test_bounds_err_no_more_often_than_allowed(loss: str, n: int) -> None:
    draw, truth = LOSSES[loss]
    found = enough(p_values(mean(row), truth) for row in draw(np.random.default_rng([n, len(loss)]), (REPEATS, n)))
    assert bounded(found) > 0.2
    assert (wrong_claims(found) <= ALLOWED).all()


def test_fifty_rows_have_no_bound_and_say_from_which_number_on() -> None:
    values = np.random.default_rng(10).exponential(size=50)
    for estimate in (mean(values), paired_mean(values, values[::-1]).difference()):
        assert p_values(estimate, 1.0) == (None, None)
        assert "with at least 200 rows" in estimate.method


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("groups", [200, 1000])
def test_means_over_clusters_err_no_more_often_than_allowed(groups: int) -> None:
    """Clusters of 1 to 5 rows whose exponential losses share half of their variance."""
    rng = np.random.default_rng([11, groups])

    def samples() -> Iterator[Pair]:
        while True:
            clusters = np.repeat(np.arange(groups), rng.integers(1, 6, groups))
            losses = 0.5 * rng.exponential(size=groups)[clusters] + 0.5 * rng.exponential(size=len(clusters))
            yield p_values(mean(losses, clusters=clusters), 1.0)

    found = enough(samples())
    assert bounded(found) > 0.2
    assert (wrong_claims(found) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 1000])
def test_ratios_of_paired_means_err_no_more_often_than_allowed(n: int) -> None:
    rng = np.random.default_rng([12, n])

    def samples() -> Iterator[Pair]:
        while True:
            baseline = rng.standard_normal(n) ** 2
            ratio = paired_mean(0.9 * baseline + 0.3 * rng.standard_normal(n) ** 2, baseline).ratio()
            assert ratio is not None
            yield p_values(ratio, 1.2)

    found = enough(samples())
    assert bounded(found) > 0.2
    assert (wrong_claims(found) <= ALLOWED).all()
