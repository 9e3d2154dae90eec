"""A draft shows that everything runs; a few rows decide nothing."""

from __future__ import annotations

from evalspec.evidence.record import Attempt
from evalspec.verdict import decide
from tests.verdict.test_decide import a_check, a_record, a_test

VIOLATED = {"p_pass": 1.0, "p_fail": 1e-9, "value": 0.1}


def test_a_violation_of_a_draft_is_none() -> None:
    record = a_record(a_check(a_test(**VIOLATED)))
    assert (decide(record).word, decide(record).exit_code) == ("NOT READY", 1)
    draft = decide(record.model_copy(update={"draft": True}))
    assert (draft.word, draft.exit_code, draft.headline) == ("UNDECIDED", 3, "UNDECIDED (a draft)")
    assert draft.reason.startswith("Everything was tried on a few rows and queries")


def test_a_crash_of_a_draft_is_one_whatever_the_few_rows_say() -> None:
    crashed = a_check(a_test("other"), id="other", status="error", reason="the model raised")
    draft = decide(a_record(a_check(a_test(**VIOLATED)), crashed, draft=True))
    assert (draft.word, draft.exit_code) == ("ERROR", 4)
    assert draft.reason.startswith("other/accuracy: ") and "the model raised" in draft.reason


def test_what_was_measured_again_weakens_the_verdict() -> None:
    before = Attempt(run="a", started="2026-11-20T09:00:00Z", status="measured", reason="the machine was busy")
    again = before.model_copy(update={"run": "b"})
    check = a_check(a_test()).model_copy(update={"attempts": (before, again)})
    (line,) = decide(a_record(check)).weakened
    assert line == (
        "quality was measured in 3 runs, and only the last one counts; before that: the machine was busy; "
        "its risk of a false PASS is at most 15 %"
    )
    assert decide(a_record(a_check(a_test()))).weakened == ()
