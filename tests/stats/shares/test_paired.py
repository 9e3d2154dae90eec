from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import multinomial, norm
from statsmodels.stats.contingency_tables import mcnemar

from evalspec.errors import InputError
from evalspec.stats.shares.paired import PairedProportion, ScoreDifference, paired_proportion
from evalspec.stats.shares.score import PairTable, moments_under, score_z
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import ALLOWED, Pair, allowed, enough, enough_of_each, p_values, wrong_claims


def rows(both: int, candidate: int, baseline: int, neither: int) -> PairedProportion:
    kinds = np.repeat([3, 2, 1, 0], [both, candidate, baseline, neither])
    return paired_proportion(kinds >= 2, kinds % 2 == 1)


def tango(candidate_only: int, baseline_only: int, n: int, difference: float) -> float:
    """Tango's z without corrections, after Tango (1998), formulas 5 and 6 (independent of the package)."""
    b, c, d = candidate_only, baseline_only, difference
    first = 2 * n
    second = -b - c - (b - c - 2 * n) * d
    third = -c * d * (1 - d)
    q = (np.sqrt(second**2 - 4 * first * third) - second) / (2 * first)
    return float((b - c - n * d) / np.sqrt(n * (2 * q + d * (1 - d))))


@pytest.mark.parametrize("table", [(900, 20, 30, 50), (90, 0, 4, 6), (30, 10, 1, 9), (10, 0, 0, 90)])
@pytest.mark.parametrize("difference", [-0.3, -0.05, -0.01, 0.02])
def test_variance_under_the_hypothesis_is_tangos(table: tuple[int, ...], difference: float) -> None:
    pairs = PairTable(*map(float, table))
    z = tango(table[1], table[2], int(pairs.n), difference)
    variance = moments_under(pairs, 1.0, difference).variance
    assert np.sqrt(pairs.n / variance) * (pairs.difference(1.0) - difference) == pytest.approx(z, rel=1e-6)


def test_shares_under_a_factor_are_the_likeliest() -> None:
    # The likelihood is maximised by a general optimiser under both constraints.
    pairs, factor, difference = PairTable(150.0, 12.0, 20.0, 18.0), 0.95, 0.02
    counts = np.array([pairs.both, pairs.candidate_only, pairs.baseline_only, pairs.neither])
    scores = np.array([1 - factor, 1.0, -factor, 0.0])
    found = minimize(
        lambda p: -counts @ np.log(p) / pairs.n,
        counts / pairs.n,
        bounds=[(1e-6, 1.0)] * 4,
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "eq", "fun": lambda p: p @ scores - difference},
        ],
        options={"ftol": 1e-14},
    )
    variance = float(found.x @ scores**2) - difference**2
    assert moments_under(pairs, factor, difference).variance == pytest.approx(variance, rel=1e-4)


def test_with_many_pairs_the_interval_is_tangos() -> None:
    pairs = rows(93_000, 1_200, 1_700, 4_100)
    estimate = pairs.difference(1.0, 0.0)
    for side, z in (("lower", norm.ppf(0.95)), ("upper", -norm.ppf(0.95))):
        bound = estimate.bound(0.95, side)
        assert bound is not None
        assert tango(1_200, 1_700, 100_000, bound) == pytest.approx(z, abs=0.02)


@pytest.mark.parametrize("table", [(80, 3, 12, 5), (80, 0, 0, 20), (10, 7, 7, 3), (900, 41, 60, 0)])
def test_mcnemar_is_that_of_statsmodels(table: tuple[int, int, int, int]) -> None:
    expected = mcnemar([[table[0], table[1]], [table[2], table[3]]], exact=True).pvalue
    assert rows(*table).mcnemar_p == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("factor", [1.0, 0.98])
def test_p_value_is_the_level_at_which_the_bound_reaches_the_threshold(factor: float) -> None:
    estimate = rows(400, 15, 22, 63).difference(factor, 0.0)
    for confidence in (0.2, 0.95, 0.998):
        for side in ("lower", "upper"):
            bound = estimate.bound(confidence, side)
            assert bound is not None
            assert estimate.p_value(bound, side) == pytest.approx(1 - confidence, rel=1e-4)


def test_the_ratio_is_decided_as_the_difference_with_that_factor() -> None:
    pairs = rows(400, 15, 22, 63)
    ratio = pairs.ratio()
    assert ratio is not None
    assert ratio.value == pytest.approx(415 / 422)
    assert ratio.p_value(0.95, "lower") == pairs.difference(0.95, 0.0).p_value(0.0, "lower")
    bound = ratio.bound(0.95, "lower")
    assert bound is not None and 0.95 < bound < 415 / 422
    assert rows(0, 3, 0, 7).ratio() is None


def test_int8_that_keeps_most_of_its_accuracy() -> None:
    ratio = rows(700, 9, 18, 273).ratio()
    assert ratio is not None
    assert ratio.value == pytest.approx(0.9875, abs=5e-5)


def test_models_that_agree_everywhere() -> None:
    estimate = rows(950, 0, 0, 50).difference(1.0, -0.01)
    assert estimate.value == 0.0
    # A true drop of 1 point would show itself in none of 1,000 rows with probability 0.99^1000.
    p = estimate.p_value(-0.01, "lower")
    assert p is not None and 0.99**1000 < p < 0.01
    assert estimate.p_value(0.0, "lower") == 1.0
    assert estimate.p_value(0.0, "upper") == 1.0


def test_rows_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="3 rows of the candidate and 2 of the baseline"):
        paired_proportion(np.ones(3, dtype=bool), np.ones(2, dtype=bool))
    with pytest.raises(InputError, match="factor"):
        rows(1, 1, 1, 1).difference(0.0)


def test_no_rows_and_one_cluster_say_nothing() -> None:
    nothing = paired_proportion(np.zeros(0, dtype=bool), np.zeros(0, dtype=bool))
    assert nothing.baseline_value is None
    assert nothing.difference(1.0).bound(0.95, "lower") is None
    one = paired_proportion(np.arange(9) > 2, np.arange(9) > 3, np.zeros(9, dtype=np.int64))
    assert isinstance(one.difference(1.0), ValueOnly)


def test_n_to_decide_meets_the_power_of_the_test() -> None:
    table = PairTable(1900.0, 10.0, 70.0, 20.0)
    n = ScoreDifference(table, 2000).n_to_decide(-0.01, 0.0025)
    assert n is not None
    assert fail_chance(n, 0.04, -0.03, -0.01, 0.0025) == pytest.approx(0.8, abs=0.03)


@lru_cache
def grid(n: int, most: int, difference: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All (candidate only, baseline only) up to a count, with the p-values of both sides, shape (k, 2)."""
    candidate, baseline = np.meshgrid(np.arange(most + 1), np.arange(most + 1), indexing="ij")
    inside = candidate + baseline <= n
    candidate, baseline = candidate[inside], baseline[inside]
    z = [
        [
            score_z(PairTable(float(n - b - c), float(b), float(c), 0.0), 1.0, difference, side)
            for side in ("lower", "upper")
        ]
        for b, c in zip(candidate, baseline, strict=True)
    ]
    return candidate, baseline, ndtr(-np.array(z))


def fail_chance(n: int, discordance: float, truth: float, threshold: float, alpha: float) -> float:
    """Chance that the score test shows that the difference lies below the threshold."""
    better, worse = (discordance + truth) / 2, (discordance - truth) / 2
    candidate, baseline = np.meshgrid(
        np.arange(int(n * better + 8 * np.sqrt(n * better)) + 5),
        np.arange(max(0, int(n * worse - 8 * np.sqrt(n * worse))), int(n * worse + 8 * np.sqrt(n * worse)) + 5),
        indexing="ij",
    )
    b, c = candidate.ravel(), baseline.ravel()
    chance = multinomial.pmf(np.stack([b, c, n - b - c], axis=1), n, [better, worse, 1 - discordance])
    likely = chance > 1e-9
    p = [
        score_z(PairTable(float(n - x - y), float(x), float(y), 0.0), 1.0, threshold, "upper")
        for x, y in zip(b[likely], c[likely], strict=True)
    ]
    return float(chance[likely][ndtr(-np.array(p)) <= alpha].sum())


def test_a_drop_of_three_points_fails_after_holm() -> None:
    assert fail_chance(2000, 0.05, -0.03, -0.01, 0.05 / 20) >= 0.88


def errors(n: int, most: int, difference: float, discordances: np.ndarray) -> np.ndarray:
    """Largest chance over the discordances of each wrong claim: lower and upper at 95 %, the same at 99.8 %."""
    b, c, p = grid(n, most, difference)
    found = []
    for discordance in discordances:
        shares = np.clip([(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance], 0.0, 1.0)
        chance = multinomial.pmf(np.stack([b, c, n - b - c], axis=1), n, shares / shares.sum())
        found.append([chance[p[:, side] <= level].sum() for level in (0.05, 0.002) for side in (0, 1)])
    return np.max(found, axis=0)


@pytest.mark.parametrize("difference", [0.0, -0.01, -0.02, -0.05, -0.1])
def test_no_truth_is_missed_more_often_than_said(difference: float) -> None:
    # With factor 1 the share on which both are right is free, so accuracies of 0.5 to 0.99 are all covered.
    discordances = np.concatenate([abs(difference) + np.array([0.0, 0.002, 0.01]), np.linspace(0.12, 0.6, 7)])
    assert (errors(50, 50, difference, discordances) <= [0.05, 0.05, 0.002, 0.002]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "difference"),
    [*((200, d) for d in (0.0, -0.005, -0.01, -0.02, -0.05)), *((1000, d) for d in (0.0, -0.005, -0.01, -0.02))],
)
def test_no_truth_is_missed_more_often_than_said_with_more_pairs(n: int, difference: float) -> None:
    # The grid holds all but 1e-6 of the chance where fewer than 25 pairs are expected of either kind.
    largest = 2 * 25 / n - abs(difference)
    discordances = abs(difference) + np.linspace(0.0, max(0.0, largest - abs(difference)), 15)
    discordances = discordances[discordances > 0]
    assert (errors(n, 55, difference, discordances) <= [0.05, 0.05, 0.002, 0.002]).all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("factor", [0.95, 0.99, 1.02])
def test_factors_err_no_more_often_than_said(n: int, factor: float) -> None:
    rng = np.random.default_rng([n, round(100 * factor)])
    for baseline, discordance in ((0.5, 0.2), (0.9, 0.05), (0.98, 0.03)):
        truth = (factor - 1) * baseline
        discordance = max(discordance, abs(truth))
        better, worse = (discordance + truth) / 2, (discordance - truth) / 2
        if better + baseline > 1:
            continue
        tables = rng.multinomial(n, [baseline - worse, better, worse, 1 - baseline - better], size=4000)
        kinds, index = np.unique(tables, axis=0, return_inverse=True)
        z = [
            [score_z(PairTable(*map(float, kind)), factor, 0.0, side) for side in ("lower", "upper")] for kind in kinds
        ]
        p = ndtr(-np.array(z))[index]
        assert (np.mean(p <= 0.05, axis=0) <= 0.065).all()
        assert (np.mean(p <= 0.002, axis=0) <= 0.006).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(25, 2), (50, 4), (200, 5)])
@pytest.mark.parametrize("truth", [0.0, -0.05])
def test_clustered_pairs_err_no_more_often(groups: int, size: int, truth: float) -> None:
    """The difference and the ratio of two models whose answers to a cluster's rows depend on each other."""
    rng, clusters = np.random.default_rng([5, groups]), np.repeat(np.arange(groups), size)

    def samples() -> Iterator[tuple[Pair, Pair]]:
        while True:
            # A cluster is right by the baseline in 90 %, in a tenth of clusters the candidate answers anew; some rows
            # do by themselves.
            base = rng.random(groups) < 0.9
            candidate = np.where(rng.random(groups) < 0.1, rng.random(groups) < 0.9, base)
            alone = rng.random((groups, size)) < 0.05
            redrawn = rng.random((groups, size)) < 0.9
            left = np.where(alone, redrawn, candidate[:, None]) & (rng.random((groups, size)) < 1 + truth / 0.9)
            right = np.where(alone, redrawn, base[:, None])
            pair = paired_proportion(left.ravel(), right.ravel(), clusters)
            ratio = pair.ratio()
            assert ratio is not None
            yield p_values(pair.difference(), truth), p_values(ratio, 1 + truth / 0.9)

    for found in enough_of_each(samples()):
        assert (wrong_claims(found) <= ALLOWED).all()


@pytest.mark.slow
@pytest.mark.parametrize(("large", "size", "small", "count"), [(10, 50, 1, 190), (0, 1, 2, 300)])
def test_few_discordant_pairs_in_clusters_err_no_more_often(large: int, size: int, small: int, count: int) -> None:
    """Rows that one of the models breaks or fixes, correlated by a half in clusters: 1 % and 0.5 %."""
    rng, repeats, groups = np.random.default_rng([large, small]), 1000, large + count
    codes, found = np.repeat(np.arange(groups), np.repeat([size, small], [large, count])), []
    for _ in range(repeats):
        broken, fixed = (rng.random(len(codes)) < rng.beta(p, 1.0 - p, groups)[codes] for p in (0.01, 0.005))
        pair = paired_proportion(~broken, broken | ~fixed, codes)
        found.append(p_values(pair.difference(), 0.005 * 0.99 - 0.01))
    wrong = wrong_claims(found)
    assert (wrong <= allowed(repeats)).all(), wrong


CLUSTERED = {
    # Clusters, rows of one, spread of their logarithm, share that only the candidate or the baseline has right, and
    # the correlation of both inside clusters.
    "lognormal": (40, 10, 1.0, 0.02, 0.05, 0.1),
    "of one size": (40, 10, 0.0, 0.02, 0.05, 0.3),
    "only losses": (40, 10, 1.0, 0.0, 0.03, 0.1),
    "losses of whole clusters": (50, 8, 0.0, 0.0, 0.04, 0.6),
    "few clusters": (12, 5, 0.5, 0.02, 0.1, 0.3),
    "many small": (300, 2, 0.0, 0.005, 0.015, 0.5),
    "very unequal": (60, 5, 1.5, 0.03, 0.06, 0.2),
    "rare": (40, 10, 1.0, 0.0, 0.01, 0.3),
}


def _clustered(name: str, rng: np.random.Generator) -> tuple[PairedProportion, float]:
    groups, average, spread, gained, lost, alike = CLUSTERED[name]
    sizes = np.maximum(1, np.round(average * rng.lognormal(-0.5 * spread**2, spread, groups))).astype(int)
    codes, weight, differ = np.repeat(np.arange(groups), sizes), (1.0 - alike) / alike, gained + lost
    apart = rng.random(len(codes)) < rng.beta(differ * weight, (1.0 - differ) * weight, groups)[codes]
    fixed, right = rng.random(len(codes)) < gained / differ, rng.random(len(codes)) < 0.85
    return paired_proportion(np.where(apart, fixed, right), np.where(apart, ~fixed, right), codes), gained - lost


@pytest.mark.proof
@pytest.mark.parametrize("name", CLUSTERED)
def test_pairs_in_unlike_clusters_err_no_more_often(name: str) -> None:
    rng = np.random.default_rng([14, len(name)])
    samples = (_clustered(name, rng) for _ in range(1000))
    found = enough((p_values(pair.difference(), truth) for pair, truth in samples), allowed(1000), 1000)
    assert (wrong_claims(found) <= allowed(1000)).all()


def test_few_discordant_pairs_in_clusters_are_not_bounded_by_one_degree_of_freedom() -> None:
    """Of 40 clusters with 1 % of rows lost the lower bound was -0.18 in the median."""
    rng = np.random.default_rng(15)
    bounds = [_clustered("rare", rng)[0].difference().bound(0.95, "lower") for _ in range(40)]
    assert float(np.median([bound for bound in bounds if bound is not None])) > -0.15


def test_one_discordant_pair_in_clusters_is_worth_that_of_as_many_copies() -> None:
    """t with one degree would say that up to 5 points may be lost."""
    broken = np.arange(600) == 0
    found = paired_proportion(~broken, np.ones(600, dtype=np.bool_), np.arange(600) // 2).difference()
    half = paired_proportion(~broken[::2], np.ones(300, dtype=np.bool_)).difference()
    lower, copies = found.bound(0.95, "lower"), half.bound(0.95, "lower")
    assert lower is not None and copies is not None
    # Half a pair of 300 is discordant, and not a whole one.
    assert copies < lower < -1 / 600 and copies > -0.02


def test_corrections_cost_little_width() -> None:
    estimate = rows(1700, 45, 75, 180).difference(1.0, 0.0)
    lower, upper = estimate.bound(0.95, "lower"), estimate.bound(0.95, "upper")
    assert lower is not None and upper is not None
    plain = 2 * norm.ppf(0.95) * np.sqrt(120 / 2000 - (30 / 2000) ** 2) / np.sqrt(2000)
    assert upper - lower <= 1.1 * plain
