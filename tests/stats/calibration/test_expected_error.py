"""Calibration: worked numbers, agreement with other implementations, error rates and power."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.calibration.expected_error import (
    CalibrationError,
    apply_temperature,
    ece_band,
    expected_calibration_error,
    fit_temperature,
    halves,
    make_bins,
    maximum_calibration_error,
    rms_calibration_error,
    temperature_estimate,
)
from evalspec.stats.calibration.folded_normals import folded_mean, folded_mean_at, folded_sum_cdf
from tests.stats.simulated import (
    ALLOWED,
    REPEATS,
    SIDES,
    Pair,
    allowed,
    bounded,
    clusters_of,
    enough,
    enough_of_each,
    mostly,
    p_values,
    until_settled,
    wrong_claims,
)


def answers(
    n: int, rng: np.random.Generator, gap: float = 0.0, where: str = "evenly"
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Beta(8, 2) confidences, and answers that are right less often by ``gap`` on average.

    ``where``: evenly; in the lowest third (by three times as much); or over-confident: in proportion to 1 - confidence.
    """
    confidences = rng.beta(8, 2, n)
    if where == "lowest third":
        # The lower tercile of Beta(8, 2).
        right = np.where(confidences < 0.7635, confidences - 3 * gap, confidences)
    elif where == "over-confident":
        right = confidences - gap * (1 - confidences) / 0.2
    else:
        right = confidences - gap
    return confidences, rng.random(n) < right


def decided(estimate: CalibrationError, threshold: float) -> tuple[float, float]:
    p_pass, p_fail = estimate.p_value(threshold, "upper"), estimate.p_value(threshold, "lower")
    assert p_pass is not None and p_fail is not None
    return p_pass, p_fail


@pytest.mark.parametrize(
    ("says", "right", "gap"),
    # REQUIREMENTS N91: confident 95 % but wrong 30 %; says 70 % but right 95 %; says 90 % right 75 %.
    [(0.95, 0.70, -0.25), (0.70, 0.95, 0.25), (0.90, 0.75, -0.15)],
)
def test_single_bin_gaps(says: float, right: float, gap: float) -> None:
    correct = np.arange(1000) < 1000 * right
    estimate = expected_calibration_error(np.full(1000, says), correct)
    assert len(estimate.bins.count) == 1
    assert estimate.bins.gap[0] == pytest.approx(gap)
    assert estimate.plug_in == pytest.approx(abs(gap))
    # Debiasing moves a gap of many standard errors by next to nothing.
    assert estimate.value == pytest.approx(abs(gap), abs=1e-6)


@pytest.mark.parametrize(
    ("value", "word"),
    # REQUIREMENTS N84.
    [(0.031, "well"), (0.089, "moderately"), (0.11, "poorly"), (0.05, "moderately"), (0.10, "moderately")],
)
def test_bands(value: float, word: str) -> None:
    assert ece_band(value) == f"{word} calibrated"


def peers() -> tuple[Any, Any]:
    """torch and torchmetrics' functions."""
    return pytest.importorskip("torch"), pytest.importorskip("torchmetrics.functional.classification")


def of_curve(confidences: NDArray[np.float64], correct: NDArray[np.bool_], strategy: str) -> tuple[float, float]:
    """Mean gap, and the largest, of scikit-learn's curve over 10 bins; of quantiles each holds a tenth of the rows."""
    curve = pytest.importorskip("sklearn.calibration").calibration_curve
    right, said = curve(correct, confidences, n_bins=10, strategy=strategy)
    gaps = np.abs(right - said)
    if strategy == "quantile":
        return float(gaps.mean()), float(gaps.max())
    count = np.histogram(confidences, bins=10, range=(0.0, 1.0))[0]
    return float(np.average(gaps, weights=count[count > 0])), float(gaps.max())


def plain(confidences: NDArray[np.float64], correct: NDArray[np.bool_], bins: int = 10) -> tuple[float, float, float]:
    """L1, L2 and largest gap over bins of equal width, none merged."""
    made = make_bins(confidences, correct, bins=bins, scheme="equal_width", expected_wrong=0)
    gaps = np.abs(made.gap)
    return float(np.sum(made.weight * gaps)), float(np.sqrt(np.sum(made.weight * gaps**2))), float(gaps.max())


def test_plug_in_agrees_with_torchmetrics_and_scikit_learn() -> None:
    torch, functional = peers()
    confidences, correct = answers(3000, np.random.default_rng(0), 0.05)
    ours = plain(confidences, correct)
    c, y = torch.tensor(confidences), torch.tensor(correct.astype(int))
    for norm, value in zip(("l1", "l2", "max"), ours, strict=True):
        theirs = float(functional.binary_calibration_error(c, y, n_bins=10, norm=norm))
        assert value == pytest.approx(theirs, abs=1e-6)
    assert (ours[0], ours[2]) == pytest.approx(of_curve(confidences, correct, "uniform"), abs=1e-9)


def test_plug_in_of_many_classes_agrees_with_torchmetrics_and_scikit_learn() -> None:
    torch, functional = peers()
    rng = np.random.default_rng(12)
    said = rng.dirichlet(np.full(4, 0.6), 5000)
    truth = rng.integers(0, 4, 5000)
    confidences, correct = said.max(axis=1), said.argmax(axis=1) == truth
    ours = plain(confidences, correct)
    for norm, value in zip(("l1", "l2", "max"), ours, strict=True):
        found = functional.multiclass_calibration_error(
            torch.tensor(said), torch.tensor(truth), 4, n_bins=10, norm=norm
        )
        # torchmetrics computes in single precision.
        assert value == pytest.approx(float(found), abs=1e-5)
    assert (ours[0], ours[2]) == pytest.approx(of_curve(confidences, correct, "uniform"), abs=1e-9)
    mass = make_bins(confidences, correct, expected_wrong=0)
    gaps = np.abs(mass.gap)
    theirs = of_curve(confidences, correct, "quantile")
    assert (float(np.sum(mass.weight * gaps)), float(gaps.max())) == pytest.approx(theirs, abs=1e-9)


def test_where_torchmetrics_is_wrong_the_number_is_derived() -> None:
    """A confidence of exactly 1 gets a bin of its own there; what is no confidence, and no rows, get a number."""
    torch, functional = peers()
    # All in the last bin: mean confidence 0.975, 180 of 200 right.
    confidences = np.repeat([0.95, 1.0], 100)
    correct = np.concatenate([np.ones(100, dtype=bool), np.arange(100) < 80])
    assert plain(confidences, correct)[0] == pytest.approx(0.075)
    assert of_curve(confidences, correct, "uniform")[0] == pytest.approx(0.075)
    found = functional.binary_calibration_error(torch.tensor(confidences), torch.tensor(correct.astype(int)), n_bins=10)
    assert float(found) == pytest.approx(0.5 * 0.05 + 0.5 * 0.2)
    nothing = functional.multiclass_calibration_error(torch.empty(0, 3), torch.empty(0, dtype=torch.long), 3)
    assert np.isnan(float(nothing))
    assert expected_calibration_error(np.empty(0), np.empty(0, dtype=bool)).value is None


def test_equal_mass_bins_hold_as_many_rows_and_keep_ties_together() -> None:
    confidences, correct = answers(1000, np.random.default_rng(1))
    assert make_bins(confidences, correct, expected_wrong=0).count.tolist() == [100] * 10
    tied = np.repeat([0.6, 0.7, 0.99], [500, 300, 200])
    bins = make_bins(tied, np.ones(1000, dtype=bool), expected_wrong=0)
    assert bins.count.tolist() == [500, 300, 200]
    assert bins.confidence == pytest.approx([0.6, 0.7, 0.99])


def test_bins_are_merged_until_each_expects_five_wrong_answers() -> None:
    confidences, correct = answers(400, np.random.default_rng(2))
    bins = make_bins(confidences, correct)
    expected = bins.count * (1 - bins.confidence)
    assert len(bins.count) < 10 and (expected >= 5).all()
    assert bins.count.sum() == 400
    # Merging looks at confidences alone, so the answers can't move it.
    assert make_bins(confidences, ~correct).count.tolist() == bins.count.tolist()
    sure = make_bins(np.full(300, 0.999), np.ones(300, dtype=bool))
    assert sure.count.tolist() == [300]


@pytest.mark.parametrize("confidences", [[1.2, 0.5], [float("nan"), 0.5], [-0.1, 0.5]])
def test_what_is_no_confidence_is_refused(confidences: list[float]) -> None:
    with pytest.raises(InputError, match="confidences lie in 0"):
        expected_calibration_error(np.array(confidences), np.array([True, False]))


def test_lengths_must_agree() -> None:
    with pytest.raises(InputError, match="2 confidences for 3 answers"):
        expected_calibration_error(np.array([0.5, 0.5]), np.array([True, False, True]))


def test_no_rows_say_nothing() -> None:
    estimate = expected_calibration_error(np.empty(0), np.empty(0, dtype=bool))
    assert estimate.value is None and estimate.bound(0.95, "upper") is None and estimate.p_value(0.1, "upper") is None
    assert "no bound" in estimate.method
    worst = maximum_calibration_error(np.empty(0), np.empty(0, dtype=bool))
    assert worst.value is None and worst.bound(0.95, "upper") is None


def test_a_confidence_of_one_is_counted() -> None:
    # Elsewhere 1.0 falls into a bin of its own beyond the last one.
    confidences = np.repeat([0.5, 1.0], 100)
    correct = np.concatenate([np.arange(100) < 50, np.arange(100) < 80])
    assert expected_calibration_error(confidences, correct, scheme="equal_width").plug_in == pytest.approx(0.1)


def test_an_overconfident_model_fails_although_it_expects_no_mistake() -> None:
    correct = np.arange(840) % 5 > 0
    estimate = expected_calibration_error(np.full(840, 0.999), correct)
    assert estimate.expected_wrong < 1
    _, p_fail = decided(estimate, 0.05)
    assert p_fail < 1e-9


@settings(max_examples=30, deadline=None)
@example(seed=320, n=127, gap=0.0, confidence=0.875)
@given(seed=st.integers(0, 10_000), n=st.integers(60, 1500), gap=st.floats(0, 0.2), confidence=st.floats(0.8, 0.999))
def test_value_lies_between_its_bounds_and_bounds_invert_p_values(
    seed: int, n: int, gap: float, confidence: float
) -> None:
    estimate = expected_calibration_error(*answers(n, np.random.default_rng(seed), gap))
    lower, upper = estimate.bound(confidence, "lower"), estimate.bound(confidence, "upper")
    assert isinstance(estimate, Estimate)
    assert lower is not None and upper is not None and estimate.value is not None and estimate.plug_in is not None
    assert lower <= estimate.value + 1e-9 and estimate.value <= upper + 1e-9
    assert estimate.value <= estimate.plug_in + 1e-9
    if estimate.value < upper < 1:
        assert estimate.p_value(upper, "upper") == pytest.approx(1 - confidence, abs=1e-6)
    if 0 < lower < estimate.value:
        assert estimate.p_value(lower, "lower") == pytest.approx(1 - confidence, abs=1e-6)


def test_folded_sum_is_what_simulation_says() -> None:
    rng = np.random.default_rng(7)
    scales = np.array([0.3, 0.5, 0.2, 0.4])
    for shift in (0.0, 0.7, 3.0):
        totals = np.abs(shift + rng.standard_normal((200_000, 4))) @ scales
        for level in (0.01, 0.05, 0.5, 0.95):
            at = float(np.quantile(totals, level))
            assert folded_sum_cdf(at, scales, shift) == pytest.approx(level, abs=0.004)
        assert float(folded_mean(shift)) * scales.sum() == pytest.approx(totals.mean(), rel=0.005)
        assert folded_mean_at(shift) == pytest.approx(float(folded_mean(shift)), rel=1e-12)
    assert folded_sum_cdf(-1.0, scales, 0.0) == 0.0


def test_clusters_widen_the_bounds() -> None:
    confidences, correct = answers(500, np.random.default_rng(3), 0.05)
    copies = np.repeat(confidences, 4), np.repeat(correct, 4)
    clusters = np.repeat(np.arange(500), 4)
    alone = expected_calibration_error(confidences, correct)
    together = expected_calibration_error(*copies, clusters=clusters)
    naive = expected_calibration_error(*copies)
    uppers = [estimate.bound(0.95, "upper") for estimate in (alone, together)]
    assert uppers[1] == pytest.approx(uppers[0], abs=0.01)
    # Finer bins would take copies for gaps, so that what they pretend to is seen on the other side.
    lowers = [estimate.bound(0.95, "lower") for estimate in (together, naive)]
    assert lowers[0] is not None and lowers[1] is not None and lowers[1] > lowers[0] + 0.005
    few = expected_calibration_error(*copies, clusters=np.repeat(np.arange(10), 200))
    assert few.bound(0.95, "upper") is None and few.reason is not None and "20 are needed" in few.reason


def test_a_bin_that_could_not_be_merged_is_heard_by_its_binomial_tails() -> None:
    # Two bins, of which one expects a tenth of a wrong answer: no wrong answer in 100 rows shows no 1 %.
    confidences = np.repeat([0.6, 0.999], 100)
    bins = make_bins(confidences, np.arange(200) >= 40, expected_wrong=0)
    sparse = CalibrationError(bins, 40.1)
    p_pass = sparse.p_value(0.01, "upper")
    assert p_pass is not None and p_pass > 0.3


def test_maximum_finds_one_bad_bin() -> None:
    rng = np.random.default_rng(8)
    confidences, correct = answers(4000, rng)
    bad = (confidences > 0.80) & (confidences < 0.84)
    correct[bad] = rng.random(bad.sum()) < 0.5
    worst = maximum_calibration_error(confidences, correct)
    ece = expected_calibration_error(confidences, correct)
    assert worst.value is not None and ece.value is not None and worst.value > 0.15 > ece.value
    p_fail = worst.p_value(0.1, "lower")
    assert p_fail is not None and p_fail < 0.001
    calibrated = maximum_calibration_error(*answers(4000, np.random.default_rng(9)))
    p_pass = calibrated.p_value(0.15, "upper")
    assert p_pass is not None and p_pass < 0.001


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_temperature_is_recovered(temperature: float) -> None:
    rng = np.random.default_rng(11)
    logits = rng.normal(0, 1.5, (20_000, 4))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (rng.random(20_000)[:, None] > true.cumsum(axis=1)).sum(axis=1)
    said = apply_temperature(true, 1 / temperature)
    found = fit_temperature(said, truth)
    assert found == pytest.approx(temperature, rel=0.05)
    assert apply_temperature(said, temperature) == pytest.approx(true, abs=1e-9)
    assert temperature_estimate(temperature, 10).bound(0.95, "upper") is None


def test_temperature_is_not_made_up() -> None:
    sure = np.tile([0.9, 0.1], (50, 1))
    assert fit_temperature(sure, np.zeros(50, dtype=np.int64)) is None
    assert fit_temperature(np.empty((0, 2)), np.empty(0, dtype=np.int64)) is None
    assert apply_temperature(np.array([[1.0, 0.0]]), 2.0).sum() == pytest.approx(1.0)


def test_halves_keep_clusters_together() -> None:
    rng = np.random.default_rng(0)
    fit, judge = halves(101, rng)
    assert fit.sum() == 50 and (fit ^ judge).all()
    clusters = np.repeat(np.arange(20), 5)
    fit, judge = halves(100, rng, clusters)
    assert fit.sum() == 50 and not set(clusters[fit]) & set(clusters[judge])


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "where"),
    [
        (50, "evenly"),
        (200, "evenly"),
        (1000, "evenly"),
        (500, "over-confident"),
        (500, "lowest third"),
    ],
)
def test_error_rates_at_the_threshold(n: int, where: str) -> None:
    """A true 0.05; evenly over-confident is nearly the least favourable spread for PASS, and for FAIL."""
    rng = np.random.default_rng(20 + n)
    repeats = REPEATS if where == "evenly" else REPEATS // 2
    samples = (p_values(expected_calibration_error(*answers(n, rng, 0.05, where)), 0.05) for _ in range(repeats))
    found = enough(samples, repeats=repeats)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()


def clustered_answers(groups: int, size: int, gap: float, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """As `answers`; half of a cluster's rows are right or wrong together."""
    said, right = rng.beta(8, 2, groups), rng.random(groups)
    luck = np.where(rng.random((groups, size)) < 0.5, right[:, None], rng.random((groups, size)))
    return np.repeat(said, size), (luck < said[:, None] - gap).ravel()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(25, 2), (50, 4), (200, 5)])
def test_error_rates_with_clusters(groups: int, size: int) -> None:
    rng, clusters = np.random.default_rng([21, groups]), np.repeat(np.arange(groups), size)

    def samples() -> Iterator[list[Pair]]:
        while True:
            sample = clustered_answers(groups, size, 0.05, rng)
            of_bins = maximum_calibration_error(*sample, bins=2, clusters=clusters)
            yield [p_values(one, 0.05) for one in (expected_calibration_error(*sample, clusters=clusters), of_bins)]

    found = enough_of_each(samples(), ALLOWED + 0.003, 1500)
    assert bounded(found[0]) == bounded(found[1]) == 1.0
    assert (wrong_claims(found[0]) <= ALLOWED + 0.003).all()
    assert (wrong_claims(found[1]) <= ALLOWED + 0.003).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "average", "spread", "alike", "right", "said"),
    [
        (50, 10, 0.0, 0.7, 0.95, 0.90),
        (30, 12, 0.7, 0.3, 0.85, 0.80),
        (30, 12, 1.0, 0.5, 0.95, 0.90),
        (20, 15, 1.0, 0.7, 0.85, 0.80),
        (50, 10, 1.0, 0.7, 0.90, 0.95),
        (100, 10, 1.0, 0.7, 0.90, 0.95),
    ],
)
def test_error_rates_with_clusters_of_unequal_size(
    groups: int, average: float, spread: float, alike: float, right: float, said: float
) -> None:
    """In one bin, where the largest gap and the root mean square are the same."""
    rng = np.random.default_rng([22, groups])
    repeats = 600

    def samples() -> Iterator[Pair]:
        while True:
            correct, clusters = clusters_of(groups, average, spread, alike, right, rng)
            yield p_values(expected_calibration_error(np.full(len(correct), said), correct, clusters=clusters), 0.05)

    found = enough(samples(), allowed(repeats), repeats)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= allowed(repeats)).all()


def tied_answers(
    groups: int, average: float, spread: float, alike: float, gap: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """Confidences from 0.86 to 0.94, answers right less often by ``gap``, tied by a normal that a cluster shares."""
    _, clusters = clusters_of(groups, average, spread, 0.5, 0.5, rng)
    said = rng.uniform(0.86, 0.94, len(clusters))
    luck = np.sqrt(alike) * rng.standard_normal(groups)[clusters]
    luck += np.sqrt(1.0 - alike) * rng.standard_normal(len(clusters))
    return said, luck < stats.norm.ppf(said - gap), clusters


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.05, -0.05])
def test_error_rates_of_several_bins_with_clusters_of_unequal_size(gap: float) -> None:
    rng, repeats = np.random.default_rng([23, gap > 0]), 200

    def samples() -> Iterator[list[Pair]]:
        while True:
            said, correct, clusters = tied_answers(100, 10, 1.0, 0.6, gap, rng)
            kinds = (
                expected_calibration_error(said, correct, clusters=clusters),
                rms_calibration_error(said, correct, clusters=clusters),
                maximum_calibration_error(said, correct, bins=3, clusters=clusters),
            )
            yield [p_values(kind, 0.05) for kind in kinds]

    for one in enough_of_each(samples(), allowed(repeats), repeats):
        assert bounded(one) == 1.0
        assert (wrong_claims(one) <= allowed(repeats)).all()


def test_with_one_bin_all_three_errors_are_one() -> None:
    correct, clusters = clusters_of(60, 10, 1.0, 0.3, 0.85, np.random.default_rng(24))
    said = np.full(len(correct), 0.9)
    kinds = [
        make(said, correct, clusters=clusters)
        for make in (expected_calibration_error, rms_calibration_error, maximum_calibration_error)
    ]
    for side in SIDES:
        assert len({round(kind.bound(0.95, side) or 0.0, 6) for kind in kinds}) == 1
    assert all("degrees" in kind.method for kind in kinds)


def test_few_degrees_widen_the_bounds_and_too_few_leave_those_of_copies() -> None:
    """A cluster of 100 rows, a fifth of them wrong, beside 60 of 5 of which six have one wrong row."""
    sizes = np.concatenate([[100], np.full(60, 5)])
    clusters = np.repeat(np.arange(61), sizes)
    correct = np.ones(400, dtype=bool)
    correct[:20] = False
    correct[100:130:5] = False
    few = expected_calibration_error(np.full(400, 0.93), correct, clusters=clusters)
    assert few.design.degrees < 5 and "the worst design effect up to 100" in few.method
    # Binomial with a hundredth of the rows.
    copies = stats.beta.ppf(0.05, 374 / 100, 400 / 100 - 374 / 100 + 1)
    assert few.bound(0.95, "upper") == pytest.approx(0.93 - copies, abs=1e-6)
    equal = expected_calibration_error(
        np.full(400, 0.93), np.arange(400) % 32 > 1, clusters=np.repeat(np.arange(50), 8)
    )
    assert 5 < equal.design.degrees < 50 and "degrees" in equal.method
    narrow = replace(equal, design=replace(equal.design, degrees=math.inf))
    for side, sign in zip(SIDES, (-1, 1), strict=True):
        wide, known = equal.bound(0.95, side), narrow.bound(0.95, side)
        assert wide is not None and known is not None and sign * wide >= sign * known


def test_bounds_over_50_clusters_of_10_stay_of_use() -> None:
    """Answers of a cluster correlate by 0.3: a calibrated model is shown to be off by under 10 points."""
    rng, uppers = np.random.default_rng(25), []
    for _ in range(20):
        correct, clusters = clusters_of(50, 10, 0.0, 0.3, 0.9, rng)
        found = expected_calibration_error(np.full(500, 0.9), correct, clusters=clusters)
        uppers.append(found.bound(0.95, "upper"))
    assert np.median(np.array(uppers, dtype=float)) < 0.09


def test_where_no_answer_is_wrong_confidences_that_vary_are_not_taken_for_independent_rows() -> None:
    """All right in 20 clusters of 15: what was said varies inside of them, which says nothing of the answers."""
    rng = np.random.default_rng(26)
    said, clusters = rng.uniform(0.96, 1.0, 300), np.repeat(np.arange(20), 15)
    found = expected_calibration_error(said, np.ones(300, dtype=bool), clusters=clusters)
    assert found.design.effect == pytest.approx(15)
    p = found.p_value(0.05, "upper")
    # As for 20 rows.
    assert p is not None and p > 0.1


@pytest.mark.proof
@pytest.mark.slow
def test_power() -> None:
    rng = np.random.default_rng(31)

    def shown(n: int, gap: float, place: int) -> Iterator[bool]:
        while True:
            yield decided(expected_calibration_error(*answers(n, rng, gap)), 0.05)[place] <= 0.05

    assert 1.0 - mostly((not one for one in shown(500, 0.0, 1)), 0.991, 1000) < 0.01
    assert mostly(shown(500, 0.12, 1), 0.90, 1000) >= 0.90
    assert mostly(shown(2000, 0.0, 0), 0.95, 1000) >= 0.95


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    ("gap", "alpha"), [(0.0, 0.05), (0.02, 0.05), (0.03, 0.05), (0.02, 0.0025), (0.09, 0.05), (0.12, 0.0025)]
)
def test_n_to_decide_decides_in_four_of_five_samples(gap: float, alpha: float) -> None:
    """Asked of rows that show this error evenly, then up to 600 samples of so many rows."""
    confidences = stats.beta.ppf((np.arange(20_000) + 0.5) / 20_000, 8, 2)
    even = np.diff(np.floor(np.cumsum(confidences - gap) + 0.5), prepend=0) > 0
    n = expected_calibration_error(confidences, even).n_to_decide(0.05, alpha)
    assert n is not None
    rng, side = np.random.default_rng(33), SIDES[gap < 0.05]

    def decides() -> Iterator[bool]:
        while True:
            p = expected_calibration_error(*answers(n, rng, gap)).p_value(0.05, side)
            assert p is not None
            yield p <= alpha

    # A chance of 0.80 gives 0.75 to 0.85 in 998 of 1,000 such simulations.
    found = until_settled(decides(), lambda one: [one, not one], [0.85, 0.25], 600)
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("n", "bins"), [(50, 2), (200, 4), (1000, 10)])
def test_error_rates_of_the_maximum(n: int, bins: int) -> None:
    """One bin is off by the threshold, the others not at all."""
    rng, size = np.random.default_rng(32), n // bins
    confidences = np.repeat(np.linspace(0.6, 0.96 if bins > 2 else 0.75, bins), size)
    right = np.where(np.arange(n) < size, confidences - 0.1, confidences)
    samples = (
        p_values(maximum_calibration_error(confidences, rng.random(n) < right, bins=bins), 0.1) for _ in range(REPEATS)
    )
    found = enough(samples)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()
