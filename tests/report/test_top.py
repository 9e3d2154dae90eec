"""Head of the page: which model, in one sentence, the closest call, and what changed since the last run."""

from __future__ import annotations

import pytest

from evalspec.evidence.record import PreviousRun, Record
from evalspec.report import render
from evalspec.report.requirements import requirement_rows
from evalspec.report.top import Top, closest_call, summary, top_of
from tests.report import records


def top(record: Record) -> Top:
    assert record.verdict is not None
    return top_of(record, record.verdict, requirement_rows(record, record.verdict))


def test_it_names_the_file_of_the_model_its_digest_the_commit_and_the_time() -> None:
    facts = {"git_commit": "65d0a2dc0ffee", "git_changed": True}
    record = records.ready()
    record = record.model_copy(update={"environment": record.environment.model_copy(update={"facts": facts})})
    about = dict(top(record).about)
    assert about["Model"] == "int8.onnx, run in int8 on cpu"
    assert about["Digest"] == "5f1c0a9d3b7e"
    assert about["Commit"] == "65d0a2d and changes"
    assert about["Run"] == "20 November 2026, 09:14 UTC"
    assert "Model" not in dict(top(record.model_copy(update={"subject": None})).about)


def test_ready_with_a_warning_says_so_in_its_head() -> None:
    record = records.ready()
    assert record.verdict is not None
    warned = sum(not (one.blocking or one.waived) and one.status != "PASS" for one in record.verdict.decisions)
    assert warned == 1
    assert "with 1 warning" in top(record).rest
    assert "with 1 warning</span></h1>" in render(record, record.verdict)


def test_one_sentence_counts_what_blocks() -> None:
    assert top(records.not_ready()).reason == "5 of 10 blocking requirements fail, 1 is not judged and 4 are met."
    record = records.ready()
    assert record.verdict is not None
    assert top(record).reason == record.verdict.reason


def case(name: str, sentence: str, **fields: object) -> records.Case:
    return records.case(name, sentence, "PASS", "It holds.", n=900, **fields)


CASES = (
    case("quality/accuracy", "accuracy >= 95 %", threshold=0.95, unit="fraction", written_unit="%", value=0.98,
         lower=0.97, upper=0.99),
    case("calibration/ece", "ece <= 5 %", threshold=0.05, unit="fraction", written_unit="%", value=0.03, lower=0.02,
         upper=0.048),
    # A count has no bound, and a warning is no call.
    case("contamination/rows", "rows == 0", threshold=0.0, unit="rows", value=0.0, exact=True),
    case("latency/p50", "p50 <= 1 ms", threshold=1.0, unit="ms", value=0.9, upper=0.999, severity="warn"),
)  # fmt: skip


def test_the_closest_call_is_the_smallest_share_of_the_way_to_the_limit() -> None:
    checks = [records.check(one.test.check, CASES) for one in CASES]
    record = records.record(records.decide("READY", "All hold.", CASES), checks)
    said = top(record).closest
    assert said == "Ece: upper bound 4.8 %, limit 5 %, 0.2 pp to spare."
    assert "Closest call" in render(record, record.verdict)  # type: ignore[arg-type]  # it has one
    assert top(records.not_ready()).closest == ""
    facts = records.record(records.decide("READY", "All hold.", CASES[2:3]), [records.check("contamination", CASES)])
    assert facts.verdict is not None
    assert closest_call(facts, requirement_rows(facts, facts.verdict)) == ""


def previous(**changes: object) -> PreviousRun:
    fields = {
        "run": "20261119-a", "started": "2026-11-19T08:00:00Z", "word": "READY", "subject": records.INT8,
        "statuses": {"calibration/ece": "PASS", "quality/accuracy": "FAIL"},
    }  # fmt: skip
    return PreviousRun.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ("READY on 19 November 2026, 08:00 UTC.", "Same model.", "Met now: quality/accuracy.")),
        ({"subject": records.FP32}, ("Another model: 0b94c27 was judged then.",)),
        ({"statuses": {"calibration/ece": "PASS"}}, ("Every requirement has the same result as then.",)),
    ],
)
def test_it_says_what_changed_since_the_last_run(changes: dict[str, object], said: tuple[str, ...]) -> None:
    checks = [records.check(one.test.check, CASES) for one in CASES]
    record = records.record(records.decide("READY", "All hold.", CASES), checks)
    record = record.model_copy(update={"subject": records.INT8, "previous": previous(**changes)})
    assert set(said) <= set(top(record).since)


def test_what_is_no_longer_met_is_named() -> None:
    record = records.not_ready().model_copy(update={"previous": previous()})
    assert "No longer met: calibration/ece." in top(record).since


def test_an_older_record_tells_how_many_runs_there_were() -> None:
    record = records.not_ready().model_copy(update={"earlier_runs": 3, "earlier_of_subject": 1})
    assert top(record).since == ("3 runs before on this test set, 1 of them of this model.",)
    assert top(record.model_copy(update={"earlier_runs": 0})).since == ()


def test_one_requirement_is_not_one_of_one() -> None:
    record = records.every_status()
    assert record.verdict is not None
    rows = [row for row in requirement_rows(record, record.verdict) if row.blocking and row.badge.status == "FAIL"][:1]
    assert summary(record.verdict, rows) == "The blocking requirement fails."
