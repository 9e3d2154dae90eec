"""A percentile over groups: counted groups, noise within them, and the population that they come from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from evalspec.evidence.estimate import Estimate
from evalspec.stats.shares.over_groups import OverGroups, share_bounds
from evalspec.stats.shares.proportion import Proportion
from tests.stats.simulated import ALLOWED, REPEATS, p_values, wrong_claims


def of_counts(hits: np.ndarray, rows: np.ndarray, share: float = 0.1) -> OverGroups:
    hits, rows = np.asarray(hits, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    lower, upper = share_bounds(hits, rows)
    return OverGroups(hits / rows, lower, upper, share)


def mirrored(one: OverGroups) -> OverGroups:
    return OverGroups(-one.values, -one.holding, -one.violated, one.share, higher=False)


def test_each_groups_bounds_are_clopper_and_pearsons() -> None:
    hits, rows = np.array([0.0, 3, 17, 20]), np.array([20.0, 5, 20, 20])
    lower, upper = share_bounds(hits, rows)
    for i, (x, n) in enumerate(zip(hits, rows, strict=True)):
        one = Proportion.of_counts(x, int(n))
        assert lower[i] == pytest.approx(one.bound(0.8, "lower"))
        assert upper[i] == pytest.approx(one.bound(0.95, "upper"))


def test_the_value_is_the_percentile_as_wilds_has_it() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(5, 50, 300)
    hits = rng.binomial(rows, 0.8)
    assert of_counts(hits, rows).value == pytest.approx(np.percentile(hits / rows, 10))


def test_bounds_are_groups_own_and_p_values_binomial() -> None:
    """With 100 groups at most 3 may be unshown: Binomial(100, 0.08) gives no more in 3.7 %, and 4 in 9 %."""
    rng = np.random.default_rng(2)
    rows = np.arange(60, 160)
    one = of_counts(rng.binomial(rows, 0.9), rows)
    lower, upper = one.bound(0.95, "lower"), one.bound(0.95, "upper")
    assert lower == np.sort(one.holding)[3]
    assert one.p_value(lower, "lower") == pytest.approx(binom.cdf(3, 100, 0.08))
    # At 0.1 + 0.9 x 0.05 = 0.145 it takes 21 of 100 that are shown to be worse.
    assert binom.sf(20, 100, 0.145) <= 0.05 < binom.sf(19, 100, 0.145)
    assert upper == np.sort(one.violated)[20]
    assert one.p_value(upper, "upper") == pytest.approx(binom.sf(20, 100, 0.145))
    assert lower is not None and upper is not None and one.value is not None and lower < one.value < upper


def test_lower_is_better_is_the_same_mirrored() -> None:
    rng = np.random.default_rng(3)
    one = of_counts(rng.binomial(60, 0.85, 200), np.full(200, 60))
    other = mirrored(one)
    assert other.value == pytest.approx(-(one.value or 0.0))
    assert other.bound(0.95, "upper") == pytest.approx(-(one.bound(0.95, "lower") or 0.0))
    assert other.bound(0.95, "lower") == pytest.approx(-(one.bound(0.95, "upper") or 0.0))
    assert other.p_value(-0.7, "upper") == one.p_value(0.7, "lower")


def test_few_groups_give_no_bound_and_say_how_many_would() -> None:
    one = of_counts(np.full(35, 500), np.full(35, 500))
    assert one.bound(0.95, "lower") is None
    assert one.method.endswith("no bound: 35 groups; at 95 % it takes 36, all of them shown")
    enough = of_counts(np.full(36, 500), np.full(36, 500))
    assert enough.bound(0.95, "lower") == pytest.approx(0.2 ** (1 / 500))
    assert "no bound" not in enough.method
    nothing = OverGroups(np.zeros(0), np.zeros(0), np.zeros(0))
    assert (nothing.value, nothing.bound(0.95, "lower"), nothing.p_value(0.5, "lower")) == (None, None, None)
    assert isinstance(nothing, Estimate)


def test_groups_without_a_bound_count_as_not_shown() -> None:
    one = of_counts(np.full(60, 99), np.full(60, 100))
    holding = one.holding.copy()
    holding[:2] = -np.inf
    hole = OverGroups(one.values, holding, one.violated)
    assert (one.p_value(0.9, "lower") or 1.0) < 0.05 < (hole.p_value(0.9, "lower") or 0.0)
    holding[:] = -np.inf
    assert OverGroups(one.values, holding, one.violated).bound(0.95, "lower") is None


def test_n_to_decide_is_of_groups_and_says_nothing_where_more_rows_are_needed() -> None:
    rng = np.random.default_rng(4)
    one = of_counts(rng.binomial(200, 0.95, 50), np.full(50, 200))
    n = one.n_to_decide(0.88, 0.05)
    assert n is not None and 36 <= n < 200
    # At 0.93 most groups are not shown, however many there are.
    assert one.n_to_decide(0.93, 0.05) is None
    assert one.n_to_decide(one.value or 0.0, 0.05) is None
    worse = one.n_to_decide(0.99, 0.002)
    assert worse is not None and worse < 60


SIZES = np.array([5, 20, 200])


def _drawn(groups: int, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """True shares of groups, shape (REPEATS, groups), and the share that nine in ten reach."""
    if kind == "two kinds":
        return np.where(rng.random((REPEATS, groups)) < 0.1, 0.7, 0.9), 0.9
    if kind == "two kinds, just beyond":
        # Slightly more than a tenth lie at 0.7: nothing above it may be shown.
        return np.where(rng.random((REPEATS, groups)) < 0.1001, 0.7, 0.95), 0.7 + 1e-9
    a, b = {"alike": (900, 100), "spread": (9, 1)}[kind]
    return rng.beta(a, b, (REPEATS, groups)), float(beta(a, b).ppf(0.1))


def _shown(at: float) -> tuple[np.ndarray, np.ndarray]:
    """By size and hits, shape (3, 201): a group is shown to reach the threshold; to lie below it."""
    hits = np.arange(SIZES[-1] + 1.0)
    tables = [share_bounds(np.minimum(hits, size), np.full(len(hits), float(size))) for size in SIZES]
    return np.stack([low >= at for low, _ in tables]), np.stack([high <= at for _, high in tables])


@pytest.mark.slow
@pytest.mark.parametrize("groups", [36, 100, 400])
@pytest.mark.parametrize("kind", ["alike", "spread", "two kinds", "two kinds, just beyond"])
def test_populations_at_the_threshold_err_no_more_often_than_allowed(groups: int, kind: str) -> None:
    """Groups of 5, 20 and 200 rows mixed, drawn anew with their true shares each time."""
    rng = np.random.default_rng(groups)
    truths, at = _drawn(groups, kind, rng)
    size = rng.integers(0, 3, (REPEATS, groups))
    hits = rng.binomial(SIZES[size], truths)
    holds, violated = _shown(at)
    missed, alarmed = (~holds[size, hits]).sum(axis=1), violated[size, hits].sum(axis=1)
    counts = np.arange(groups + 1)
    p = binom.cdf(counts, groups, 0.08)[missed], binom.sf(counts - 1, groups, 0.145)[alarmed]
    assert (wrong_claims(zip(*p, strict=True)) <= ALLOWED).all()
    for i in range(3):
        assert p_values(of_counts(hits[i], SIZES[size[i]]), at) == pytest.approx((p[0][i], p[1][i]))


@pytest.mark.slow
def test_it_holds_for_the_very_groups_too() -> None:
    """11 of 100 fixed groups lie just below the threshold, the others far above: PASS would be wrong."""
    rng = np.random.default_rng(9)
    truths = np.where(np.arange(100) < 11, 0.7999, 0.98)
    lower, _ = share_bounds(np.arange(151.0), np.full(151, 150.0))
    missed = np.count_nonzero(lower[rng.binomial(150, truths, (REPEATS, 100))] < 0.8, axis=1)
    assert np.mean(binom.cdf(missed, 100, 0.08) <= 0.05) <= 0.05


@pytest.mark.slow
def test_a_population_that_is_good_enough_is_shown_to_be() -> None:
    """100 users of 100 rows, 90 % right on average, nine in ten above 84 %: at least 70 % is shown nearly always."""
    rng = np.random.default_rng(8)
    truths = rng.beta(90, 10, (400, 100))
    lower, upper = share_bounds(np.arange(101.0), np.full(101, 100.0))
    hits = rng.binomial(100, truths)
    found = [OverGroups(x / 100, lower[x], upper[x]).bound(0.95, "lower") or 0.0 for x in hits]
    assert np.mean(np.array(found) >= 0.7) >= 0.95
