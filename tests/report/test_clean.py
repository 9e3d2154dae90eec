"""The score of clean rows stands where the score of all rows does."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.record import CheckRecord, Record
from evalspec.report import render
from evalspec.report.clean import clean_notes
from tests.report import records

CONDITIONS = {"test set": "test", "predictions of": "candidate", "metric": "accuracy", "accuracy of all rows": 0.962}
MEASURED = {"exact_duplicates": 31.0, "clean_score": 0.931, "clean_score_change": 3.1}


def leaky(**changes: Any) -> Record:
    """The digits record, with what its contamination check found of the score."""
    found = {"conditions": CONDITIONS, "measured": MEASURED, **changes}
    record = records.not_ready()
    checks = [check.model_copy(update=found) if check.check == "contamination" else check for check in record.checks]
    return record.model_copy(update={"checks": tuple(checks)})


def of(record: Record, name: str) -> CheckRecord:
    return next(check for check in record.checks if check.id == name)


def test_the_clean_score_stands_beside_the_full_one() -> None:
    record = leaky()
    (note,) = clean_notes(record, of(record, "quality"))
    assert note == (
        "Without the rows of test seen in training (check contamination), accuracy is 0.931 instead of 0.962: "
        "3.1 pp less."
    )
    assert record.verdict is not None
    page = render(record, record.verdict)
    assert page.index('id="check-quality"') < page.index(note) < page.index('id="check-contamination"')


def test_a_score_that_does_not_change_or_gets_better_is_said_too() -> None:
    same = leaky(measured={**MEASURED, "clean_score": 0.962, "clean_score_change": 0.0})
    assert clean_notes(same, of(same, "quality"))[0].endswith("accuracy is the same.")
    better = leaky(measured={**MEASURED, "clean_score": 0.97, "clean_score_change": -0.8})
    assert clean_notes(better, of(better, "quality"))[0].endswith("0.97 instead of 0.962: 0.8 pp more.")


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": {**CONDITIONS, "test set": "field"}},
        {"conditions": {**CONDITIONS, "predictions of": "baseline_only"}},
        {"conditions": {**CONDITIONS, "accuracy of all rows": 0.95}},
        {"conditions": {**CONDITIONS, "metric": "macro_f1"}},
        {"conditions": {}},
        {"measured": {"exact_duplicates": 31.0}},
        {"measured": {**MEASURED, "clean_score": None}},
        {"status": "error", "reason": "it broke"},
    ],
    ids=["other rows", "other model", "other score", "other metric", "not scored", "nothing", "no value", "crashed"],
)
def test_of_another_score_nothing_is_said(changes: dict[str, Any]) -> None:
    record = leaky(**changes)
    assert clean_notes(record, of(record, "quality")) == ()


def test_checks_that_gave_no_such_score_have_no_note() -> None:
    record = leaky()
    assert [check.id for check in record.checks if clean_notes(record, check)] == ["quality"]
