"""The page of a spec's history."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalspec.evidence.record import Record
from evalspec.lineage.history import History, PastRun, past_run, trends
from evalspec.report.charts.trends import LANE, PLOT, TOP, trend_chart
from evalspec.report.trend_lines import trend_lines
from evalspec.report.trends import render_trends
from tests.report import hostile, records
from tests.report.test_browser import open_page

__all__ = ["open_page"]


def of(*made: Record) -> History:
    runs = tuple(_run(index, one) for index, one in enumerate(made))
    return History("digits-int8", runs, trends(runs))


def _run(index: int, record: Record) -> PastRun:
    assert record.verdict is not None
    moved = record.model_copy(update={"started": f"2026-11-{index + 1:02d}T10:00:00Z"})
    return past_run(moved, record.verdict, f"run-{index + 1}")


def changed(record: Record, name: str, **fields: Any) -> Record:
    """The record with one of its tests changed."""
    checks = tuple(
        check.model_copy(
            update={
                "tests": tuple(test.model_copy(update=fields) if test.name == name else test for test in check.tests)
            }
        )
        for check in record.checks
    )
    return record.model_copy(update={"checks": checks})


def other_rows(record: Record) -> Record:
    datasets = tuple(one.model_copy(update={"digest": "9" * 64}) for one in record.datasets)
    return record.model_copy(update={"datasets": datasets})


@pytest.fixture
def history() -> History:
    first = records.ready()
    loosened = changed(first, "quality/accuracy", threshold=0.9, sentence="accuracy >= 90 %")
    return of(first, first, loosened, other_rows(loosened), records.not_ready())


def test_lines_join_what_may_be_compared_and_stop_where_it_may_not(history: History) -> None:
    trend = next(one for one in history.trends if one.name == "quality/accuracy")
    chart = trend_chart(trend)
    assert [round(mark.x) for mark in chart.marks] == [10, 30, 50, 70, 90]
    assert [(round(line.x1), round(line.x2)) for line in chart.lines] == [(10, 30), (30, 50)]
    assert chart.breaks == (60.0,)
    # Threshold 0.95 for two runs, a step down, 0.9 for two, and what the last run asks.
    flat = [line for line in chart.limits if line.y1 == line.y2]
    assert [(line.x1, line.x2) for line in flat][:2] == [(0.0, 40.0), (40.0, 80.0)]
    assert flat[1].y1 > flat[0].y1 and any(line.x1 == line.x2 == 40.0 for line in chart.limits)
    assert chart.zones[0].y == TOP and chart.zones[0].height == pytest.approx(flat[0].y1 - TOP)


def test_what_has_no_value_stands_below_and_is_a_gap() -> None:
    first = records.ready()
    assert first.verdict is not None
    void = {"status": "INVALID", "reason": "the machine was busy"}
    decisions = tuple(one.model_copy(update=void) for one in first.verdict.decisions)
    busy = first.model_copy(update={"verdict": first.verdict.model_copy(update={"decisions": decisions})})
    found = of(first, busy, first)
    for trend in found.trends:
        chart = trend_chart(trend)
        marks = {round(mark.x): mark for mark in chart.marks}
        assert marks[50].y == TOP + PLOT + LANE / 2 and marks[50].badge.tone == "invalid" and marks[50].low is None
        assert marks[17].y < TOP + PLOT and chart.lines == () and chart.breaks == ()
    page = render_trends(found)
    assert "the machine was busy" in page and 'href="#i-invalid"' in page


def test_the_page_is_a_function_of_the_records(history: History) -> None:
    page = render_trends(history)
    read = tuple(PastRun.model_validate_json(run.model_dump_json()) for run in history.runs)
    assert page == render_trends(replace(history, runs=read, trends=trends(read)))
    assert page.count("<article") == len(history.trends) and "<script" not in page
    assert "script-src &#39;none&#39;" in page and not re.search(r"(?:src|href)=[\"'](?!#)|url\(", page)
    assert "loosened: <code>accuracy &gt;= 90 %</code>, was <code>accuracy &gt;= 95 %</code>" in page
    assert "is not comparable with the one before: dataset: " in page


def test_a_threshold_far_from_the_values_is_told_and_not_drawn() -> None:
    """Drawn, it would leave a flat line; the shade still says on which side the values are."""
    far = changed(records.ready(), "latency/latency_p99", threshold=900.0)
    near = changed(records.ready(), "latency/latency_p99", threshold=0.9)
    trend = next(one for one in of(near, far, far).trends if one.name == "latency/latency_p99")
    chart = trend_chart(trend)
    assert chart.outside == ("Runs 2 to 3: the threshold (needs ≤ 900 ms) is too far from the values to be drawn.",)
    assert [(round(line.x1), round(line.x2)) for line in chart.limits] == [(0, 33)]
    assert [(zone.y, zone.height) for zone in chart.zones][1:] == [(TOP, PLOT)]


def test_numbers_stand_with_unit_n_and_level(history: History) -> None:
    """The unit once on each axis, at the top."""
    trend = next(one for one in history.trends if one.name == "latency/latency_p99")
    texts = [tick.text for tick in sorted(trend_chart(trend).ticks, key=lambda tick: tick.at)]
    assert texts[0].endswith(" ms") and not any("ms" in text for text in texts[1:])
    level = "Each bound of an interval holds by itself, at 95 %; times are in UTC."
    lines = trend_lines(history)
    assert lines[-1] == level and level in render_trends(history)
    n = next(place.point.n for place in trend.places if place.point)
    assert n > 0 and any(f"  n {n:,}  needs" in line for line in lines)


@pytest.mark.parametrize("count", [1, 30])
def test_few_and_many_runs(count: int) -> None:
    found = of(*[records.ready()] * count)
    chart = trend_chart(found.trends[0])
    assert len(chart.marks) == count and len(chart.lines) == count - 1
    shown = [text for text in chart.numbers if not text.spare]
    assert len(shown) <= 10 and shown[-1].text == str(count)
    assert render_trends(found).count("<tr>") > count


@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_hostile_text_is_text(attack: str) -> None:
    record = hostile.worst(attack)
    page = render_trends(of(record, other_rows(record)))
    assert "<script" not in page and "<img" not in page and 'onmouseover="w' not in page
    assert not re.search("[\u202e\u2066\x00\x1b]", page + "".join(trend_lines(of(record))))


@pytest.mark.proof
@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_cut_off_or_refused(
    width: int, history: History, tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    path = tmp_path / "trends.html"
    path.write_text(render_trends(history), encoding="utf-8")
    page = open_page(path.as_uri(), viewport={"width": width, "height": 900})
    assert page.overflow <= 0 and page.complaints == []
    assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]
    for plot in page.tab.locator("svg.plot").all()[:3]:
        box = plot.bounding_box()
        assert box is not None and box["width"] > 150
    if width == 1280:
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        seen = open_page(path.as_uri(), bypass_csp=True)
        for scheme in ("light", "dark"):
            seen.tab.emulate_media(color_scheme=scheme)
            found = axe.run(seen.tab).response["violations"]
            assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found] == []
