"""Distances between populations: agreement with scipy, bounds that invert, error rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.clusters import cluster_codes
from evalspec.stats.conjunction import ShareOfParts
from evalspec.stats.drift import distances, nulls
from evalspec.stats.drift.distances import (
    Distance,
    category_counts,
    clustered,
    indicators,
    ks_distance,
    largest_design_effect,
    missingness_difference,
    permutations_for,
    total_variation,
    wasserstein,
)
from evalspec.stats.shares.proportion import Proportion, proportion
from tests.stats.simulated import (
    ALLOWED,
    REPEATS,
    SIDES,
    Pair,
    allowed,
    bounded,
    enough,
    enough_of_each,
    p_values,
    wrong_claims,
)

Floats = NDArray[np.float64]


def normals(n: int, m: int, apart: float, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, n), rng.normal(apart, 1, m)


@pytest.mark.parametrize(("n", "m"), [(50, 50), (200, 70), (1000, 900)])
def test_ks_is_that_of_scipy(n: int, m: int) -> None:
    x, y = normals(n, m, 0.3)
    assert ks_distance(x, y).value == pytest.approx(stats.ks_2samp(x, y).statistic, abs=1e-12)
    x, y = np.round(x), np.round(y)
    assert ks_distance(x, y).value == pytest.approx(stats.ks_2samp(x, y).statistic, abs=1e-12)


def test_wasserstein_is_that_of_scipy_in_reference_deviations() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.lognormal(0, 1, 300), rng.lognormal(0.2, 1, 210)
    expected = stats.wasserstein_distance(x, y) / x.std(ddof=1)
    assert wasserstein(x, y, rng=rng).value == pytest.approx(expected, rel=1e-5)


def test_total_variation_is_half_the_differences() -> None:
    rng = np.random.default_rng(2)
    distance = total_variation(np.array([50, 30, 20]), np.array([20, 30, 50]), rng=rng)
    assert distance.value == pytest.approx(0.3)
    # Two categories are a Kolmogorov-Smirnov distance of 0 and 1.
    two = total_variation(np.array([60, 40]), np.array([45, 55]), rng=rng)
    zeros = np.repeat([0.0, 1.0], [60, 40]), np.repeat([0.0, 1.0], [45, 55])
    assert two.value == pytest.approx(ks_distance(*zeros).value)


def test_bounds_are_the_published_formulas() -> None:
    x, y = normals(400, 600, 0.5)
    ks = ks_distance(x, y)
    scale = math.sqrt(1 / 400 + 1 / 600)
    assert ks.value is not None
    assert ks.bound(0.95, "upper") == pytest.approx(ks.value + 1.644854 / 2 * scale, abs=1e-6)
    assert ks.bound(0.95, "lower") == pytest.approx(ks.value - 1.3581 * scale, abs=1e-5)
    rng = np.random.default_rng(3)
    w = wasserstein(x, y, rng=rng)
    error = math.sqrt(x.var(ddof=1) / 400 + y.var(ddof=1) / 600) / x.std(ddof=1)
    assert w.value is not None
    assert w.bound(0.95, "upper") == pytest.approx(w.value + 1.644854 * error, abs=1e-6)


def test_permutation_p_is_one_plus_k_over_one_plus_b() -> None:
    null = np.arange(1, 100) / 100.0
    distance = Distance(0.9, 200, 100, (0.01, 0.01), 1.0, "a distance", 0.14, null)
    # 0.90 ... 0.99 are as far: 10 of 99.
    assert distance.p_value(0.0, "lower") == pytest.approx(11 / 100)
    assert distance.p_value(-0.1, "lower") == 0.0
    # At 1 % only k = 0 may be as far, so the bound is the value less the largest of the permuted ones.
    assert distance.bound(0.99, "lower") == 0.0
    # Fewer than 1 of 100 can't be shown with 99 permutations.
    assert distance.bound(0.995, "lower") == 0.0 and distance.p_value(0.5, "lower") == pytest.approx(0.61)


def test_permutations_reach_beyond_the_level() -> None:
    assert permutations_for(0.05) == 9_999
    assert permutations_for(0.0005) == 40_000


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), apart=st.floats(0, 1.5), confidence=st.floats(0.6, 0.995))
def test_bounds_invert_p_values(seed: int, apart: float, confidence: float) -> None:
    x, y = normals(120, 90, apart, seed)
    distance = ks_distance(x, y)
    assert isinstance(distance, Estimate) and distance.value is not None
    lower, upper = distance.bound(confidence, "lower"), distance.bound(confidence, "upper")
    assert lower is not None and upper is not None
    assert 0.0 <= lower <= distance.value <= upper <= 1.0
    if upper < 1:
        assert distance.p_value(upper, "upper") == pytest.approx(1 - confidence, abs=1e-9)
    if lower > 0:
        assert distance.p_value(lower, "lower") == pytest.approx(1 - confidence, abs=1e-9)


def test_the_lower_bound_of_equal_populations_reaches_zero() -> None:
    rng = np.random.default_rng(4)
    x, y = normals(500, 500, 0.0)
    for distance in (ks_distance(x, y), wasserstein(x, y, rng=rng)):
        assert distance.bound(0.95, "lower") == 0.0
        p = distance.p_value(0.0, "lower")
        assert p is not None and p > 0.05


def test_few_rows_have_no_bound_and_say_from_when_on() -> None:
    x, y = normals(40, 400, 0.0)
    distance = ks_distance(x, y)
    assert distance.value is not None
    assert all(distance.bound(0.95, side) is None and distance.p_value(0.5, side) is None for side in SIDES)
    assert "40 rows on one side are too few, 50 are needed" in distance.method


def test_an_empty_side_has_no_value() -> None:
    rng = np.random.default_rng(0)
    empty: Floats = np.empty(0)
    for distance in (
        ks_distance(empty, np.ones(100)),
        wasserstein(np.ones(100), empty, rng=rng),
        total_variation(np.array([0, 0]), np.array([50, 50]), rng=rng),
    ):
        assert distance.value is None and distance.bound(0.95, "upper") is None
        assert distance.p_value(0.1, "upper") is None and distance.n_to_decide(0.1, 0.05) is None


def test_what_is_not_defined_is_refused() -> None:
    rng = np.random.default_rng(0)
    moved = wasserstein(np.ones(100), np.arange(100.0), rng=rng)
    assert moved.value is None and moved.bound(0.95, "upper") is None and "does not vary" in (moved.reason or "")
    same = wasserstein(np.full(300, 0.1), np.full(200, 0.1), rng=rng)
    limit = same.bound(0.95, "upper")
    assert same.value == 0.0 == same.bound(0.95, "lower") and limit is not None and 0.0 < limit < 0.1
    with pytest.raises(InputError, match="3 categories beside 2"):
        total_variation(np.array([1, 2, 3]), np.array([1, 2]), rng=rng)


def test_the_bridge_takes_over_where_permutations_would() -> None:
    x, y = normals(900, 1000, 0.0, seed=5)
    gaps = np.diff(np.sort(np.concatenate((x, y))))
    permuted = nulls.wasserstein_null(gaps, 900, 1000, np.random.default_rng(1), 4000)
    bridge = nulls.bridge_null(np.arange(1.0, 1900.0), gaps, 900, 1000, np.random.default_rng(2), 40_000)
    for level in (0.5, 0.9, 0.99):
        assert np.quantile(bridge, level) == pytest.approx(np.quantile(permuted, level), rel=0.06)


def test_missingness_is_the_absolute_difference() -> None:
    reference, current = np.arange(1000) < 20, np.arange(800) < 56
    shares = proportion(reference), proportion(current)
    difference = missingness_difference(*shares)
    assert difference.value == pytest.approx(0.05)
    assert difference.p_value(0.02, "lower") == missingness_difference(*shares[::-1]).p_value(0.02, "lower")
    holds, fails = difference.p_value(0.1, "upper"), difference.p_value(0.01, "lower")
    assert holds is not None and holds < 0.001
    assert fails is not None and fails < 0.001
    nothing = missingness_difference(*[proportion(np.zeros(500, dtype=bool))] * 2)
    assert nothing.value == 0.0
    upper = nothing.bound(0.95, "upper")
    assert upper is not None and 0 < upper < 0.01


def test_category_counts_are_most_frequent_first() -> None:
    names, a, b = category_counts(["x", "y", "y"], ["z", "y"])
    assert names[0] == "y" and dict(zip(names, zip(a.tolist(), b.tolist(), strict=True), strict=True)) == {
        "y": (2, 1), "x": (1, 0), "z": (0, 1)
    }  # fmt: skip
    assert category_counts([], [])[0] == []


def test_copies_in_clusters_say_no_more_than_one() -> None:
    x, y = normals(300, 200, 0.4)
    alone = ks_distance(x, y)
    copies = np.repeat(x, 3), np.repeat(y, 3)
    clusters = np.repeat(np.arange(300), 3), np.repeat(np.arange(200), 3)
    events = indicators(*copies)
    effects = [largest_design_effect(e, c) for e, c in zip(events, clusters, strict=True)]
    assert effects == pytest.approx([3.0, 3.0], rel=0.02)
    together = clustered(ks_distance(*copies), 900, 600, effects[0], effects[1])
    assert together.value == alone.value
    for side in ("lower", "upper"):
        assert together.bound(0.95, side) == pytest.approx(alone.bound(0.95, side), abs=0.002)
    assert together.smaller == pytest.approx(200, abs=2)
    assert largest_design_effect(events[0], None) == 1.0


def test_more_rows_are_needed_nearer_to_the_threshold() -> None:
    distance = ks_distance(*normals(500, 500, 0.6))
    near, far = distance.n_to_decide(0.2, 0.05), distance.n_to_decide(0.05, 0.05)
    assert near is not None and far is not None and near > far


def test_many_columns_of_categories_can_be_shown_to_have_drifted() -> None:
    """60 columns that all moved by 0.4: corrected for their number, 10,000 permutations alone would never show it."""
    rng = np.random.default_rng(45)
    columns = {
        f"c{index}": total_variation(rng.multinomial(500, [0.7, 0.3]), rng.multinomial(500, [0.3, 0.7]), rng=rng)
        for index in range(60)
    }
    p = ShareOfParts(columns, 0.1).p_value(0.1, "lower")
    assert p is not None and p < 0.0005
    one = columns["c0"]
    assert one.value is not None
    for level in (0.05, 1e-3, 1e-5, 1e-8):
        lower = one.bound(1 - level, "lower")
        assert lower is not None and 0 < lower < one.value
        # Distances of counts have ties, so the bound itself may miss by rounding.
        shown = one.p_value(lower - 1e-9, "lower")
        assert shown is not None and shown <= level * 1.001


Draw = Callable[[int, np.random.Generator], Floats]
TOGETHER = 250


class Shuffled:
    """Labels of n + n rows, which 250 samples share: they are shuffled without a look at what the rows are.

    It stands in for the generator where rows of each kind are drawn.
    """

    def __init__(self, n: int, count: int, rng: np.random.Generator) -> None:
        self.labels = rng.permuted(np.broadcast_to(np.arange(2 * n) < n, (count, 2 * n)), axis=1)
        self.n = n

    @cached_property
    def heights(self) -> Floats:
        return nulls.heights(self.labels, self.n, self.n)

    @cached_property
    def _to_here(self) -> NDArray[np.int32]:
        return np.cumsum(self.labels, axis=1, dtype=np.int32)

    def multivariate_hypergeometric(self, kinds: NDArray[np.int64], n: int, size: int, method: str) -> NDArray:
        assert n == self.n and self.labels.shape == (size, kinds.sum()) and (kinds > 0).all()
        return np.diff(self._to_here[:, np.cumsum(kinds) - 1], axis=1, prepend=0)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, pytest.param(1000, marks=pytest.mark.proof)])
@pytest.mark.parametrize(
    ("first", "second", "truth"),
    [
        (lambda n, r: r.normal(0, 1, n), lambda n, r: r.normal(2 * stats.norm.ppf(0.55), 1, n), 0.1),
        (lambda n, r: (r.random(n) < 0.5) * 1.0, lambda n, r: (r.random(n) < 0.6) * 1.0, 0.1),
        (lambda n, r: r.random(n), lambda n, r: r.random(n), 0.0),
    ],
    ids=["normal", "two values", "equal"],
)
def test_error_rates_of_ks(first: Draw, second: Draw, truth: float, n: int) -> None:
    rng = np.random.default_rng(40)
    found = enough(p_values(ks_distance(first(n, rng), second(n, rng)), truth) for _ in range(REPEATS))
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize(
    ("first", "second"),
    [([0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]), ([0.5, 0.3, 0.2], [0.4, 0.3, 0.3]), ([0.9, 0.1], [0.8, 0.2])],
    ids=["equal", "three", "two"],
)
def test_error_rates_of_total_variation(
    first: list[float], second: list[float], n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permutation test is exact with any number of permutations, so 999 serve here."""
    monkeypatch.setattr(distances, "permutations_for", lambda alpha: 999)
    rng = np.random.default_rng([42, n])
    truth = float(np.abs(np.subtract(first, second)).sum() / 2)

    def samples() -> Iterator[Pair]:
        while True:
            shuffled = Shuffled(n, 999, rng)
            drawn = zip(rng.multinomial(n, first, TOGETHER), rng.multinomial(n, second, TOGETHER), strict=True)
            yield from (p_values(total_variation(a, b, rng=shuffled), truth) for a, b in drawn)

    found = enough(samples())
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("apart", [0.0, 0.2])
def test_error_rates_of_wasserstein(n: int, apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test is exact with any number of permutations, so 999 serve here."""
    monkeypatch.setattr(distances, "permutations_for", lambda alpha: 999)
    rng = np.random.default_rng([43, n])
    prepared: list[Floats] = []
    monkeypatch.setattr(distances, "wasserstein_null", lambda *_: prepared.pop(0))

    def samples() -> Iterator[Pair]:
        while True:
            x, y = rng.lognormal(0, 0.5, (TOGETHER, n)), rng.lognormal(0, 0.5, (TOGETHER, n)) + apart
            unit = x.std(axis=1, ddof=1)
            gaps = np.diff(np.sort(np.concatenate((x, y), axis=1) / unit[:, None], axis=1), axis=1)
            prepared.extend(gaps @ Shuffled(n, 999, rng).heights.T)
            for a, b, one in zip(x, y, unit.tolist(), strict=True):
                yield p_values(wasserstein(a, b, rng=rng), apart / one)
            assert not prepared

    found = enough(samples())
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size", "step"), [(100, 2, 0.0), (50, 4, 0.3), (200, 5, 0.0), (200, 5, 0.3)])
def test_error_rates_of_clustered_distances(
    groups: int, size: int, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth of a row's variance is its own; the second side is moved by ``step`` standard deviations.

    All samples are in the same clusters.
    """
    rng, n = np.random.default_rng([44, groups]), groups * size
    monkeypatch.setattr(distances, "permutations_for", lambda alpha: 499)
    prepared: list[Floats] = []
    monkeypatch.setattr(distances, "wasserstein_null", lambda *_: prepared.pop(0))
    clusters, cuts = np.repeat(np.arange(groups), size), stats.norm.ppf([0.25, 0.5, 0.75])
    coded = cluster_codes(clusters, n)
    monkeypatch.setattr(distances, "cluster_codes", lambda *_: coded)
    cells = np.diff(stats.norm.cdf(np.stack([cuts, cuts - step])), prepend=0.0, append=1.0)
    truths = float(2 * stats.norm.cdf(step / 2) - 1), float(np.abs(cells[0] - cells[1]).sum() / 2)

    def drawn() -> Iterator[tuple[Floats, Floats, Shuffled]]:
        while True:
            shuffled = Shuffled(n, 499, rng)
            shared = np.repeat(rng.normal(0, np.sqrt(0.8), (TOGETHER, 2, groups)), size, axis=2)
            samples = shared + rng.normal(0, np.sqrt(0.2), (TOGETHER, 2, n)) + np.array([[0.0], [step]])
            pooled = samples.reshape(TOGETHER, -1) / samples[:, 0].std(axis=1, ddof=1)[:, None]
            prepared.extend(np.diff(np.sort(pooled, axis=1), axis=1) @ shuffled.heights.T)
            yield from ((x, y, shuffled) for x, y in samples)
            assert not prepared

    def evidence(x: Floats, y: Floats, shuffled: Shuffled) -> tuple[Pair, Pair, Pair]:
        events = indicators(x, y, means=True)
        below = [largest_design_effect(e[:-1], clusters) for e in events]
        means = [max(one, largest_design_effect(e[-1:], clusters)) for one, e in zip(below, events, strict=True)]
        a, b = (np.searchsorted(cuts, side) for side in (x, y))
        within = [largest_design_effect((side == np.arange(4)[:, None]).astype(float), clusters) for side in (a, b)]
        kinds = total_variation(np.bincount(a, minlength=4), np.bincount(b, minlength=4), rng=shuffled)
        wide = wasserstein(x, y, rng=rng)
        return (
            p_values(clustered(ks_distance(x, y), n, n, *below), truths[0]),
            p_values(clustered(kinds, n, n, *within), truths[1]),
            p_values(clustered(wide, n, n, *means), step / float(x.std(ddof=1))),
        )

    for one in enough_of_each(evidence(*sample) for sample in drawn()):
        assert bounded(one) > 0.2
        assert (wrong_claims(one) <= ALLOWED).all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize(("first", "second"), [(0.02, 0.05), (0.0, 0.02), (0.1, 0.1), (0.3, 0.4)])
def test_missingness_errs_no_more_often_than_allowed(
    n: int, first: float, second: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pair of counts that can be expected, each with its chance, in place of repeats."""
    monkeypatch.setattr(Proportion, "bound", lru_cache(None)(Proportion.bound))
    counts = np.arange(n + 1)
    chance = np.outer(stats.binom.pmf(counts, n, first), stats.binom.pmf(counts, n, second))
    shares = [Proportion.of_counts(count, n) for count in range(n + 1)]
    truth, seen = second - first, 0.0
    wrong = np.zeros(4)
    for a, b in np.argwhere(chance > 1e-8):
        difference = missingness_difference(shares[a], shares[b])
        bounds = [difference.bound(confidence, side) for confidence in (0.95, 0.998) for side in SIDES]
        lower, upper, low, high = (truth if bound is None else bound for bound in bounds)
        seen += chance[a, b]
        wrong += chance[a, b] * np.array([lower > truth, upper < truth, low > truth, high < truth])
    assert seen > 0.9999
    assert (wrong <= [0.065, 0.065, 0.006, 0.006]).all(), wrong


def _with_outliers(share: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, n: np.where(rng.random(n) < share, 30.0, rng.standard_normal(n))


MOVED: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float]] = {
    "lognormal": (lambda rng, n: rng.lognormal(size=n), 2.1612),
    "far outliers": (_with_outliers(0.005), 1.0),
    "heavy tails": (lambda rng, n: rng.standard_t(3, n), 0.5),
    "exponential": (lambda rng, n: rng.exponential(size=n), 0.2),
    "uniform": (lambda rng, n: rng.random(n), 0.1),
}


@pytest.mark.proof
@pytest.mark.parametrize("n", [100])
@pytest.mark.parametrize("kind", MOVED)
def test_wasserstein_in_the_reference_rows_own_unit_errs_no_more_often_than_allowed(kind: str, n: int) -> None:
    """S9: the populations differ by a step; told in the standard deviation of the reference rows that were drawn."""
    draw, step = MOVED[kind]
    rng = np.random.default_rng([9, n])

    def samples() -> Iterator[Pair]:
        while True:
            reference, current = draw(rng, n), draw(rng, n) + step
            yield p_values(wasserstein(reference, current, rng=rng, alpha=0.05), step / reference.std(ddof=1))

    found = enough(samples(), allowed(60), 60)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= allowed(60)).all()


def test_a_wasserstein_distance_says_whose_unit_it_is_in() -> None:
    """S9."""
    rng = np.random.default_rng(20)
    found = wasserstein(rng.normal(size=60), rng.normal(size=60), rng=rng)
    assert "standard deviations of these reference rows" in found.method
