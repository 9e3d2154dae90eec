"""The mean of the one-vs-rest areas: its value, its error rates, its bounds near 1."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evalspec.checks.model._areas import AnyDependence, MeanArea, PairedMeanArea, mean_area
from evalspec.stats.auc import LogitAuc, paired_roc_auc, roc_auc


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
    pair = PairedMeanArea(MeanArea.of(margin, truth, (0, 1)), MeanArea.of(noisy, truth, (0, 1)), None)
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


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "classes", "skill"), [(200, 3, 1.0), (1000, 5, 2.5)])
def test_bounds_err_as_often_as_they_say(rows: int, classes: int, skill: float) -> None:
    """500 samples: a rate of 5 % gives more than 41 misses once in 1,000, one of 0.6 % more than 9."""
    rng = np.random.default_rng(7)
    every = range(classes)
    truth = float(np.mean([MeanArea.of(*draw(rng, 200_000, classes, skill)[::-1], every).value for _ in range(4)]))
    misses = np.zeros(4, dtype=int)
    for _ in range(500):
        labels, scores = draw(rng, rows, classes, skill)
        found = mean_area(scores, labels, every, None)
        assert isinstance(found, LogitAuc | AnyDependence)
        at = [(found.bound(level, "lower"), found.bound(level, "upper")) for level in (0.95, 0.998)]
        misses += [at[0][0] > truth, at[0][1] < truth, at[1][0] > truth, at[1][1] < truth]
    assert misses[0] <= 41
    assert misses[1] <= 41
    assert misses[2] <= 9
    assert misses[3] <= 9
