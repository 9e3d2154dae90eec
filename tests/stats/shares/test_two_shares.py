"""The difference of two shares of separate rows: every outcome counted, and beside statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom
from statsmodels.stats.proportion import score_test_proportions_2indep

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.shares.macro import MoverSum
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.shares.two_shares import GroupCounts, SharesApart, apart, every_pair, likeliest, score_p
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import ALLOWED, SIDES


def counts(first: float, first_n: float, second: float, second_n: float) -> GroupCounts:
    return GroupCounts(*(np.asarray(number, dtype=np.float64) for number in (first, first_n, second, second_n)))


def pair(first: int, first_n: int, second: int, second_n: int) -> SharesApart:
    found = apart(Proportion.of_counts(first, first_n), Proportion.of_counts(second, second_n))
    assert isinstance(found, SharesApart)
    return found


@pytest.mark.parametrize("found", [(7, 20, 50, 90), (0, 20, 90, 90), (20, 20, 1, 300), (3, 7, 3, 7)])
@pytest.mark.parametrize("difference", [-0.6, -0.05, 0.0, 0.1, 0.5])
def test_the_likeliest_shares_are_those_that_a_search_finds(
    found: tuple[int, int, int, int], difference: float
) -> None:
    x1, n1, x2, n2 = found

    def unlikely(second: float) -> float:
        return -float(binom.logpmf(x1, n1, second + difference) + binom.logpmf(x2, n2, second))

    first, second = likeliest(counts(*found), difference)
    low, high = max(0.0, -difference), min(1.0, 1.0 - difference)
    searched = minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-12})
    assert float(first - second) == pytest.approx(difference, abs=1e-12)
    assert unlikely(float(np.clip(second, low + 1e-12, high - 1e-12))) <= searched.fun + 1e-6


@pytest.mark.parametrize("difference", [-0.02, 0.0, 0.03])
def test_of_many_rows_it_is_the_score_test_of_statsmodels(difference: float) -> None:
    """There the corrections for continuity and skewness vanish."""
    found = (900_500, 1_000_000, 1_800_000, 2_000_000)
    z, _ = score_test_proportions_2indep(*found, value=difference, compare="diff", return_results=False)
    ours = score_p(counts(*found), difference, "lower")
    from scipy.special import ndtri

    # One row in a million moves z by 0.003.
    if abs(z) < 6:
        assert -float(ndtri(ours)) == pytest.approx(z, abs=0.01)
    else:
        assert float(ours) == pytest.approx(float(z < 0), abs=1e-8)


@given(
    st.tuples(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.floats(0, 1)),
    st.sampled_from(["lower", "upper"]),
    st.sampled_from([0.8, 0.95, 0.998]),
)
def test_bounds_invert_p_values(found: tuple[int, int, float, float], side: Side, confidence: float) -> None:
    n1, n2, a, b = found
    one = pair(round(a * n1), n1, round(b * n2), n2)
    bound = one.bound(confidence, side)
    assert bound is not None and -1.0 <= bound <= 1.0
    if abs(bound) < 1.0 - 1e-6:
        p = one.p_value(bound, side)
        assert p == pytest.approx(1.0 - confidence, rel=1e-3)
    lower, upper = one.bound(confidence, "lower"), one.bound(confidence, "upper")
    assert lower is not None and upper is not None and one.value is not None
    assert lower <= one.value <= upper


def test_the_two_sides_mirror_each_other() -> None:
    one, mirrored = pair(3, 40, 30, 90), pair(30, 90, 3, 40)
    assert one.p_value(-0.1, "lower") == pytest.approx(mirrored.p_value(0.1, "upper"))
    assert one.bound(0.95, "lower") == pytest.approx(-(mirrored.bound(0.95, "upper") or 0.0))
    wrong = pair(37, 40, 60, 90)
    assert one.p_value(-0.1, "lower") == pytest.approx(wrong.p_value(0.1, "upper"))


def test_differences_that_can_not_be_are_decided() -> None:
    one = pair(5, 10, 5, 10)
    assert (one.p_value(-1.0, "lower"), one.p_value(1.0, "upper")) == (0.0, 0.0)
    assert (one.p_value(1.0, "lower"), one.p_value(-1.0, "upper")) == (1.0, 1.0)


@pytest.mark.parametrize("found", [(0, 30, 0, 30), (30, 30, 30, 30)])
def test_two_groups_without_a_difference_and_without_variance_show_none(found: tuple[int, int, int, int]) -> None:
    one = pair(*found)
    assert one.p_value(0.0, "lower") == one.p_value(0.0, "upper") == 1.0
    upper = one.bound(0.95, "upper")
    assert upper is not None and 0.05 < upper < 0.15


def test_without_rows_there_is_no_value() -> None:
    none = apart(Proportion.of_counts(0, 0), Proportion.of_counts(1, 2))
    assert (none.value, none.bound(0.95, "lower"), none.p_value(0.0, "lower")) == (None, None, None)
    assert none.n_to_decide(0.1, 0.05) is None


def test_what_is_no_share_of_independent_rows_goes_by_mover() -> None:
    tied = proportion(np.arange(40) % 3 > 0, np.arange(40) // 2)
    free = Proportion.of_counts(30, 40)
    assert isinstance(apart(tied, free), MoverSum)
    assert isinstance(apart(free, ValueOnly(1.0, 3, "no bound: few rows")), MoverSum)


@pytest.mark.parametrize("side", SIDES)
def test_many_pairs_at_once_are_the_same_as_one_by_one(side: Side) -> None:
    rng = np.random.default_rng(2)
    parts = {f"s{i}": Proportion.of_counts(int(rng.integers(0, n + 1)), n) for i, n in enumerate([5, 40, 300, 40])}
    found = every_pair(parts)
    assert list(found) == ["s0 - s1", "s0 - s2", "s0 - s3", "s1 - s2", "s1 - s3", "s2 - s3"]
    for name, one in found.items():
        a, b = name.split(" - ")
        alone = apart(parts[a], parts[b])
        assert (one.value, one.n, one.method) == (alone.value, alone.n, alone.method)
        assert one.p_value(0.1, side) == pytest.approx(alone.p_value(0.1, side))
        assert one.bound(0.95, side) == pytest.approx(alone.bound(0.95, side), abs=1e-8)
        assert one.n_to_decide(0.05, 0.05) == alone.n_to_decide(0.05, 0.05)


def test_pairs_with_something_else_go_one_by_one() -> None:
    found = every_pair({"a": Proportion.of_counts(3, 9), "b": ValueOnly(0.5, 3, "no bound: few rows")})
    assert isinstance(found["a - b"], MoverSum)


def test_n_to_decide_decides_in_four_of_five_samples() -> None:
    one: Estimate = pair(850, 1000, 900, 1000)
    n = one.n_to_decide(0.0, 0.05)
    assert n is not None
    rng = np.random.default_rng(1)
    half = n // 2
    drawn = GroupCounts(
        rng.binomial(half, 0.85, 4000).astype(float),
        np.full(4000, half, dtype=float),
        rng.binomial(half, 0.9, 4000).astype(float),
        np.full(4000, half, dtype=float),
    )
    assert np.mean(score_p(drawn, 0.0, "upper") <= 0.05) == pytest.approx(0.8, abs=0.03)
    assert pair(85, 100, 85, 100).n_to_decide(0.0, 0.05) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [(50, 50), (50, 200), (20, 1000), (1000, 20), (200, 200), (50, 1000), (200, 1000), (12, 1000), (5, 1000), (2, 20)],
    ids=str,
)
def test_of_all_outcomes_no_more_err_than_allowed(sizes: tuple[int, int]) -> None:
    """Not a sample of outcomes but each with its probability; the levels themselves hold, not only the limits."""
    n1, n2 = sizes
    first, second = np.arange(n1 + 1.0)[:, None], np.arange(n2 + 1.0)[None, :]
    table = counts(first, n1, second, n2)  # type: ignore[arg-type]  # arrays
    for difference in (0.0, 0.02, 0.1, -0.05, 0.19, -0.19):
        found = [score_p(table, difference, side) for side in SIDES]
        for share in (0.5, 0.8, 0.9, 0.95, 0.99):
            if not 0.0 < share - difference < 1.0:
                continue
            chance = binom.pmf(first, n1, share) * binom.pmf(second, n2, share - difference)
            wrong = [float(chance[p <= level].sum()) for level in (0.05, 0.002) for p in found]
            assert (np.array(wrong) <= ALLOWED).all()
            assert max(wrong[:2]) <= 0.0505 and max(wrong[2:]) <= 0.002
