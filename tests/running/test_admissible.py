"""F5 and item 6: evidence is there or it does not count, and a disturbance voids only what it could have helped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from evalspec.checks.data.leakage.spec import Leakage
from evalspec.checks.data.shift.spec import Shift
from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.model.slices.spec import Slices
from evalspec.checks.system.latency.spec import Latency
from evalspec.checks.system.throughput.spec import Throughput
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.reasons import (
    BySurroundings,
    Cause,
    NoEvidence,
    OnlyWorse,
    Reason,
    either_way,
    gravest,
    only_worse,
)
from evalspec.evidence.record import Policy
from evalspec.evidence.test import Test
from evalspec.language.parts import Check, CheckResult
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.stats.conjunction import AllParts, Gap, ShareOfParts
from evalspec.stats.drift.distances import ks_distance
from evalspec.stats.shares.macro import mover_mean
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.processes import over_processes
from evalspec.stats.value_only import ValueOnly
from evalspec.verdict import decide
from tests.verdict.test_decide import a_check, a_record, a_test

LEVELS = SignificanceLevels(confidence=0.95, alpha_fail=0.01)
GOOD, BAD, EMPTY = Proportion.of_counts(990, 1000), Proportion.of_counts(700, 1000), Proportion.of_counts(0, 0)
BUSY = "other processes used 90% of this machine's processor time meanwhile"
NONE = ValueOnly(None, 0, "class 'a' has no rows")


def written(check: Check, result: CheckResult) -> Test:
    (test,) = write_tests(check, result, LEVELS)
    return test


def of(kind: type[Check], sentence: str, estimates: Mapping[str, Any], **fields: Any) -> Test:
    check = kind.model_validate({"require": [sentence], **fields})
    return written(check, CheckResult(estimates=estimates))


def status(test: Test, inconclusive: str = "block") -> tuple[str, str]:
    """Of the requirement, and the verdict beside another one that holds."""
    policy = Policy.model_validate({"inconclusive": inconclusive})
    found = decide(a_record(a_check(test, a_test(metric="other")), policy=policy))
    return next(one.status for one in found.decisions if one.name == test.name), found.word


# -- F5 --------------------------------------------------------------------------------------------------------------

EMPTY_CASES: dict[str, tuple[type[Check], str, Mapping[str, Any], Mapping[str, Any]]] = {
    "class without rows": (
        Quality, "recall >= 90 %", {"recall": Parts({"a": NONE, "b": GOOD})}, {"dataset": "test"}),
    "no rows counted": (
        Quality, "recall >= 90 %", {"recall": Parts({"a": EMPTY, "b": GOOD})}, {"dataset": "test"}),
    "worst slice": (
        Slices, "worst_accuracy >= 80 %", {"worst_accuracy": AllParts({"dark": EMPTY, "light": GOOD}, "higher")},
        {"dataset": "test", "by": ["dark", "light"]}),
    "gap": (
        Slices, "accuracy_gap <= 90 pp", {"accuracy_gap": Gap({"dark": EMPTY, "light": GOOD})},
        {"dataset": "test", "by": ["dark", "light"]}),
    "average over classes": (
        Quality, "balanced_accuracy >= 80 %", {"balanced_accuracy": mover_mean([EMPTY, GOOD])}, {"dataset": "test"}),
    "null column": (
        Shift, "drifted_columns <= 60 %",
        {"drifted_columns": ShareOfParts({
            "x": ks_distance(np.zeros(500), np.empty(0)),
            "y": ks_distance(np.random.default_rng(0).normal(size=5000), np.random.default_rng(1).normal(size=5000)),
        }, 0.3)},
        {"reference": "test", "current": "traffic"}),
    "value that is not a number": (
        Quality, "accuracy >= 50 %", {"accuracy": ValueOnly(math.nan, 100, "a mean")}, {"dataset": "test"}),
    "nested": (
        Quality, "recall >= 50 %", {"recall": Parts({"a": AllParts({"i": EMPTY, "k": GOOD}, "higher"), "b": GOOD})},
        {"dataset": "test"}),
    "counted over nothing": (
        Leakage, "group_overlap == 0 rows", {"group_overlap": Fact(0.0, 0)},
        {"train": ["train"], "test": "test", "group": "site"}),
}  # fmt: skip


@pytest.mark.parametrize("case", EMPTY_CASES)
def test_f5_zero_rows_are_missing_evidence_whatever_the_policy(case: str) -> None:
    kind, sentence, estimates, fields = EMPTY_CASES[case]
    test = of(kind, sentence, estimates, **fields)
    assert test.missing is not None and "evidence" in test.missing
    assert status(test, "allow") == ("NOT_RUN", "UNDECIDED")


def test_f5_the_sentence_names_what_is_empty_and_what_to_do() -> None:
    test = of(Quality, "recall >= 90 %", {"recall": Parts({"a": NONE, "b": GOOD, "c": EMPTY})}, dataset="test")
    assert test.missing == (
        "there is no evidence of a (class 'a' has no rows); of c (n 0); add rows that have it, or do not require it"
    )


def test_f5_a_part_that_is_shown_to_violate_fails_beside_an_empty_one() -> None:
    test = of(Quality, "recall >= 90 %", {"recall": Parts({"a": NONE, "b": BAD})}, dataset="test")
    assert test.missing is None and status(test, "allow") == ("FAIL", "NOT READY")


def test_f5_a_part_that_only_looks_worse_does_not_hide_a_missing_or_void_one() -> None:
    """It was enough that a value lay on the wrong side: then `allow` let the missing part through."""
    near = Proportion.of_counts(178, 200)
    check = Quality.model_validate({"dataset": "test", "require": ["recall >= 90 %"]})
    lost = written(check, CheckResult({"recall": Parts({"b": near})}, missing={"recall(a)": "class a has no rows"}))
    assert status(lost, "allow") == ("NOT_RUN", "UNDECIDED")
    void = written(check, CheckResult({"recall": Parts({"a": Measured(GOOD, invalid="it was lost"), "b": near})}))
    assert status(void, "allow") == ("INVALID", "UNDECIDED")


def test_f5_too_few_rows_are_still_undecided() -> None:
    few = of(Quality, "recall >= 90 %", {"recall": Parts({"a": Proportion.of_counts(3, 3), "b": GOOD})}, dataset="test")
    assert status(few) == ("INCONCLUSIVE", "UNDECIDED") and status(few, "allow") == ("INCONCLUSIVE", "READY")


def test_f5_a_want_of_evidence_that_withholds_passes_under_no_policy() -> None:
    def leaks(rows: float, reason: str) -> Test:
        fields: Mapping[str, Any] = {"train": ["train"], "test": "test", "group": "site"}
        found = Measured(Fact(rows, 900), withhold=reason)
        return of(Leakage, "group_overlap == 0 rows", {"group_overlap": found}, **fields)

    assert status(leaks(0.0, NoEvidence("100 rows have no site")), "allow") == ("NOT_RUN", "UNDECIDED")
    assert status(leaks(2.0, NoEvidence("100 rows have no site"))) == ("FAIL", "NOT READY")
    assert status(leaks(0.0, "it grew slower"), "allow") == ("INCONCLUSIVE", "READY")


def test_f5_a_verdict_holds_nothing_undecided_that_has_no_rows() -> None:
    """Whatever wrote the record."""
    nothing = a_test(value=0.97, n=0, p_pass=0.2)
    assert status(nothing, "allow") == ("NOT_RUN", "UNDECIDED")


# -- item 6 ----------------------------------------------------------------------------------------------------------


def latency(estimate: Estimate, reason: str, withhold: str | None = None) -> Test:
    found = {"latency_p99": Measured(estimate, invalid=reason, withhold=withhold)}
    return of(Latency, "latency_p99 <= 20 ms", found, dataset="test")


def test_a_latency_that_held_in_spite_of_other_work_stands() -> None:
    fast = percentile([np.random.default_rng(0).lognormal(0, 0.1, 2000)], 0.99)
    test = latency(fast, OnlyWorse(BUSY))
    assert test.invalid is None and not test.by_surroundings and status(test) == ("PASS", "READY")
    assert any("in spite of" in note and BUSY in note for note in test.notes)
    # What other work may have helped is void, and so is what no quiet machine mends.
    assert latency(fast, BySurroundings(BUSY)).by_surroundings
    assert latency(fast, "a pair was lost").invalid == "a pair was lost"
    assert latency(fast, OnlyWorse(BUSY), withhold="no steady state was reached").invalid == BUSY


def test_a_test_and_its_decision_name_the_cause() -> None:
    slow = percentile([np.random.default_rng(0).lognormal(3.2, 0.1, 2000)], 0.99)
    test = latency(slow, OnlyWorse(BUSY, Cause.OTHER_WORK), withhold=Reason("it grows", Cause.NO_STEADY_STATE))
    assert (test.invalid, test.cause) == (BUSY, Cause.OTHER_WORK)
    test = latency(slow, "a pair was lost", withhold=Reason("it grows", Cause.NO_STEADY_STATE))
    assert (test.invalid, test.cause) == ("a pair was lost", "")
    fast = percentile([np.random.default_rng(0).lognormal(0, 0.1, 2000)], 0.99)
    found = {"latency_p99": Measured(fast, withhold=Reason("it grows", Cause.NO_STEADY_STATE))}
    test = of(Latency, "latency_p99 <= 20 ms", found, dataset="test")
    assert (test.withhold, test.cause) == ("it grows", Cause.NO_STEADY_STATE)
    none = {"latency_p99": Measured(fast, withhold=NoEvidence("no rows", Cause.NO_AUDIT))}
    test = of(Latency, "latency_p99 <= 20 ms", none, dataset="test")
    assert (test.missing, test.cause) == ("no rows", Cause.NO_AUDIT)


def test_what_other_work_may_have_spoilt_may_be_measured_again() -> None:
    rng = np.random.default_rng(0)
    for slow in (percentile([rng.lognormal(3.2, 0.1, 2000)], 0.99), percentile([rng.lognormal(0, 0.1, 100)], 0.99)):
        test = latency(slow, OnlyWorse(BUSY))
        assert test.invalid == BUSY and test.by_surroundings and status(test) == ("INVALID", "UNDECIDED")


def test_parts_that_held_in_spite_of_it_stand_together() -> None:
    parts = {
        "batch 1": over_processes([5000.0, 5100, 5050, 5020, 5080]),
        "batch 8": over_processes([900.0] * 4 + [901]),
    }
    disturbed = {name: Measured(one, invalid=OnlyWorse(BUSY)) for name, one in parts.items()}
    fields = {"dataset": "test", "batch_sizes": [1, 8]}
    for at_least, expected in ((500, "PASS"), (2000, "INVALID")):
        sentence = f"throughput >= {at_least} samples/s"
        assert status(of(Throughput, sentence, {"throughput": Parts(disturbed)}, **fields))[0] == expected
    lost = {**disturbed, "batch 8": Measured(parts["batch 8"], invalid="a process was lost")}
    test = of(Throughput, "throughput >= 500 samples/s", {"throughput": Parts(lost)}, **fields)
    assert status(test)[0] == "INVALID" and not test.by_surroundings


def test_of_two_reasons_the_one_that_voids_more_counts() -> None:
    only, both, other = OnlyWorse("a"), BySurroundings("b"), "c"
    assert gravest(None, only, both) is both and gravest(only, both, other) is other and gravest(None) is None
    assert type(only_worse(both)) is OnlyWorse and only_worse(other) is other and only_worse(None) is None
    assert type(either_way(only)) is BySurroundings and either_way(other) is other


def test_a_disturbed_latency_that_passes_is_a_claim_about_the_quiet_machine() -> None:
    """A limit exactly at the quiet p90: other work adds to some answers, and a PASS comes out in 1 of 20 at most."""
    rng, limit, passed = np.random.default_rng(11), math.exp(0.1 * 1.2815515655446004), 0
    for _ in range(200):
        spent = np.exp(0.1 * rng.standard_normal(400)) + np.where(
            rng.random(400) < 0.03, rng.exponential(0.5, 400), 0.0
        )
        p = percentile([spent], 0.9).p_value(limit, "upper")
        passed += p is not None and p <= 0.05
    assert passed <= 10
