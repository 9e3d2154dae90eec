"""The rules of the verdict, one by one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from evalspec.evidence.record import (
    AskedOtherwise,
    CheckRecord,
    CheckStatus,
    DatasetRecord,
    Dimension,
    ModelRecord,
    Policy,
    Record,
    Waiver,
)
from evalspec.evidence.test import PartTest, Test
from evalspec.evidence.verdict import Verdict
from evalspec.verdict import decide

PASSING = {"value": 0.97, "lower": 0.96, "upper": 0.98, "p_pass": 0.001, "p_fail": 0.999, "n": 1000}
FAILING = {"value": 0.90, "lower": 0.88, "upper": 0.92, "p_pass": 1.0, "p_fail": 1e-9, "n": 1000}
UNDECIDED = {"value": 0.955, "lower": 0.94, "upper": 0.97, "p_pass": 0.3, "p_fail": 0.7, "n": 1000}


def a_test(check: str = "quality", metric: str = "accuracy", **changes: Any) -> Test:
    fields: dict[str, Any] = {
        "name": f"{check}/{metric}",
        "check": check,
        "sentence": f"{metric} >= 95 %",
        "metric": metric,
        "op": ">=",
        "threshold": 0.95,
        "unit": "fraction",
    }
    return Test.model_validate(fields | PASSING | changes)


def a_check(
    *tests: Test,
    id: str = "quality",
    dimension: Dimension = "model",
    status: CheckStatus = "measured",
    reason: str | None = None,
    datasets: tuple[str, ...] = ("test",),
) -> CheckRecord:
    return CheckRecord(
        id=id, check=id, dimension=dimension, status=status, reason=reason, datasets=datasets, tests=tests
    )


def a_record(*checks: CheckRecord, **changes: Any) -> Record:
    tests = [test for check in checks for test in check.tests if not test.exact]
    fields: dict[str, Any] = {
        "evalspec": "0",
        "spec": "example",
        "spec_digest": "0" * 64,
        "spec_file": "evalspec.yaml",
        "started": "2026-11-20T10:00:00Z",
        "finished": "2026-11-20T10:01:00Z",
        "seed": 7,
        "policy": Policy(),
        "subject": "ab" * 32,
        "family": tuple(test.name for test in tests if test.severity == "require"),
        "family_warn": tuple(test.name for test in tests if test.severity == "warn"),
        "checks": checks,
    }
    return Record.model_validate(fields | changes)


def status_of(verdict: Verdict, name: str) -> str:
    return next(one.status for one in verdict.decisions if one.name == name)


def test_ready_when_every_blocking_requirement_passes() -> None:
    verdict = decide(a_record(a_check(a_test())))
    assert (verdict.word, verdict.exit_code, verdict.headline) == ("READY", 0, "READY")


def test_a_violation_is_not_ready() -> None:
    verdict = decide(a_record(a_check(a_test(**FAILING))))
    assert (verdict.word, verdict.exit_code) == ("NOT READY", 1)
    assert verdict.reason.startswith("quality/accuracy: ")


def test_neither_shown_is_undecided_and_prints_the_n_that_would_decide() -> None:
    verdict = decide(a_record(a_check(a_test(**UNDECIDED, n_to_decide=1900))))
    assert (verdict.word, verdict.exit_code) == ("UNDECIDED", 3)
    assert "if the true value is 0.955, n = 1,900 would pass it in 4 of 5 cases" in verdict.decisions[0].sentence


def test_what_would_decide_is_told_with_its_unit_and_its_time() -> None:
    """38 processes of 734 queries are not 27,900 queries; 22 s for 5 of them are 167 s for 38."""
    queried = a_test(**UNDECIDED | {"n": 3671}, n_to_decide=38, to_decide="processes", to_decide_now=5)
    verdict = decide(a_record(a_check(queried).model_copy(update={"duration_s": 22.0})))
    assert (
        "if the true value is 0.955, 38 processes (5 now; about 3 min) would pass it" in verdict.decisions[0].sentence
    )
    more = a_test(**UNDECIDED | {"n": 3671}, n_to_decide=9000, to_decide="queries", to_decide_now=3671)
    said = decide(a_record(a_check(more).model_copy(update={"duration_s": 22.0}))).decisions[0].sentence
    assert "9,000 queries (3,671 now) would pass it" in said
    close = a_test(**UNDECIDED | {"n": 3671}, n_to_decide=101, to_decide="processes", to_decide_now=5)
    assert "close to the threshold" in decide(a_record(a_check(close))).decisions[0].sentence


def test_more_than_twenty_times_the_n_is_too_close() -> None:
    verdict = decide(a_record(a_check(a_test(**UNDECIDED, n_to_decide=20_001))))
    assert "close to the threshold: only n = 20,001 would decide it" in verdict.decisions[0].sentence


def test_pass_needs_the_bound_to_clear_the_threshold() -> None:
    at_level = decide(a_record(a_check(a_test(p_pass=0.05))))
    above = decide(a_record(a_check(a_test(p_pass=0.0501))))
    assert (at_level.word, above.word) == ("READY", "UNDECIDED")


def test_holm_counts_the_whole_family_also_without_evidence() -> None:
    weak = a_test(**(FAILING | {"p_fail": 0.03}))
    alone = decide(a_record(a_check(weak)))
    missing = a_test("calibration", "ece", op="<=", threshold=0.05, value=None, p_pass=None, p_fail=None)
    crashed = a_check(missing, id="calibration", status="error", reason="it crashed")
    together = decide(a_record(a_check(weak), crashed))
    assert status_of(alone, "quality/accuracy") == "FAIL"
    assert status_of(together, "quality/accuracy") == "INCONCLUSIVE"


def test_equal_claims_count_once_by_the_weaker_of_their_p_values() -> None:
    weak = a_check(a_test(**(FAILING | {"p_fail": 0.03})))
    again = a_check(a_test("int8", "accuracy_drop", **(FAILING | {"p_fail": 0.04})), id="int8")
    once = {"family": ("quality/accuracy",), "same": {"int8/accuracy_drop": "quality/accuracy"}}
    together = decide(a_record(weak, again, **once))
    assert [status_of(together, name) for name in ("quality/accuracy", "int8/accuracy_drop")] == ["FAIL", "FAIL"]
    apart = decide(a_record(weak, again))
    assert [status_of(apart, name) for name in ("quality/accuracy", "int8/accuracy_drop")] == ["INCONCLUSIVE"] * 2
    weaker = a_check(a_test("int8", "accuracy_drop", **(FAILING | {"p_fail": 0.06})), id="int8")
    assert status_of(decide(a_record(weak, weaker, **once)), "quality/accuracy") == "INCONCLUSIVE"
    crashed = a_check(a_test("int8", "accuracy_drop", **FAILING), id="int8", status="error", reason="it crashed")
    assert status_of(decide(a_record(weak, crashed, **once)), "quality/accuracy") == "FAIL"


def test_violated_before_holm_only_looks_violated_and_blocks_under_every_policy() -> None:
    tests = [a_test(f"q{index}") for index in range(4)]
    weak = a_test(**(FAILING | {"p_fail": 0.03}))
    checks = [a_check(test, id=test.check) for test in tests] + [a_check(weak)]
    verdict = decide(a_record(*checks, policy=Policy(inconclusive="allow")))
    decision = next(one for one in verdict.decisions if one.name == "quality/accuracy")
    assert decision.looks_violated
    assert "only the correction for the number of requirements prevents a FAIL" in decision.sentence
    assert (verdict.word, verdict.exit_code) == ("UNDECIDED", 3)


def test_policy_allow_lets_inconclusive_through_and_says_so() -> None:
    record = a_record(a_check(a_test(), a_test(metric="recall", **UNDECIDED)), policy=Policy(inconclusive="allow"))
    verdict = decide(record)
    assert verdict.word == "READY"
    assert verdict.headline == "READY (1 inconclusive)"
    assert any("inconclusive: quality/recall" in line for line in verdict.weakened)


def test_policy_allow_alone_is_not_ready_without_any_pass() -> None:
    verdict = decide(a_record(a_check(a_test(**UNDECIDED)), policy=Policy(inconclusive="allow")))
    assert verdict.word == "UNDECIDED"


@pytest.mark.parametrize(
    ("status", "word", "code"), [("not_run", "UNDECIDED", 3), ("invalid", "UNDECIDED", 3), ("error", "ERROR", 4)]
)
@pytest.mark.parametrize("policy", ["block", "allow"])
def test_missing_evidence_never_passes(status: CheckStatus, word: str, code: int, policy: Any) -> None:
    """Even when the numbers in the record would have passed."""
    record = a_record(a_check(a_test(), status=status, reason="no"), policy=Policy(inconclusive=policy))
    verdict = decide(record)
    assert (verdict.word, verdict.exit_code) == (word, code)


def test_a_crash_of_a_check_without_requirements_is_seen() -> None:
    verdict = decide(a_record(a_check(a_test()), a_check(id="shift", status="error", reason="boom")))
    assert (verdict.word, verdict.exit_code) == ("ERROR", 4)


def test_a_failure_stands_whatever_else_crashed() -> None:
    crashed = a_check(a_test("shift", "x"), id="shift", status="error", reason="boom")
    verdict = decide(a_record(a_check(a_test(**FAILING)), crashed))
    assert (verdict.word, verdict.exit_code) == ("NOT READY", 1)


@pytest.mark.parametrize(
    ("op", "value", "status"),
    [("<=", 0.0, "PASS"), ("<=", 1.0, "FAIL"), ("==", 0.0, "PASS"), ("==", 1.0, "FAIL"), ("<", 0.0, "FAIL")],
)
def test_facts_are_compared_as_they_are(op: Any, value: float, status: str) -> None:
    fact = a_test("c", "exact_duplicates", exact=True, op=op, threshold=0.0, unit="rows", value=value, p_pass=None)
    verdict = decide(a_record(a_check(fact, id="c", dimension="data")))
    assert status_of(verdict, "c/exact_duplicates") == status


def test_withheld_behaviour_keeps_from_pass_never_from_fail() -> None:
    held = decide(a_record(a_check(a_test(withhold="no steady state"))))
    failed = decide(a_record(a_check(a_test(**FAILING, withhold="no steady state"))))
    assert (held.word, failed.word) == ("UNDECIDED", "NOT READY")


def test_one_invalid_measurement_leaves_the_others_of_its_check() -> None:
    tests = (a_test(), a_test(metric="recall", invalid="generator lag"))
    verdict = decide(a_record(a_check(*tests)))
    assert status_of(verdict, "quality/accuracy") == "PASS"
    assert status_of(verdict, "quality/recall") == "INVALID"


def leaked(severity: str, value: float = 3.0, datasets: tuple[str, ...] = ("train", "test")) -> CheckRecord:
    fact = a_test(
        "contamination",
        "exact_duplicates",
        exact=True,
        op="==",
        threshold=0.0,
        unit="rows",
        value=value,
        severity=severity,
        p_pass=None,
        p_fail=None,
    )
    return a_check(fact, id="contamination", dimension="data", datasets=datasets)


def test_data_first() -> None:
    verdict = decide(a_record(a_check(a_test()), leaked("require")))
    assert status_of(verdict, "quality/accuracy") == "INVALID"
    assert "not judged; contamination/exact_duplicates does not hold on the same data" in verdict.decisions[1].sentence
    assert verdict.decisions[1].voided_by == ("contamination/exact_duplicates",)
    assert verdict.reason.endswith(" (and 1 requirement more)")


def test_a_fact_of_the_files_stands_whatever_the_data_are() -> None:
    leak = a_test("contamination", "exact_duplicates", exact=True, op="==", threshold=0.0, unit="rows", value=3.0)
    size = a_test("compression", "size_ratio", exact=True, op=">=", threshold=2.0, unit="x", value=3.9)
    data = a_check(leak, id="contamination", dimension="data")
    verdict = decide(a_record(data, a_check(size, id="compression")))
    assert status_of(verdict, "compression/size_ratio") == "PASS"
    assert "does not hold on the same data" in verdict.decisions[1].notes[0]


def test_data_in_doubt_leaves_a_failure_a_failure_with_the_note() -> None:
    verdict = decide(a_record(a_check(a_test(**FAILING)), leaked("require")))
    decision = next(one for one in verdict.decisions if one.name == "quality/accuracy")
    assert decision.status == "FAIL"
    assert decision.notes == ("contamination/exact_duplicates does not hold on the same data",)


def test_data_warnings_only_add_the_note() -> None:
    verdict = decide(a_record(a_check(a_test()), leaked("warn")))
    decision = next(one for one in verdict.decisions if one.name == "quality/accuracy")
    assert (decision.status, len(decision.notes), verdict.word) == ("PASS", 1, "READY")


def test_data_of_another_dataset_do_not_matter() -> None:
    verdict = decide(a_record(a_check(a_test()), leaked("require", datasets=("train", "other"))))
    assert status_of(verdict, "quality/accuracy") == "PASS"


def test_the_same_rows_under_another_name_are_the_same_data() -> None:
    def named(digest: str) -> Verdict:
        digests = {"train": "t", "test": "d", "held_out": digest}
        datasets = tuple(DatasetRecord(name=name, kind="csv", digest=one, rows=9) for name, one in digests.items())
        quality = a_check(a_test(), datasets=("held_out",))
        return decide(a_record(quality, leaked("require"), datasets=datasets))

    assert status_of(named("d"), "quality/accuracy") == "INVALID"
    assert status_of(named("other"), "quality/accuracy") == "PASS"


def test_a_waived_data_requirement_leaves_a_note_only() -> None:
    record = a_record(a_check(a_test()), leaked("require"), waivers=(waiver("contamination/exact_duplicates"),))
    verdict = decide(record)
    decision = next(one for one in verdict.decisions if one.name == "quality/accuracy")
    assert (decision.status, len(decision.notes), verdict.headline) == ("PASS", 1, "READY (1 waived)")


def test_undecided_data_leave_a_note_only_where_the_policy_allows_them() -> None:
    shift = a_test("shift", "c2st_auc", op="<=", threshold=0.6, unit="score", **UNDECIDED)
    checks = (a_check(a_test()), a_check(shift, id="shift", dimension="data"))
    blocked, allowed = decide(a_record(*checks)), decide(a_record(*checks, policy=Policy(inconclusive="allow")))
    assert (status_of(blocked, "quality/accuracy"), blocked.word) == ("INVALID", "UNDECIDED")
    assert (status_of(allowed, "quality/accuracy"), allowed.headline) == ("PASS", "READY (1 inconclusive)")


def test_data_left_out_by_only_leave_a_note_only() -> None:
    left_out = leaked("require").model_copy(update={"status": "not_run", "reason": "left out by --only quality"})
    verdict = decide(a_record(a_check(a_test()), left_out, only=("quality",)))
    decision = next(one for one in verdict.decisions if one.name == "quality/accuracy")
    assert (decision.status, len(decision.notes), verdict.word) == ("PASS", 1, "UNDECIDED")
    broken = leaked("require").model_copy(update={"status": "error", "reason": "boom"})
    assert status_of(decide(a_record(a_check(a_test()), broken, only=("quality",))), "quality/accuracy") == "INVALID"


def test_data_first_does_not_reach_the_system_dimension() -> None:
    timing = a_test("latency", "latency_p99", op="<=", threshold=5.0, unit="ms", value=1.0)
    verdict = decide(a_record(a_check(timing, id="latency", dimension="system"), leaked("require")))
    assert status_of(verdict, "latency/latency_p99") == "PASS"


def waiver(of: str, expires: str = "2026-12-31") -> Waiver:
    return Waiver(of=of, why="Staging has one replica.", owner="sre@example.com", expires=expires)


@pytest.mark.parametrize("change", [FAILING, UNDECIDED, {"invalid": "lag"}, {"missing": "no labels"}])
def test_a_waiver_sets_aside_everything_but_a_crash(change: dict[str, Any]) -> None:
    record = a_record(a_check(a_test(), a_test(metric="recall", **change)), waivers=(waiver("quality/recall"),))
    verdict = decide(record)
    assert (verdict.word, verdict.headline, verdict.exit_code) == ("READY", "READY (1 waived)", 0)
    assert "sre@example.com" in verdict.weakened[0]


def test_a_waiver_does_not_cover_a_crash() -> None:
    crashed = a_check(a_test(), status="error", reason="boom")
    assert decide(a_record(crashed, waivers=(waiver("quality/accuracy"),))).word == "ERROR"


def test_an_expired_waiver_is_none() -> None:
    record = a_record(a_check(a_test(**FAILING)), waivers=(waiver("quality/accuracy", "2026-11-19"),))
    verdict = decide(record)
    assert verdict.word == "NOT READY"
    assert "ended on 2026-11-19" in verdict.weakened[0]
    last_day = record.model_copy(update={"waivers": (waiver("quality/accuracy", "2026-11-20"),)})
    assert decide(last_day).counts["waived"] == 1


def test_waived_requirements_stay_in_the_family() -> None:
    weak = a_test(**(FAILING | {"p_fail": 0.03}))
    checks = a_check(weak, a_test(metric="recall", **UNDECIDED))
    verdict = decide(a_record(checks, waivers=(waiver("quality/recall"),)))
    assert status_of(verdict, "quality/accuracy") == "INCONCLUSIVE"


def test_a_subject_that_is_not_shown_needs_a_waiver() -> None:
    record = a_record(a_check(a_test()), subject=None)
    assert decide(record).word == "UNDECIDED"
    waived = decide(record.model_copy(update={"waivers": (waiver("subject"),)}))
    assert waived.headline == "READY (1 waived)"


@pytest.mark.parametrize(("name", "digest", "weak"), [("candidate", "ab", 1), ("mine", "ab", 1), ("baseline", "cd", 0)])
def test_a_stated_digest_of_the_subject_weakens(name: str, digest: str, weak: int) -> None:
    model = ModelRecord(name=name, kind="predictions", digest=digest * 32, digest_stated=True)
    verdict = decide(a_record(a_check(a_test()), models=(model,)))
    assert sum("was declared, not verified" in line for line in verdict.weakened) == weak


@pytest.mark.parametrize("change", [{"draft": True}, {"only": ("quality",)}, {"interrupted": True}])
def test_parts_of_a_run_are_never_ready(change: dict[str, Any]) -> None:
    verdict = decide(a_record(a_check(a_test()), **change))
    assert (verdict.word, verdict.exit_code) == ("UNDECIDED", 3)


def test_what_a_check_says_weakens_the_verdict_stands_with_it() -> None:
    sentence = "accuracy 0.9 is not better than the 0.9 of answering always the most frequent class"
    verdict = decide(a_record(a_check(a_test()).model_copy(update={"weakens": (sentence,)})))
    assert verdict.weakened == (f"quality: {sentence}",)
    assert verdict.word == "READY"


def test_run_until_green_is_visible() -> None:
    verdict = decide(a_record(a_check(a_test()), earlier_runs=3))
    (line,) = verdict.weakened
    assert line == "decided 3 times before on this test set: the risk of a false READY is at most 20 %"


def test_runs_of_the_subject_are_told_apart() -> None:
    verdict = decide(a_record(a_check(a_test()), earlier_runs=3, earlier_of_subject=2))
    assert verdict.weakened[0].startswith(
        "decided 3 times before on this test set, 2 of them on this subject: the risk of a false READY"
    )


def test_what_is_asked_less_than_before_weakens_the_verdict_and_blocks_nothing() -> None:
    loosened = AskedOtherwise(
        run="20261119", of="quality/accuracy", before="`accuracy >= 97 %`", after="`accuracy >= 95 %`",
        direction="loosened",
    )  # fmt: skip
    tightened = loosened.model_copy(update={"direction": "tightened"})
    verdict = decide(a_record(a_check(a_test()), asked_otherwise=(loosened, tightened)))
    assert verdict.weakened == (
        "loosened: quality/accuracy is `accuracy >= 95 %`, was `accuracy >= 97 %` in run 20261119",
    )
    assert verdict.word == "READY"


def test_warnings_never_block() -> None:
    verdict = decide(a_record(a_check(a_test(), a_test(metric="recall", severity="warn", **FAILING))))
    assert verdict.word == "READY"
    assert verdict.counts == {"PASS": 1, "warn FAIL": 1}


def test_the_worst_parts_are_named() -> None:
    parts = (
        PartTest(part="dark", value=0.80, n=100, p_pass=1.0, p_fail=0.001),
        PartTest(part="bright", value=0.99, n=900, p_pass=0.0, p_fail=1.0),
    )
    failing = a_test(**(FAILING | {"value": 0.80}), parts=parts, must_hold=2)
    sentence = decide(a_record(a_check(failing))).decisions[0].sentence
    assert sentence == (
        "accuracy 0.80 (dark, worst of 2; n 1,000), 95 % upper bound 0.92 (over 2 parts, each at 97.5 %), needs at "
        "least 0.95: violated; worst: dark 0.8 (n 100)"
    )


def test_a_fact_that_is_too_much_names_the_first_of_what_was_counted() -> None:
    small = a_test(
        metric="slices_too_small", op="<=", threshold=1.0, unit="count", value=3.0, exact=True, n=600, lower=None,
        upper=None, p_pass=None, p_fail=None, first="night (12 of 100 rows) and 2 more",
    )  # fmt: skip
    (said,) = decide(a_record(a_check(small))).decisions
    assert said.sentence == (
        "slices_too_small 3 (n 600), counted, needs at most 1: violated; night (12 of 100 rows) and 2 more"
    )
    (said,) = decide(a_record(a_check(small.model_copy(update={"threshold": 3.0})))).decisions
    assert said.sentence.endswith("needs at most 3: holds")


def test_rows_that_were_held_against_themselves_weaken_the_verdict() -> None:
    rows = [
        DatasetRecord(name=name, kind="parquet", digest=digest, rows=9)
        for name, digest in (("test", "a1"), ("again", "a1"), ("field", "b2"))
    ]
    check = a_check(a_test()).model_copy(update={"datasets": ("test", "again", "field")})
    assert decide(a_record(check, datasets=tuple(rows))).weakened == (
        "quality compares test and again, which have the same rows",
    )
    apart = check.model_copy(update={"datasets": ("test", "field")})
    assert decide(a_record(apart, datasets=tuple(rows))).weakened == ()


def test_a_model_that_is_its_own_baseline_weakens_the_verdict() -> None:
    alike = [ModelRecord(name=name, kind="onnx", digest="a1") for name in ("candidate", "baseline")]
    check = a_check(a_test(against="baseline")).model_copy(
        update={"models": ("candidate", "baseline"), "baseline_models": ("baseline",)}
    )
    assert decide(a_record(check, models=tuple(alike))).weakened == (
        "candidate and baseline are the same artifact, run in the same way: being no worse than itself shows nothing",
    )
    for change in ({"digest": "b2"}, {"digest": None}, {"precision": "int8"}, {"batch": 8}):
        other = alike[1].model_copy(update=change)
        assert decide(a_record(check, models=(alike[0], other))).weakened == ()


def test_without_a_value_the_reason_is_that_of_the_method() -> None:
    """F5: and nothing is undecided where there is no evidence."""
    method = "DeLong on the logit; no bound: 3 rows of a class are too few"
    nothing = a_test(value=None, lower=None, upper=None, p_pass=None, p_fail=None, n=0, method=method)
    (said,) = decide(a_record(a_check(nothing))).decisions
    assert (said.status, said.sentence) == (
        "NOT_RUN",
        "accuracy >= 95 %: not run: 3 rows of a class are too few",
    )


def test_value_and_bound_name_the_parts_that_they_are_of() -> None:
    parts = (
        PartTest(part="square", value=0.96, n=300, lower=0.94, p_pass=0.0, p_fail=1.0),
        PartTest(part="disc", value=0.97, n=60, lower=0.91, p_pass=0.01, p_fail=1.0),
    )
    passing = a_test(value=0.96, lower=0.91, n=300, threshold=0.9, parts=parts, must_hold=2)
    sentence = decide(a_record(a_check(passing))).decisions[0].sentence
    assert sentence == (
        "accuracy 0.96 (square, worst of 2; n 300), 95 % lower bound 0.91 (disc), needs at least 0.9: holds"
    )


def test_what_the_spec_asks_less_of_stands_at_the_top() -> None:
    narrow = DatasetRecord(name="test", kind="csv", digest="d", rows=367, where="income > 60000", rows_read=3000)
    other = a_check(a_test("other"), id="other").model_copy(update={"models": ("other",)})
    quality = a_check(a_test()).model_copy(update={"models": ("candidate", "old"), "baseline_models": ("old",)})
    record = a_record(
        quality, other, datasets=(narrow,), policy=Policy(confidence=0.9), overrides=("policy.confidence=0.9",)
    )
    assert decide(record).weakened == (
        "decided at 90 % confidence: more than 1 in 20 may be wrong",
        "dataset test is only the rows where income > 60000, 367 of 3,000",
        "set on the command line: policy.confidence=0.9",
        "the requirements are about several models (candidate, other), and only one of them is the subject",
    )


def test_a_model_that_only_describes_rows_is_not_what_a_data_requirement_is_about() -> None:
    """An embedding is an instrument; whose predictions are scored is a subject."""
    quality = a_check(a_test()).model_copy(update={"models": ("candidate",)})
    data = {"dimension": "data", "models": ("candidate", "embedder")}
    leaks = a_check(a_test("leaks"), id="leaks").model_copy(update=data)
    assert decide(a_record(quality, leaks)).weakened == ()
    scored = leaks.model_copy(update={"conditions": {"predictions of": "embedder"}})
    assert "(candidate, embedder)" in decide(a_record(quality, scored)).weakened[0]


def test_decisions_come_worst_first() -> None:
    tests = (
        a_test(metric="a"),
        a_test(metric="b", **UNDECIDED),
        a_test(metric="c", **FAILING),
        a_test(metric="d", invalid="lag"),
    )
    order = [one.status for one in decide(a_record(a_check(*tests))).decisions]
    assert order == ["FAIL", "INVALID", "INCONCLUSIVE", "PASS"]


def test_the_verdict_is_made_without_numpy() -> None:
    code = "import sys, evalspec.verdict; sys.exit(any(m in sys.modules for m in ('numpy', 'scipy', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
