from __future__ import annotations

import pytest

from evalspec.evidence.record import CheckRecord, Record
from evalspec.report.claims import claim_sentence, unlike_words
from tests.report import records


def of(record: Record, name: str) -> CheckRecord:
    return next(check for check in record.checks if check.id == name)


def test_a_performance_result_is_one_sentence_with_all_that_it_holds_for() -> None:
    record = records.ready()
    said = claim_sentence(record, of(record, "latency"), {})
    for part in (
        "latency_p99 ", "candidate [5f1c0a9d3b7e]", "batch 1", "precision int8", "accuracy 0.974 (quality on test)",
        "stages cast float32, scale 0.0625, model", "scenario single_stream", "on cpu (AMD EPYC 7763",
        "threads 1", "onnxruntime 1.24.1 CPUExecutionProvider", "power limit not shown", "of key ",
    ):  # fmt: skip
        assert part in said, part


def test_quality_of_another_model_does_not_stand_in() -> None:
    record = records.ready()
    checks = tuple(
        one.model_copy(update={"models": ("baseline",)}) if one.dimension == "model" else one for one in record.checks
    )
    said = claim_sentence(record.model_copy(update={"checks": checks}), of(record, "latency"), {})
    assert "quality not measured in this run" in said


@pytest.mark.parametrize("status", ["invalid", "not_run", "error"])
def test_what_does_not_count_makes_no_claim(status: str) -> None:
    record = records.ready()
    assert claim_sentence(record, of(record, "latency").model_copy(update={"status": status}), {}) == ""


def test_what_is_not_to_be_trusted_is_not_quoted() -> None:
    record = records.ready()
    latency = of(record, "latency")
    said = claim_sentence(record, latency, {"latency": {"latency_p99", "latency_mean"}, "quality": {"accuracy"}})
    assert "latency_p99" not in said and "latency_mean" not in said
    assert said.startswith("latency_p50 0.431 ms, jitter 0.061 ms")
    assert "accuracy 0.974 (quality on test), not judged" in said
    assert claim_sentence(record, latency, {"latency": set(latency.measured)}) == ""


def test_only_performance_makes_a_claim() -> None:
    record = records.ready()
    assert claim_sentence(record, of(record, "quality"), {}) == ""


def test_what_two_models_do_not_share_is_said() -> None:
    record = records.ready()
    said = unlike_words(record, of(record, "latency"), "baseline")
    assert "precision int8 against fp32" in said
    assert "framework onnxruntime 1.24.1 against torch 2.13.0" in said
    assert "stages" not in said and "hardware" not in said


def test_what_nobody_recorded_of_either_is_said() -> None:
    record = records.ready()
    bare = tuple(one.model_copy(update={"precision": None, "precision_observed": None}) for one in record.models)
    record = record.model_copy(update={"models": bare})
    check = of(record, "latency").model_copy(update={"conditions": {"batch": 1, "scenario": "single_stream"}})
    assert "precision not shown of either" in unlike_words(record, check, "baseline")
