from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import balanced_accuracy_score, f1_score

from evalspec.errors import InputError
from evalspec.stats.shares.macro import MeanOfProportions, MoverSum, f1, mean_comparison, mover_difference, mover_mean
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import Proportion, proportion
from tests.stats.simulated import ALLOWED, REPEATS, p_values, wrong_claims


def shares(*counts: tuple[int, int]) -> list[Proportion]:
    return [Proportion.of_counts(successes, n) for successes, n in counts]


def recalls(truth: np.ndarray, predicted: np.ndarray) -> list[Proportion]:
    return [proportion(predicted[truth == label] == label) for label in np.unique(truth)]


def test_value_is_balanced_accuracy() -> None:
    rng = np.random.default_rng(0)
    truth = rng.choice(4, size=500, p=[0.6, 0.2, 0.15, 0.05])
    predicted = np.where(rng.random(500) < 0.8, truth, rng.integers(0, 4, 500))
    assert mover_mean(recalls(truth, predicted)).value == pytest.approx(balanced_accuracy_score(truth, predicted))


def test_a_majority_classifier_is_right_by_half() -> None:
    truth = np.arange(1000) < 10
    estimate = mover_mean(recalls(truth, np.zeros(1000, dtype=bool)))
    assert estimate.value == 0.5
    upper = estimate.bound(0.95, "upper")
    assert upper is not None and upper < 0.7


def test_one_class_is_a_proportion() -> None:
    estimate, alone = mover_mean(shares((950, 1000))), Proportion.of_counts(950, 1000)
    for side in ("lower", "upper"):
        assert estimate.bound(0.95, side) == pytest.approx(alone.bound(0.95, side), abs=1e-4)


def test_a_perfect_model_passes_where_its_rows_suffice() -> None:
    lower = mover_mean(shares(*[(20, 20)] * 10)).bound(0.95, "lower")
    assert lower is not None
    # All rows together would say 0.05^(1/200) = 0.9851.
    assert 0.98 < lower < 0.9851


def test_classes_without_error_do_not_make_the_average_too_sure() -> None:
    upper = mover_mean(shares((18, 20), *[(20, 20)] * 9)).bound(0.998, "upper")
    assert upper is not None and upper > 0.9985


@pytest.mark.parametrize(
    "estimate",
    [mover_mean(shares((90, 100), (40, 50))), MoverSum(tuple(shares((9, 9), (4, 50))), (0.5, 0.5), cautious=True)],
)
def test_p_value_is_the_level_at_which_the_bound_reaches_the_threshold(estimate: MoverSum | MeanOfProportions) -> None:
    for side in ("lower", "upper"):
        bound = estimate.bound(0.95, side)
        assert bound is not None
        assert estimate.p_value(bound, side) == pytest.approx(0.05, abs=1e-6)


def test_a_class_without_rows_leaves_the_average_without_a_value() -> None:
    estimate = mover_mean(shares((9, 10), (0, 0)))
    assert (estimate.value, estimate.bound(0.95, "lower"), estimate.p_value(0.1, "lower")) == (None, None, None)
    with pytest.raises(InputError, match="no classes"):
        mover_mean([])
    with pytest.raises(InputError, match="no classes"):
        mean_comparison([])


def test_n_to_decide_has_the_power_it_promises() -> None:
    n = mover_mean(shares((92, 100), (88, 100))).n_to_decide(0.85, 0.05)
    assert n is not None
    rng = np.random.default_rng(1)
    drawn = rng.binomial(n // 2, [0.92, 0.88], size=(1000, 2))
    p = [mover_mean(shares((int(a), n // 2), (int(b), n // 2))).p_value(0.85, "lower") for a, b in drawn]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("sizes", "truths"),
    [((25, 25), (0.9, 0.9)), ((45, 5), (0.95, 0.5)), ((40, 10), (0.99, 0.95)), ((25, 25), (0.98, 0.5))],
)
def test_two_classes_are_missed_no_more_often_than_allowed(sizes: tuple[int, int], truths: tuple[float, float]) -> None:
    truth = float(np.mean(truths))
    chance = np.outer(*(binom.pmf(np.arange(n + 1), n, p) for n, p in zip(sizes, truths, strict=True)))
    for side in ("lower", "upper"):
        p = [
            [mover_mean(shares((a, sizes[0]), (b, sizes[1]))).p_value(truth, side) for b in range(sizes[1] + 1)]
            for a in range(sizes[0] + 1)
        ]
        values = np.array(p, dtype=float)
        assert chance[values <= 0.05].sum() <= 0.065
        assert chance[values <= 0.002].sum() <= 0.006


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "truths"),
    [
        ([10] * 5, [0.9] * 5),
        ([20] * 10, [0.95] * 10),
        ([10] * 40, [0.95] * 40),
        ([20] * 10, [1.0] * 9 + [0.5]),
        ([250] * 4, [0.98] * 4),
    ],
)
def test_many_classes_are_missed_no_more_often_than_allowed(sizes: list[int], truths: list[float]) -> None:
    rng, rows = np.random.default_rng(len(sizes)), np.array(sizes, dtype=float)
    # The classes are equally large, so that only how many have which count matters.
    drawn = np.sort(rng.binomial(sizes, truths, size=(4000, len(sizes))), axis=1).astype(float)
    kinds, index = np.unique(drawn, axis=0, return_inverse=True)
    for side in ("lower", "upper"):
        p = np.array([MeanOfProportions(x, rows).p_value(float(np.mean(truths)), side) for x in kinds])[index]
        assert np.mean(p <= 0.05) <= 0.065
        assert np.mean(p <= 0.002) <= 0.006


def test_f1_is_that_of_sklearn() -> None:
    rng = np.random.default_rng(2)
    truth, predicted = rng.random(300) < 0.3, rng.random(300) < 0.4
    assert f1(truth, predicted).value == pytest.approx(f1_score(truth, predicted))


def test_fraud_with_high_accuracy_and_little_recall() -> None:
    # Of 1,000 rows 10 are fraud; 1 is found, 9 are missed, 1 honest row is flagged: 99 % right.
    truth = np.arange(1000) < 10
    predicted = (np.arange(1000) == 0) | (np.arange(1000) == 500)
    assert proportion(truth == predicted).value == 0.99
    assert proportion(predicted[truth]).value == 0.1
    assert proportion(truth[predicted]).value == 0.5
    estimate = f1(truth, predicted)
    assert estimate.value == pytest.approx(1 / 6)
    assert estimate.n == 11
    upper = estimate.bound(0.95, "upper")
    assert upper is not None
    assert upper == pytest.approx(2 * 0.364 / 1.364, abs=1e-3)
    assert estimate.p_value(upper, "upper") == pytest.approx(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_f1_of_one_class_errs_no_more_often_than_allowed(n: int) -> None:
    rng, found = np.random.default_rng(n), []
    for _ in range(REPEATS):
        actual = rng.random(n) < 0.3
        found.append(p_values(f1(actual, rng.random(n) < np.where(actual, 0.9, 0.05)), 0.54 / (0.3 + 0.305)))
    assert (wrong_claims(found) <= ALLOWED).all()


def test_f1_of_nothing_has_no_value() -> None:
    nothing = np.zeros(10, dtype=bool)
    assert f1(nothing, nothing).value is None


class Pairs:
    """candidate - baseline on a class's rows, its bounds made once."""

    def __init__(self, lost: int, won: int, n: int) -> None:
        rows = np.arange(n)
        self.difference = paired_proportion(rows >= lost, (rows < lost) | (rows >= lost + won)).difference(1.0, 0.0)
        self.value, self.n, self.method = self.difference.value, n, self.difference.method
        self.bound = lru_cache(None)(self.difference.bound)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classes", "n", "lost", "won"),
    [(2, 25, 0.06, 0.04), (2, 100, 0.04, 0.02), (2, 500, 0.03, 0.01), (10, 20, 0.1, 0.02)],
)
def test_averages_of_paired_shares_err_no_more_often_than_allowed(
    classes: int, n: int, lost: float, won: float
) -> None:
    """Balanced accuracy against a baseline, which is MOVER over the classes' score intervals."""
    rng = np.random.default_rng([classes, n])
    made = lru_cache(None)(lambda down, up: Pairs(down, up, n))
    wrong = np.zeros(4)
    for drawn in rng.multinomial(n, [lost, won, 1 - lost - won], size=(4000, classes)):
        estimate = mover_mean([made(int(down), int(up)) for down, up, _ in drawn])
        wrong += _misses(estimate, won - lost)
    assert (wrong / 4000 <= [0.065, 0.065, 0.006, 0.006]).all()


def _misses(estimate: object, truth: float) -> list[bool]:
    assert isinstance(estimate, MoverSum)
    found = []
    for confidence in (0.95, 0.998):
        lower, upper = estimate.bound(confidence, "lower"), estimate.bound(confidence, "upper")
        found += [lower is not None and lower > truth, upper is not None and upper < truth]
    return found


def test_balanced_accuracy_against_a_baseline() -> None:
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1], [300, 60])
    baseline = np.where(rng.random(360) < 0.9, truth, 1 - truth)
    candidate = np.where(rng.random(360) < 0.02, 1 - baseline, baseline)
    by_class: Sequence = [paired_proportion(candidate[truth == k] == k, baseline[truth == k] == k) for k in (0, 1)]
    comparison = mean_comparison(by_class)
    difference = comparison.difference(1.0, 0.0)
    expected = balanced_accuracy_score(truth, candidate) - balanced_accuracy_score(truth, baseline)
    assert comparison.baseline_value == pytest.approx(balanced_accuracy_score(truth, baseline))
    assert difference.value == pytest.approx(expected)
    lower, upper = difference.bound(0.95, "lower"), difference.bound(0.95, "upper")
    assert lower is not None and upper is not None and lower < expected < upper
    assert comparison.ratio() is None


def test_fifty_and_sixty_errors_of_a_thousand_are_not_told_apart() -> None:
    # z = 0.981, p = 0.327 two-sided by the pooled test.
    difference = mover_difference(Proportion.of_counts(60, 1000), Proportion.of_counts(50, 1000))
    p = difference.p_value(0.0, "lower")
    assert p is not None
    assert 2 * p == pytest.approx(0.327, abs=0.06)
    lower = difference.bound(0.975, "lower")
    assert lower is not None and lower < 0 < 0.01


def test_a_slice_at_sixty_percent_is_far_from_the_rest() -> None:
    # 5 % of rows at 60 % leave the rest at 96.84 % where all together are at 95 %.
    dark, rest = Proportion.of_counts(30, 50), Proportion.of_counts(920, 950)
    assert rest.value == pytest.approx(0.9684, abs=5e-5)
    difference = mover_difference(rest, dark)
    lower = difference.bound(0.998, "lower")
    assert lower is not None and lower > 0.15
