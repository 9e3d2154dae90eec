"""Maps to better calibrated probabilities: agreement, what they can undo, and which one is chosen."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evalspec.stats.calibration.recalibration import (
    METHODS,
    Isotonic,
    Scaling,
    choose,
    isotonic_regression,
    log_losses,
    temperature_scaling,
    vector_scaling,
)

Floats = NDArray[np.float64]


def rows(n: int, classes: int = 3, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """True probabilities, and classes drawn from them."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet(np.full(classes, 0.7), n)
    return true, np.minimum((rng.random(n)[:, None] > true.cumsum(axis=1)).sum(axis=1), classes - 1)


def scaled(shares: Floats, scale: Floats, bias: Floats) -> Floats:
    return Scaling(scale, bias).apply(shares)


def test_vector_scaling_undoes_a_scale_and_a_bias() -> None:
    true, truth = rows(20_000)
    scale, bias = np.full(3, 1.5), np.array([0.8, -0.5, -0.3])
    said = scaled(true, 1 / scale, -bias / scale)
    found = vector_scaling(said, truth)
    assert found is not None
    assert found.scale == pytest.approx(scale, rel=0.05)
    assert np.diff(found.bias) == pytest.approx(np.diff(bias), abs=0.08)
    assert np.abs(found.apply(said) - true).mean() < 0.01
    # No map of this family is better on these rows.
    best = log_losses(found.apply(said), truth).mean()
    for step in (0.05, -0.05):
        for k in range(3):
            moved = found.scale.copy(), found.bias.copy()
            moved[0][k] += step
            moved[1][k] -= step
            assert log_losses(scaled(said, *moved), truth).mean() > best


def test_temperature_is_a_vector_of_one_number() -> None:
    true, truth = rows(5000)
    said = scaled(true, np.full(3, 2.0), np.zeros(3))
    found = temperature_scaling(said, truth)
    assert found is not None
    assert found.scale == pytest.approx(np.full(3, 0.5), rel=0.05) and not found.bias.any()
    assert (found.apply(said).argmax(axis=1) == said.argmax(axis=1)).all()


def test_isotonic_regression_agrees_with_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.isotonic")
    true, truth = rows(600, 4)
    said = np.round(scaled(true, np.full(4, 1.8), np.zeros(4)), 2)
    found = isotonic_regression(said, truth)
    assert found is not None
    new = np.round(np.random.default_rng(1).dirichlet(np.full(4, 0.7), 500), 3)
    for k in range(4):
        theirs = sklearn.IsotonicRegression(y_min=1 / 602, y_max=601 / 602, out_of_bounds="clip")
        theirs.fit(said[:, k], truth == k)
        ours = np.interp(new[:, k], found.said[k], found.meant[k])
        assert ours == pytest.approx(theirs.predict(new[:, k]), abs=1e-9)
        assert len(found.said[k]) < len(np.unique(said[:, k]))


def test_isotonic_regression_repairs_what_no_scaling_can() -> None:
    rng = np.random.default_rng(2)
    said = rng.uniform(0.02, 0.98, 8000)
    true = np.where(said < 0.5, 0.3 * said, 1 - 0.3 * (1 - said))
    truth = (rng.random(8000) < true).astype(np.int64)
    shares = np.stack([1 - said, said], axis=1)
    found, scaling = isotonic_regression(shares, truth), vector_scaling(shares, truth)
    assert found is not None and scaling is not None
    off = [np.abs(one.apply(shares)[:, 1] - true).mean() for one in (found, scaling)]
    assert off[0] < 0.02 < off[1]
    # With two classes the two curves are mirror images.
    assert found.apply(shares).sum(axis=1) == pytest.approx(np.ones(8000))
    halves = [np.interp(shares[:, k], found.said[k], found.meant[k]) for k in (0, 1)]
    assert halves[0] + halves[1] == pytest.approx(np.ones(8000), abs=1e-9)


def test_isotonic_regression_never_says_0_or_1() -> None:
    found = isotonic_regression(np.array([[0.9, 0.1]] * 5 + [[0.2, 0.8]] * 5), np.repeat([0, 1], 5))
    assert isinstance(found, Isotonic)
    extremes = found.apply(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert extremes == pytest.approx(np.array([[11 / 12, 1 / 12], [1 / 12, 11 / 12]]))


def bent(said: Floats) -> Floats:
    high = np.where(said[:, 1] < 0.5, 0.3 * said[:, 1], 1 - 0.3 * (1 - said[:, 1]))
    return np.stack([1 - high, high], axis=1)


@pytest.mark.parametrize(
    ("what", "chosen"),
    [("nothing", None), ("temperature", "temperature"), ("bias", "vector"), ("bent", "isotonic")],
)
def test_the_simplest_map_that_is_as_good_is_chosen(what: str, chosen: str | None) -> None:
    true, truth = rows(4000, 2, 3)
    if what == "bent":
        said, rng = true, np.random.default_rng(4)
        truth = (rng.random(4000) < bent(said)[:, 1]).astype(np.int64)
    else:
        scale = {"temperature": 2.5}.get(what, 1.0)
        said = scaled(true, np.full(2, scale), np.array([1.5, 0.0]) if what == "bias" else np.zeros(2))
    assert choose(said, truth, list(METHODS), np.random.default_rng(5)) == chosen


def test_with_few_rows_nothing_is_chosen() -> None:
    true, truth = rows(40, 3, 6)
    assert choose(true, truth, list(METHODS), np.random.default_rng(0)) is None
    assert choose(true[:6], truth[:6], list(METHODS), np.random.default_rng(0)) is None
    # Twenty copies of each row are no twenty rows.
    said, truth = scaled(true, np.full(3, 1.4), np.zeros(3)).repeat(20, axis=0), truth.repeat(20)
    clusters = np.repeat(np.arange(40), 20)
    assert choose(said, truth, ["vector", "isotonic"], np.random.default_rng(0)) is not None
    assert choose(said, truth, ["vector", "isotonic"], np.random.default_rng(0), clusters) is None


@pytest.mark.parametrize("name", METHODS)
def test_what_can_not_be_fitted_is_not(name: str) -> None:
    fit = METHODS[name]
    assert fit(np.empty((0, 3)), np.empty(0, dtype=np.int64)) is None
    assert fit(np.ones((50, 1)), np.zeros(50, dtype=np.int64)) is None


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 200), classes=st.integers(2, 5), sharp=st.booleans())
def test_probabilities_stay_probabilities(name: str, seed: int, n: int, classes: int, sharp: bool) -> None:
    """Also of probabilities that are exactly 0 and 1, of classes without a row, and of rows that are all alike."""
    rng = np.random.default_rng(seed)
    said = rng.dirichlet(np.full(classes, 0.3), n)
    if sharp:
        said = np.eye(classes)[said.argmax(axis=1)]
    found = METHODS[name](said, rng.integers(0, max(1, classes - 1), n))
    if found is None:
        assert name == "temperature"
        return
    text = json.dumps(dict(found.parameters), allow_nan=False)
    assert json.loads(text) == found.parameters
    new = np.concatenate([said, np.eye(classes), np.full((1, classes), 1 / classes)])
    shares = found.apply(new)
    assert (shares >= 0).all() and shares.sum(axis=1) == pytest.approx(np.ones(len(new)))
