"""Limits for monitoring production."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evalspec.errors import RecordError, SpecError
from evalspec.evidence.policy import Rollback, Waiver
from evalspec.evidence.record import CheckRecord, Counts, DatasetRecord, Record
from evalspec.loading import LoadOptions, load
from evalspec.report import monitoring
from evalspec.verdict import decide
from tests.verdict.test_decide import FAILING, a_check, a_record, a_test

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "monitoring.v1.json").read_text())


def made(record: Record) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(monitoring(record, decide(record)))
    Draft202012Validator(SCHEMA).validate(said)
    return said


def test_expected_ranges_and_what_is_left_out() -> None:
    good, void = a_test(), a_test("quality", "f1", invalid="the machine was busy")
    fact = a_test("contamination", "exact_duplicates", exact=True, op="==", threshold=0.0, unit="rows", value=0.0)
    said = made(a_record(a_check(good, void), a_check(fact, id="contamination", dimension="data")))
    first, counted = said["expected"]
    assert (first["name"], first["value"], first["lower"], first["upper"]) == ("quality/accuracy", 0.97, 0.96, 0.98)
    assert (first["confidence"], first["n"], first["status"]) == (0.95, 1000, "PASS")
    assert (counted["name"], counted["confidence"]) == ("contamination/exact_duplicates", None)
    assert said["left_out"] == [{"name": "quality/f1", "why": "the machine was busy"}]


def test_scores_on_data_in_doubt_are_left_out() -> None:
    leak = a_test("contamination", "exact_duplicates", exact=True, op="==", threshold=0.0, unit="rows", value=3.0)
    said = made(a_record(a_check(a_test()), a_check(leak, id="contamination", dimension="data")))
    assert [one["name"] for one in said["expected"]] == ["contamination/exact_duplicates"]
    assert said["left_out"][0]["name"] == "quality/accuracy"
    assert "contamination/exact_duplicates" in said["left_out"][0]["why"]


def test_a_requirement_that_was_set_aside_says_so() -> None:
    waiver = Waiver(of="quality/accuracy", why="known", owner="me", expires="2099-01-01")
    first, second = made(a_record(a_check(a_test(**FAILING), a_test("quality", "f1")), waivers=(waiver,)))["expected"]
    assert (first["status"], first["waived"], second["waived"]) == ("FAIL", True, False)


def test_nothing_is_watched_against_a_draft() -> None:
    with pytest.raises(RecordError, match="the run is a draft"):
        made(a_record(a_check(a_test()), draft=True))


def test_percentiles_drift_references_and_rollback() -> None:
    latency = CheckRecord(
        id="latency", check="latency", dimension="system", status="measured", units={"latency_p99": "ms"},
        measured={"latency_p99": 4.2, "latency_mean": 2.0, "jitter": 0.1}, counts=Counts(used=1200),
    )  # fmt: skip
    busy = latency.model_copy(update={"id": "busy", "tests": (a_test("busy", "latency_p50", invalid="busy"),)})
    shift = CheckRecord(
        id="field", check="shift", dimension="data", status="measured", datasets=("test", "traffic"),
        conditions={"reference": "test", "current": "traffic", "tolerance": 0.1, "distance": "ks"},
    )  # fmt: skip
    data = (DatasetRecord(name="test", kind="parquet", path="t.parquet", digest="sha256:" + "a" * 64, rows=9),)
    back = Rollback(when="latency_p99 > 50 ms", for_s=600.0, metric="latency_p99", op=">", threshold=50.0, unit="ms")
    said = made(a_record(latency, busy, shift, datasets=data, rollback=(back,)))
    (p99,) = said["latency_percentiles"]
    assert p99 == {"check": "latency", "metric": "latency_p99", "value": 4.2, "unit": "ms", "queries": 1200}
    (one,) = said["drift_references"]
    assert (one["role"], one["dataset"], one["rows"], one["tolerance"]) == ("reference", "test", 9, 0.1)
    assert said["rollback"] == [back.model_dump(mode="json")]


SPEC = """
evalspec: 1
name: back
models: {candidate: {kind: onnx, path: a.onnx}}
datasets: {test: {kind: parquet, path: t.parquet, label: y}}
system: [{check: latency, dataset: test, require: [latency_p99 <= 20 ms]}]
rollback: [{when: WHEN, for: 10 min}]
"""


def loaded(folder: Path, when: str) -> tuple[Rollback, ...]:
    (folder / "spec.yaml").write_text(SPEC.replace("WHEN", when))
    return load(folder / "spec.yaml", options=LoadOptions(files=False)).rollback


def test_a_rollback_is_read_with_its_units(tmp_path: Path) -> None:
    (one,) = loaded(tmp_path, "latency_p99 > 0.05 s")
    assert (one.metric, one.op, one.threshold, one.unit, one.for_s) == ("latency_p99", ">", 50.0, "ms", 600.0)


@pytest.mark.parametrize(
    ("when", "sentence"),
    [
        (
            "latency_p99 < 50 ms",
            (
                "'latency_p99 < 50 ms' describes good values, not bad ones; write the condition under which production "
                "should roll back"
            ),
        ),
        ("latency_p98 > 50 ms", "unknown metric .latency_p98."),
        ("latency_p99 > 50", "50 has no unit .* write 50 ms"),
        ("latency_p99 > 2x candidate", "names a model, but production runs only one; write a number"),
        ("latency_p99 == 5 ms", "is met by a single value only; write > or <"),
        ("slow", "'slow' is not a requirement"),
    ],
)
def test_a_rollback_that_can_not_be_watched_for(tmp_path: Path, when: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        loaded(tmp_path, when)
