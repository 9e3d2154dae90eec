"""The profile in page, summary and JUnit: what it asks for, what answers it, what is set aside, in its order."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

from evalspec.evidence.profile import Without
from evalspec.evidence.record import Record
from evalspec.report import junit, markdown, render
from evalspec.report.checks import sections
from evalspec.report.next_steps import next_steps
from evalspec.report.profile import profile_view
from evalspec.report.requirements import requirement_rows
from evalspec.verdict import decide
from tests.report.test_page import Page
from tests.verdict.test_decide import a_check, a_record, a_test
from tests.verdict.test_profile import a_profile, an_item

ASIDE = Without(of="sustained", why="It works for <seconds> only.", owner="me", expires="2026-12-31")


def a_run(**fields: Any) -> Record:
    """Quality and calibration hold; energy and memory are missing, sustained is set aside, stages is recommended."""
    profile = a_profile(
        an_item("quality", found=("quality",), why="Being right comes first.", source="A book, 2020"),
        an_item("rollback", found=("rollback",), kinds=()),
        an_item("energy"),
        an_item("memory", why="It has <b>little</b>."),
        an_item("sustained"),
        an_item("stages", mandatory=False),
        order=("contamination", "calibration", "energy", "quality", "memory"),
        dimensions=("data", "model", "system"),
    )
    checks = (
        a_check(a_test(), id="quality"),
        a_check(a_test("calibration", "ece"), id="calibration"),
        a_check(a_test("contamination", "exact_duplicates"), id="contamination", dimension="data"),
    )
    record = a_record(*checks, **({"profile": profile, "without": (ASIDE,)} | fields))
    return record.model_copy(update={"verdict": decide(record)})


def shown(record: Record) -> str:
    assert record.verdict is not None
    return render(record, record.verdict)


def test_sections_and_checks_come_in_the_profile_s_order_and_none_is_hidden() -> None:
    record = a_run()
    assert record.verdict is not None
    parts = sections(record, requirement_rows(record, record.verdict))
    assert [(part.title, [check.id for check in part.checks]) for part in parts] == [
        ("Data", ["contamination"]),
        ("Model", ["calibration", "quality"]),
        ("System", []),
    ]
    plain = sections(record.model_copy(update={"profile": None}), ())
    assert [(part.title, [check.id for check in part.checks]) for part in plain] == [
        ("System", []),
        ("Model", ["quality", "calibration"]),
        ("Data", ["contamination"]),
    ]
    places = [markdown(record).index(f"**{title}** (") for title in ("Data", "Model")]
    assert places == sorted(places)


def test_rows_are_worst_first_then_in_the_profile_s_order() -> None:
    record = a_run()
    assert record.verdict is not None
    rows = requirement_rows(record, record.verdict)
    assert [(row.name, str(row.badge)) for row in rows] == [
        ("profile/energy", "NOT RUN"),
        ("profile/memory", "NOT RUN"),
        ("profile/sustained", "NOT RUN, waived"),
        ("profile/stages", "NOT RUN, warn"),
        ("contamination/exact_duplicates", "PASS"),
        ("calibration/ece", "PASS"),
        ("quality/accuracy", "PASS"),
    ]


def test_what_is_set_aside_and_what_is_asked_for_stand_on_the_page() -> None:
    page = Page(shown(a_run()))
    assert page.open == [] and page.crossed == []
    assert "Set aside: profile/sustained NOT RUN waived It works for <seconds> only. Owner me, until 2026-12-31." in (
        " ".join(page.words.split())
    )
    assert page.words.index("Set aside:") < page.words.index("Blocking") < page.words.index("Asked for")
    assert {attrs.get("id") for _, attrs in page.elements} >= {"profile", "weakened"}
    # It stands in its list, and is not said again among the cautions.
    assert page.words.count("It works for <seconds> only.") == 1
    assert "<b>little</b>" not in shown(a_run())


def test_each_item_names_what_answers_it() -> None:
    record = a_run()
    assert record.verdict is not None
    view = profile_view(record, sections(record, requirement_rows(record, record.verdict)))
    assert view is not None
    rows = {row.asks: row for row in view.rows}
    assert list(rows)[:3] == ["`energy`", "`memory`", "`sustained`"]
    assert [str(row.badge) for row in view.rows if row.badge] == [
        *("NOT RUN", "NOT RUN", "NOT RUN, set aside", "NOT RUN, recommended"),
    ]
    assert [check.id for check in rows["`quality`"].checks] == ["quality"]
    assert rows["`quality`"].why == "Being right comes first. (A book, 2020)"
    assert rows["`rollback`"].stated == ("rollback:",)
    assert profile_view(record.model_copy(update={"profile": None}), ()) is None


def test_a_page_without_a_profile_has_no_place_for_one() -> None:
    found = shown(a_run(profile=None, without=()))
    assert 'id="profile"' not in found
    assert "What the profile asks for" not in found


def test_the_next_step_names_what_is_to_be_added() -> None:
    record = a_run()
    assert record.verdict is not None
    first, second = next_steps(record, record.verdict).steps
    assert (first.title, len(first.requirements)) == ("Add or set aside energy, memory", 2)
    assert (second.title, second.warns) == ("Add or set aside stages", True)


def test_the_next_step_for_what_comes_near_says_what_lacks() -> None:
    near = an_item("tail", near=("latency has no requirement on it",))
    record = a_run(profile=a_profile(near, an_item("energy"), an_item("spike", near=near.near, mandatory=False)))
    assert record.verdict is not None
    steps = next_steps(record, record.verdict).steps
    assert [(step.title, step.text, step.warns) for step in steps] == [
        ("Add or set aside energy", "The profile asks for energy.", False),
        ("Change or set aside tail", "Latency has no requirement on it.", False),
        ("Change or set aside spike", "Latency has no requirement on it.", True),
    ]
    assert "change that, or set it aside with `without:`" in markdown(record)


def test_the_summary_says_all_of_it() -> None:
    text = markdown(a_run())
    assert "profile `edge`" in text
    assert (
        "- **Set aside:** `profile/sustained`: It works for &lt;seconds&gt; only. Owner me, until 2026-12-31." in text
    )
    assert "asks for `memory`: it has &lt;b&gt;little&lt;/b&gt;; add it, or set it aside with `without:`" in text
    ended = markdown(a_run(started="2027-01-01T00:00:00Z"))
    assert "- **No longer set aside:** `profile/sustained`" in ended
    assert ended.count("until 2026-12-31") == 1 and "The setting aside" not in ended


def test_a_missing_item_fails_in_junit() -> None:
    root = ElementTree.fromstring(junit(a_run()))
    cases = {str(case.get("name")): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases["profile/energy"] == ["failure", "system-out"]
    assert cases["profile/sustained"] == ["skipped", "system-out"]
    assert cases["profile/stages"] == ["skipped", "system-out"]
    assert cases["quality/accuracy"] == ["system-out"]
    facts = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert facts["profile"] == "edge"
    assert re.search(r"2 not run", str(facts["headline"]))


def test_its_links_lead_somewhere_and_no_two_landmarks_are_called_alike() -> None:
    page = Page(shown(a_run()))
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    assert {str(link["href"])[1:] for link in page.all("a") if "hidden" not in link} <= ids
    named = [attrs["aria-label"] for _, attrs in page.elements if attrs.get("role") == "region"]
    assert "What the profile asks for" not in named
