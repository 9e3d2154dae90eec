from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from evalspec.errors import InputError
from evalspec.stats.means.auc import LogitAuc, paired_roc_auc, roc_auc
from evalspec.stats.means.bounded_area import BoundedArea
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import ALLOWED, REPEATS, Pair, enough, enough_of_each, p_values, wrong_claims


def sample(n: int, auc: float, share: float, seed: int, *, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    positive = np.arange(n) < round(n * share)
    scores = rng.standard_normal(n) + np.sqrt(2) * norm.ppf(auc) * positive
    return (np.round(scores, 1) if ties else scores), positive


def delong(first: np.ndarray, second: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Covariance of two AUCs from all pairs of rows, after DeLong et al. (1988), independent of the package."""
    placed = []
    for scores in (first, second):
        above, below = scores[positive][:, None], scores[~positive][None, :]
        kernel = (above > below) + 0.5 * (above == below)
        placed.append((kernel.mean(axis=1), kernel.mean(axis=0)))
    over_positives = np.cov(np.stack([placed[0][0], placed[1][0]])) / positive.sum()
    return over_positives + np.cov(np.stack([placed[0][1], placed[1][1]])) / (~positive).sum()


@pytest.mark.parametrize("ties", [False, True])
def test_value_and_variance(ties: bool) -> None:
    scores, positive = sample(400, 0.8, 0.3, 0, ties=ties)
    estimate = roc_auc(scores, positive)
    assert isinstance(estimate, LogitAuc)
    assert estimate.value == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    assert estimate.standard_error**2 == pytest.approx(delong(scores, scores, positive)[0, 0], rel=1e-9)


def test_bounds_are_on_the_logit() -> None:
    scores, positive = sample(400, 0.9, 0.5, 1)
    estimate = roc_auc(scores, positive)
    assert isinstance(estimate, LogitAuc)
    value = estimate.value
    reach = 1.6448536 * estimate.standard_error / (value * (1 - value))
    logit = np.log(value / (1 - value))
    assert estimate.bound(0.95, "lower") == pytest.approx(1 / (1 + np.exp(reach - logit)))
    assert estimate.bound(0.95, "upper") == pytest.approx(1 / (1 + np.exp(-reach - logit)))


@pytest.mark.parametrize("auc", [0.8, 0.999])
def test_p_value_is_the_level_at_which_the_bound_reaches_the_threshold(auc: float) -> None:
    estimate = roc_auc(*sample(300, auc, 0.5, 2))
    for side, confidence in (("lower", 0.95), ("lower", 0.998), ("upper", 0.9)):
        bound = estimate.bound(confidence, side)
        assert bound is not None
        assert estimate.p_value(bound, side) == pytest.approx(1 - confidence, rel=1e-5)


def test_paired_difference() -> None:
    scores, positive = sample(500, 0.8, 0.4, 3)
    other = scores + np.random.default_rng(4).normal(0, 0.7, 500)
    comparison = paired_roc_auc(scores, other, positive)
    assert comparison.baseline_value == pytest.approx(roc_auc_score(positive, other))
    covariance = delong(scores, other, positive)
    for factor in (1.0, 0.97):
        estimate = comparison.difference(factor, 0.0)
        assert estimate.value is not None
        assert estimate.value == pytest.approx(
            roc_auc_score(positive, scores) - factor * roc_auc_score(positive, other)
        )
        variance = covariance[0, 0] - 2 * factor * covariance[0, 1] + factor**2 * covariance[1, 1]
        assert estimate.bound(0.95, "lower") == pytest.approx(estimate.value - 1.6448536 * np.sqrt(variance))
        assert estimate.p_value(estimate.value, "lower") == pytest.approx(0.5)
    assert comparison.ratio() is None


def test_a_perfect_ranking_is_bounded_as_pairs_that_are_all_right() -> None:
    positive = np.arange(200) < 50
    estimate = roc_auc(positive.astype(float), positive)
    assert isinstance(estimate, BoundedArea)
    # 50 disjoint pairs, all right: the same as Clopper-Pearson on 50 of 50.
    assert estimate.bound(0.95, "lower") == pytest.approx(0.05 ** (1 / 50), abs=1e-9)
    assert estimate.bound(0.95, "upper") == 1.0
    assert "DeLong needs" in estimate.method
    # That an area lies in 0..1 needs no rows, and no p-value is over 1.
    assert [estimate.p_value(at, "upper") for at in (-0.5, 0.0, 1.0, 1.5)] == [1.0, 1.0, 0.0, 0.0]
    assert [estimate.p_value(at, "lower") for at in (-0.5, 0.0, 1.0, 1.5)] == [0.0, 0.0, 1.0, 1.0]
    n = estimate.n_to_decide(0.98, 0.05)
    assert n is not None
    # That all pairs are right makes it no surer that they will be: 80 % power takes more than 150 pairs.
    assert 0.98 ** (n / 4) <= 0.05


@pytest.mark.parametrize("positive", [np.zeros(10, dtype=bool), np.ones(10, dtype=bool)])
def test_one_class_has_no_area(positive: np.ndarray) -> None:
    estimate = roc_auc(np.arange(10.0), positive)
    assert (estimate.value, estimate.bound(0.95, "lower")) == (None, None)
    with pytest.raises(InputError, match="both classes"):
        paired_roc_auc(np.arange(10.0), np.arange(10.0), positive)


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match="1 of 3 scores"):
        roc_auc(np.array([0.1, np.nan, 0.3]), np.array([True, False, True]))
    with pytest.raises(InputError, match="3 scores for 2 rows"):
        roc_auc(np.zeros(3), np.array([True, False]))


def test_near_one_a_difference_counts_rows_that_were_not_drawn() -> None:
    scores, positive = sample(200, 0.999, 0.2, 5)
    estimate = paired_roc_auc(scores, scores[::1] + 0.1 * np.sin(np.arange(200)), positive).difference(1.0, 0.0)
    assert isinstance(estimate, BoundedArea)
    assert "of 4 for both models" in estimate.method
    lower = estimate.bound(0.95, "lower")
    # 40 positive rows: one that was not drawn weighs up to 0.05^(1/40) = 7 %.
    assert lower is not None and estimate.value - 0.2 < lower < estimate.value - 0.05


def test_the_same_scores_have_no_difference_to_bound() -> None:
    scores, positive = sample(200, 0.8, 0.5, 6)
    assert isinstance(paired_roc_auc(scores, 2 * scores, positive).difference(1.0, 0.0), ValueOnly)


def test_copies_say_no_more_than_the_row_itself() -> None:
    scores, positive = sample(300, 0.8, 0.5, 7)
    alone = roc_auc(scores, positive)
    copied = roc_auc(np.repeat(scores, 4), np.repeat(positive, 4), np.repeat(np.arange(300), 4))
    assert isinstance(alone, LogitAuc) and isinstance(copied, LogitAuc)
    assert copied.standard_error == pytest.approx(alone.standard_error, rel=0.02)
    one = roc_auc(scores, positive, np.zeros(300, dtype=np.int64))
    assert one.bound(0.95, "lower") is None


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "auc", "share"),
    [(50, 0.6, 0.5), (50, 0.8, 0.5), (50, 0.97, 0.5), (200, 0.8, 0.1), (200, 0.95, 0.5), (1000, 0.95, 0.1)],
)
def test_bounds_err_no_more_often_than_allowed(n: int, auc: float, share: float) -> None:
    rng = np.random.default_rng([n, round(100 * auc)])
    positive = np.arange(n) < round(n * share)
    shift = np.sqrt(2) * norm.ppf(auc) * positive
    found = enough(p_values(roc_auc(rng.standard_normal(n) + shift, positive), auc) for _ in range(REPEATS))
    assert (wrong_claims(found) <= ALLOWED).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "areas", "alike"),
    [
        (50, (0.7, 0.7), 0.9), (200, (0.9, 0.88), 0.9),
        pytest.param(200, (0.85, 0.9), 0.5, marks=pytest.mark.proof),
        pytest.param(1000, (0.95, 0.94), 0.9, marks=pytest.mark.proof),
    ],
)  # fmt: skip
def test_paired_bounds_err_no_more_often_than_allowed(n: int, areas: tuple[float, float], alike: float) -> None:
    rng = np.random.default_rng([n, round(100 * alike)])
    positive = np.arange(n) < n // 2
    shift = np.sqrt(2) * norm.ppf(areas)

    def samples() -> Iterator[Pair]:
        while True:
            noise = rng.standard_normal((2, n))
            first = noise[0] + shift[0] * positive
            second = alike * noise[0] + np.sqrt(1 - alike**2) * noise[1] + shift[1] * positive
            yield p_values(paired_roc_auc(first, second, positive).difference(), areas[0] - areas[1])

    assert (wrong_claims(enough(samples())) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(25, 2), (50, 4), (200, 5)])
def test_clustered_bounds_err_no_more_often_than_allowed(groups: int, size: int) -> None:
    """Alone, and beside a model that sees the same through more noise."""
    rng = np.random.default_rng([8, groups])
    clusters, shift = np.repeat(np.arange(groups), size), np.sqrt(2) * norm.ppf(0.8)
    positive = np.repeat(np.arange(groups) < groups // 2, size)
    worse = float(norm.cdf(shift / np.sqrt(2 * 1.5)))

    def samples() -> Iterator[tuple[Pair, Pair]]:
        while True:
            shared = np.repeat(rng.standard_normal(groups), size)
            scores = np.sqrt(0.6) * shared + np.sqrt(0.4) * rng.standard_normal(groups * size) + shift * positive
            noisy = scores + np.sqrt(0.5) * rng.standard_normal(groups * size)
            difference = paired_roc_auc(scores, noisy, positive, clusters).difference()
            yield p_values(roc_auc(scores, positive, clusters), 0.8), p_values(difference, 0.8 - worse)

    for found in enough_of_each(samples()):
        assert (wrong_claims(found) <= ALLOWED).all()
