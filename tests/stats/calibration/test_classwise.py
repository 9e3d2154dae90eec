"""Calibration of every class's own probability: agreement, both sides, error rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.calibration.bins import joined
from evalspec.stats.calibration.classwise import ClasswiseError, classwise_calibration_error
from evalspec.stats.calibration.gap import GapDesign
from tests.stats.simulated import (
    ALLOWED,
    REPEATS,
    SIDES,
    Pair,
    allowed,
    bounded,
    clusters_of,
    enough,
    mostly,
    p_values,
    wrong_claims,
)

Floats = NDArray[np.float64]
Rows = tuple[Floats, NDArray[np.int64]]


def drawn(shares: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    last = shares.shape[1] - 1
    return np.minimum((rng.random(len(shares))[:, None] > shares.cumsum(axis=1)).sum(axis=1), last)


def thought(n: int, classes: int, gap: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """What is said and what is true: one class has over one half, and ``gap`` of it belongs to the others."""
    confidence, top = 0.5 + 0.5 * rng.beta(8, 2, n), rng.integers(0, classes, n)
    others = rng.exponential(size=(n, classes))
    others[np.arange(n), top] = 0.0
    said = others * ((1 - confidence) / others.sum(axis=1))[:, None]
    said[np.arange(n), top] = confidence
    true = said + gap / (classes - 1)
    true[np.arange(n), top] = confidence - gap
    return said, true


def sure(n: int, classes: int, gap: float, rng: np.random.Generator) -> Rows:
    """Over-confident rows and their classes."""
    said, true = thought(n, classes, gap, rng)
    return said, drawn(true, rng)


def rare(n: int, classes: int, gap: float, rng: np.random.Generator) -> Rows:
    """All but the first class are said to be rare, and are less so by ``gap`` together."""
    said = np.full((n, classes), 0.001)
    said[:, 0] = 1 - 0.001 * (classes - 1)
    true = said + gap / (classes - 1)
    true[:, 0] -= gap + gap / (classes - 1)
    return said, drawn(true, rng)


def calibrated(n: int, classes: int, rng: np.random.Generator, sharper: float = 1.0) -> Rows:
    true = rng.dirichlet(np.full(classes, 0.5), n)
    truth = drawn(true, rng)
    said = np.maximum(true, 1e-12) ** sharper
    return said / said.sum(axis=1, keepdims=True), truth


def test_plug_in_agrees_with_torchmetrics_class_by_class() -> None:
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchmetrics.functional.classification")
    said, truth = calibrated(3000, 3, np.random.default_rng(0), 1.7)
    found = classwise_calibration_error(said, truth, scheme="equal_width")
    for k, one in enumerate(found.classes):
        bins = joined(one.fine)
        ours = float(np.sum(bins.weight * np.abs(bins.gap)))
        c, y = torch.tensor(said[:, k]), torch.tensor((truth == k).astype(int))
        assert ours == pytest.approx(float(functional.binary_calibration_error(c, y, n_bins=10)), abs=1e-5)


def test_the_mean_is_that_of_the_classes_and_their_shares_are_told() -> None:
    said, truth = calibrated(3000, 4, np.random.default_rng(1), 1.5)
    found = classwise_calibration_error(said, truth)
    assert found.plug_in == pytest.approx(np.mean([one.plug_in for one in found.classes]))
    for k, (mean, share) in enumerate(found.shares):
        assert mean == pytest.approx(said[:, k].mean()) and share == pytest.approx(np.mean(truth == k))
        bins = found.classes[k].bins
        assert int(bins.count.sum()) == 3000
        # What was denied stands as 1 - p, so every bin says at least one half.
        assert (bins.confidence >= 0.5).all()
    lower, upper = found.bound(0.95, "lower"), found.bound(0.95, "upper")
    assert isinstance(found, Estimate) and found.value is not None and lower is not None and upper is not None
    assert 0.03 < lower < found.value < upper


def test_two_classes_have_one_error() -> None:
    said, truth = calibrated(2000, 2, np.random.default_rng(2), 1.5)
    found = classwise_calibration_error(said, truth)
    first, second = found.classes
    assert first.plug_in == pytest.approx(second.plug_in)
    for side in SIDES:
        assert found.bound(0.95, side) == second.bound(0.95, side)
        assert found.p_value(0.05, side) == second.p_value(0.05, side)
    assert found.value == second.value and found.n_to_decide(0.05, 0.05) == second.n_to_decide(0.05, 0.05)


def test_a_model_that_says_only_0_and_1_is_not_called_calibrated() -> None:
    """In one bin what it was wrongly sure of and what it wrongly denied would cancel."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 1000)
    answer = np.where(rng.random(1000) < 0.7, truth, (truth + 1) % 3)
    found = classwise_calibration_error(np.eye(3)[answer], truth)
    wrong = float(np.mean(answer != truth))
    # Each wrong row adds 1 to two of three classes.
    assert found.plug_in == pytest.approx(2 * wrong / 3)
    p_fail = found.p_value(0.1, "lower")
    assert p_fail is not None and p_fail < 1e-6
    right = classwise_calibration_error(np.eye(3)[truth], truth)
    assert right.value == 0.0
    # Each row may be wrong of two classes in three: 0.05 is 7.5 % of rows.
    assert right.n_to_decide(0.05, 0.05) == math.ceil(math.log(0.05) / math.log(1 - 0.075))
    # No wrong row in 1,000: Clopper-Pearson's 0.3 %, of which each adds to two of three classes.
    assert right.bound(0.95, "upper") == pytest.approx(2 / 3 * (1 - 0.05 ** (1 / 1000)), rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(30, 600), classes=st.integers(1, 6), sharper=st.floats(0.5, 3))
def test_value_lies_between_its_bounds(seed: int, n: int, classes: int, sharper: float) -> None:
    found = classwise_calibration_error(*calibrated(n, classes, np.random.default_rng(seed), sharper))
    lower, upper = found.bound(0.95, "lower"), found.bound(0.95, "upper")
    assert lower is not None and upper is not None and found.value is not None
    assert lower <= found.value + 1e-9 and found.value <= upper + 1e-9
    if 0 < upper < 1:
        assert found.p_value(upper, "upper") == pytest.approx(0.05, abs=1e-6)


def test_no_rows_and_few_clusters_have_no_bound() -> None:
    nothing = classwise_calibration_error(np.empty((0, 3)), np.empty(0, dtype=np.int64))
    assert nothing.value is None and nothing.bound(0.95, "upper") is None and nothing.p_value(0.1, "lower") is None
    assert "no bound" in nothing.method and nothing.shares == ()
    said, truth = calibrated(200, 3, np.random.default_rng(4))
    few = classwise_calibration_error(said, truth, clusters=np.repeat(np.arange(10), 20))
    assert few.value is not None and few.bound(0.95, "upper") is None and "20 are needed" in few.method


def test_clusters_widen_the_bounds() -> None:
    said, truth = calibrated(400, 3, np.random.default_rng(5))
    copies = np.repeat(said, 4, axis=0), np.repeat(truth, 4)
    alone = classwise_calibration_error(said, truth)
    together = classwise_calibration_error(*copies, clusters=np.repeat(np.arange(400), 4))
    naive = classwise_calibration_error(*copies)
    assert together.bound(0.95, "upper") == pytest.approx(alone.bound(0.95, "upper"), abs=0.01)
    # Finer bins would take copies for gaps, so that what they pretend to is seen on the other side.
    cautious, bold = together.p_value(0.001, "lower"), naive.p_value(0.001, "lower")
    assert cautious is not None and bold is not None and bold < 0.7 * cautious


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(InputError, match=r"confidences lie in 0\.\.1"):
        classwise_calibration_error(np.array([[1.5, -0.5]]), np.array([0]))


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("n", "classes"), [(50, 3), (200, 3), (1000, 3)])
def test_error_rates_at_the_threshold(n: int, classes: int) -> None:
    """Each over-confident row adds ``gap`` to its class and shares of it to the others: 2 gap / C on average."""
    gap, rng, pool = 0.05, np.random.default_rng([40, n]), max(400, 80_000 // n)
    said, true = thought(pool * n, classes, gap, rng)
    parts = (slice(start, start + n) for start in rng.integers(0, (pool - 1) * n, REPEATS))
    found = enough(p_values(error((said[rows], drawn(true[rows], rng))), 2 * gap / classes) for rows in parts)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("make", "classes"), [(rare, 3), (sure, 5)])
def test_error_rates_with_rare_classes_and_with_many(make: type, classes: int) -> None:
    rng, gap = np.random.default_rng([41, classes]), 0.05
    samples = (p_values(error(make(200, classes, gap, rng)), 2 * gap / classes) for _ in range(800))
    found = enough(samples, ALLOWED + 0.006, 800)
    assert (wrong_claims(found) <= ALLOWED + 0.006).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("sharper", "threshold"), [(1.0, 0.05), (1.0, 0.03), (3.0, 0.05)])
def test_n_to_decide_is_enough(sharper: float, threshold: float) -> None:
    """Classes hang together less than they could, so that so many rows decide in four of five samples or more."""
    big = error(calibrated(20_000, 3, np.random.default_rng(42), sharper))
    assert big.value is not None
    n = big.n_to_decide(threshold, 0.05)
    assert n is not None and n < 3000
    rng, side = np.random.default_rng(43), SIDES[big.value < threshold]

    def shown(rows: int) -> Iterator[bool]:
        while True:
            p = error(calibrated(rows, 3, rng, sharper)).p_value(threshold, side)
            yield p is not None and p <= 0.05

    assert mostly(shown(n), 0.731, 250) > 0.73
    assert mostly((not one for one in shown(n // 3)), 0.251, 100) > 0.25


def error(rows: Rows) -> ClasswiseError:
    return classwise_calibration_error(*rows)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(25, 10), (50, 4)])
def test_error_rates_with_clusters(groups: int, size: int) -> None:
    """Seven in ten rows of a cluster have one class."""
    rng, clusters, gap = np.random.default_rng([44, groups]), np.repeat(np.arange(groups), size), 0.05

    def samples() -> Iterator[Pair]:
        while True:
            said, true = thought(groups, 3, gap, rng)
            shared, own = drawn(true, rng).repeat(size), drawn(true.repeat(size, axis=0), rng)
            truth = np.where(rng.random(groups * size) < 0.7, shared, own)
            estimate = classwise_calibration_error(said.repeat(size, axis=0), truth, clusters=clusters)
            yield p_values(estimate, 2 * gap / 3)

    found = enough(samples(), ALLOWED + 0.006, 800)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED + 0.006).all()


@pytest.mark.proof
@pytest.mark.slow
def test_error_rates_with_clusters_of_unequal_size() -> None:
    """A cluster has one likeliest class, and its rows are right or wrong together more often than not."""
    rng, gap, repeats = np.random.default_rng(45), 0.05, 200

    def samples() -> Iterator[Pair]:
        while True:
            _, clusters = clusters_of(100, 10, 1.0, 0.5, 0.5, rng)
            rows = np.arange(len(clusters))
            confidence, top = 0.5 + 0.5 * rng.beta(8, 2, len(rows)), rng.integers(0, 3, 100)[clusters]
            said = np.repeat((1.0 - confidence)[:, None] / 2.0, 3, axis=1)
            said[rows, top] = confidence
            luck = np.sqrt(0.6) * rng.standard_normal(100)[clusters] + np.sqrt(0.4) * rng.standard_normal(len(rows))
            right = luck < stats.norm.ppf(confidence - gap)
            truth = np.where(right, top, (top + rng.integers(1, 3, len(rows))) % 3)
            yield p_values(classwise_calibration_error(said, truth, clusters=clusters), 2 * gap / 3)

    found = enough(samples(), allowed(repeats), repeats)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= allowed(repeats)).all()


def test_clusters_are_heard_with_their_degrees() -> None:
    """The same rows in clusters of equal size, whose design effects are better known."""
    rng = np.random.default_rng(46)
    said, truth = sure(400, 3, 0.0, rng)
    found = classwise_calibration_error(said.repeat(2, axis=0), truth.repeat(2), clusters=np.repeat(np.arange(400), 2))
    assert "degrees" in found.method
    known = replace(found, classes=tuple(replace(one, design=without_degrees(one.design)) for one in found.classes))
    wide, narrow = found.p_value(0.06, "upper"), known.p_value(0.06, "upper")
    assert wide is not None and narrow is not None and wide > narrow > 0.0


def without_degrees(design: GapDesign) -> GapDesign:
    return replace(design, degrees=math.inf)
