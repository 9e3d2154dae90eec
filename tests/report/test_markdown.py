from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from evalspec.errors import RecordError
from evalspec.evidence.policy import Waiver
from evalspec.evidence.record import Record
from evalspec.report import markdown
from evalspec.report.markdown import code, escape, prose
from tests.report import hostile, records


@pytest.mark.parametrize("build", [records.ready, records.not_ready, records.every_status, records.empty, records.many])
def test_summary_fits(build: Callable[[], Record]) -> None:
    record = build()
    text = markdown(record)
    assert len(text.encode()) < 60_000
    assert record.verdict is not None
    assert text.startswith(f"## {record.verdict.headline}\n\n{record.verdict.reason}")


def test_three_thousand_requirements_fit_and_the_worst_are_there() -> None:
    text = markdown(records.many(3_000))
    assert len(text.encode()) < 60_000
    assert "`accuracy(digit_0) >= 88 %`" in text
    # 429 of 3,000 FAIL; what was left out is counted.
    left, held = re.search(r"([\d,]+) more are in the report; ([\d,]+) of them PASS", text).groups()  # type: ignore[union-attr]
    shown = text.count("\n| ") - 2
    assert shown + int(left.replace(",", "")) == 3_000
    assert 3_000 - 429 - text.count("\n| PASS") == int(held.replace(",", ""))


def test_order_and_content() -> None:
    text = markdown(records.not_ready())
    places = [
        "## NOT READY (1 waived, 1 inconclusive, 1 not judged)",
        "5 of 11 blocking requirements are violated",
        "### Caveats",
        "**Waived:** `latency/latency_p50 vs baseline`: The staging machine is shared until January.",
        "### Dimensions",
        "**System** (2 checks): 1 PASS",
        "### Requirements, worst first",
        "| **FAIL** | `ece <= 0.05`<br>calibration | 0.142 | ≤ 0.05 | 840 |",
        "*Why it matters:* The sorter trusts answers over 0.9",
        "| **INCONCLUSIVE, waived** |",
        "| PASS | `latency_p99 <= 5 ms`",
        "### Not tested",
        "- Latency under load: no `load` check in the spec.",
    ]
    at = [text.find(place) for place in places]
    assert -1 not in at
    assert at == sorted(at)


@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_hostile_text_stays_text(attack: str) -> None:
    text = markdown(hostile.worst(attack))
    assert len(text.encode()) < 60_000
    outside = re.sub(r"`[^`\n]*`", "", text)
    assert not re.search(r"<(?!br>)", outside)
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert "https://" not in outside
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f]", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    # Six cells: seven bars that no backslash takes the meaning from.
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("<b>x</b> & y", "&lt;b&gt;x&lt;/b&gt; &amp; y"),
        ("worst_accuracy and _emphasis_", r"worst_accuracy and \_emphasis\_"),
        ("# heading", r"\# heading"),
        ("- item", r"\- item"),
        ("-1.1 pp", "-1.1 pp"),
        ("two\nlines  here", "two lines here"),
        ("ask @team", "ask &#64;team"),
        ("1. first", r"1\. first"),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_prose_keeps_code() -> None:
    assert prose("no `load` check | here") == r"no `load` check \| here"
    assert prose("a lone ` tick") == r"a lone \` tick"


def test_a_waiver_that_sets_nothing_aside_does_not_say_waived() -> None:
    ended = Waiver(of="calibration/ece", why="Later.", owner="me", expires="2026-01-01")
    text = markdown(records.not_ready().model_copy(update={"waivers": (ended,)}))
    assert "**Waiver without effect:** `calibration/ece`" in text
    assert "**Waived:**" not in text


def test_no_verdict() -> None:
    with pytest.raises(RecordError, match="the record of 'digits-int8' holds no verdict"):
        markdown(records.ready().model_copy(update={"verdict": None}))


def test_f14_a_backslash_before_a_pipe_ends_no_cell() -> None:
    assert code("a|b") == "`a\\|b`"
    assert code("a\\|<img src=x>`[b](c)") == escape("a\\|<img src=x>`[b](c)")
    # GitHub takes each backslash with what follows it, and ends a cell at a pipe that is left.
    assert "|" not in re.sub(r"\\.", "", code("\\\\|x|\\|y"))
