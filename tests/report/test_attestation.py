"""The verdict as an in-toto statement."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evalspec.evidence.record import DatasetRecord, ModelRecord, Record, Waiver
from evalspec.loading.schema import attestation_schema
from evalspec.report import attestation
from evalspec.verdict import decide
from tests.verdict.test_decide import FAILING, UNDECIDED, a_check, a_record, a_test
from tests.verdict.test_profile import a_profile, an_item


def model(**fields: Any) -> ModelRecord:
    return ModelRecord.model_validate(
        {"name": "candidate", "kind": "onnx", "path": "m.onnx", "digest": "ab" * 32} | fields
    )


SCHEMA = Draft202012Validator(attestation_schema())


def stated(record: Record) -> dict[str, Any]:
    """What is said of a record; whatever that is, it fits the schema."""
    said: dict[str, Any] = json.loads(attestation(record, decide(record)))
    assert [error.message for error in SCHEMA.iter_errors(said)] == []
    return said


def result(*tests: Any, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = stated(a_record(a_check(*tests), **fields))["predicate"]
    return found


def test_a_statement_of_one_file() -> None:
    data = DatasetRecord(name="test", kind="parquet", digest="sha256:" + "cd" * 32, rows=9)
    said = stated(a_record(a_check(a_test()), models=(model(),), datasets=(data,)))
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert said["subject"] == [{"name": "m.onnx", "digest": {"sha256": "ab" * 32}}]
    assert said["predicate"]["configuration"] == [
        {"name": "spec.yaml", "digest": {"sha256": "0" * 64}},
        {"name": "dataset test", "digest": {"evalspecRows": "cd" * 32}},
    ]
    assert (said["predicate"]["result"], said["predicate"]["passedTests"]) == ("PASSED", ["quality/accuracy"])


def test_the_files_of_a_run_are_told_by_their_digests() -> None:
    """F8: whoever signs it signs record, journal and pages too, so that no forged pair passes for them."""
    record = a_record(a_check(a_test()))
    said = json.loads(attestation(record, decide(record), {"record.json": "ab" * 32, "report.html": "cd" * 32}))
    assert [error.message for error in SCHEMA.iter_errors(said)] == []
    assert said["predicate"]["files"] == [
        {"name": "record.json", "digest": {"sha256": "ab" * 32}},
        {"name": "report.html", "digest": {"sha256": "cd" * 32}},
    ]


def test_a_profile_is_part_of_what_was_asked() -> None:
    found = result(a_test(), profile=a_profile(an_item(found=("energy",))))
    assert found["configuration"][1] == {"name": "profile.yaml", "digest": {"sha256": "0" * 64}}
    missing = result(a_test(), profile=a_profile(an_item()))
    assert (missing["result"], missing["failedTests"]) == ("FAILED", ["profile/energy"])
    recommended = result(a_test(), profile=a_profile(an_item(mandatory=False)))
    assert (recommended["result"], recommended["warnedTests"]) == ("WARNED", ["profile/energy"])


def test_several_files_have_no_sha256_of_their_own() -> None:
    said = stated(a_record(a_check(a_test()), models=(model(files=2),)))
    assert said["subject"][0]["digest"] == {"evalspecFileList": "ab" * 32}


def test_a_digest_that_nobody_checked_says_so() -> None:
    said = stated(a_record(a_check(a_test()), models=(model(digest_stated=True),)))
    assert said["subject"][0]["annotations"] == {"evalspecDigest": "as stated"}


def test_what_is_not_decided_has_not_passed() -> None:
    assert result(a_test(**FAILING))["result"] == "FAILED"
    undecided = result(a_test(**UNDECIDED))
    assert (undecided["result"], undecided["failedTests"]) == ("FAILED", ["quality/accuracy"])


def test_waivers_and_warnings_are_warnings() -> None:
    waiver = Waiver(of="quality/accuracy", why="known", owner="me", expires="2027-01-01")
    good = a_test("other", "f1")
    waived = result(a_test(**FAILING), good, waivers=(waiver,))
    assert (waived["result"], waived["warnedTests"]) == ("WARNED", ["quality/accuracy"])
    warned = result(good, a_test("other", "ece", severity="warn", **FAILING))
    assert (warned["result"], warned["warnedTests"], warned["failedTests"]) == ("WARNED", ["other/ece"], [])


def test_without_a_digest_there_is_no_subject_and_nothing_passes() -> None:
    said = stated(a_record(a_check(a_test()), models=(model(digest=None),), subject=None))
    assert said["subject"] == [] and said["predicate"]["result"] == "FAILED"
    assert "subject" in said["predicate"]["failedTests"]


@pytest.mark.parametrize(
    ("place", "value"),
    [("_type", "https://in-toto.io/Statement/v0.1"), ("predicateType", "x"), ("predicate", {"result": "PASSED"})],
)
def test_the_schema_refuses_what_is_no_such_statement(place: str, value: object) -> None:
    said = stated(a_record(a_check(a_test()), models=(model(),)))
    assert not SCHEMA.is_valid(said | {place: value})
    assert not SCHEMA.is_valid({key: one for key, one in said.items() if key != place})
    ended = said["predicate"] | {"result": "READY"}
    assert not SCHEMA.is_valid(said | {"predicate": ended})
