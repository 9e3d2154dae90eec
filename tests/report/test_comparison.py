"""Two runs side by side: the comment and the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evalspec.evidence.record import DatasetRecord, ModelRecord, Record
from evalspec.lineage.run_comparison import Flips, RequirementChange, RunComparison, count_words, run_side
from evalspec.report.comparison import comparison_markdown, comparison_page, flip_words
from tests.report import hostile, records
from tests.report.test_browser import open_page

__all__ = ["open_page"]

CHANGES = (
    RequirementChange("quality/accuracy", "regression", "PASS", "FAIL", "96 % (n 1,000)", "90 % (n 1,000)",
                      "−6 pp (−8.3 pp to −3.7 pp)", sentence="accuracy >= 95 %"),
    RequirementChange("contamination/exact_duplicates", "not comparable", "PASS", "FAIL", change="dataset: a, then b",
                      plain="other rows in train", sentence="exact_duplicates == 0"),
    RequirementChange("latency/latency_p99", "not comparable", "NOT_RUN", "NOT_RUN", change="latency: left out"),
    RequirementChange("quality/recall(1)", "improvement", "", "PASS", "80 %", "90 %", "+10 pp (+8 pp to +12 pp)",
                      notes=("asks `recall(1) >= 80 %`, then `recall(1) >= 70 %`: loosened",)),
)  # fmt: skip


def compared(before: Record, after: Record, **fields: Any) -> RunComparison:
    given: dict[str, Any] = {"rows": CHANGES, "flips": (), "differs": (), "alpha": 0.025} | fields
    return RunComparison((run_side(before), run_side(after)), **given)


@pytest.fixture
def found() -> RunComparison:
    flips = (Flips("test", "candidate", 1000, 60, (1,), tuple(range(40))),)
    differs = (("subject", "a" * 12, "b" * 12), ("package numpy", "2.4.5", "2.4.6"))
    after = with_model(with_model(records.not_ready(), "a"), "b")
    return compared(with_model(records.ready(), "a"), after, flips=flips, differs=differs)


def with_model(record: Record, digit: str) -> Record:
    models = (ModelRecord(name="candidate", kind="onnx", digest=digit * 64, path="int8.onnx"),)
    datasets = (DatasetRecord(name="test", kind="parquet", digest="d" * 64, rows=10, path="test.parquet"),)
    return record.model_copy(update={"models": models, "datasets": datasets})


def test_a_comment_begins_with_what_became_worse(found: RunComparison) -> None:
    text = comparison_markdown(found)
    assert text.startswith("### NOT READY, was READY\n")
    order = [
        "1 regression, 2 not",
        "# Regressions (1)",
        "# Not comparable, with",
        ">Not comparable (1)",
        "# Improvements",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "| `accuracy >= 95 %`<br>quality/accuracy | PASS, now FAIL | 96 % (n 1,000) | 90 % (n 1,000) |" in text
    assert "−6 pp (−8.3 pp to −3.7 pp)" in text and "not asked, now PASS" in text and "loosened" in text


def test_a_comment_names_files_and_no_digests(found: RunComparison) -> None:
    text = comparison_markdown(found)
    assert "other rows in train" in text and "dataset: a" not in text
    assert "model `candidate`: int8.onnx has changed" in text and "package numpy: 2.4.5, now 2.4.6" in text
    assert not re.search(r"[ab]{12}", text)


def test_numbers_agree_with_their_nouns() -> None:
    assert count_words(CHANGES) == "1 regression, 2 not comparable, 1 improvement"
    assert count_words(CHANGES[:1] * 2) == "2 regressions"
    assert count_words(()) == "no requirement in either run"
    assert (
        flip_words(Flips("test", "m", 1, 1, (0,), ()))
        == "m on test: 1 of 1 row answered differently, 1 fixed, 0 broken"
    )
    assert "and 20 more, counted from 0" in flip_words(Flips("t", "m", 100, 60, (), tuple(range(40))))


def test_a_comment_is_short_enough_for_one_and_says_what_it_leaves_out() -> None:
    text = comparison_markdown(compared(records.ready(), records.ready(), rows=CHANGES[:1] * 5000))
    assert len(text.encode()) < 60_000 and "and 4,940 more" in text


@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_names_from_data_do_nothing(attack: str) -> None:
    row = RequirementChange(attack, "regression", "PASS", "FAIL", attack, attack, attack, (attack,), attack, attack)
    found = compared(records.ready(), records.ready(), rows=(row,), notes=(attack,))
    page = comparison_page(found)
    comment = MarkdownIt("commonmark", {"html": True}).enable("table").render(comparison_markdown(found))
    for made in (page, comment):
        assert "<script" not in made and "<img" not in made and "\x1b" not in made
    assert "<a " not in comment and "<td" in comment


def test_the_page_links_to_both_reports_and_loads_nothing(found: RunComparison) -> None:
    page = comparison_page(found, ("a/report.html", "b%20c/report.html"))
    assert '<a href="a/report.html">Earlier run of' in page and '<a href="b%20c/report.html">Later run of' in page
    assert re.findall(r'(?:src|href)="([^"#]*)"', page) == ["a/report.html", "b%20c/report.html"]
    assert "script-src &#39;none&#39;" in page or "script-src 'none'" in page
    assert re.findall(r'href="([^"#]*)"', comparison_page(found)) == []


@pytest.mark.proof
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_everybody_can_read_the_page(
    width: int, found: RunComparison, tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    path = tmp_path / "comparison.html"
    path.write_text(comparison_page(found, ("a/report.html", "")), encoding="utf-8")
    page = open_page(path.as_uri(), viewport={"width": width, "height": 900})
    assert page.overflow <= 0 and page.complaints == []
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    seen = open_page(path.as_uri(), bypass_csp=True, viewport={"width": width, "height": 900})
    assert [one["id"] for one in axe.run(seen.tab).response["violations"]] == []
