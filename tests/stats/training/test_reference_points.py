"""Reference points of MLPerf: the examples of its rules, figures of its checker, interpolation and pruning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from evalspec.stats.training.reference_points import (
    PointGroup,
    convergence_test,
    dropped,
    group_at,
    olympic_mean,
    pruned,
)
from tests.trainings.mlperf import REFERENCE, TYCHE_8, TYCHE_72, TYCHE_512, Submission, reference_samples


def group(batch: int, *samples: float) -> PointGroup:
    return PointGroup(batch, np.array(samples, dtype=np.float64))


RULES = [
    group(128, 16, 14, 16, 17, 16, 16, 15, 16, 15, 16),
    group(256, 20, 21, 21, 20, 22, 22, 21, 21, 20, 20),
]
"""Appendix 'RCP Examples' of the rules of MLPerf Training."""
LLAMA = [group(batch, *reference_samples(batch)) for batch in REFERENCE]


@pytest.mark.parametrize(
    ("who", "batch", "runs", "least", "percent", "passed"),
    [
        ("S1", 128, [15, 15, 15, 16, 16], 15.2126, 3.53, True),
        ("S2", 256, [19, 19, 19, 20, 21], 19.9291, 4.12, False),
        ("S3", 192, [17, 18, 18, 18, 20], 17.6031, 3.68, True),
    ],
)
def test_examples_of_the_rules(
    who: str, batch: int, runs: list[float], least: float, percent: float, passed: bool
) -> None:
    test = convergence_test(runs, RULES, batch, "rules")
    assert test is not None
    assert (test.least, 100 * (test.speedup - 1)) == (pytest.approx(least, abs=5e-5), pytest.approx(percent, abs=5e-3))
    assert test.passed is passed
    assert test.between == ((128, 256) if who == "S3" else None)


@pytest.mark.parametrize(
    ("batch", "mean", "deviation", "least", "passed"),
    [(128, 15.75, 0.7810, 14.7807, True), (256, 20.75, 0.7483, 19.8213, False)],
)
def test_the_checker_takes_all_runs_for_the_deviation(
    batch: int, mean: float, deviation: float, least: float, passed: bool
) -> None:
    """`RCP_Checker` of mlperf-logging 4.1.68 over these lists, which searches `least` up to 0.0001."""
    own = [15, 15, 15, 16, 16] if batch == 128 else [19, 19, 19, 20, 21]
    test = convergence_test(own, RULES, batch, "code")
    assert test is not None
    assert (test.reference, test.deviation) == (mean, pytest.approx(deviation, abs=5e-5))
    assert test.least == pytest.approx(least, abs=2e-4)
    assert test.passed is passed


@pytest.mark.parametrize(
    ("own", "batch", "mean", "deviation", "least", "factor"),
    [
        (TYCHE_8, 16, 161_109.3333, 4_387.6936, 157_919.5455, 1.0),
        (TYCHE_72, 36, 184_832.0, 7_597.4356, 179_411.1448, 1.0177861),
        (TYCHE_512, 64, 226_645.3333, 10_623.9692, 218_921.8661, 1.0106545),
    ],
    ids=["8 GPUs", "72 GPUs, interpolated", "512 GPUs"],
)
def test_the_checker_says_the_same_of_submissions(
    own: Submission, batch: int, mean: float, deviation: float, least: float, factor: float
) -> None:
    """mlperf-logging 4.1.68 over logs that `Submission.write` and `write_rcps` write: PASSED, with these figures.

    python -m mlperf_logging.rcp_checker DIR --rcp_version 5.1.0 --custom_rcps rcps.json --verbose
    """
    test = convergence_test(own.samples, LLAMA, batch, "code")
    assert test is not None
    assert test.passed
    assert (test.reference, test.deviation) == (pytest.approx(mean, abs=1e-4), pytest.approx(deviation, abs=1e-4))
    assert (test.least, test.factor) == (pytest.approx(least, abs=1e-3), pytest.approx(factor, abs=1e-7))


def test_the_checker_fails_half_the_samples() -> None:
    """Mean 90,624 of tyche's samples by two: FAILED."""
    test = convergence_test(np.array(TYCHE_8.samples) / 2, LLAMA, 16, "code")
    assert test is not None
    assert (test.mean, test.passed) == (90_624.0, False)


def test_the_least_mean_is_where_scipys_t_test_turns() -> None:
    test = convergence_test([15, 15, 15, 16, 16], RULES, 128, "rules")
    assert test is not None
    found = stats.ttest_ind_from_stats(test.least, test.deviation, 8, test.reference, test.deviation, 3)
    assert found.pvalue / 2 == pytest.approx(0.05)


def test_outside_of_the_batch_sizes() -> None:
    """S4 and S6 of the rules have to run the reference; S5 meets the stricter criteria of the smallest batch."""
    assert convergence_test([15] * 5, RULES, 512, "rules") is None
    s5, s6 = (convergence_test([epochs] * 5, RULES, 64, "rules") for epochs in (16, 14))
    assert s5 is not None and s5.smallest and s5.passed and s5.known
    assert s6 is not None and s6.smallest and not s6.known
    for batch in (64, 512):
        assert group_at(RULES, batch) is None


def test_a_batch_size_that_was_pruned_is_held_against_the_smallest_that_is_left() -> None:
    """As `rcp_checker`, for which only pruned points are there."""
    groups = [group(64, *[18] * 9, 19), group(128, *[14] * 9, 15), group(256, *[20] * 9, 21)]
    code, rules = (convergence_test([17] * 5, groups, 64, form) for form in ("code", "rules"))  # type: ignore[arg-type]
    assert code is not None and (code.reference, code.passed) == (14.0, True)
    assert rules is not None and (rules.reference, rules.passed) == (18.0, False)


def test_a_submission_that_was_faster_by_chance_is_normalised() -> None:
    """tyche on 512 GPUs; on 8 and 72 the reference says 1."""
    test = convergence_test(TYCHE_512.samples, LLAMA, 64, "code")
    assert test is not None
    assert (test.reference, test.mean) == (pytest.approx(226_645.3, abs=0.05), 224_256.0)
    assert test.factor == pytest.approx(1.01065, abs=5e-6)
    slow = convergence_test(TYCHE_8.samples, LLAMA, 16, "code")
    between = convergence_test(TYCHE_72.samples, LLAMA, 36, "code")
    assert slow is not None and slow.passed and slow.factor == 1.0
    assert between is not None and between.between == (32, 64)


def test_runs_that_did_not_converge_may_be_dropped_and_no_second() -> None:
    assert olympic_mean([1, 2, 3, math.inf]) == 2.5
    test = convergence_test([16, 16, 16, math.inf, math.inf], RULES, 128, "rules")
    assert test is not None
    assert not test.passed
    assert [dropped(n) for n in (3, 10, 40)] == [1, 1, 4]
    assert math.isnan(olympic_mean([1, 2]))


def test_points_between_two_batch_sizes_are_interpolated_in_their_order() -> None:
    low, high = group(10, 3, 1, 2), group(30, 7, 3, 5)
    found = group_at([high, low], 15)
    assert found is not None
    assert (found.samples.tolist(), found.between) == ([1.5, 2.75, 4.0], (10, 30))
    other = group_at([low, group(30, 3, 4, 5, 6, 7, 7)], 20)
    assert other is not None and len(other.samples) == 3
    same = group_at([low, high], 30)
    assert same is not None and same.between is None


def test_an_interpolated_group_has_the_interpolated_mean_and_deviation() -> None:
    draw = np.random.default_rng(1)
    shape = draw.standard_normal(20)
    low, high = group(10, *(100 + 5 * shape)), group(20, *(150 + 9 * draw.permutation(shape)))
    found = group_at([low, high], 15)
    assert found is not None
    assert found.samples.mean() == pytest.approx((low.samples.mean() + high.samples.mean()) / 2)
    assert found.samples.std() == pytest.approx((low.samples.std() + high.samples.std()) / 2)


def test_points_that_converge_slower_than_their_neighbours_allow_are_pruned() -> None:
    """10, 20 and 20 epochs at 128, 256 and 512, as in the rules, and a smaller batch that needs more."""
    groups = [group(64, 11, 12, 13), group(128, 9, 10, 11), group(256, 19, 20, 21), group(512, 19, 20, 21)]
    assert [one.batch for one in pruned(groups)] == [128, 512]
    assert [one.batch for one in pruned(LLAMA)] == [16, 32, 64, 96, 128]


@pytest.mark.proof
@pytest.mark.parametrize(("form", "low", "high"), [("rules", 0.06, 0.12), ("code", 0.01, 0.06)])
def test_how_often_equal_submissions_are_rejected(form: str, low: float, high: float) -> None:
    """Lists of ten from the reference's own points: the rules' form rejects more than the 5 % that it names."""
    draw, rejected, trials = np.random.default_rng(2), 0, 0
    for one in LLAMA:
        for _ in range(800):
            own = draw.choice(one.samples, 10)
            test = convergence_test(own, [group(one.batch, *draw.choice(one.samples, 20))], one.batch, form)  # type: ignore[arg-type]
            assert test is not None
            rejected, trials = rejected + (not test.passed), trials + 1
    assert low <= rejected / trials <= high
