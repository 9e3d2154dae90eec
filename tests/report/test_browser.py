"""The page in a real browser: nothing leaves it, nothing breaks, everybody can read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from evalspec.evidence.record import Record
from evalspec.report import render
from tests.report import hostile, records
from tests.report.pdf_text import text_of

pytestmark = pytest.mark.browser

BUILDERS: dict[str, Callable[[], Record]] = {
    "ready": records.ready,
    "not_ready": records.not_ready,
    "every_status": records.every_status,
    "crowded": records.crowded,
    "empty": records.empty,
    "many": records.many,
    "wide_matrix": records.wide_matrix,
}
WATCH = """
window.broken = [];
document.addEventListener("securitypolicyviolation", (event) => window.broken.push(event.violatedDirective));
"""


class Opened:
    """A page that was opened, with everything it asked for and complained about."""

    def __init__(self, tab: Any, address: str) -> None:
        self.tab = tab
        self.requests: list[str] = []
        self.complaints: list[str] = []
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("console", lambda message: self.complaints.append(message.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.goto(address)

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.tab.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, build in BUILDERS.items():
        record = build()
        assert record.verdict is not None
        path = folder / f"{name}.html"
        path.write_text(render(record, record.verdict), encoding="utf-8")
        made[name] = path.as_uri()
    return made


@pytest.fixture(scope="module")
def show(chromium: Any, files: dict[str, str]) -> Iterator[Callable[..., Opened]]:
    """Pages for tests that only look, each loaded once: width, scheme and medium are set on the one that is there.

    Tests that look at folded content get pages whose folds are all open, and axe those that let its script in.
    """
    contexts: dict[bool, Any] = {}
    pages: dict[tuple[str, bool, bool], Opened] = {}

    def shown(
        name: str, width: int = 1280, height: int = 900, *, scheme: str = "light", media: str = "null",
        unfolded: bool = False, bypass_csp: bool = False,
    ) -> Opened:  # fmt: skip
        if bypass_csp not in contexts:
            contexts[bypass_csp] = chromium.new_context(bypass_csp=bypass_csp)
            contexts[bypass_csp].add_init_script(WATCH)
        key = name, unfolded, bypass_csp
        if key not in pages:
            pages[key] = Opened(contexts[bypass_csp].new_page(), files[name])
        tab = pages[key].tab
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(media=media, color_scheme=scheme)
        if unfolded:
            tab.evaluate(UNFOLD)
        return pages[key]

    yield shown
    for context in contexts.values():
        context.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def opened(address: str, **settings: Any) -> Opened:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        context.add_init_script(WATCH)
        return Opened(context.new_page(), address)

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.proof
@pytest.mark.parametrize("name", BUILDERS)
def test_nothing_leaves_the_page_and_nothing_is_refused(
    name: str, files: dict[str, str], show: Callable[..., Opened]
) -> None:
    page = show(name)
    page.tab.wait_for_load_state("networkidle")
    assert [url for url in page.requests if not url.startswith("data:")] == [files[name]]
    assert page.complaints == []
    assert page.tab.evaluate("window.broken") == []
    # The style was let through: without it the page would have the browser's serif.
    assert "system-ui" in page.tab.evaluate("getComputedStyle(document.body).fontFamily")


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("crowded", "dark"),
        *(pytest.param(name, scheme, marks=pytest.mark.proof) for name, scheme in [
            ("crowded", "light"), ("ready", "light"), ("ready", "dark"), ("not_ready", "light"), ("not_ready", "dark"),
            ("empty", "light"), ("empty", "dark"), ("every_status", "light"), ("every_status", "dark"),
        ]),
    ],
)  # fmt: skip
def test_axe_finds_nothing(name: str, scheme: str, show: Callable[..., Opened]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = show(name, scheme=scheme, bypass_csp=True)
    found = axe.run(page.tab).response["violations"]
    # Nothing serious may be found; as it is, not even anything minor is.
    assert [(one["id"], one["impact"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found] == []


@pytest.mark.parametrize("width", [320, *(pytest.param(one, marks=pytest.mark.proof) for one in (360, 768, 1280))])
@pytest.mark.parametrize("name", BUILDERS)
def test_no_sideways_scrolling(name: str, width: int, show: Callable[..., Opened]) -> None:
    page = show(name, width, 800)
    assert page.overflow <= 0


BROKEN = """() => {
    const found = [];
    const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        for (const word of walk.currentNode.data.matchAll(/[A-Za-z0-9]{3,}/g)) {
            const range = document.createRange();
            range.setStart(walk.currentNode, word.index);
            range.setEnd(walk.currentNode, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) found.push(word[0]);
        }
    }
    return found;
}"""
"""Words of a page that go over to another line in their middle."""


@pytest.mark.parametrize("name", ["every_status", "crowded"])
def test_no_word_is_broken_on_a_phone(name: str, show: Callable[..., Opened]) -> None:
    page = show(name, 390, 800)
    # A digest has no place to break at.
    assert [word for word in page.tab.evaluate(BROKEN) if len(word) < 40] == []


@pytest.mark.proof
@pytest.mark.parametrize("name", ["not_ready", "many"])
def test_without_script_the_content_is_the_same(
    name: str, files: dict[str, str], open_page: Callable[..., Opened]
) -> None:
    # The filter and the sort buttons are the script's own; everything else must read the same.
    text = """() => {
        for (const own of document.querySelectorAll("[data-filter], .tip")) own.remove();
        return document.body.innerText.replace(/\\s+/g, " ").trim();
    }"""
    with_script = open_page(files[name])
    without = open_page(files[name], java_script_enabled=False)
    words = str(with_script.tab.evaluate(text))
    assert words == str(without.tab.evaluate(text))
    assert "Blocking" in words
    assert without.tab.locator("[data-filter]").is_hidden()
    assert with_script.tab.locator("[data-filter]").is_visible() is False


@pytest.mark.proof
def test_filter_and_sort(files: dict[str, str], open_page: Callable[..., Opened]) -> None:
    tab = open_page(files["many"]).tab
    rows = tab.locator("tr.req:visible")
    assert rows.count() == 300
    everything = tab.get_by_role("button", name="All 300")
    failing = tab.locator(".chips button", has_text="FAIL")
    total = int(failing.inner_text().split()[-1])
    assert everything.get_attribute("aria-pressed") == "true"
    # A chip shows what it names and nothing else, and as many as it says.
    failing.click()
    assert rows.count() == total == tab.locator("tr.req:visible[data-status=FAIL]").count()
    assert [failing.get_attribute("aria-pressed"), everything.get_attribute("aria-pressed")] == ["true", "false"]
    failing.click()
    assert rows.count() == 300 and everything.get_attribute("aria-pressed") == "true"
    tab.get_by_label("Find").fill("digit_14)")
    assert rows.count() == 1
    assert tab.locator("output").inner_text() == "1 of 300 shown"
    tab.get_by_label("Find").fill("")
    tab.get_by_role("button", name="Sort by n").click()
    tab.get_by_role("button", name="Sort by n").click()
    assert tab.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert rows.first.locator("td.n").inner_text() == "378"


@pytest.mark.proof
def test_an_empty_result_says_how_to_go_back(files: dict[str, str], open_page: Callable[..., Opened]) -> None:
    tab = open_page(files["many"]).tab
    assert tab.locator("[data-empty]").is_hidden()
    tab.locator(".chips button", has_text="FAIL").click()
    tab.get_by_label("Find").fill("no such thing")
    assert tab.locator("[data-empty]").inner_text().startswith("Nothing matches.")
    assert tab.locator("table.requirements").is_hidden()
    tab.get_by_role("button", name="Show all 300").click()
    assert tab.locator("tr.req:visible").count() == 300
    assert tab.get_by_label("Find").input_value() == ""


@pytest.mark.proof
def test_a_fold_opens_for_what_a_link_leads_to_and_without_a_script(
    files: dict[str, str], open_page: Callable[..., Opened]
) -> None:
    for script in (True, False):
        tab = open_page(files["ready"], java_script_enabled=script).tab
        limits = tab.locator(".limits > div").first
        assert limits.is_hidden()
        tab.locator(".to-limits a").first.click()
        assert limits.is_visible()


def test_the_point_under_the_pointer_is_named(files: dict[str, str], open_page: Callable[..., Opened]) -> None:
    tab = open_page(files["ready"]).tab
    chart = tab.locator("svg.chart", has_text="Reliability")
    chart.scroll_into_view_if_needed()
    box = chart.locator("circle").first.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "Confidence 0.52" in tab.locator(".tip").inner_text()


@pytest.mark.proof
@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_hostile_text_does_nothing(attack: str, tmp_path: Path, open_page: Callable[..., Opened]) -> None:
    record = hostile.worst(attack)
    assert record.verdict is not None
    path = tmp_path / "hostile.html"
    path.write_text(render(record, record.verdict), encoding="utf-8")
    page = open_page(path.as_uri(), viewport={"width": 320, "height": 800})
    for target in page.tab.locator("h1, .sentence, caption, figcaption").all()[:40]:
        target.dispatch_event("mouseover")
    assert page.tab.evaluate("window.owned") is None
    assert page.tab.evaluate("window.broken") == []
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]
    assert page.overflow <= 0


def test_the_policy_stops_what_the_page_does_not_know(tmp_path: Path, open_page: Callable[..., Opened]) -> None:
    record = records.ready()
    assert record.verdict is not None
    source = render(record, record.verdict).replace("</main>", "<script>window.owned=1</script></main>")
    path = tmp_path / "planted.html"
    path.write_text(source, encoding="utf-8")
    page = open_page(path.as_uri())
    assert page.tab.evaluate("window.owned") is None
    assert page.tab.evaluate("window.broken") == ["script-src-elem"]


@pytest.mark.proof
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper(scheme: str, files: dict[str, str], tmp_path: Path, open_page: Callable[..., Opened]) -> None:
    page = open_page(files["not_ready"], color_scheme=scheme, viewport={"width": 690, "height": 980})
    page.tab.locator(".chips button", has_text="PASS").click()
    page.tab.emulate_media(media="print", color_scheme=scheme)
    # Paper is white whatever the screen is, nothing is cut off, and a filter hides nothing.
    assert page.tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.tab.evaluate("getComputedStyle(document.body).color") == "rgb(23, 26, 30)"
    assert page.overflow <= 0
    assert page.tab.locator("tr.req:visible").count() == 12
    cut = "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
    assert page.tab.evaluate(cut) == 0
    paper = tmp_path / "report.pdf"
    page.tab.pdf(path=paper, prefer_css_page_size=True)
    assert paper.read_bytes().startswith(b"%PDF")
    assert paper.stat().st_size > 20_000


UNFOLD = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
WORDS = """() => {
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const parent = walk.currentNode.parentElement;
        const own = "script, style, title, .vh, .filter, .empty, .tip, .contents, .skip, .to-limits, th button";
        const quiet = parent.closest(own);
        if (quiet || !parent.checkVisibility() || parent.closest("[hidden]")) continue;
        found.push(...walk.currentNode.data.split(/\\s+/).filter(Boolean));
    }
    return found;
}"""
"""Words that paper shows: folds are open on it."""


@pytest.mark.parametrize(
    "name", ["crowded", "wide_matrix", *(pytest.param(one, marks=pytest.mark.proof) for one in ("ready", "not_ready"))]
)
def test_paper_holds_every_word_of_the_page(name: str, tmp_path: Path, show: Callable[..., Opened]) -> None:
    paper = tmp_path / "report.pdf"
    show(name).tab.pdf(path=paper, prefer_css_page_size=True)
    page = show(name, media="print", unfolded=True)
    words = Counter("".join(normalize("NFKC", word).split()) for word in page.tab.evaluate(WORDS))
    assert len(words) > 300
    printed = text_of(paper.read_bytes())
    assert {word: count for word, count in words.items() if printed.count(word) < count} == {}


CLIPPED = """() => [...document.querySelectorAll("body *")].filter((one) => {
    if (one.closest(".vh, svg, [hidden], .tip, .skip") || !one.checkVisibility()) return false;
    const style = getComputedStyle(one);
    // A table of many columns may be scrolled, with a fade that says so; a matrix may not.
    if (one.matches(".scroll") && one.querySelector("table.data")) return false;
    return style.overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1;
}).map((one) => `${one.tagName} ${one.className}: ${one.textContent.trim().slice(0, 60)}`)"""


@pytest.mark.parametrize("width", [390, 1280, pytest.param(1920, marks=pytest.mark.proof)])
@pytest.mark.parametrize("name", ["crowded", "wide_matrix", pytest.param("not_ready", marks=pytest.mark.proof)])
def test_nothing_is_clipped(name: str, width: int, show: Callable[..., Opened]) -> None:
    page = show(name, width, unfolded=True)
    assert page.tab.evaluate(CLIPPED) == []
    assert page.overflow <= 0


def test_what_is_clipped_would_be_found(files: dict[str, str], open_page: Callable[..., Opened]) -> None:
    tab = open_page(files["wide_matrix"], viewport={"width": 390, "height": 900}).tab
    tab.evaluate("document.querySelectorAll('.matrix td').forEach((one) => { one.textContent = '1,234,567'; })")
    assert len(tab.evaluate(CLIPPED)) > 0


@pytest.mark.proof
@pytest.mark.parametrize("name", ["every_status", "crowded"])
def test_type_has_few_sizes(name: str, show: Callable[..., Opened]) -> None:
    sizes = set()
    for width in (390, 1280):
        page = show(name, width)
        sizes |= set(page.tab.evaluate(
            """() => [...document.querySelectorAll("body *")]
                .filter((one) => one.checkVisibility())
                .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
                .map((one) => getComputedStyle(one).fontSize)"""
        ))  # fmt: skip
    assert len(sizes) <= 7, sorted(sizes)


TOUCHING = """() => {
    const box = (one) => one.getBoundingClientRect();
    const touch = (a, b) =>
        a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;
    const seen = (one) => box(one).width > 0 || box(one).height > 0;
    const drawn = "[fill*='--series'], [stroke*='--series'], line[stroke*='--ink'], path[stroke*='--ink']";
    const found = [];
    for (const chart of document.querySelectorAll("svg.chart, svg.axis")) {
        const texts = [...chart.querySelectorAll("text")].filter(seen);
        const others = [...texts, ...[...chart.querySelectorAll(drawn)].filter(seen)];
        for (const [index, text] of texts.entries())
            for (const other of others.slice(index + 1))
                if (touch(box(text), box(other))) found.push([text.textContent, other.textContent || other.tagName]);
    }
    return found;
}"""
OUTSIDE = """() => [...document.querySelectorAll("svg.chart")].flatMap((chart) => {
    const frame = chart.getBoundingClientRect();
    return [...chart.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()])
        .filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
        .map(([words]) => words);
})"""
BESIDE = """() => {
    const rows = document.querySelectorAll("table.bars tbody tr:not(.opens), table.forest tbody tr");
    return [...rows].map((row) => {
        const words = document.createRange();
        words.selectNodeContents(row.querySelector("th"));
        return row.querySelector("td.draw svg").getBoundingClientRect().left - words.getBoundingClientRect().right;
    });
}"""
CELLS_IN_TWO_LINES = """() => [...document.querySelectorAll(".block td, .block tbody th, .vl b")].filter((cell) => {
    if (/[\\s\u2026]/.test(cell.textContent.trim()) || cell.querySelector("svg")) return false;
    const words = document.createRange();
    words.selectNodeContents(cell);
    return words.getClientRects().length > 1;
}).map((cell) => cell.textContent)"""


@pytest.mark.proof
@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("name", ["crowded", "ready"])
def test_no_text_of_a_chart_touches_another_or_the_marks(name: str, width: int, show: Callable[..., Opened]) -> None:
    page = show(name, width)
    assert page.tab.locator("svg.chart").count() > 2 and page.tab.locator("svg.axis").count() > 0
    assert page.tab.evaluate(TOUCHING) == []
    assert page.tab.evaluate(OUTSIDE) == []


def test_a_fault_of_a_chart_would_be_found(files: dict[str, str], open_page: Callable[..., Opened]) -> None:
    page = open_page(files["crowded"])
    page.tab.evaluate("""() => {
        const [first, second] = document.querySelectorAll("svg.chart text");
        second.setAttribute("transform", first.getAttribute("transform"));
        first.parentNode.append(second);
    }""")
    assert len(page.tab.evaluate(TOUCHING)) > 0


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_names_keep_away_from_their_bars(width: int, show: Callable[..., Opened]) -> None:
    tab = show("crowded", width, unfolded=True).tab
    gaps = tab.evaluate(BESIDE)
    assert len(gaps) >= 10
    assert min(gaps) >= 6


def test_requirements_of_a_check_begin_below_each_other(show: Callable[..., Opened]) -> None:
    lists = show("every_status").tab.evaluate(
        "[...document.querySelectorAll('.asked')].map((list) =>"
        " [...list.querySelectorAll('a')].map((one) => one.getBoundingClientRect().left))"
    )
    assert max(map(len, lists)) > 2
    assert all(len(set(lefts)) == 1 for lefts in lists)


@pytest.mark.parametrize("width", [390, 1280])
def test_no_word_is_broken_in_two(width: int, show: Callable[..., Opened]) -> None:
    page = show("crowded", width)
    assert page.tab.evaluate(CELLS_IN_TWO_LINES) == []


@pytest.mark.proof
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 1000)])
@pytest.mark.parametrize("name", ["ready", "not_ready", "crowded"])
def test_the_first_screen_tells_verdict_reason_and_what_to_do(
    name: str, width: int, height: int, show: Callable[..., Opened]
) -> None:
    tab = show(name, width, height).tab
    for part in ("h1", ".reason", ".next", ".tally"):
        box = tab.locator(part).first.bounding_box()
        assert box is not None and box["y"] + box["height"] <= height, part


def test_what_is_not_to_be_trusted_is_struck_and_says_so(show: Callable[..., Opened]) -> None:
    tab = show("crowded").tab
    cell = tab.locator("#requirement-load-latency_p99 .vl")
    assert "line-through" in cell.locator("s").evaluate("one => getComputedStyle(one).textDecorationLine")
    assert cell.inner_text().splitlines()[:2] == ["13.65 ms (4000 qps)", "not judged"]


def test_on_paper_no_row_or_chart_is_cut_and_a_heading_keeps_what_it_heads(show: Callable[..., Opened]) -> None:
    page = show("crowded", 690, 980, media="print")
    tab = page.tab
    # Nor is a table of thirteen columns wider than the paper.
    assert page.overflow <= 0
    kinds = """([selector, name]) => {
        const found = [...document.querySelectorAll(selector)].map((one) => getComputedStyle(one)[name]);
        return [...new Set(found)];
    }"""
    for selector in ("tr", "figure", ".req", ".block:not(.long):not(.examples)", ".next li", ".face"):
        assert tab.evaluate(kinds, [selector, "breakInside"]) == ["avoid"], selector
    assert tab.evaluate(kinds, ["h2, h3, h4, caption, tr.group", "breakAfter"]) == ["avoid"]
    assert tab.evaluate(TOUCHING) == []
