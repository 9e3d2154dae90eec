from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from evalspec.errors import InputError
from evalspec.stats.resampling import bootstrap
from evalspec.stats.resampling.bootstrap import Arrays, Bootstrap, bca, paired_statistic, resamples_for
from evalspec.stats.resampling.resample import ResamplingPlan, jackknife, replicates
from evalspec.stats.types import FloatArray
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import RESAMPLED, Pair, enough, p_values, wrong_claims


def average(arrays: Arrays, weights: FloatArray) -> FloatArray:
    return np.asarray(weights @ arrays[0] / weights.sum(axis=1), dtype=np.float64)


def macro_f1(arrays: Arrays, weights: FloatArray) -> FloatArray:
    truth, predicted = arrays
    scores = []
    for label in (0, 1):
        hits = weights @ ((truth == label) & (predicted == label)).astype(float)
        scores.append(
            2 * hits / (weights @ (truth == label).astype(float) + weights @ (predicted == label).astype(float))
        )
    return np.mean(scores, axis=0)


def correlation(arrays: Arrays, weights: FloatArray) -> FloatArray:
    x, y = arrays
    total = weights.sum(axis=1)
    mx, my = weights @ x / total, weights @ y / total
    return (weights @ (x * y) / total - mx * my) / np.sqrt(
        (weights @ x**2 / total - mx**2) * (weights @ y**2 / total - my**2)
    )


def run(values: np.ndarray, seed: int = 0, **options: object) -> object:
    return bca(average, (values,), rng=np.random.default_rng(seed), alpha=0.0025, **options)  # type: ignore[arg-type]


def test_bounds_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(120)
    y = x + rng.standard_normal(120)
    ours = bca(correlation, (x, y), rng=np.random.default_rng(1), alpha=0.0005)
    theirs = stats.bootstrap(
        (x, y), lambda x, y: np.corrcoef(x, y)[0, 1], paired=True, confidence_level=0.9, n_resamples=9_999, rng=2
    ).confidence_interval
    assert ours.bound(0.95, "lower") == pytest.approx(theirs.low, abs=0.006)
    assert ours.bound(0.95, "upper") == pytest.approx(theirs.high, abs=0.006)


def test_the_strictest_level_has_twenty_resamples_beyond_it() -> None:
    assert resamples_for(0.05) == 9_999
    assert resamples_for(0.0001) == 199_999
    assert 20 / (resamples_for(0.0003) + 1) <= 0.0003


def test_the_same_generator_gives_the_same_bounds() -> None:
    values = np.random.default_rng(2).exponential(size=200)
    first, again, other = run(values), run(values), run(values, seed=1)
    assert isinstance(first, Bootstrap) and isinstance(again, Bootstrap) and isinstance(other, Bootstrap)
    assert first.bound(0.95, "lower") == again.bound(0.95, "lower") != other.bound(0.95, "lower")


def test_p_value_is_the_level_at_which_the_bound_reaches_the_threshold() -> None:
    estimate = run(np.random.default_rng(3).exponential(size=200))
    assert isinstance(estimate, Bootstrap)
    for confidence in (0.4, 0.95, 0.998):
        for side in ("lower", "upper"):
            bound = estimate.bound(confidence, side)
            assert bound is not None
            p = estimate.p_value(bound, side)
            assert p is not None and p <= 1 - confidence + 1e-9
            assert p == pytest.approx(1 - confidence, abs=5e-4)


def test_no_bound_and_no_p_value_beyond_the_last_replicate() -> None:
    estimate = run(np.random.default_rng(4).exponential(size=200))
    assert isinstance(estimate, Bootstrap)
    assert estimate.bound(1 - 1e-6, "lower") is None
    p = estimate.p_value(-5.0, "lower")
    assert p is not None and 1e-6 < p < 1e-3
    assert estimate.p_value(50.0, "lower") == 1.0
    assert estimate.p_value(-5.0, "upper") == 1.0


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.ones(100), "all resamples give the same value"),
        (np.arange(49.0), "with at least 50 rows or clusters, and there are 49"),
        (np.r_[np.zeros(99), 1.0], "few rows carry the variance"),
    ],
)
def test_a_sample_that_carries_no_bound_says_so(values: np.ndarray, why: str) -> None:
    estimate = run(values)
    assert isinstance(estimate, ValueOnly)
    assert estimate.value == pytest.approx(values.mean())
    assert why in estimate.method


def test_a_small_class_gives_no_bound() -> None:
    estimate = run(np.arange(100.0), smallest_class=19)
    assert isinstance(estimate, ValueOnly)
    assert "a class has 19 rows, BCa needs 20" in estimate.method
    assert isinstance(run(np.arange(100.0), smallest_class=20), Bootstrap)


def test_an_undefined_statistic_has_no_value_or_no_bound() -> None:
    def share(arrays: Arrays, weights: FloatArray) -> FloatArray:
        below = weights @ arrays[0]
        return np.divide(weights @ arrays[1], below, out=np.full(len(weights), np.nan), where=below > 0)

    rng = np.random.default_rng(5)
    nothing = bca(share, (np.zeros(80), np.ones(80)), rng=rng, alpha=0.05)
    assert (nothing.value, nothing.bound(0.95, "lower")) == (None, None)
    sometimes = bca(share, (np.r_[np.ones(2), np.zeros(78)], np.arange(80.0)), rng=rng, alpha=0.05)
    assert sometimes.value is not None and sometimes.bound(0.95, "lower") is None
    assert "undefined in some resamples" in sometimes.method


def test_rows_of_few_kinds_are_drawn_as_counts() -> None:
    rng = np.random.default_rng(6)
    truth = (rng.random(400) < 0.4).astype(np.int64)
    predicted = np.where(rng.random(400) < 0.85, truth, 1 - truth)
    quick = bca(macro_f1, (truth, predicted), rng=np.random.default_rng(0), alpha=0.005)
    plain = bca(macro_f1, (truth.astype(float), predicted.astype(float)), rng=np.random.default_rng(0), alpha=0.005)
    assert isinstance(quick, Bootstrap) and isinstance(plain, Bootstrap)
    assert quick.value == pytest.approx(plain.value)
    assert quick.acceleration == pytest.approx(plain.acceleration)
    assert quick.ordered.std() == pytest.approx(plain.ordered.std(), rel=0.03)
    assert quick.bound(0.95, "lower") == pytest.approx(plain.bound(0.95, "lower"), abs=0.002)


def test_jackknife_of_groups_sees_the_same_skewness() -> None:
    values = np.random.default_rng(7).exponential(size=20_000)

    def weighted(weights: FloatArray) -> FloatArray:
        return average((values,), weights)[:, None]

    left, units = jackknife(weighted, ResamplingPlan(rows=20_000), np.random.default_rng(8))
    lead = left.mean() - left[:, 0]
    acceleration = np.sum(units * lead**3) / (6 * np.sum(units * lead**2) ** 1.5)
    assert acceleration == pytest.approx(stats.skew(values) / (6 * np.sqrt(20_000)), abs=0.001)


def test_whole_clusters_are_drawn() -> None:
    values = np.random.default_rng(9).exponential(size=150)
    copied = run(np.repeat(values, 4), clusters=np.repeat(np.arange(150), 4))
    alone = run(values)
    assert isinstance(copied, Bootstrap) and isinstance(alone, Bootstrap)
    assert copied.n == 600 and "150 clusters" in copied.method
    assert copied.ordered.std() == pytest.approx(alone.ordered.std(), rel=0.05)
    assert isinstance(run(np.repeat(values, 4), clusters=np.repeat(np.arange(30), 20)), ValueOnly)


def test_strata_keep_their_sizes() -> None:
    strata = np.repeat([0, 1], [60, 40])
    drawn = replicates(
        lambda w: w[:, strata == 1].sum(axis=1, keepdims=True),
        ResamplingPlan(100, strata=strata),
        500,
        np.random.default_rng(0),
    )
    assert (drawn == 40).all()
    # All that varies lies between the strata, so that nothing varies within them.
    assert isinstance(run(strata.astype(float), strata=strata), ValueOnly)


def test_memory_stays_bounded() -> None:
    widths: list[int] = []

    def watched(weights: FloatArray) -> FloatArray:
        widths.append(weights.size)
        return weights[:, :1]

    replicates(watched, ResamplingPlan(rows=10_000), 1_000, np.random.default_rng(0))
    assert max(widths) <= 4_000_000 and len(widths) == 3


def test_both_models_are_taken_on_the_same_resamples() -> None:
    rng = np.random.default_rng(10)
    baseline = rng.exponential(size=300)
    candidate = baseline + 0.1 + rng.normal(0, 0.01, 300)
    pair = paired_statistic(average, (candidate,), (baseline,), rng=rng, alpha=0.005)
    difference = pair.difference(1.0, 0.0)
    assert (pair.candidate_value, pair.baseline_value) == (
        pytest.approx(candidate.mean()),
        pytest.approx(baseline.mean()),
    )
    lower, upper = difference.bound(0.95, "lower"), difference.bound(0.95, "upper")
    assert lower is not None and upper is not None
    assert upper - lower < 0.003
    ratio = pair.ratio()
    assert ratio is not None
    at = ratio.bound(0.95, "upper")
    assert at is not None
    # The ratio clears a factor where the difference with that factor clears 0.
    assert pair.difference(at, 0.0).p_value(0.0, "upper") == pytest.approx(0.05, abs=0.002)


def test_a_comparison_without_bounds_still_has_its_value() -> None:
    pair = paired_statistic(average, (np.ones(30),), (np.zeros(30),), rng=np.random.default_rng(0), alpha=0.05)
    difference = pair.difference(1.0, 0.0)
    assert (difference.value, difference.bound(0.95, "lower")) == (1.0, None)
    assert pair.ratio() is None


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="3, 4 rows"):
        bca(average, (np.ones(3), np.ones(4)), rng=np.random.default_rng(0), alpha=0.05)
    with pytest.raises(InputError, match="are not pairs"):
        paired_statistic(average, (np.ones(3),), (np.ones(4),), rng=np.random.default_rng(0), alpha=0.05)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("n", "right"), [(50, 0.9), (200, 0.9), (1000, 0.95)])
def test_class_statistics_err_no_more_often_than_allowed(n: int, right: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 999)
    rng = np.random.default_rng(n)

    def samples() -> Iterator[Pair]:
        while True:
            truth = (rng.random(n) < 0.5).astype(np.int64)
            predicted = np.where(rng.random(n) < right, truth, 1 - truth)
            smallest = int(min(truth.sum(), n - truth.sum()))
            yield p_values(bca(macro_f1, (truth, predicted), rng=rng, alpha=0.05, smallest_class=smallest), right)

    assert (wrong_claims(enough(samples(), RESAMPLED)) <= RESAMPLED).all()


@pytest.mark.proof
@pytest.mark.slow
def test_row_statistics_err_no_more_often_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 999)
    rng = np.random.default_rng(12)

    def samples() -> Iterator[Pair]:
        while True:
            x = rng.standard_normal(100)
            estimate = bca(correlation, (x, x + rng.standard_normal(100)), rng=rng, alpha=0.05)
            yield p_values(estimate, np.sqrt(0.5))

    assert (wrong_claims(enough(samples(), RESAMPLED)) <= RESAMPLED).all()


def test_a_tie_is_one_whatever_the_last_digits_of_a_sum() -> None:
    rng = np.random.default_rng(4)
    drawn, left = np.round(rng.normal(0.7, 0.02, 4000), 2), (rng.normal(0.7, 0.001, 500), np.ones(500))
    value = 0.7
    exact = bootstrap.from_replicates(value, 500, "BCa", drawn, left)
    rounded = bootstrap.from_replicates(value, 500, "BCa", drawn * (1.0 + rng.choice([-2e-16, 2e-16], 4000)), left)
    assert isinstance(exact, Bootstrap) and isinstance(rounded, Bootstrap)
    assert np.count_nonzero(drawn == value) > 500
    assert rounded.bias == exact.bias
