"""What to do next, at the top of the page: put together by cause, worst first, few."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.reasons import Cause
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import Decision
from evalspec.report import render
from evalspec.report.next_steps import MOST, Next, next_steps
from evalspec.report.requirements import requirement_rows
from evalspec.report.words import cause
from tests.report import records


def steps(record: Record) -> Next:
    assert record.verdict is not None
    return next_steps(requirement_rows(record, record.verdict), record.verdict.reason)


def one(status: Any, said: str = "It is so.", **fields: Any) -> Next:
    found = {"threshold": 0.95, "unit": "fraction", "value": 0.93, "n": 840, **fields}
    cases = (records.case("quality/accuracy", "accuracy >= 95 %", status, said, **found),)
    return steps(records.record(records.decide("NOT READY", "So.", cases), [records.check("quality", cases)]))


def test_what_was_disturbed_alike_is_one_step_and_a_warning_of_the_same_cause_is_none() -> None:
    found = steps(records.crowded())
    said = [(step.verb, [name for _, name in step.targets], step.count, step.badge.extra) for step in found.steps]
    # 91 % and 95 % of other work are one cause; so is the lag, at whatever rate.
    assert said == [("Measure again", ["load"], 2, ""), ("Measure again", ["load", "latency"], 2, "")]
    assert "the load generator was the bottleneck" in found.steps[0].text
    assert found.steps[0].owner == "line@example.com" and found.steps[1].owner == ""
    assert found.more == 0


def test_violations_of_one_check_are_one_step_with_their_numbers() -> None:
    found = steps(records.not_ready())
    said = {step.targets[0][1]: step for step in found.steps}
    assert said["calibration"].verb == "Mend"
    assert said["calibration"].text == "ece 0.142, needs ≤ 0.05"
    assert said["slices"].count == 2
    assert said["slices"].text == "worst_accuracy 0.72, needs ≥ 0.85; accuracy(dark) 0.72, needs ≥ 0.88"
    # The warning that is undecided comes last, and says that it blocks nothing.
    assert (found.steps[-1].verb, found.steps[-1].badge.extra) == ("Look at", "warns")


def test_every_status_has_something_to_do() -> None:
    found = steps(records.every_status())
    verbs = [(step.badge.status, step.verb) for step in found.steps]
    assert verbs == [
        ("FAIL", "Mend"), ("ERROR", "Repair"), ("INVALID", "Measure again"), ("NOT_RUN", "Make it measurable"),
        ("INCONCLUSIVE", "Mend"),
    ]  # fmt: skip
    # What only warns is behind what blocks; what is waived is nothing to do.
    assert found.more == 2


@pytest.mark.parametrize(
    ("needed", "verb", "text"),
    [
        (1_900, "Measure more", "accuracy 0.93, needs ≥ 0.95; about 1,900 would decide it, 840 were measured"),
        (20_000, "Look into", "accuracy 0.93, needs ≥ 0.95; too close for more data to decide"),
        (None, "Look into", "accuracy 0.93, needs ≥ 0.95"),
    ],
)
def test_undecided(needed: int | None, verb: str, text: str) -> None:
    (step,) = one("INCONCLUSIVE", n_to_decide=needed).steps
    assert (step.verb, step.text) == (verb, text)


def test_undecided_by_processes() -> None:
    (step,) = one("INCONCLUSIVE", n=3671, n_to_decide=38, to_decide="processes", to_decide_now=5).steps
    assert step.verb == "Measure more"
    assert step.text == "accuracy 0.93, needs ≥ 0.95; about 38 processes would decide it, 5 were measured"


def test_data_first() -> None:
    (step,) = one("INVALID", reason="not interpretable: contamination/exact_duplicates is FAIL").steps
    assert step.verb == "Mend the data, then judge again"
    assert step.text == "not interpretable: contamination/exact_duplicates is FAIL"


def test_many_steps_are_cut_and_the_rest_is_counted() -> None:
    cases = tuple(
        records.case(f"{name}/m", "m <= 1 ms", "FAIL", "no", threshold=1.0, unit="ms", value=2.0) for name in "abcdefgh"
    )
    found = steps(records.record(records.decide("NOT READY", "So.", cases), []))
    assert (len(found.steps), found.more) == (MOST, 3)


def test_long_reasons_are_cut() -> None:
    (step,) = one("NOT_RUN", reason="x" * 999, value=None).steps
    assert len(step.text) <= 220 and step.text.endswith("…")


def test_a_run_without_a_fault_says_what_is_left_to_read() -> None:
    record = records.ready()
    assert record.verdict is not None
    kept = tuple(decision for decision in record.verdict.decisions if decision.status == "PASS")
    verdict = record.verdict.model_copy(update={"decisions": kept})
    checks = tuple(
        check.model_copy(update={"tests": tuple(test for test in check.tests if test.severity == "require")})
        for check in record.checks
    )
    source = render(record.model_copy(update={"checks": checks}), verdict)
    assert "Nothing blocks and nothing warns." in source
    assert '<h2 id="h-next">What to do next</h2>' in source


def test_it_stands_before_the_requirements_and_links_to_them() -> None:
    record = records.not_ready()
    assert record.verdict is not None
    source = render(record, record.verdict)
    assert source.index("What to do next") < source.index("What weakens this verdict") < source.index("Worst first.")
    assert '<a href="#requirement-calibration-ece">calibration</a>' in source


def test_the_reason_of_the_verdict_is_not_said_again() -> None:
    fields = {"threshold": 0.95, "unit": "fraction", "reason": "other work on the machine"}
    fields["invalid"] = fields["reason"]
    cases = (records.case("quality/accuracy", "accuracy >= 95 %", "INVALID", "So.", **fields),)
    verdict = records.decide("UNDECIDED", "quality/accuracy: inadmissible: other work on the machine", cases)
    (step,) = steps(records.record(verdict, [records.check("quality", cases)])).steps
    assert (step.verb, step.text) == ("Measure again", "for the reason above")


def test_causes() -> None:
    def why(reason: str, behind: str = "") -> str:
        return cause(Decision(name="a/b", status="INVALID", blocking=True, sentence="", reason=reason, cause=behind))

    busy = Cause.OTHER_WORK
    assert why("200 qps: other processes used 76% of it", busy) == why("other processes used 80.5% of it", busy)
    assert why("no energy can be told") != why("the server is another one by now")
    assert why("other processes used 76% of it", busy) != why("the hypervisor took 76% of it", Cause.STOLEN_TIME)
    # The words of a reason without a cause are not looked into: two such reasons are one where they say the same.
    assert why("a server said 1") != why("a server said 2")
    assert why("a server said 1") == why("a server said 1")
