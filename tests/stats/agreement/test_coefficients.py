from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.agreement.coefficients import Level, Weights, guide, kappa, kappa_distance, krippendorff_alpha
from evalspec.stats.agreement.rare_disagreement import FewAgree, FewDisagree, mean_bound
from evalspec.stats.resampling import bootstrap
from tests.stats.simulated import RESAMPLED, SIDES, allowed, bounded, p_values, wrong_claims

NONE = -1


def read(*raters: str) -> np.ndarray:
    """Ratings as in print: a line for each rater, a dot where there is none; shape (units, raters)."""
    return np.array([[NONE if one == "." else int(one) for one in line.split()] for line in raters]).T


# Krippendorff (2011), section D: four observers, twelve units, values 1 to 5.
FOUR = read(
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
VALUES = np.arange(1.0, 6.0)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rated(n: int, raters: int, categories: int, careful: float, source: np.random.Generator) -> np.ndarray:
    """Raters who know the category with this chance and else draw one: kappa and alpha are its square."""
    true = source.integers(0, categories, n)
    guess = source.integers(0, categories, (n, raters))
    return np.where(source.random((n, raters)) < careful, true[:, None], guess)


@pytest.mark.parametrize(
    ("level", "said"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_alpha_is_that_of_the_worked_example(level: Level, said: float) -> None:
    codes = np.where(FOUR == NONE, -1, FOUR - 1)
    found = krippendorff_alpha(codes, VALUES, rng=rng(), alpha=0.002, level=level)
    assert found.estimate.value == pytest.approx(said, abs=0.0005)
    # Unit 12 has one value and no pair.
    assert found.units == 11
    assert found.estimate.bound(0.95, "lower") is None


def test_alpha_of_two_observers_and_two_or_five_values() -> None:
    # Krippendorff (2011), sections A and B: 0.095 and 0.692.
    two = read("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
    five = read("0 0 1 1 3 2 2 2 4 3 3 0", "1 0 1 1 1 2 2 2 4 3 3 3")
    for codes, count, said in ((two, 2, 0.095), (five, 5, 0.692)):
        found = krippendorff_alpha(codes, np.arange(float(count)), rng=rng(), alpha=0.002)
        assert found.estimate.value == pytest.approx(said, abs=0.0005)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "ratio"])
def test_alpha_is_the_sum_over_pairs_by_its_definition(level: Level) -> None:
    source = rng(3)
    codes = np.where(source.random((30, 4)) < 0.25, NONE, rated(30, 4, 5, 0.7, source))
    values = np.array([0.0, 1.0, 2.0, 5.0, 9.0])
    units = [unit[unit >= 0] for unit in codes if (unit >= 0).sum() >= 2]
    counts = np.bincount(np.concatenate(units), minlength=5)

    def apart(first: int, second: int) -> float:
        low, high = sorted((first, second))
        if level == "nominal":
            return float(low != high)
        if level == "ordinal":
            return float(counts[low : high + 1].sum() - (counts[low] + counts[high]) / 2) ** 2 if low != high else 0.0
        gap = values[high] - values[low]
        return float(gap**2 if level == "interval" else (gap / max(values[low] + values[high], 1e-9)) ** 2)

    total = counts.sum()
    inside = sum(apart(a, b) / (len(unit) - 1) for unit in units for i, a in enumerate(unit) for j, b in enumerate(unit)
                 if i != j) / total  # fmt: skip
    between = sum(counts[a] * counts[b] * apart(a, b) for a in range(5) for b in range(5)) / (total * (total - 1))
    found = krippendorff_alpha(codes, values, rng=rng(), alpha=0.002, level=level)
    assert found.estimate.value == pytest.approx(1 - inside / between, abs=1e-12)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_kappa_of_two_is_that_of_sklearn(weights: Weights) -> None:
    codes = rated(200, 2, 4, 0.7, rng(1))
    found = kappa(codes, 4, rng=rng(), alpha=0.002, weights=weights)
    theirs = cohen_kappa_score(codes[:, 0], codes[:, 1], weights=None if weights == "none" else weights)
    assert found.estimate.value == pytest.approx(theirs, abs=1e-12)


def test_kappa_of_more_is_that_of_statsmodels() -> None:
    codes = rated(150, 4, 3, 0.8, rng(2))
    table = np.stack([np.bincount(unit, minlength=3) for unit in codes])
    assert kappa(codes, 3, rng=rng(), alpha=0.002).estimate.value == pytest.approx(fleiss_kappa(table), abs=1e-12)


@pytest.mark.proof
def test_bounds_are_near_those_of_scipy_and_of_the_delta_method() -> None:
    codes = rated(300, 2, 3, 0.8, rng(4))
    found = kappa(codes, 3, rng=rng(), alpha=0.002).estimate
    table = np.bincount(codes[:, 0] * 3 + codes[:, 1], minlength=9).reshape(3, 3)
    delta = cohens_kappa(table)
    other = scipy_bootstrap(
        (codes[:, 0], codes[:, 1]), cohen_kappa_score, paired=True, vectorized=False, n_resamples=300,
        confidence_level=0.9, rng=rng(5),
    )  # fmt: skip
    for side, theirs, plain in (
        ("lower", other.confidence_interval.low, delta.kappa - 1.645 * delta.std_kappa),
        ("upper", other.confidence_interval.high, delta.kappa + 1.645 * delta.std_kappa),
    ):
        ours = found.bound(0.95, side)  # type: ignore[arg-type]  # both are sides
        assert ours == pytest.approx(theirs, abs=0.02)
        assert ours == pytest.approx(plain, abs=0.01)


def test_only_units_that_all_have_judged_make_kappa_and_pairs_make_alpha() -> None:
    codes = rated(200, 3, 3, 0.9, rng(6))
    codes[:50, 2] = NONE
    codes[:10, 1] = NONE
    whole = kappa(codes[50:], 3, rng=rng(), alpha=0.002).estimate.value
    assert kappa(codes, 3, rng=rng(), alpha=0.002).units == 150
    assert kappa(codes, 3, rng=rng(), alpha=0.002).estimate.value == whole
    assert krippendorff_alpha(codes, np.arange(3.0), rng=rng(), alpha=0.002).units == 190


@pytest.mark.parametrize("raters", [2, 3])
def test_raters_who_never_differ_have_a_bound_all_the_same(raters: int) -> None:
    codes = np.repeat(rng(7).integers(0, 3, 200)[:, None], raters, axis=1)
    for found in (kappa(codes, 3, rng=rng(), alpha=0.002),
                  krippendorff_alpha(codes, np.arange(3.0), rng=rng(), alpha=0.002)):  # fmt: skip
        lower = found.estimate.bound(0.95, "lower")
        assert found.estimate.value == 1.0
        assert lower is not None and 0.9 < lower < 1.0
        assert found.estimate.bound(0.95, "upper") == 1.0
        p = found.estimate.p_value(lower, "lower")
        assert p == pytest.approx(0.05, rel=1e-6)


def test_where_only_one_category_is_said_there_is_no_value() -> None:
    codes = np.zeros((100, 3), dtype=np.int64)
    for found in (kappa(codes, 2, rng=rng(), alpha=0.002),
                  krippendorff_alpha(codes, np.arange(2.0), rng=rng(), alpha=0.002),
                  krippendorff_alpha(codes, np.arange(2.0), rng=rng(), alpha=0.002, level="ordinal"),
                  krippendorff_alpha(codes, np.arange(2.0), rng=rng(), alpha=0.002, level="interval")):  # fmt: skip
        assert (found.estimate.value, found.estimate.bound(0.95, "lower")) == (None, None)


def test_nobody_judged_the_same_unit() -> None:
    codes = np.array([[0, NONE], [NONE, 1]] * 40)
    assert kappa(codes, 2, rng=rng(), alpha=0.002).units == 0
    assert krippendorff_alpha(codes, np.arange(2.0), rng=rng(), alpha=0.002).estimate.value is None


def test_clusters_widen_the_bounds() -> None:
    codes = np.repeat(rated(60, 2, 3, 0.8, rng(8)), 5, axis=0)
    plain = kappa(codes, 3, rng=rng(), alpha=0.05).estimate
    clustered = kappa(codes, 3, rng=rng(), alpha=0.05, clusters=np.repeat(np.arange(60), 5)).estimate
    assert plain.value == clustered.value
    bounds = [one.bound(0.95, "lower") for one in (plain, clustered)]
    assert bounds[0] is not None and bounds[1] is not None and bounds[1] < bounds[0]


def test_bad_input_is_refused_in_a_sentence() -> None:
    with pytest.raises(InputError, match="two raters at least"):
        kappa(np.zeros((5, 1), dtype=np.int64), 2, rng=rng(), alpha=0.05)
    with pytest.raises(InputError, match="more than 200"):
        krippendorff_alpha(np.zeros((5, 2), dtype=np.int64), np.arange(300.0), rng=rng(), alpha=0.05)
    with pytest.raises(InputError, match="a rating of -1"):
        krippendorff_alpha(np.zeros((5, 2), dtype=np.int64), np.arange(-1.0, 3), rng=rng(), alpha=0.05, level="ratio")


def test_many_numbers_are_no_matter_for_the_interval_level() -> None:
    source = rng(9)
    true = source.normal(size=400)
    numbers = true[:, None] + 0.5 * source.normal(size=(400, 2))
    values, codes = np.unique(numbers, return_inverse=True)
    found = krippendorff_alpha(codes.reshape(numbers.shape), values, rng=rng(), alpha=0.05, level="interval")
    # The share of the variance that raters have in common is 1 / 1.25.
    assert found.estimate.value == pytest.approx(0.8, abs=0.05)
    assert found.estimate.bound(0.95, "lower") is not None


def test_the_guide_has_a_word_for_each_size() -> None:
    sizes = (-0.2, 0.0, 0.2, 0.21, 0.41, 0.61, 0.81, 1.0)
    words = ["poor", "slight", "slight", "fair", "moderate", "substantial", "almost perfect", "almost perfect"]
    assert [guide(value) for value in sizes] == words


def test_distances_lie_between_nothing_and_one() -> None:
    assert kappa_distance(3, "linear").tolist() == [[0.0, 0.5, 1.0], [0.5, 0.0, 0.5], [1.0, 0.5, 0.0]]
    assert kappa_distance(1, "quadratic").tolist() == [[0.0]]


@pytest.mark.parametrize("side", SIDES)
def test_the_mean_of_numbers_between_0_and_1_is_bounded_for_any_n(side: Side) -> None:
    # A coin is the worst that such numbers can be.
    n, alpha = 40, 0.05
    for truth in (0.02, 0.3, 0.9):
        heads = rng(10).binomial(n, truth, 4000)
        table = np.array([mean_bound(k / n, n, alpha, side) for k in range(n + 1)])
        missed = table[heads] > truth if side == "lower" else table[heads] < truth
        assert missed.mean() <= alpha
    assert mean_bound(0.5, 0, alpha, side) == (0.0 if side == "lower" else 1.0)


def test_few_units_give_no_bound() -> None:
    found = FewDisagree(1.0, 19, "kappa", 0.0, True, 0.5)
    assert (found.bound(0.95, "lower"), found.p_value(0.5, "lower")) == (None, None)


@pytest.mark.parametrize("n", [50, 200])
def test_bounds_of_raters_who_hardly_differ_miss_no_truth(n: int) -> None:
    """They hold for any sample, so that they err less often than they might."""
    source, missed = rng(n), []
    for _ in range(300):
        first, second = rated(n, 2, 3, 0.99, source).T
        observed = float(np.mean(first != second))
        margins = [np.bincount(one, minlength=3) / n for one in (first, second)]
        between = (n * (1 - margins[0] @ margins[1]) - observed) / (n - 1)
        found = FewDisagree(0.0, n, "kappa", observed, True, between)
        lower, upper = found.bound(0.95, "lower"), found.bound(0.95, "upper")
        assert lower is not None and upper is not None
        missed.append((lower > 0.99**2, upper < 0.99**2))
    assert (np.mean(missed, axis=0) <= 0.05).all()


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "kappa"])
def test_units_that_never_agree_on_a_rare_category_dont_show_that_raters_disagree(level: str) -> None:
    """Half of what is said is known (the truth is 0.25), and 1 sample in 20 has no rare category that both say."""
    codes = np.array([(0, 0)] * 40 + [(0, 1), (1, 0)] * 3 + [(0, 2), (2, 0)] * 2)

    def found(codes: np.ndarray) -> Estimate:
        if level == "kappa":
            return kappa(codes, 3, rng=rng(), alpha=0.002).estimate
        of: Level = level  # type: ignore[assignment]  # a level
        return krippendorff_alpha(codes, np.arange(3.0), rng=rng(), alpha=0.002, level=of).estimate

    few = found(codes)
    assert few.value is not None and few.value < 0
    p = few.p_value(0.25, "upper")
    assert p is None or p > 0.05
    lower = few.bound(0.95, "lower")
    assert lower is not None and lower < few.value
    many = np.concatenate([codes, np.repeat([[1, 1], [2, 2]], 10, axis=0)])
    assert isinstance(few, FewAgree | FewDisagree) and not isinstance(found(many), FewAgree)


def test_agreement_on_rare_categories_errs_no_more_often_than_allowed() -> None:
    source, p = rng(1), []
    for _ in range(100):
        true, guess = (source.choice(3, (60, count), p=[0.85, 0.1, 0.05]) for count in (1, 2))
        codes = np.where(source.random((60, 2)) < 0.5, true, guess)
        found = krippendorff_alpha(codes, np.arange(3.0), rng=source, alpha=0.002).estimate
        p.append(found.p_value(0.25, "upper"))
    assert sum(one is not None and one <= 0.002 for one in p) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "gaps"), [(50, False), (200, False), (1000, False), (200, True)])
def test_bounds_err_no_more_often_than_allowed(n: int, gaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of resampled bounds; 400 samples tell them from twice as much, and bounds far off."""
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 999)
    source, found = rng(n), []
    for _ in range(400):
        if gaps:
            codes = rated(n, 3, 3, 0.85, source)
            codes = np.where(source.random(codes.shape) < 0.15, NONE, codes)
            judged = krippendorff_alpha(codes, np.arange(3.0), rng=source, alpha=0.05)
        else:
            judged = kappa(rated(n, 2, 3, 0.85, source), 3, rng=source, alpha=0.05)
        found.append(p_values(judged.estimate, 0.85**2))
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= RESAMPLED).all(), wrong_claims(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "n", "raters", "categories", "careful"),
    [
        ("ordinal", 50, 3, 5, 0.6), ("ratio", 50, 3, 5, 0.6), ("ordinal", 50, 2, 5, 0.6), ("ratio", 50, 3, 5, 0.85),
        ("kappa", 50, 5, 3, 0.6), ("kappa", 200, 5, 3, 0.95),
    ],
)  # fmt: skip
def test_bounds_of_other_levels_and_of_five_raters(
    what: str, n: int, raters: int, categories: int, careful: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the distance: who does not know draws from the same shares. 3,000 samples err in 5.4 % and 0.3 %."""
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 999)
    source, found, repeats = rng(round(100 * careful) + raters), [], 200
    for _ in range(repeats):
        codes = rated(n, raters, categories, careful, source)
        if what == "kappa":
            judged = kappa(codes, categories, rng=source, alpha=0.05)
        else:
            level: Level = what  # type: ignore[assignment]  # a level
            judged = krippendorff_alpha(codes, np.arange(1.0, categories + 1), rng=source, alpha=0.05, level=level)
        found.append(p_values(judged.estimate, careful**2))
    assert bounded(found) >= (0.3 if careful == 0.85 else 0.7)
    assert (wrong_claims(found) <= allowed(repeats, RESAMPLED)).all(), wrong_claims(found)
