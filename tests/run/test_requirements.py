"""What is written about a requirement: nothing that is not known may count as a value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evalspec.checks.data.contamination import Contamination
from evalspec.checks.model.quality import Quality
from evalspec.evidence.estimate import ComparisonParts, Estimate, Fact, Parts
from evalspec.evidence.test import Test
from evalspec.language.parts import Check, CheckResult
from evalspec.run.requirements import Levels, write_tests
from evalspec.stats.paired import paired_proportion
from evalspec.stats.proportion import Proportion

LEVELS = Levels(confidence=0.95, alpha_fail=0.01)
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
