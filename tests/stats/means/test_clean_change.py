"""Full less clean: every outcome counted, beside the delta method, beside resampling."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.means.clean_change import CleanChange, clean_change, resampled_change
from evalspec.stats.means.mean import mean
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.shares.two_shares import GroupCounts, score_p
from tests.stats.simulated import ALLOWED, SIDES


def of(dirty: int, dirty_n: int, clean: int, clean_n: int) -> CleanChange:
    shares = Proportion.of_counts(dirty, dirty_n), Proportion.of_counts(clean, clean_n)
    return clean_change(*shares, dirty_n / (dirty_n + clean_n))


def test_the_value_is_the_score_of_all_rows_less_that_of_the_clean_ones() -> None:
    one = of(19, 20, 64, 80)
    assert one.value == pytest.approx((19 + 64) / 100 - 64 / 80)
    assert one.n == 100
    assert "20 % of the rows" in one.method


def test_of_many_rows_it_is_the_delta_method() -> None:
    """share x (dirty - clean) has the variance share^2 (d (1 - d) / rows + c (1 - c) / rows), the share being known."""
    one = of(95_000, 100_000, 720_000, 900_000)
    error = 0.1 * math.sqrt(0.95 * 0.05 / 100_000 + 0.8 * 0.2 / 900_000)
    for side, sign in (("lower", -1.0), ("upper", 1.0)):
        bound = one.bound(0.95, "lower" if side == "lower" else "upper")
        assert bound == pytest.approx(0.015 + sign * float(ndtri(0.95)) * error, abs=0.02 * error)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("found", [(3, 5, 40, 45), (5, 5, 30, 45), (0, 2, 48, 48), (40, 50, 700, 950)])
def test_bounds_invert_p_values(found: tuple[int, int, int, int], side: Side) -> None:
    one = of(*found)
    for confidence in (0.95, 0.998):
        bound = one.bound(confidence, side)
        assert bound is not None and abs(bound) <= one.share
        if abs(bound) < one.share * (1 - 1e-6):
            assert one.p_value(bound, side) == pytest.approx(1 - confidence, rel=1e-3)


def test_few_dirty_rows_can_change_little_whatever_they_are() -> None:
    """Two rows in a thousand move a score by 0.2 pp at most: that needs no sample."""
    one = of(2, 2, 500, 998)
    assert 0.001 < (one.bound(0.999999, "upper") or 0.0) < 0.002
    assert of(0, 2, 998, 998).bound(0.999999, "lower") == pytest.approx(-0.002, abs=1e-4)
    assert one.p_value(0.01, "upper") == 0.0
    assert one.p_value(-0.01, "lower") == 0.0
    assert one.p_value(0.01, "lower") == 1.0
    assert one.n_to_decide(0.01, 0.05) is None


def test_means_without_a_bound_still_have_that_of_the_share() -> None:
    rng = np.random.default_rng(0)
    one = clean_change(mean(rng.random(12)), mean(rng.random(1188)), 0.01)
    assert one.value is not None and abs(one.value) < 0.01
    assert (one.bound(0.95, "lower"), one.bound(0.95, "upper")) == (-0.01, 0.01)
    assert (one.p_value(0.011, "upper"), one.p_value(0.001, "upper")) == (0.0, 1.0)
    wide = clean_change(mean(rng.random(600)), mean(rng.random(600)), 0.5)
    upper = wide.bound(0.95, "upper")
    assert upper is not None and wide.value is not None and wide.value < upper < wide.value + 0.05


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_a_file_without_dirty_or_without_clean_rows_has_no_change_to_estimate(share: float) -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        clean_change(Proportion.of_counts(1, 2), Proportion.of_counts(1, 2), share)


def test_it_is_the_score_test_at_the_threshold_over_the_share() -> None:
    one = of(7, 10, 80, 90)
    counts = GroupCounts(*(np.array(float(number)) for number in (7, 10, 80, 90)))
    for threshold, side in ((0.02, SIDES[1]), (-0.05, SIDES[0])):
        assert one.p_value(threshold, side) == pytest.approx(float(score_p(counts, threshold / 0.1, side)))


def wrong(dirty_n: int, clean_n: int, dirty: float, clean: float) -> np.ndarray:
    """Chance of each wrong claim, in the order of `ALLOWED`, summed over every outcome that is likelier than 1e-9."""
    rows = []
    for n, p in ((dirty_n, dirty), (clean_n, clean)):
        low, high = binom.ppf([1e-9, 1 - 1e-9], n, p)
        rows.append(np.arange(max(low, 0), high + 1))
    first, second = (one.ravel() for one in np.meshgrid(*rows, indexing="ij"))
    weight = binom.pmf(first, dirty_n, dirty) * binom.pmf(second, clean_n, clean)
    counts = GroupCounts(first, np.full_like(first, dirty_n), second, np.full_like(second, clean_n))
    found = [score_p(counts, dirty - clean, side) for side in SIDES]
    return np.array([float(weight @ (p <= level)) for level in (0.05, 0.002) for p in found])


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("share", [0.02, 0.06, 0.2, 0.5])
def test_bounds_hold_whatever_the_share_of_dirty_rows(n: int, share: float) -> None:
    dirty_n = max(1, round(n * share))
    for dirty, clean in ((1.0, 0.8), (0.98, 0.9), (0.9, 0.9), (0.7, 0.95), (0.5, 0.5), (0.99, 0.6), (0.995, 0.99)):
        claims = wrong(dirty_n, n - dirty_n, dirty, clean)
        assert (claims <= ALLOWED).all(), (dirty, clean, claims)


def clustered(rng: np.random.Generator, groups: int, size: int, share: float) -> CleanChange:
    """Rows of a cluster share what makes them easy; a cluster is dirty as a whole, or row by row."""
    easy = np.repeat(rng.random(groups), size)
    dirty = np.repeat(rng.random(groups) < share, size) if share < 0.3 else rng.random(groups * size) < share
    clusters = np.repeat(np.arange(groups), size)
    hit = np.where(dirty, 0.95, 0.8) > np.where(rng.random(groups * size) < 0.5, easy, rng.random(groups * size))
    sides = [proportion(hit[rows], clusters[rows]) for rows in (dirty, ~dirty)]
    return clean_change(sides[0], sides[1], float(dirty.mean()))


@pytest.mark.slow
@pytest.mark.parametrize("share", [pytest.param(0.2, marks=pytest.mark.proof), 0.5])
def test_bounds_hold_with_clusters(share: float) -> None:
    rng = np.random.default_rng(5)
    misses = np.zeros(4)
    repeats = 800
    for _ in range(repeats):
        one = clustered(rng, 60, 5, share)
        truth = one.share * 0.15
        for index, (confidence, side) in enumerate([(c, s) for c in (0.95, 0.998) for s in SIDES]):
            bound = one.bound(confidence, side)
            assert bound is not None
            misses[index] += bound > truth if side == "lower" else bound < truth
    # Two standard errors of the simulation itself.
    assert (misses / repeats <= ALLOWED + 2 * np.sqrt(ALLOWED * (1 - ALLOWED) / repeats)).all(), misses / repeats


def _accuracy(arrays: tuple[np.ndarray, ...], weights: np.ndarray) -> np.ndarray:
    return np.asarray(weights @ arrays[0].astype(float) / weights.sum(axis=1))


def test_resampled_it_is_nearly_the_same() -> None:
    """Accuracy by the way that macro F1 goes: another method, the same answer."""
    rng = np.random.default_rng(3)
    dirty = np.arange(4000) < 1000
    hits = rng.random(4000) < np.where(dirty, 0.9, 0.8)
    found: Estimate = resampled_change(_accuracy, (hits,), dirty, rng=rng, alpha=0.05)
    scored = clean_change(proportion(hits[dirty]), proportion(hits[~dirty]), 0.25)
    assert found.value == pytest.approx(scored.value)
    for side in SIDES:
        ours, theirs = found.bound(0.95, side), scored.bound(0.95, side)
        assert ours is not None and theirs is not None and scored.value is not None
        assert ours - scored.value == pytest.approx(theirs - scored.value, rel=0.1)


def test_too_few_dirty_rows_are_not_resampled() -> None:
    rng = np.random.default_rng(3)
    hits, dirty = np.arange(400) % 5 > 0, np.arange(400) < 49
    found = resampled_change(_accuracy, (hits,), dirty, rng=rng, alpha=0.05)
    assert found.value == pytest.approx(hits.mean() - hits[49:].mean())
    assert found.bound(0.95, "upper") is None
    assert "50 dirty" in found.method
    nothing = resampled_change(_accuracy, (hits,), np.ones(400, bool), rng=rng, alpha=0.05)
    assert nothing.value is None


def test_clusters_are_drawn_whole() -> None:
    """Rows in fours that are right or wrong together, their first one dirty: few of the changes cancel."""
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(100), 4)
    dirty = np.arange(400) % 4 == 0
    hits = np.repeat(rng.random(100) < 0.5, 4) | (dirty & (rng.random(400) < 0.2))
    make = partial(resampled_change, _accuracy, (hits,), dirty, alpha=0.05)
    apart, together = make(rng=rng), make(rng=rng, clusters=clusters)
    assert "100 clusters" in together.method and "rows" in apart.method
    assert together.value == pytest.approx(apart.value)
    widths = [(one.bound(0.95, "upper") or 0.0) - (one.bound(0.95, "lower") or 0.0) for one in (together, apart)]
    assert 0.0 < widths[0] < 0.8 * widths[1]
