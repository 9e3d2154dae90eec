"""The search for slices whose losses stand out, and what its finds decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalspec.evidence.estimate import Estimate
from evalspec.stats.drift.discovery import CANDIDATES, Axis, Candidate, luck_z, search
from evalspec.stats.drift.weak_slices import Planted, WeakSlices

PLANTED = Planted(0.05, 0.1, 0.01, 0.4, 0.3, columns=10, crosses=True)


def categories(codes: np.ndarray, count: int) -> Axis:
    every = np.eye(count, dtype=np.bool_)
    return Axis(codes, every, np.arange(count), every)


def ordered(codes: np.ndarray, count: int, coarse: int) -> Axis:
    def ranges(pieces: int) -> np.ndarray:
        ends = [(i, j) for i in range(pieces) for j in range(i, pieces) if j - i < pieces - 1]
        return np.array([[i <= k <= j for k in range(pieces)] for i, j in ends], dtype=np.bool_)

    return Axis(codes, ranges(count), np.arange(count) * coarse // count, ranges(coarse))


def worse(inside: np.ndarray, rng: np.random.Generator, gap: float = 0.3) -> np.ndarray:
    return (rng.random(len(inside)) < np.where(inside, 0.1 + gap, 0.1)).astype(np.float64)


def test_it_finds_a_category_a_range_and_a_cross() -> None:
    rng = np.random.default_rng(0)
    site, lux, hour = rng.integers(0, 6, 8000), rng.integers(0, 40, 8000), rng.integers(0, 8, 8000)
    axes = [categories(site, 6), ordered(lux, 40, 8), categories(hour, 8)]
    for inside in (site == 2, (lux >= 7) & (lux < 11), (site == 1) & (hour == 3), (site == 4) & (lux < 13)):
        found = search(worse(inside, rng), axes, 100)
        assert (found[0].inside(axes) & inside).sum() >= 0.8 * (found[0].inside(axes) | inside).sum()
        assert found[0].score > 0
        # Once it is set aside, nothing else is as strong.
        assert all(other.score < 0.5 * found[0].score for other in found[1:])


def test_a_slice_of_one_column_is_not_found_as_crosses_of_it() -> None:
    rng = np.random.default_rng(1)
    axes = [categories(rng.integers(0, 5, 9000), 5) for _ in range(4)]
    inside = axes[0].codes == 3
    found = search(worse(inside, rng), axes, 50)
    assert found[0].parts == ((0, 3),)


def test_two_weak_slices_are_both_found() -> None:
    rng = np.random.default_rng(2)
    axes = [categories(rng.integers(0, 8, 9000), 8) for _ in range(3)]
    losses = worse((axes[0].codes == 3) | (axes[1].codes == 5), rng)
    assert {one.parts for one in search(losses, axes, 50)} >= {((0, 3),), ((1, 5),)}


def test_crosses_are_left_out_where_nobody_asks() -> None:
    rng = np.random.default_rng(3)
    axes = [categories(rng.integers(0, 8, 9000), 8) for _ in range(3)]
    losses = worse((axes[0].codes == 3) & (axes[1].codes == 5), rng, 0.5)
    assert len(search(losses, axes, 50)[0].parts) == 2
    assert all(len(one.parts) == 1 for one in search(losses, axes, 50, crosses=False))


@pytest.mark.parametrize("losses", [np.zeros(500), np.ones(500), np.zeros(0), np.array([1.0])])
def test_where_losses_do_not_differ_nothing_stands_out(losses: np.ndarray) -> None:
    axes = [categories(np.arange(len(losses)) % 3, 3), categories(np.arange(len(losses)) % 2, 2)]
    assert search(losses, axes, 10) == ()


def test_without_columns_or_with_too_few_rows_there_is_nothing_to_find() -> None:
    rng = np.random.default_rng(4)
    losses = worse(np.arange(400) < 100, rng, 0.8)
    assert search(losses, [], 10) == ()
    axes = [categories((np.arange(400) >= 100).astype(int), 2)]
    assert search(losses, axes, 10)[0].parts == ((0, 0),)
    assert search(losses, axes, 101) == ()


def test_no_more_than_so_many_are_handed_on() -> None:
    rng = np.random.default_rng(5)
    code = rng.integers(0, 60, 30_000)
    assert len(search(worse(code % 2 == 0, rng, 0.5), [categories(code, 60)], 50)) == CANDIDATES


def test_luck_grows_with_what_is_looked_at() -> None:
    assert float(luck_z(10, np.array(0.05))) == pytest.approx(np.sqrt(2 * np.log(np.e * 10 / 0.05)))
    assert float(luck_z(45, np.array(0.05))) > float(luck_z(10, np.array(0.05)))
    assert float(luck_z(10, np.array(0.01))) > float(luck_z(10, np.array(0.05)))


def test_a_candidate_holds_the_rows_of_all_its_parts() -> None:
    axes = [categories(np.array([0, 0, 1, 1]), 2), categories(np.array([0, 1, 0, 1]), 2)]
    assert Candidate(((0, 1), (1, 0)), 1.0).inside(axes).tolist() == [False, False, True, False]


def weak(p_values: tuple[float | None, ...], n: int = 40_000, confidence: float = 0.95) -> WeakSlices:
    return WeakSlices(p_values, n, PLANTED, "a slice", confidence)


def test_confirmed_slices_are_holms() -> None:
    one = weak((0.02, 0.001, 0.9, 0.013))
    # 0.001 <= 0.05/4, 0.013 <= 0.05/3, 0.02 <= 0.05/2, 0.9 > 0.05.
    assert one.confirmed(0.95) == (1, 3, 0)
    assert one.adjusted() == pytest.approx((0.04, 0.004, 0.9, 0.039))
    assert one.value == 3
    assert one.bound(0.95, "lower") == 3 and one.bound(0.998, "lower") == 0
    assert one.p_value(0, "lower") == pytest.approx(0.004)
    assert one.p_value(2, "lower") == pytest.approx(0.04)
    assert one.p_value(4, "lower") == 1.0
    assert one.p_value(-1, "lower") == 0.0
    assert isinstance(one, Estimate)


def test_finding_nothing_says_something_only_where_something_would_have_been_found() -> None:
    enough, few = weak(()), weak((), n=2000)
    assert enough.power > 0.95 and few.power < 0.2
    assert enough.p_value(0, "upper") == pytest.approx(1 - enough.power)
    assert (enough.bound(0.95, "upper"), enough.bound(0.95, "lower")) == (0.0, 0.0)
    assert few.p_value(0, "upper") > 0.8
    assert few.bound(0.95, "upper") is None
    assert "no bound: a slice would be found in" in few.method and "rows find it in 95 %" in few.method
    assert "no bound" not in enough.method


def test_what_was_confirmed_can_not_be_passed() -> None:
    one = weak((1e-9,))
    assert one.p_value(0, "upper") == 1.0
    assert one.p_value(1, "upper") == pytest.approx(2 * (1 - one.power))
    assert one.bound(0.95, "upper") == 1.0
    # Confirmed at 95 %, not beyond: it can neither pass nor fail at the stricter level.
    near = weak((0.03,))
    assert (near.value, near.p_value(0, "upper"), near.p_value(0, "lower")) == (1, 1.0, 0.03)


def test_a_candidate_that_could_not_be_tested_may_be_weak() -> None:
    one = weak((1e-9, None))
    assert one.power > 0.95 and one.untested == 1
    assert one.p_value(1, "upper") == 1.0 and one.bound(0.95, "upper") is None
    assert "no bound: 1 of them can't be tested" in one.method
    # What is confirmed beside it stays so.
    assert (one.value, one.confirmed(0.95), one.adjusted()) == (1, (0,), (2e-9, 1.0))
    assert one.p_value(0, "lower") == pytest.approx(2e-9)


def test_the_rows_that_are_named_are_those_that_do() -> None:
    one = weak((), n=3000)
    rows = PLANTED.rows_for(0.95, 0.05)
    assert rows is not None
    assert PLANTED.power(rows, 0.05) >= 0.95 > PLANTED.power(int(0.98 * rows), 0.05)
    assert replace(PLANTED, gap=1e-9, tolerance=0.0).rows_for(0.95, 0.05) is None
    assert one.n_to_decide(0, 0.05) is None


def test_power_rises_with_rows_and_gap_and_falls_with_clusters_and_candidates() -> None:
    powers = [PLANTED.power(n, 0.05) for n in (1000, 5000, 20_000, 50_000)]
    assert powers == sorted(powers) and 0 < powers[0] < 0.1 and powers[-1] > 0.99
    assert replace(PLANTED, gap=0.15).power(10_000, 0.05) > PLANTED.power(10_000, 0.05)
    assert replace(PLANTED, design_effect=2.0).power(40_000, 0.05) == pytest.approx(PLANTED.power(20_000, 0.05))
    assert PLANTED.power(20_000, 0.05, others=9) < PLANTED.power(20_000, 0.05, others=1)
    assert replace(PLANTED, crosses=False).power(20_000, 0.05) > PLANTED.power(20_000, 0.05)
    assert replace(PLANTED, columns=0).power(10**6, 0.05) == 0.0
    assert replace(PLANTED, inside=0.0, outside=0.0).power(10**6, 0.05) == 0.0
    assert replace(PLANTED, fewest=200).power(10_000, 0.05) == 0.0
