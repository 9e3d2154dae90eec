"""Curves over thresholds, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

from evalspec.evidence.blocks import Curve
from evalspec.scoring.scored_rows import Scored
from evalspec.scoring.show import THRESHOLDS_SHOWN, curves


def rows(truth: np.ndarray, scores: np.ndarray | None, positive: int | None = 1) -> Scored:
    both = None if scores is None else np.stack([1 - scores, scores], axis=1)
    said = np.zeros(len(truth), np.int64) if scores is None else (scores >= 0.5).astype(np.int64)
    return Scored("candidate", "test", truth, ("no", "yes"), said, both, None, None, positive)


@pytest.mark.parametrize("levels", [20, 90])
def test_each_point_is_scikit_learns(levels: int) -> None:
    rng = np.random.default_rng(levels)
    truth = (rng.random(400) < 0.3).astype(np.int64)
    # Ties, as every model that rounds has them.
    scores = np.round(np.clip(0.3 * truth + 0.5 * rng.random(400), 0, 1) * levels) / levels
    roc, precision_recall, thresholds = curves(rows(truth, scores))
    assert isinstance(roc, Curve) and isinstance(precision_recall, Curve) and isinstance(thresholds, Curve)
    false_alarms, recall, _ = sk.roc_curve(truth, scores, drop_intermediate=False)
    assert roc.series[0].x == pytest.approx(false_alarms, abs=1e-5)
    assert roc.series[0].y == pytest.approx(recall, abs=1e-5)
    precision, recall, cuts = sk.precision_recall_curve(truth, scores)
    assert precision_recall.series[0].y == pytest.approx(precision[:-1][::-1], abs=1e-5)
    assert precision_recall.series[0].x == pytest.approx(recall[:-1][::-1], abs=1e-5)
    by_name = {one.name: one for one in thresholds.series}
    assert by_name["recall"].x == pytest.approx(cuts[::-1], abs=1e-5)
    called = [float((scores >= cut).mean()) for cut in cuts[::-1]]
    assert by_name["rows called yes"].y == pytest.approx(called, abs=1e-5)
    assert precision_recall.references[0].value == pytest.approx(truth.mean())


def test_many_thresholds_are_thinned_and_keep_both_ends() -> None:
    rng = np.random.default_rng(0)
    truth, scores = (rng.random(5_000) < 0.5).astype(np.int64), rng.random(5_000)
    roc = curves(rows(truth, scores))[0]
    assert isinstance(roc, Curve)
    one = roc.series[0]
    assert (
        len(one.x) == THRESHOLDS_SHOWN + 1
        and (one.x[0], one.y[0]) == (0.0, 0.0)
        and (one.x[-1], one.y[-1]) == (1.0, 1.0)
    )


@pytest.mark.parametrize(
    "one",
    [
        rows(np.zeros(9, np.int64), np.linspace(0, 1, 9)),
        rows(np.ones(9, np.int64), np.linspace(0, 1, 9)),
        rows(np.arange(8) % 2, None),
        rows(np.arange(8) % 2, np.linspace(0, 1, 8), positive=None),
    ],
    ids=["no row of it", "no other row", "labels only", "no positive class"],
)
def test_there_is_no_curve_of_what_is_not_ranked(one: Scored) -> None:
    assert curves(one) == ()
