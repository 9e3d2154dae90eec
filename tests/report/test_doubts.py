"""Numbers that were measured and are not judged: shown, marked in words, never quoted."""

from __future__ import annotations

import re
from functools import cache

import pytest

from evalspec.evidence.policy import Claim
from evalspec.evidence.record import CheckRecord, Record
from evalspec.report import markdown, render
from evalspec.report.checks import CheckView, sections
from evalspec.report.doubts import doubted, measured_anyway
from evalspec.report.holistic import together
from evalspec.report.junit import junit
from evalspec.report.requirements import RequirementRow, requirement_rows
from tests.report import records


@cache
def crowded() -> Record:
    return records.crowded()


def rows(record: Record) -> dict[str, RequirementRow]:
    assert record.verdict is not None
    return {row.name: row for row in requirement_rows(record, record.verdict)}


def of(record: Record, name: str) -> CheckRecord:
    return next(check for check in record.checks if check.id == name)


def view(record: Record, name: str) -> CheckView:
    found = sections(record, tuple(rows(record).values()))
    return next(check for section in found for check in section.checks if check.id == name)


def html(record: Record) -> str:
    assert record.verdict is not None
    return render(record, record.verdict)


def cell(source: str, name: str) -> str:
    start = source.index(f'id="requirement-{name}"')
    found = re.search(r'<td class="num vl">(.*?)</td>', source[start:], re.DOTALL)
    assert found is not None
    return found[1]


def test_a_void_part_is_shown_and_not_the_sound_one_that_is_left() -> None:
    row = rows(crowded())["load/latency_p99"]
    assert row.doubtful
    assert row.value == "13.65 ms (4000 qps)"
    # Interval, n and drawing are those of the rate that is sound.
    assert (row.interval, row.n, row.strip) == ("", 0, None)


def test_a_requirement_without_a_value_of_its_own_shows_the_worst_part() -> None:
    assert rows(crowded())["load/error_rate"].value == "2.5 % (4000 qps)"


def test_where_nothing_was_measured_there_is_no_value() -> None:
    assert rows(crowded())["load/max_rate"].value == ""
    assert "no value" in cell(html(crowded()), "load-max_rate")


def test_its_own_value_is_kept() -> None:
    assert rows(crowded())["latency/latency_p95"].value == "1.1 ms"


def test_a_metric_that_has_a_value_besides_its_parts_has_no_void_part() -> None:
    check = of(crowded(), "load")
    whole = check.model_copy(update={"measured": {**check.measured, "latency_p99": 4.0}})
    test = next(test for test in check.tests if test.metric == "latency_p99")
    assert measured_anyway(whole, test) is None
    assert measured_anyway(whole, test.model_copy(update={"value": None})) == ("latency_p99", 4.0, "")
    assert measured_anyway(None, test) is None


def test_the_page_marks_it_in_words_and_gives_the_reason() -> None:
    source = html(crowded())
    assert re.search(r"<s>13.65 ms \(4000 qps\)</s>\s*<small class=\"doubt\">not judged</small>", source)
    marked = cell(source, "latency-latency_p95")
    assert "<s>1.1 ms</s>" in marked and "not judged" in marked and "<b>" not in marked
    sound = cell(source, "load-goodput-200-qps")
    assert "<b>198 qps</b>" in sound and "not judged" not in sound
    start = source.index('id="requirement-load-error_rate"')
    assert "sent more than 3.9 ms late" in source[start : start + 900]


def test_every_invalid_row_with_a_number_says_so() -> None:
    for build in (records.not_ready, records.every_status, records.crowded):
        record = build()
        source = html(record)
        found = [row for row in rows(record).values() if row.decision.status == "INVALID" and row.value]
        assert found
        for row in found:
            assert "not judged" in cell(source, row.anchor.removeprefix("requirement-"))


def test_of_a_check_only_what_is_in_doubt_is_marked() -> None:
    record = crowded()
    load = of(record, "load")
    own = [row for row in rows(record).values() if row.check == "load"]
    assert doubted(load, own) == {"latency_p99(4000 qps)", "error_rate(200 qps)", "error_rate(4000 qps)", "max_rate"}
    marked = {name for name, _, doubtful in view(record, "load").measured if doubtful}
    # max_rate has no number to mark.
    assert marked == {"latency_p99(4000 qps)", "error_rate(200 qps)", "error_rate(4000 qps)"}
    assert view(record, "load").doubt == ""


def test_a_check_of_which_nothing_is_sound_says_so_once() -> None:
    doubt = view(crowded(), "latency").doubt
    # The warning was disturbed like the requirement that blocks: one reason is enough.
    assert doubt == records.BUSY.format(95)
    assert "This holds for every number and chart below." in html(crowded())


def test_a_check_that_is_invalid_itself_is_in_doubt_as_a_whole() -> None:
    record = records.every_status()
    latency = of(record, "latency")
    assert doubted(latency, ()) == set(latency.measured)
    assert view(record, "latency").doubt == "other work ran on this machine"


def test_what_is_in_doubt_is_not_quoted() -> None:
    assert view(crowded(), "latency").claim == ""
    said = view(crowded(), "load").claim
    assert "latency_p99(200 qps) 1.2 ms" in said and "13.65" not in said
    # Quality beside it is sound here, and is not where its data are.
    assert "accuracy 0.974 (quality on test);" in said


def test_a_claim_stands_beside_a_number_that_is_marked() -> None:
    claim = Claim(metric="latency_p99(4000 qps)", value="5 ms", by="vendor")
    record = crowded().model_copy(update={"claims": (claim,)})
    found = tuple(rows(record).values())
    (shown,) = together(record, found, sections(record, found)).claims
    assert shown.measured == "13.65 ms (load)"
    assert "What was measured is not judged." in shown.means


@pytest.mark.parametrize("build", [records.not_ready, records.crowded])
def test_summary_and_junit_mark_it_too(build: object) -> None:
    record = build()  # type: ignore[operator]  # a builder of records
    assert re.search(r"~~[^~|]+~~<br>not judged", markdown(record))
    assert ", not judged" in junit(record)
