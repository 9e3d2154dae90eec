from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.shares.share_ratio import ClusteredShareRatio, ShareRatio, ratio_of_shares
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import SIDES, allowed, bounded, clusters_of, p_values, wrong_claims


def of(successes: int, n: int) -> Proportion:
    return Proportion.of_counts(successes, n)


def test_value_and_bounds_are_those_of_the_binomial_on_where_they_lie() -> None:
    ratio = ratio_of_shares(of(12, 100), of(9, 300))
    assert ratio.value == pytest.approx(4.0)
    assert ratio.n == 400
    interval = binomtest(12, 21).proportion_ci(0.9, method="exact")
    for side, share in (("lower", interval.low), ("upper", interval.high)):
        bound = ratio.bound(0.95, side)  # type: ignore[arg-type]  # both are sides
        assert bound == pytest.approx(share / (1 - share) * 3.0, rel=1e-9)
    # A ratio of 1 puts a quarter of the wrong rows into the quarter of all rows.
    assert ratio.p_value(1.0, "lower") == pytest.approx(binomtest(12, 21, 0.25, alternative="greater").pvalue)
    assert ratio.p_value(10.0, "upper") == pytest.approx(binomtest(12, 21, 10 / 13, alternative="less").pvalue)


@pytest.mark.parametrize("clusters", [False, True])
def test_p_values_invert_the_bounds(clusters: bool) -> None:
    rng = np.random.default_rng(1)
    groups = np.arange(300) // 3 if clusters else None
    ratio = ratio_of_shares(proportion(rng.random(300) < 0.2, groups), proportion(rng.random(300) < 0.05, groups))
    assert isinstance(ratio, ClusteredShareRatio if clusters else ShareRatio)
    for confidence in (0.9, 0.998):
        for side in SIDES:
            bound = ratio.bound(confidence, side)
            assert bound is not None
            assert ratio.p_value(bound, side) == pytest.approx(1 - confidence, rel=1e-5)


@pytest.mark.parametrize(("first", "second"), [(20, 100), (100, 400), (60, 2000), (300, 300)])
def test_bounds_miss_no_truth_more_often_than_said_counting_every_outcome(first: int, second: int) -> None:
    pairs = [[ratio_of_shares(of(x, first), of(y, second)) for y in range(0, 40)] for x in range(0, min(first, 60) + 1)]
    for below in (0.005, 0.03):
        for times in (0.5, 1.0, 3.0, 5.0):
            chance = np.outer(
                binom.pmf(np.arange(len(pairs)), first, times * below), binom.pmf(np.arange(40), second, below)
            )
            for side in SIDES:
                p = np.array([[one.p_value(times, side) or 1.0 for one in line] for line in pairs], dtype=np.float64)
                for level in (0.05, 0.002):
                    assert chance[p <= level].sum() <= level


def test_nothing_wrong_outside_has_no_upper_bound_and_is_shown_all_the_same() -> None:
    ratio = ratio_of_shares(of(10, 50), of(0, 450))
    assert ratio.value == pytest.approx((10 / 50) / (0.5 / 450))
    assert ratio.bound(0.95, "upper") is None
    assert ratio.p_value(1000.0, "upper") == 1.0
    lower, p = ratio.bound(0.95, "lower"), ratio.p_value(5.0, "lower")
    assert lower is not None and lower > 20
    assert p is not None and p < 1e-4


def test_nothing_wrong_anywhere_is_no_ratio() -> None:
    for first, second in ((of(0, 50), of(0, 450)), (of(0, 0), of(3, 10)), (of(3, 10), of(0, 0))):
        ratio = ratio_of_shares(first, second)
        assert isinstance(ratio, ValueOnly)
        assert (ratio.value, ratio.p_value(1.0, "lower")) == (None, None)


def test_nothing_wrong_inside_has_a_lower_bound_of_nothing() -> None:
    ratio = ratio_of_shares(of(0, 50), of(20, 450))
    assert (ratio.value, ratio.bound(0.95, "lower"), ratio.p_value(0.0, "lower")) == (0.0, 0.0, 0.0)
    assert ratio.p_value(0.5, "lower") == 1.0
    assert ratio.n_to_decide(2.0, 0.05) is None
    assert ratio.p_value(-1.0, "upper") == 1.0


def test_more_rows_are_needed_the_nearer_the_threshold() -> None:
    ratio = ratio_of_shares(of(12, 100), of(9, 300))
    near, far = ratio.n_to_decide(3.0, 0.05), ratio.n_to_decide(1.5, 0.05)
    assert near is not None and far is not None and near > far > 0


def test_clusters_only_widen() -> None:
    rng = np.random.default_rng(2)
    wrong, groups = np.repeat(rng.random(100) < 0.2, 5), np.repeat(np.arange(100), 5)
    inside = groups < 30
    plain = ratio_of_shares(proportion(wrong[inside]), proportion(wrong[~inside]))
    clustered = ratio_of_shares(proportion(wrong[inside], groups[inside]), proportion(wrong[~inside], groups[~inside]))
    assert clustered.value == plain.value
    bounds = [(one.bound(0.95, "lower"), one.bound(0.95, "upper")) for one in (plain, clustered)]
    assert (
        bounds[1][0] is not None and bounds[1][1] is not None and bounds[0][0] is not None and bounds[0][1] is not None
    )
    assert bounds[1][0] < bounds[0][0] and bounds[1][1] > bounds[0][1]
    assert clustered.n_to_decide(2.0, 0.05) is None or (clustered.n_to_decide(2.0, 0.05) or 0) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "average", "spread", "alike", "wrong", "times"),
    [(60, 5, 0.0, 0.3, 0.1, 2.0), (100, 10, 1.0, 0.1, 0.05, 3.0), (40, 20, 1.0, 0.3, 0.1, 1.0)],
)
@pytest.mark.parametrize("shared", [False, True])
def test_ratios_of_clustered_rows_err_no_more_often(
    groups: int, average: float, spread: float, alike: float, wrong: float, times: float, shared: bool
) -> None:
    """Half the level for each share: 1,500 samples err in 0.1 %. ``shared``: clusters lie in both groups."""
    rng, found, repeats = np.random.default_rng([groups, shared]), [], 250
    for _ in range(repeats):
        hits, codes = clusters_of(groups, average, spread, alike, wrong * times, rng)
        inside = rng.random(len(codes)) < 0.3 if shared else codes < groups // 3
        # Outside the first group a wrong row stays wrong in one of `times` cases.
        hits &= inside | (rng.random(len(codes)) < 1.0 / times)
        first, second = proportion(hits[inside], codes[inside]), proportion(hits[~inside], codes[~inside])
        ratio = ratio_of_shares(first, second)
        found.append(p_values(ratio, times))
    assert bounded(found) > 0.9
    assert (wrong_claims(found) <= allowed(repeats)).all(), wrong_claims(found)
