from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.conjunction import AllParts, Gap, ShareOfParts, must_hold, partial_conjunction
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.shares.two_shares import GroupCounts, score_p
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import ALLOWED, REPEATS, p_values, wrong_claims


def parts(*counts: tuple[int, int]) -> dict[str, Proportion]:
    return {f"part {i}": Proportion.of_counts(successes, n) for i, (successes, n) in enumerate(counts)}


@pytest.mark.parametrize(
    ("holding", "expected"),
    [(0, 0.0), (1, 0.004), (2, 0.06), (3, 0.08), (4, 0.3), (5, 1.0)],
    # Of 0.001, 0.02, 0.04, 0.3: (4 - u + 1) x the u-th.
)
def test_partial_conjunction(holding: int, expected: float) -> None:
    assert partial_conjunction([0.3, 0.001, 0.04, 0.02], holding) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(30, 0.1, 27), (100, 0.29, 71), (5, 0.1, 5), (10, 0.0, 10), (3, 1.0, 0)]
)
def test_parts_that_must_hold(count: int, share: float, expected: int) -> None:
    assert must_hold(count, share) == expected


def test_the_worst_part_decides() -> None:
    some = parts((90, 100), (95, 100), (70, 100))
    worst = AllParts(some, "higher")
    assert isinstance(worst, Estimate) and worst.parts
    assert (worst.worst, worst.value, worst.n, worst.part_threshold) == ("part 2", 0.7, 100, None)
    assert worst.p_value(0.6, "lower") == some["part 2"].p_value(0.6, "lower")
    third = some["part 2"].p_value(0.8, "upper")
    assert third is not None
    assert worst.p_value(0.8, "upper") == pytest.approx(3 * third)
    assert worst.bound(0.95, "lower") == some["part 2"].bound(0.95, "lower")
    assert worst.bound(0.95, "upper") == some["part 2"].bound(1 - 0.05 / 3, "upper")


def test_the_worst_part_of_a_metric_that_is_better_when_lower() -> None:
    some = parts((5, 100), (20, 100))
    worst = AllParts(some, "lower")
    assert worst.value == 0.2
    assert worst.bound(0.95, "upper") == some["part 1"].bound(0.95, "upper")
    assert worst.p_value(0.3, "upper") == some["part 1"].p_value(0.3, "upper")


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_bounds_of_the_worst_part_invert_its_p_values(side: str) -> None:
    worst = AllParts(parts((90, 100), (44, 50), (180, 200)), "higher")
    bound = worst.bound(0.95, side)  # type: ignore[arg-type]
    assert bound is not None
    assert worst.p_value(bound, side) == pytest.approx(0.05, abs=1e-9)  # type: ignore[arg-type]


def test_a_part_without_bounds_can_not_hold_but_another_can_be_violated() -> None:
    some = {**parts((50, 100), (99, 100)), "tiny": ValueOnly(1.0, 3, "no bound")}
    worst = AllParts(some, "higher")
    assert worst.p_value(0.3, "lower") is None
    assert worst.bound(0.95, "lower") is None
    p = some["part 0"].p_value(0.8, "upper")
    assert p is not None
    assert worst.p_value(0.8, "upper") == pytest.approx(3 * p)
    assert AllParts({"tiny": some["tiny"]}, "higher").p_value(0.3, "upper") is None


def test_n_to_decide_of_the_worst_part() -> None:
    some = parts((90, 100), (95, 100), (70, 100))
    worst = AllParts(some, "higher")
    assert worst.n_to_decide(0.6, 0.05) == some["part 2"].n_to_decide(0.6, 0.05)
    assert worst.n_to_decide(0.8, 0.05) == some["part 2"].n_to_decide(0.8, 0.05 / 3)
    assert worst.n_to_decide(0.7, 0.05) is None


def test_share_of_parts() -> None:
    # Ten columns, one of them clearly drifted, held against 0.1.
    some = parts(*[(10, 1000)] * 9, (400, 1000))
    share = ShareOfParts(some, 0.1)
    assert isinstance(share, Estimate) and share.parts
    assert share.value == pytest.approx(0.1)
    p = share.p_value(0.1, "upper")
    single = some["part 0"].p_value(0.1, "upper")
    assert p is not None and single is not None
    assert p == pytest.approx(2 * single)
    violated = share.p_value(0.0, "lower")
    one = some["part 9"].p_value(0.1, "lower")
    assert violated is not None and one is not None
    assert violated == pytest.approx(10 * one)
    assert share.p_value(0.1, "lower") == 1.0
    assert share.bound(0.95, "upper") == pytest.approx(0.1)
    assert share.bound(0.95, "lower") == pytest.approx(0.1)


def test_share_of_parts_that_say_nothing() -> None:
    share = ShareOfParts({"a": ValueOnly(None, 2, "no bound")}, 0.1)
    assert (share.value, share.p_value(0.1, "upper"), share.bound(0.95, "upper")) == (None, None, None)
    one_unknown = ShareOfParts({**parts(*[(10, 1000)] * 9), "b": ValueOnly(0.0, 2, "no bound")}, 0.1)
    assert one_unknown.bound(0.95, "upper") == pytest.approx(0.1)


def test_share_of_parts_says_what_would_decide() -> None:
    share = ShareOfParts(parts(*[(70, 1000)] * 9, (400, 1000)), 0.1)
    n = share.n_to_decide(0.1, 0.05)
    assert n == Proportion.of_counts(70, 1000).n_to_decide(0.1, 0.05 / 2)


def test_gap_is_the_largest_difference() -> None:
    some = parts((90, 100), (95, 100), (70, 100))
    gap = Gap(some)
    assert (gap.worst, gap.value) == ("part 1 - part 2", pytest.approx(0.25))
    assert set(gap.parts) == {"part 0 - part 1", "part 0 - part 2", "part 1 - part 2"}
    lower, upper = gap.bound(0.95, "lower"), gap.bound(0.95, "upper")
    assert lower is not None and upper is not None and 0.05 < lower < 0.25 < upper < 0.4
    assert gap.p_value(lower, "lower") == pytest.approx(0.05, abs=1e-6)
    assert gap.p_value(upper, "upper") == pytest.approx(0.05, abs=1e-6)
    assert gap.n_to_decide(0.3, 0.05) is not None


def test_parts_that_are_alike_pass_a_gap_from_both_sides() -> None:
    gap = Gap(parts((900, 1000), (901, 1000)))
    p = gap.p_value(0.05, "upper")
    assert p is not None and p < 0.01
    assert gap.p_value(-0.1, "lower") == 0.0
    none = gap.p_value(0.0, "upper")
    assert none is not None and none >= 0.5


def test_no_parts_are_refused() -> None:
    with pytest.raises(InputError, match="no parts"):
        AllParts({}, "higher")
    with pytest.raises(InputError, match="no parts"):
        ShareOfParts({}, 0.1)
    with pytest.raises(InputError, match="two parts"):
        Gap(parts((1, 2)))


@pytest.mark.parametrize("count", [2, 5, 20])
def test_parts_on_their_threshold_are_called_violated_no_more_often_than_said(count: int) -> None:
    n, threshold = 100, 0.9
    p = np.array([Proportion.of_counts(x, n).p_value(threshold, "upper") for x in range(n + 1)], dtype=float)
    for level in (0.05, 0.002):
        one = binom.pmf(np.arange(n + 1), n, threshold)[p <= level / count].sum()
        assert 1 - (1 - one) ** count <= level


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(50, 50, 50), (200, 60, 200), (1000, 1000, 300)])
@pytest.mark.parametrize("truths", [(0.95, 0.85, 0.9), (0.95, 0.85, 0.95)], ids=["one gap", "two gaps"])
def test_a_gap_at_its_threshold_errs_no_more_often_than_allowed(
    sizes: tuple[int, ...], truths: tuple[float, ...]
) -> None:
    """All samples at once: `Gap` itself is asked of the first few."""
    rng = np.random.default_rng(sizes[0])
    drawn, rows = rng.binomial(sizes, truths, size=(REPEATS, 3)).astype(float), np.array(sizes, dtype=float)
    one, other = np.array([[0, 1], [0, 2], [1, 2]]).T
    pairs = GroupCounts(drawn[:, one], rows[one], drawn[:, other], rows[other])
    further, beyond = score_p(pairs, 0.1, "lower"), score_p(pairs, -0.1, "upper")
    nearer, within = score_p(pairs, 0.1, "upper"), score_p(pairs, -0.1, "lower")
    larger = np.minimum(1.0, 3 * np.minimum(1.0, 2 * np.minimum(further, beyond)).min(axis=1))
    smaller = np.maximum(nearer, within).max(axis=1)
    assert (wrong_claims(zip(larger, smaller, strict=True)) <= ALLOWED).all()
    for i in range(20):
        gap = Gap(parts(*zip(drawn[i].astype(int).tolist(), sizes, strict=True)))
        assert p_values(gap, 0.1) == pytest.approx((larger[i], smaller[i]))


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize(
    "truths",
    [[0.9] + [0.995] * 9, [0.9] * 10, [0.5, 0.9] + [0.995] * 8, [0.5] + [0.9] * 9],
    ids=["one at the threshold", "all there", "one far below, one there", "one far below, all others there"],
)
def test_parts_at_their_threshold_err_no_more_often_than_allowed(
    n: int, truths: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part at its threshold must neither be counted as better nor as worse; what is far decides nothing."""
    monkeypatch.setattr(Proportion, "p_value", lru_cache(None)(Proportion.p_value))
    shares = [Proportion.of_counts(count, n) for count in range(n + 1)]
    beyond = sum(truth < 0.9 for truth in truths)
    found = []
    for counts in np.random.default_rng([7, n]).binomial(n, truths, size=(REPEATS, len(truths))):
        drawn = {str(i): shares[count] for i, count in enumerate(counts)}
        # So many are beyond the threshold for certain; that one more is, or isn't, must not be claimed.
        share = ShareOfParts(drawn, 0.9, "higher")
        pair = [share.p_value(beyond / 10, "upper"), share.p_value(beyond / 10, "lower")]
        worst = AllParts(drawn, "higher")
        found.append(pair if beyond else [*pair, worst.p_value(0.9, "lower"), worst.p_value(0.9, "upper")])
    p = np.array(found, dtype=np.float64)
    for level in (0.05, 0.002):
        errors = (p <= level).sum(axis=0)
        assert (errors <= binom.ppf(0.999, REPEATS, level)).all(), errors
