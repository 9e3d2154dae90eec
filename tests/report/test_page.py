from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from evalspec.evidence.blocks import Example, Examples, Matrix, Table, Text
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import Decision
from evalspec.report import render
from evalspec.report.names import breakable
from evalspec.report.page import cautions
from evalspec.report.words import badge
from tests.report import hostile, records
from tests.report.pictures import png

BUILDERS = (records.ready, records.not_ready, records.every_status, records.empty)
VOID = {"meta", "img", "input", "br", "link", "wbr"}


class Page(HTMLParser):
    """A page taken apart: elements with attributes, text, and whether every element was closed."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.crossed: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


def page(record: Record) -> Page:
    assert record.verdict is not None
    return Page(render(record, record.verdict))


@pytest.mark.parametrize("build", BUILDERS)
def test_page_is_well_formed_and_small(build: Callable[[], Record]) -> None:
    record = build()
    assert record.verdict is not None
    source = render(record, record.verdict)
    found = Page(source)
    assert found.open == []
    assert found.crossed == []
    assert len(source.encode()) < 400_000
    ids = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert [name for name, count in Counter(ids).items() if count > 1] == []


@pytest.mark.parametrize("build", BUILDERS)
def test_links_stay_on_the_page_and_lead_somewhere(build: Callable[[], Record]) -> None:
    found = page(build())
    ids = {attrs["id"] for _, attrs in found.elements if "id" in attrs}
    for link in (*found.all("a"), *found.all("use")):
        target = link["href"]
        assert target is not None
        assert target.startswith("#")
        assert target[1:] in ids


def test_nothing_is_loaded() -> None:
    found = page(records.not_ready())
    assert {tag for tag, _ in found.elements} & {"link", "iframe", "object", "embed", "base", "audio", "video"} == set()
    assert all("src" not in script for script in found.all("script"))
    assert all(str(image["src"]).startswith("data:image/png;base64,") for image in found.all("img"))
    assert len(found.all("img")) == 14


def test_policy_allows_only_the_page_s_own_script_and_style() -> None:
    record = records.ready()
    assert record.verdict is not None
    source = render(record, record.verdict)
    policy = next(meta["content"] for meta in Page(source).all("meta") if meta.get("http-equiv"))
    assert policy is not None
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    for tag in ("script", "style"):
        bodies = re.findall(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        assert len(bodies) == 1
        digest = base64.b64encode(hashlib.sha256(bodies[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    # A style attribute or an event handler would be refused by the policy, so none may be relied on.
    assert all(not name.startswith("on") and name != "style" for _, attrs in Page(source).elements for name in attrs)


def test_order_top_to_bottom() -> None:
    record = records.not_ready()
    assert record.verdict is not None
    text = page(record).words
    places = [
        record.verdict.word,
        "int8.onnx",
        "of 10 blocking requirements fail",
        "What to do",
        "Caveats",
        "The staging machine is shared until January.",
        "This subject was decided 2 times before",
        "Blocking",
        "ece <= 0.05",
        "accuracy >= 95 %",
        "What serves it",
        "The model itself",
        "Test data: clean, complete",
        "Cross-checks",
        "Claims beside what was measured",
        "What the checks cannot show",
        "Reproduce",
    ]
    start = 0
    for place in places:
        at = text.find(place, start)
        assert at >= start, f"{place!r} is not where it belongs"
        start = at


def test_every_requirement_says_status_sentence_value_and_n() -> None:
    record = records.every_status()
    assert record.verdict is not None
    text = page(record).words
    for decision in record.verdict.decisions:
        assert decision.sentence in text
        assert badge(decision.status).word in text
    assert "Why it matters It says so in the contract." in text
    assert "Owner vision@example.com" in text
    assert "needs ≥ 0.99" in text
    assert "0.963 to 0.982" in text


def test_requirements_stand_worst_first() -> None:
    record = records.every_status()
    rows = [attrs for attrs in page(record).all("tr") if "req" in str(attrs.get("class", "")).split()]
    # Blocking first, then the waived FAIL, then the warning, then what holds.
    assert [row["data-status"] for row in rows] == [
        *("FAIL", "ERROR", "INVALID", "NOT_RUN", "INCONCLUSIVE", "INCONCLUSIVE"),
        *("FAIL", "FAIL"),
        *("PASS", "PASS"),
    ]


def test_status_is_never_a_colour_alone() -> None:
    source = render(*_with_verdict(records.every_status()))
    badges = re.findall(r'<span class="badge[^"]*">(.*?)</span></span>|<span class="badge[^"]*">(.*?)</span>', source)
    assert len(badges) > 20
    for first, second in badges:
        body = first or second
        assert "<svg" in body or "nothing required" in body
        assert re.search(r"<b>[A-Za-z ]+</b>", body) or "nothing required" in body


def _with_verdict(record: Record) -> tuple[Record, object]:
    assert record.verdict is not None
    return record, record.verdict


def test_everything_that_weakens_it_is_at_the_top() -> None:
    text = page(records.every_status()).words
    top = text[: text.index("What blocks first.")]
    for words in (
        "Dark pictures come with the next release.",
        "draft",
        "Only a part was run: quality",
        "interrupted",
        "subject is not shown",
    ):
        assert words in top


def test_the_id_of_a_check_is_not_changed_where_a_sentence_begins_with_it() -> None:
    record, verdict = records.ready(), records.ready().verdict
    assert verdict is not None
    lines = (f"{record.checks[0].id}: it guesses", "a draft: a few rows")
    found = cautions(record, verdict.model_copy(update={"weakened": lines}))
    assert found[:2] == (lines[0], "A draft: a few rows")


def test_pictures_without_a_name_are_hidden_from_readers_and_the_rest_are_named() -> None:
    found = page(records.not_ready())
    for svg in found.all("svg"):
        assert svg.get("aria-hidden") == "true" or svg.get("role") == "img"
    for table in re.findall(r"<table.*?</table>", render(*_with_verdict(records.not_ready())), re.DOTALL):
        assert "<caption" in table
        assert 'scope="col"' in table


@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_hostile_text_stays_text(attack: str) -> None:
    record = hostile.worst(attack)
    clean = page(records.every_status())
    assert record.verdict is not None
    source = render(record, record.verdict)
    found = Page(source)
    assert found.open == []
    assert found.crossed == []
    allowed = {tag for tag, _ in clean.elements} | {"code", "blockquote", "ul", "p"}
    assert {tag for tag, _ in found.elements} <= allowed
    assert len(found.all("script")) == len(found.all("style")) == 1
    for _, attrs in found.elements:
        assert not any(name.startswith("on") or name == "style" for name in attrs)
        assert not str(attrs.get("href", "#")).startswith("javascript")
    assert "\u202e" not in source
    assert "\x1b" not in source
    assert "\x00" not in source


def test_hostile_text_is_still_readable() -> None:
    text = page(hostile.worst(hostile.SCRIPT)).words
    assert "<script>window.owned=1</script>" in text
    assert "\\u202etxet" in page(hostile.worst(hostile.DIRECTION)).words


@pytest.mark.proof
def test_three_hundred_requirements() -> None:
    record = records.many()
    assert record.verdict is not None
    source = render(record, record.verdict)
    assert len(source.encode()) < 600_000
    assert len([attrs for attrs in Page(source).all("tr") if attrs.get("data-status")]) == 300


def test_a_decision_without_a_test_and_a_test_without_a_decision_are_both_shown() -> None:
    record = records.ready()
    assert record.verdict is not None
    lonely = Decision(name="subject", status="INVALID", blocking=True, sentence="The subject is not shown.")
    verdict = record.verdict.model_copy(update={"decisions": (*record.verdict.decisions[1:], lonely)})
    text = Page(render(record, verdict)).words
    assert "The subject is not shown." in text
    assert "latency_p99 <= 5 ms: the verdict does not cover it." in text
    assert "NOT RUN" in text


def test_two_requirements_of_one_name_keep_their_own_sentences() -> None:
    shared = {"threshold": 0.9, "unit": "fraction", "value": 0.93, "n": 840}
    cases = (
        records.case("quality/accuracy", "accuracy >= 90 %", "PASS", "It holds.", **shared),
        records.case(
            "quality/accuracy", "accuracy >= 97 %", "FAIL", "It fails.", severity="warn", **shared | {"threshold": 0.97}
        ),
    )
    record = records.record(records.decide("READY", "All hold.", cases), [records.check("quality", cases)])
    source = render(*_with_verdict(record))
    assert 'id="requirement-quality-accuracy"' in source
    assert 'id="requirement-quality-accuracy--2"' in source
    holds = source[source.index('id="requirement-quality-accuracy"') :]
    assert "accuracy &gt;= 90 %" in holds[:700]


def test_parts_are_drawn_where_no_block_shows_them() -> None:
    record = records.ready()
    slices = next(check for check in record.checks if check.id == "slices")
    bare = record.model_copy(update={"checks": (slices.model_copy(update={"blocks": ()}),)})
    assert "worst_accuracy >= 85 %, by part" in page(bare).words
    assert "by part" not in page(record).words


def test_blocks_are_capped_and_say_so() -> None:
    check = records.check("quality", ())
    pictures = tuple(Example(title=f"row {index}", image=png("3")) for index in range(40))
    found = check.model_copy(
        update={
            "blocks": (
                Table(title="Long", columns=({"name": "a"},), rows=tuple((index,) for index in range(1_234))),
                Examples(title="Many", examples=pictures, total=2_000),
                Matrix(
                    title="Wide",
                    row_label="r",
                    column_label="c",
                    rows=("a",) * 60,
                    columns=("b",) * 60,
                    values=((1.0,) * 60,) * 60,
                ),
                Text(title="Words", text="one\n\ntwo"),
            )
        }
    )
    record = records.ready().model_copy(update={"checks": (found,)})
    text = page(record).words
    assert "1,034 more are left out here" in text
    assert "24 of 2,000 are shown." in text
    assert "20 more are left out here" in text


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("not base64 at all!", "The picture is not base64."),
        (base64.b64encode(b"<svg onload=alert(1)>").decode(), "The picture is not a PNG."),
        ("A" * 100_000, "The picture is too large for this page."),
        ('x" onerror="alert(1)', "The picture is not base64."),
    ],
)
def test_only_pngs_are_shown(image: str, words: str) -> None:
    block = Examples(title="Rows", examples=(Example(title="row 1", image=image),), total=1)
    check = records.check("quality", ()).model_copy(update={"blocks": (block,)})
    found = page(records.ready().model_copy(update={"checks": (check,)}))
    assert words in found.words
    assert found.all("img") == []


def test_a_page_is_the_same_every_time() -> None:
    first, second = (render(*_with_verdict(records.not_ready())) for _ in range(2))
    assert first == second


def test_a_note_of_many_requirements_is_said_once() -> None:
    note = "its data do not meet a warning, field_shift/c2st_auc"
    fields = {"threshold": 0.9, "unit": "fraction", "value": 0.93, "n": 840}
    cases = tuple(
        records.case(
            f"quality/m{index}", f"m{index} >= 90 %", "PASS", "It holds.", **fields, notes=(note, f"own {index}")
        )
        for index in range(4)
    )
    other = records.case("quality/z", "z >= 90 %", "FAIL", "It fails.", **fields, notes=(note,))
    record = records.record(records.decide("READY", "All hold.", (*cases, other)), [records.check("quality", cases)])
    text = page(record).words
    assert text.count(f"4 of these: {note}") == 1
    # In its own group the fifth is alone, and keeps it.
    assert text.count(note) == 2
    assert all(f"own {index}" in text for index in range(4))


def test_a_note_ends_with_one_full_stop() -> None:
    notes = ("Met in spite of a disturbance.", "a note without a stop")
    fields = {"threshold": 0.9, "unit": "fraction", "value": 0.93, "n": 840}
    one = records.case("quality/m", "m >= 90 %", "PASS", "It holds.", **fields, notes=notes)
    record = records.record(records.decide("READY", "All hold.", (one,)), [records.check("quality", (one,))])
    text = page(record).words
    assert "Met in spite of a disturbance. a note without a stop." in text and "disturbance.." not in text


def test_what_checks_cannot_show_is_a_list_by_check_beside_what_was_left_out() -> None:
    source = render(*_with_verdict(records.crowded()))
    start = source.index('id="not-tested"')
    shown = source[start : source.index("</section>", start)]
    assert "<dt>load</dt><dd>Traffic that is not like this.</dd>" in shown
    # Only a line about a kind of check that was run is one of these.
    assert "<li>load: cannot show: is not a limit</li>" in shown


def test_conditions_that_are_not_there_are_not_listed() -> None:
    found = page(records.crowded()).words
    assert "scenario server" in found and "burstiness" not in found


def test_more_than_was_asked_for_is_not_a_share_of_it() -> None:
    check = records.check("quality", ())
    more = check.model_copy(update={"counts": check.counts.model_copy(update={"attempted": 800, "used": 840})})
    text = page(records.ready().model_copy(update={"checks": (more,)})).words
    assert "used 840, 800 asked for" in text
    assert "used 840 of 840" in page(records.ready()).words


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("accuracy", ("accuracy",)),
        ("site=north", ("site=north",)),
        ("representation_gap(site=north)", ("representation_", "gap", "(site=", "north)")),
        ("steady/latency_p99 vs baseline", ("steady/", "latency_", "p99 vs baseline")),
        ("worst_accuracy >= -1.5 pp", ("worst_", "accuracy >= -1.5 pp")),
    ],
)
def test_a_long_name_goes_over_between_its_words(name: str, pieces: tuple[str, ...]) -> None:
    assert breakable(name) == pieces
    assert "".join(breakable(name)) == name
