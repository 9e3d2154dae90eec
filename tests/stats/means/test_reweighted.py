"""Reweighted scores: an exact case by hand, known truth, and when there is no bound."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.stats.means.reweighted import CrossFitted, reweighted_change
from tests.stats.simulated import ALLOWED

SHARES = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.15, 0.25, 0.3, 0.3])
RIGHT = np.array([0.95, 0.9, 0.8, 0.6])
TRUTH = float(SHARES[0] @ RIGHT - SHARES[1] @ RIGHT)


def judged(
    rng: np.random.Generator, n: int, m: int, *, odds_off: float = 0.0, expected_off: float = 0.0, size: int = 1
) -> tuple[np.ndarray, CrossFitted, CrossFitted]:
    """Rows of four kinds; what other rows said of each kind's odds and scores may be off."""
    kinds = [np.repeat(rng.choice(4, k // size, p=p), size) for k, p in zip((n, m), SHARES, strict=True)]
    scores = np.repeat(rng.random(n // size) < RIGHT[kinds[0][::size]], size).astype(float)
    odds = SHARES[1] / SHARES[0] * np.exp(odds_off * np.array([1.0, -1.0, 1.0, -1.0]))
    expected = RIGHT + expected_off * np.array([1.0, 1.0, -1.0, -1.0])
    ids = [None if size == 1 else np.repeat(np.arange(k // size), size) for k in (n, m)]
    sides = [CrossFitted(odds[kind], expected[kind], one) for kind, one in zip(kinds, ids, strict=True)]
    return scores, sides[0], sides[1]


def test_by_hand() -> None:
    """Two kinds of rows: weights 0.5 and 1.5 of four rows each, scores 1 and 0.5, expectations 0.9 and 0.6."""
    scores = np.array([1.0, 1, 1, 1, 1, 1, 0, 0])
    ours = CrossFitted(np.repeat([0.5, 1.5], 4), np.repeat([0.9, 0.6], 4))
    theirs = CrossFitted(np.repeat([0.5, 1.5], [2, 6]), np.repeat([0.9, 0.6], [2, 6]))
    found = reweighted_change(scores, ours, theirs)
    # (0.5 x 4 x 0.1 + 1.5 x 4 x -0.1) / 8 = -0.05; 0.25 x 0.9 + 0.75 x 0.6 = 0.675.
    assert found.reweighted == pytest.approx(0.625)
    assert found.full == 0.75 and found.change.value == pytest.approx(0.125)
    # 8^2 / (4 x 0.25 + 4 x 2.25).
    assert found.effective == pytest.approx(6.4)
    assert found.change.bound(0.95, "upper") is None and "worth 6 rows" in found.change.method
    turned = reweighted_change(scores, ours, theirs, higher=False)
    assert turned.change.value == pytest.approx(-0.125)


def test_it_is_right_where_one_of_the_two_is() -> None:
    rng = np.random.default_rng(1)
    for off in ({"odds_off": 0.5}, {"expected_off": 0.1}):
        found = reweighted_change(*judged(rng, 200_000, 200_000, **off))
        assert found.change.value == pytest.approx(TRUTH, abs=0.005)


def test_no_bound_where_the_reference_has_nothing_alike() -> None:
    rng = np.random.default_rng(2)
    scores, ours, theirs = judged(rng, 2000, 2000)
    assert reweighted_change(scores, ours, theirs).change.bound(0.95, "upper") is not None
    odds = theirs.odds.copy()
    odds[:200] = 1e4
    unlike = reweighted_change(scores, ours, CrossFitted(odds, theirs.expected))
    assert unlike.unlike == 0.1
    assert "10 % of the current rows are of a kind" in unlike.change.method
    assert unlike.change.bound(0.95, "upper") is None
    # A classifier shrinks what few rows say; at its top there are current rows alone.
    odds[:60] = 9.0
    odds[60:200] = theirs.odds[60:200]
    alone = reweighted_change(scores, ours, CrossFitted(odds, theirs.expected))
    assert alone.unlike == 0.03
    # Two populations that lie apart: every row of the reference has the same small weight, and none is like them.
    apart = reweighted_change(
        scores, CrossFitted(np.full(2000, 0.01), ours.expected), CrossFitted(np.full(2000, 100.0), scores)
    )
    assert apart.effective < 50 and apart.change.bound(0.95, "upper") is None


def test_balanced_weights_are_the_nearest_ones() -> None:
    """As a general optimizer finds them: of least relative entropy among those with the means of the current rows."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(size=(400, 2)), rng.normal(loc=(0.6, -0.3), size=(300, 2))
    odds, flat = np.exp(0.5 * ours[:, 0]), np.full(300, 0.5)
    scores = (rng.random(400) < 0.8).astype(float)
    found = reweighted_change(
        scores, CrossFitted(odds, scores, features=ours), CrossFitted(np.ones(300), flat, features=theirs)
    )
    assert found.weights @ ours / 400 == pytest.approx(theirs.mean(axis=0), abs=1e-3)
    apart, before = ours - theirs.mean(axis=0), odds / odds.sum()
    dual = minimize(lambda tilt: np.log(before @ np.exp(apart @ tilt)), np.zeros(2), method="BFGS").x
    after = before * np.exp(apart @ dual)
    assert found.weights / 400 == pytest.approx(after / after.sum(), abs=1e-5)


def test_no_bound_where_no_weights_have_the_means_of_the_current_rows() -> None:
    rng = np.random.default_rng(4)
    scores, ours, theirs = judged(rng, 2000, 2000)
    beyond = CrossFitted(
        theirs.odds, theirs.expected, features=np.full((2000, 1), 3.0) + 0.1 * rng.normal(size=(2000, 1))
    )
    found = reweighted_change(scores, CrossFitted(ours.odds, ours.expected, features=rng.random((2000, 1))), beyond)
    assert found.change.bound(0.95, "upper") is None
    assert "no weights of the reference's rows" in found.change.method


def test_what_is_refused() -> None:
    one = CrossFitted(np.ones(3), np.ones(3))
    with pytest.raises(InputError, match="2 scores for 3 rows"):
        reweighted_change(np.ones(2), one, one)
    with pytest.raises(InputError, match="not finite"):
        reweighted_change(np.array([1.0, np.nan, 1.0]), one, one)
    with pytest.raises(InputError, match="a side has no rows"):
        reweighted_change(np.ones(3), one, CrossFitted(np.empty(0), np.empty(0)))


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "odds_off", "expected_off", "size"), [
    (600, 600, 0.0, 0.1, 1), (600, 3000, 0.4, 0.0, 1), (800, 800, 0.0, 0.1, 2),
])  # fmt: skip
def test_error_rates(n: int, m: int, odds_off: float, expected_off: float, size: int) -> None:
    """Bounds miss the truth as seldom as they may, at the level of PASS and at that of FAIL."""
    rng, missed = np.random.default_rng([n, m]), []
    for _ in range(250):
        told = reweighted_change(*judged(rng, n, m, odds_off=odds_off, expected_off=expected_off, size=size))
        limits = [told.change.bound(level, side) for level in (0.95, 0.998) for side in ("lower", "upper")]
        assert None not in limits
        missed.append([limits[0] > TRUTH, limits[1] < TRUTH, limits[2] > TRUTH, limits[3] < TRUTH])
    assert (np.mean(missed, axis=0) <= ALLOWED + np.array([0.02, 0.02, 0.004, 0.004])).all()
