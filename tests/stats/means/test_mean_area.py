"""The mean of the one-vs-rest areas: its value, its error rates, its bounds near 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from evalspec.stats.means.auc import LogitAuc, paired_roc_auc, roc_auc
from evalspec.stats.means.mean_area import AnyDependence, MeanArea, PairedMeanArea, mean_area, paired_mean_area
from tests.stats.simulated import ALLOWED, Pair, enough, enough_of_each, p_values, wrong_claims


def draw(rng: np.random.Generator, rows: int, classes: int, skill: float) -> tuple[np.ndarray, np.ndarray]:
    truth = rng.integers(0, classes, rows)
    scores = rng.normal(size=(rows, classes))
    scores[np.arange(rows), truth] += skill
    return truth, scores


def test_two_classes_are_delong() -> None:
    """The area of one class against the other is the same seen from both, so their mean is it too."""
    rng = np.random.default_rng(1)
    truth, scores = draw(rng, 500, 2, 0.7)
    margin = np.stack([scores[:, 0] - scores[:, 1], scores[:, 1] - scores[:, 0]], axis=1)
    mean, one = mean_area(margin, truth, (0, 1), None), roc_auc(margin[:, 1], truth == 1)
    assert mean.value == pytest.approx(one.value, abs=1e-12)
    for side in ("lower", "upper"):
        assert mean.bound(0.95, side) == pytest.approx(one.bound(0.95, side), abs=2e-4)
    _, other = draw(rng, 500, 2, 0.5)
    noisy = margin + np.stack([other[:, 0], -other[:, 0]], axis=1)
    pair = paired_mean_area(margin, noisy, truth, (0, 1), None)
    delong = paired_roc_auc(margin[:, 1], noisy[:, 1], truth == 1)
    assert pair.difference(1.0, 0.0).bound(0.95, "lower") == pytest.approx(
        delong.difference(1.0, 0.0).bound(0.95, "lower"), abs=2e-4
    )


def test_near_one_the_bounds_hold_under_any_dependence() -> None:
    truth, scores = draw(np.random.default_rng(2), 400, 4, 9.0)
    found = mean_area(scores, truth, range(4), None)
    assert isinstance(found, AnyDependence)
    assert found.n == 400
    assert found.value == pytest.approx(np.mean([roc_auc_score(truth == c, scores[:, c]) for c in range(4)]))
    smallest = np.bincount(truth).min()
    # A perfect class of m rows has the bound (a / C) ** (1 / m) at level a.
    assert found.bound(0.95, "lower") == pytest.approx((0.05 / 4) ** (1 / smallest), abs=0.01)
    low = found.bound(0.95, "lower")
    assert low is not None
    assert found.p_value(low, "lower") == pytest.approx(0.05, abs=1e-6)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "classes", "skill", "largest"),
    [
        (50, 5, 0.7, 0.2),
        (50, 3, 1.6, 1 / 3),  # (1 - area) x rows sums to about the 6 that the rule changes at
        (200, 5, 1.5, 0.7),
        (200, 5, 2.5, 0.2),  # as above
        (1000, 4, 2.0, 0.7),
    ],
)
def test_bounds_err_no_more_often_than_allowed(rows: int, classes: int, skill: float, largest: float) -> None:
    """The scores of a class are normal, those of its own rows higher by ``skill``: the area is Phi(skill / sqrt 2)."""
    rng = np.random.default_rng([rows, classes])
    shares = np.full(classes, (1 - largest) / (classes - 1))
    shares[0] = largest
    truth = float(norm.cdf(skill / np.sqrt(2)))

    def samples() -> Iterator[Pair]:
        while True:
            labels = rng.choice(classes, size=rows, p=shares)
            if len(np.unique(labels)) < classes:
                yield None, None
                continue
            scores = rng.normal(size=(rows, classes))
            scores[np.arange(rows), labels] += skill
            yield p_values(mean_area(scores, labels, range(classes), None), truth)

    assert (wrong_claims(enough(samples())) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("rows", "classes", "skill"), [(50, 3, 1.0), (200, 3, 1.5), (1000, 3, 2.0)])
def test_paired_bounds_err_no_more_often_than_allowed(rows: int, classes: int, skill: float) -> None:
    rng = np.random.default_rng([10, rows])
    truth = float(norm.cdf(skill / np.sqrt(2)) - norm.cdf(skill / np.sqrt(2 * 1.5)))

    def samples() -> Iterator[Pair]:
        while True:
            labels, scores = draw(rng, rows, classes, skill)
            noisy = scores + np.sqrt(0.5) * rng.normal(size=(rows, classes))
            pair = paired_mean_area(scores, noisy, labels, range(classes), None)
            yield p_values(pair.difference(1.0, 0.0), truth)

    assert (wrong_claims(enough(samples())) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size", "together"), [(25, 2, True), (50, 4, True), (50, 4, False), (200, 5, True)])
def test_clustered_bounds_err_no_more_often_than_allowed(
    groups: int, size: int, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a cluster are of one class or of several; a model alone and against a noisier one."""
    rng = np.random.default_rng([9, groups])
    clusters, classes, skill, rows = np.repeat(np.arange(groups), size), 3, 1.5, groups * size
    truth, noisier = float(norm.cdf(skill / np.sqrt(2))), float(norm.cdf(skill / np.sqrt(2 * 1.5)))
    of = MeanArea.of

    def samples() -> Iterator[tuple[Pair, Pair]]:
        while True:
            labels = np.repeat(rng.integers(0, classes, groups), size) if together else rng.integers(0, classes, rows)
            scores = np.sqrt(0.6) * np.repeat(rng.normal(size=(groups, classes)), size, axis=0)
            scores += np.sqrt(0.4) * rng.normal(size=(rows, classes))
            scores[np.arange(rows), labels] += skill
            noisy = scores + np.sqrt(0.5) * rng.normal(size=(rows, classes))
            first, second = (of(one, labels, range(classes)) for one in (scores, noisy))
            # The model alone is the first of the pair.
            monkeypatch.setattr(MeanArea, "of", lambda *_, first=first: first)
            by_class = [paired_roc_auc(scores[:, c], noisy[:, c], labels == c, clusters) for c in range(classes)]
            difference = PairedMeanArea(first, second, clusters, by_class.copy).difference(1.0, 0.0)
            alone = mean_area(scores, labels, range(classes), clusters)
            yield p_values(alone, truth), p_values(difference, truth - noisier)

    for found in enough_of_each(samples()):
        assert (wrong_claims(found) <= ALLOWED).all()


def test_few_rows_of_small_classes_have_few_degrees() -> None:
    rng = np.random.default_rng(4)
    truth, scores = draw(rng, 100, 4, 0.5)
    truth[truth == 3] = 0
    truth[:4] = 3
    found = mean_area(scores, truth, range(4), None)
    assert isinstance(found, LogitAuc) and found.degrees is not None
    assert 2 < found.degrees < 50
    assert "one-vs-rest" in found.method
