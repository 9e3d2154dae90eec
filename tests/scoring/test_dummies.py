"""Scores of answers that never look at the row, against scikit-learn's dummies."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.dummy import DummyClassifier, DummyRegressor

from evalspec.scoring.dummies import chance, majority
from evalspec.scoring.scored_rows import Scored


def rows(truth: np.ndarray, classes: int | None, positive: int | None = None) -> Scored:
    names = None if classes is None else tuple(map(str, range(classes)))
    return Scored("candidate", "test", truth, names, None, None, None, None, positive)


@pytest.mark.parametrize("weights", [(0.9, 0.1), (0.2, 0.5, 0.3), (0.25, 0.25, 0.25, 0.25)])
def test_the_majority_is_scikit_learns_dummy(weights: tuple[float, ...]) -> None:
    count = len(weights)
    truth = np.random.default_rng(0).choice(count, 500, p=weights)
    dummy = DummyClassifier(strategy="prior").fit(np.zeros((500, 1)), truth)
    said, shares = dummy.predict(np.zeros((500, 1))), dummy.predict_proba(np.zeros((500, 1)))
    one = rows(truth, count, 1 if count == 2 else None)
    assert majority(one, "accuracy") == pytest.approx(sk.accuracy_score(truth, said))
    assert majority(one, "balanced_accuracy") == pytest.approx(sk.balanced_accuracy_score(truth, said))
    assert majority(one, "macro_recall") == pytest.approx(sk.recall_score(truth, said, average="macro"))
    assert majority(one, "macro_f1") == pytest.approx(sk.f1_score(truth, said, average="macro", zero_division=0))
    assert majority(one, "log_loss") == pytest.approx(sk.log_loss(truth, shares))
    assert majority(one, "brier") == pytest.approx(sk.brier_score_loss(truth, shares, scale_by_half="auto"))
    assert majority(one, "top_k_accuracy", "1") == majority(one, "accuracy")
    scores = shares[:, 1] if count == 2 else shares
    assert majority(one, "average_precision") == pytest.approx(sk.average_precision_score(truth, scores))
    assert majority(one, "macro_precision") is None
    assert majority(one, "recall", "1") is None


def test_chance_is_what_even_answers_score_in_the_long_run() -> None:
    rng = np.random.default_rng(1)
    truth = rng.choice(4, 400_000, p=(0.4, 0.3, 0.2, 0.1))
    said = rng.integers(0, 4, len(truth))
    one = rows(truth, 4)
    assert chance(one, "accuracy") == pytest.approx(sk.accuracy_score(truth, said), abs=0.003)
    assert chance(one, "macro_recall") == pytest.approx(sk.recall_score(truth, said, average="macro"), abs=0.003)
    even = np.full((len(truth), 4), 0.25)
    assert chance(one, "log_loss") == pytest.approx(sk.log_loss(truth, even))
    assert chance(one, "brier") == pytest.approx(sk.brier_score_loss(truth, even, scale_by_half="auto"))
    assert chance(one, "top_k_accuracy", "3") == 0.75
    assert chance(one, "roc_auc") == 0.5
    assert chance(rows(truth * 1.0, None), "mae") is None


def test_the_best_constant_is_the_median_or_the_mean() -> None:
    truth = np.random.default_rng(2).gamma(2.0, 3.0, 301)
    one, zeros = rows(truth, None), np.zeros((301, 1))
    median, mean = (DummyRegressor(strategy=how).fit(zeros, truth).predict(zeros) for how in ("median", "mean"))
    assert majority(one, "mae") == pytest.approx(sk.mean_absolute_error(truth, median))
    assert majority(one, "rmse") == pytest.approx(sk.root_mean_squared_error(truth, mean))
    assert majority(one, "r2") == pytest.approx(sk.r2_score(truth, mean), abs=1e-12)
