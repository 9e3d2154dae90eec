"""What is written about a requirement: nothing that is not known may count as a value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.checks.data.shift.spec import Shift
from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.system.stages.spec import Stages
from evalspec.evidence.estimate import ComparisonParts, Estimate, Fact, Measured, Parts
from evalspec.evidence.test import Test
from evalspec.language.parts import Check, CheckResult
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.stats.conjunction import ShareOfParts
from evalspec.stats.means.auc import paired_roc_auc
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.timing.bottleneck import AmdahlCeiling
from evalspec.stats.timing.processes import over_processes

LEVELS = SignificanceLevels(confidence=0.95, alpha_fail=0.01)
GOOD = Proportion.of_counts(990, 1000)


def written(check: Check, result: CheckResult) -> Test:
    (test,) = write_tests(check, result, LEVELS)
    return test


def recall(**parts: Estimate | Fact) -> Test:
    check = Quality.model_validate({"dataset": "test", "require": ["recall >= 90 %"]})
    return written(check, CheckResult(estimates={"recall": Parts(parts)}))


def test_a_declared_fact_that_comes_with_an_interval_is_decided_by_the_interval() -> None:
    check = Contamination.model_validate({"train": ["train"], "test": "test", "require": ["near_duplicates <= 0.5 %"]})
    test = written(check, CheckResult(estimates={"near_duplicates": Proportion.of_counts(0, 10)}))
    assert not test.exact
    assert test.p_pass is not None
    assert test.p_pass > 0.05


def test_all_parts_are_decided_together() -> None:
    test = recall(a=GOOD, b=Proportion.of_counts(700, 1000))
    assert (test.must_hold, test.value) == (2, 0.7)
    assert test.p_fail is not None
    assert test.p_fail < 1e-6


def test_parts_of_which_some_are_counted_are_not_decided_by_those_alone() -> None:
    test = recall(a=Fact(0.99, 1000), b=Proportion.of_counts(700, 1000))
    assert test.missing is not None
    assert "(b)" in test.missing


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_part_that_is_no_number_is_missing(value: float) -> None:
    assert recall(a=Fact(0.99, 1000), b=Fact(value, 1000)).missing is not None


def test_a_part_that_could_not_be_compared_keeps_the_others_from_passing() -> None:
    check = Quality.model_validate({"dataset": "test", "require": ["recall >= baseline - 5 pp"]})
    right = np.arange(1000) % 50 != 0
    same = paired_proportion(right, right, rng=np.random.default_rng(0), alpha=0.01)
    result = CheckResult(
        estimates={"recall": Parts({"a": GOOD, "b": GOOD})},
        comparisons={("recall", "baseline"): ComparisonParts({"a": same})},
        missing={"recall(b) vs baseline": "the baseline never answers b"},
    )
    test = written(check, result)
    assert test.missing == "recall(b): the baseline never answers b"
    assert test.p_pass is None


def test_a_part_that_could_not_be_measured_keeps_the_others_from_passing() -> None:
    check = Quality.model_validate({"dataset": "test", "require": ["recall >= 90 %"]})
    missing = {"recall(b)": "class b has no rows", "recall(a) vs baseline": "of another comparison"}
    test = written(check, CheckResult(estimates={"recall": Parts({"a": GOOD})}, missing=missing))
    assert test.missing == "recall(b): class b has no rows" and test.p_pass is None
    everything = written(check, CheckResult(estimates={"recall": Parts({"a": GOOD, "b": GOOD})}, missing=missing))
    assert everything.missing is None and everything.p_pass is not None and everything.p_pass < 0.05


def test_a_violation_of_another_part_stays_beside_a_missing_one() -> None:
    check = Quality.model_validate({"dataset": "test", "require": ["recall >= 90 %"]})
    bad = Proportion.of_counts(700, 1000)
    result = CheckResult(estimates={"recall": Parts({"a": bad})}, missing={"recall(b)": "class b has no rows"})
    test = written(check, result)
    assert test.missing is None and test.withhold == "recall(b): class b has no rows"
    assert test.p_fail is not None and test.p_fail < 1e-6


@pytest.mark.parametrize("why", ["invalid", "withhold"])
def test_a_comparison_may_be_void_by_itself(why: str) -> None:
    check = Quality.model_validate({"dataset": "test", "require": ["accuracy >= baseline - 5 pp"]})
    right = np.arange(1000) % 50 != 0
    same = paired_proportion(right, right, rng=np.random.default_rng(0), alpha=0.01)
    pair = ComparisonParts({}, same, **{why: "a pair was lost"})
    result = CheckResult(estimates={"accuracy": GOOD}, comparisons={("accuracy", "baseline"): pair})
    test = written(check, result)
    assert getattr(test, why) == "a pair was lost" and test.p_pass is not None


def test_a_ceiling_without_end_is_a_violation() -> None:
    check = Stages.model_validate({"dataset": "test", "require": ["amdahl_ceiling <= 3x"]})
    ceilings = {"a": AmdahlCeiling(over_processes([1.0, 1.1, 1.05, 1.08, 1.02])), "b": AmdahlCeiling(
        over_processes([0.1, 0.11, 0.1, 0.12, 0.1]))}  # fmt: skip
    test = written(check, CheckResult(estimates={"amdahl_ceiling": Parts(ceilings)}))
    assert test.value is None and test.p_fail is not None and test.p_fail < 0.001 and test.p_pass is not None


@pytest.mark.parametrize(("sentence", "hold"), [("drifted_columns <= 10 %", 9), ("drifted_columns < 10 %", 10)])
def test_less_than_a_share_of_parts_is_one_part_fewer(sentence: str, hold: int) -> None:
    """One of ten columns has drifted: that is not less than 10 %."""
    check = Shift.model_validate({"reference": "test", "current": "traffic", "require": [sentence]})
    columns = {f"c{index}": Proportion.of_counts(10, 1000) for index in range(9)}
    columns["drifted"] = Proportion.of_counts(500, 1000)
    test = written(check, CheckResult(estimates={"drifted_columns": ShareOfParts(columns, 0.1)}))
    assert test.must_hold == hold
    assert test.p_pass is not None and test.p_fail is not None
    assert (test.p_pass <= 0.05, test.p_fail <= 0.01) == (hold == 9, hold == 10)
    assert test.threshold == 10.0


def test_a_ratio_without_an_interval_of_its_own_is_still_a_ratio() -> None:
    """An area has no ratio: 0.95x holds where candidate - 0.95 x baseline is above 0, and reads as a ratio."""
    rng = np.random.default_rng(6)
    positive = np.arange(2000) < 1000
    scores = rng.normal(size=2000) + 0.5 * positive
    noisy = scores + rng.normal(0.0, 0.2, 2000)
    pair = paired_roc_auc(noisy, scores, positive)
    assert pair.baseline_value is not None and pair.candidate_value is not None and pair.ratio() is None
    check = Quality.model_validate({"dataset": "test", "require": ["roc_auc >= 0.95x baseline"]})
    test = written(check, CheckResult(estimates={}, comparisons={("roc_auc", "baseline"): pair}))
    assert test.value == pytest.approx(pair.candidate_value / pair.baseline_value)
    difference = pair.difference(0.95, 0.0)
    assert test.p_pass == difference.p_value(0.0, "lower")
    limit = difference.bound(0.95, "lower")
    assert limit is not None
    assert test.lower == pytest.approx(0.95 + limit / pair.baseline_value)


def of_parts(sentence: str, **parts: Estimate | Fact | Measured) -> Test:
    check = Quality.model_validate({"dataset": "test", "require": [sentence]})
    return written(check, CheckResult(estimates={"recall": Parts(parts)}))


def test_a_part_may_be_void_by_itself() -> None:
    parts = {"a": Measured(GOOD), "b": Measured(GOOD, invalid="the clock stood still", notes=("A note.",))}
    assert of_parts("recall(a) >= 90 %", **parts).invalid is None
    void = of_parts("recall(b) >= 90 %", **parts)
    assert (void.invalid, void.notes) == ("the clock stood still", ("A note.",))
    assert of_parts("recall >= 90 %", **parts).invalid == "b: the clock stood still"
    everything = of_parts("recall >= 90 %", a=Measured(GOOD, invalid="it stood still"))
    assert everything.invalid == "a: it stood still"


def test_a_violation_of_another_part_stays_beside_a_void_one() -> None:
    bad = Proportion.of_counts(700, 1000)
    test = of_parts("recall >= 90 %", a=Measured(bad), b=Measured(GOOD, invalid="the clock stood still"), c=GOOD)
    assert test.invalid is None and test.p_fail is not None and test.p_fail < 1e-6
    assert test.withhold == "b: the clock stood still" and test.must_hold == 2


def test_what_withholds_a_part_withholds_all_of_them() -> None:
    parts = {"a": GOOD, "b": Measured(GOOD, withhold="it grew slower")}
    test = of_parts("recall >= 90 %", **parts)
    assert test.withhold == "b: it grew slower" and test.p_pass is not None and test.p_pass < 0.05
    assert of_parts("recall(a) >= 90 %", **parts).withhold is None
    assert of_parts("recall(b) >= 90 %", **parts).withhold == "it grew slower"
