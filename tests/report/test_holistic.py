from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.policy import Claim
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import Status
from evalspec.report.checks import sections
from evalspec.report.holistic import Together, together
from evalspec.report.requirements import requirement_rows
from tests.report import records

CHECKS = {"system": "latency", "model": "quality", "data": "contamination"}


def seen(record: Record) -> Together:
    assert record.verdict is not None
    rows = requirement_rows(record, record.verdict)
    return together(record, rows, sections(record, rows))


def cell(**statuses: Status) -> Together:
    """A run with one requirement in each of these dimensions that ended so."""
    shared: dict[str, Any] = {"threshold": 1, "unit": "ms", "value": 0.5, "n": 9}
    cases = [
        records.case(f"{CHECKS[dimension]}/metric", "metric <= 1 ms", status, "said", **shared)
        for dimension, status in statuses.items()
    ]
    checks = [records.check(CHECKS[dimension], cases, conditions={"batch": 32}, blocks=()) for dimension in statuses]
    return seen(records.record(records.decide("NOT READY", "because", cases), checks))


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ({"system": "PASS", "model": "FAIL", "data": "PASS"}, "The system meets its requirements and the model fails."),
        ({"system": "FAIL", "model": "PASS", "data": "PASS"}, "its answers are good, but come too late"),
        ({"system": "PASS", "model": "PASS", "data": "FAIL"}, "The data fail"),
        ({"system": "FAIL", "model": "FAIL", "data": "PASS"}, "fixing one of them"),
        ({"system": "PASS", "model": "PASS", "data": "PASS"}, "System, model and data meet their requirements"),
        (
            {"system": "PASS", "model": "INCONCLUSIVE", "data": "PASS"},
            "Model: some blocking requirements are not decided",
        ),
        ({"system": "PASS", "model": "PASS"}, "Data: nothing was required"),
    ],
)
def test_the_cell_is_named(statuses: dict[str, Status], words: str) -> None:
    assert words in " ".join(cell(**statuses).meanings)


def test_holding_together_is_said_only_where_all_three_hold() -> None:
    for broken in ("system", "model", "data"):
        statuses: dict[str, Status] = {"system": "PASS", "model": "PASS", "data": "PASS", broken: "INVALID"}
        assert "hold together" not in " ".join(cell(**statuses).meanings)


def by_name(found: Together) -> dict[str, str]:
    return {one.what: one.state for one in found.agreements}


def test_what_differs_is_named() -> None:
    record = records.ready()
    assert by_name(seen(record)) == {
        "artifact": "same",
        "precision": "same",
        "device": "same",
        "batch": "differs",
        "preprocessing": "same",
    }
    candidate = record.models[0].model_copy(update={"precision_observed": "fp32", "digest": None})
    found = seen(record.model_copy(update={"models": (candidate, record.models[1])}))
    assert by_name(found)["precision"] == "differs"
    assert by_name(found)["artifact"] == "not shown"
    precision = next(one for one in found.agreements if one.what == "precision")
    assert precision.by_dimension[0] == "fp32 (asked: int8)"
    assert "claims about the requested one are void" in precision.means


def test_a_dataset_that_no_data_check_looked_at_is_named() -> None:
    record = records.ready()
    kept = tuple(check for check in record.checks if check.dimension != "data")
    uses = {use.name: use.means for use in seen(record.model_copy(update={"checks": kept})).datasets}
    assert uses["test"] == "The model is judged on it, but no data check examines it."
    assert uses["traffic"] == "No check uses it."
    assert all(use.means == "" for use in seen(record).datasets)


def test_claims_stand_beside_what_was_measured() -> None:
    record = records.ready()
    claims = (
        Claim(metric="throughput", value="40000 samples/s", by="vendor", conditions={"batch": 128, "device": "npu"}),
        Claim(metric="energy_per_inference", value="3 mJ", by="vendor"),
    )
    first, second = seen(record.model_copy(update={"claims": claims})).claims
    assert first.measured == "26,400 samples/s (throughput)"
    assert first.times == "1.515x what was measured, and not of the same thing"
    assert first.leaves_out == "model, precision, boundary, duration, workload, quality, power limit"
    assert first.means == "Measured here at device cpu, not npu."
    assert (second.measured, second.times) == ("not measured", "")
    assert second.means == "This run did not measure it."


def test_baseline_stands_beside_the_candidate() -> None:
    found = {line.metric: line for line in seen(records.ready()).beside}
    assert (found["accuracy"].candidate, found["accuracy"].baseline, found["accuracy"].difference) == (
        "0.974",
        "0.977",
        "−0.3 pp",
    )


def test_where_failures_point_to_is_said_with_links() -> None:
    late = records.case(
        "latency/latency_p50", "latency_p50 <= 1 ms", "FAIL", "said", threshold=1, unit="ms", value=2.0, n=9
    )
    right = records.case("quality/metric", "metric >= 1", "PASS", "said", threshold=1, unit="score", value=2.0, n=9)
    checks = [records.check(name, [one], blocks=()) for name, one in (("latency", late), ("quality", right))]
    found = seen(records.record(records.decide("NOT READY", "because", [late, right]), checks))
    (one,) = found.pointers
    assert one.sentence.startswith("Answers come too late, but their quality is met")
    assert [name for name, anchor in one.checks] == ["latency", "quality"] and all(anchor for _, anchor in one.checks)
