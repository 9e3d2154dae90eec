"""Sentences for people avoid the turns that the style guide refuses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "style.md"
QUOTED = {"style.md"}
"""The page that is not read: the list itself."""
PAGES = tuple(
    path
    for path in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    if path.name not in QUOTED
)
ALLOWED: dict[str, set[str]] = {}
"""File: phrases that are right there, each because it is a name or quotes someone."""


def pattern(turn: str) -> str:
    """A turn as a regular expression: ``...`` is one to five words, ``N`` a number."""
    words = []
    for word in turn.split(" "):
        words.append({"...": r"[^\s.,;:]+(?:\s+[^\s.,;:]+){0,4}?", "N": r"[\d,.]+"}.get(word, re.escape(word)))
    return r"(?<![\w`])" + r"\s+".join(words) + r"(?!\w)"


@cache
def turns() -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...]:
    """Refused turns and their exceptions, from the table of the guide."""
    found = []
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        cells = line.strip("|").split("|")
        if not line.startswith("| `") or len(cells) != 3:
            continue
        refused, right = (re.findall(r"`([^`]+)`", cells[place]) for place in (0, 2))
        spared = re.compile("|".join(map(pattern, right)), re.IGNORECASE) if right else None
        found.append((re.compile("|".join(map(pattern, refused)), re.IGNORECASE), spared))
    return tuple(found)


def refused(text: str) -> Iterator[str]:
    """Turns of a text that the guide refuses."""
    for turn, spared in turns():
        safe = [range(*one.span()) for one in spared.finditer(text)] if spared is not None else []
        for one in turn.finditer(text):
            if not any(one.start() in span or span.start in range(*one.span()) for span in safe):
                yield one[0]


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """Strings of three words or more, but no docstrings; a placeholder is ``{}``."""

    def strings(node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.JoinedStr):
            pieces = [str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values]
            yield node.lineno, "".join(pieces)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        if isinstance(node, ast.JoinedStr):
            children: Iterator[ast.AST] = (one for one in node.values if isinstance(one, ast.FormattedValue))
        else:
            children = ast.iter_child_nodes(node)
        for child in children:
            yield from strings(child)

    yield from ((line, text) for line, text in strings(ast.parse(source)) if text.count(" ") >= 2)


def prose(page: str) -> str:
    """Markdown without code blocks and code spans."""
    return re.sub(r"`[^`\n]*`", "`x`", re.sub(r"^(```+).*?^\1", "", page, flags=re.DOTALL | re.MULTILINE))


def test_the_guide_lists_its_turns() -> None:
    assert len(turns()) >= 15


def test_strings_of_the_package_avoid_them() -> None:
    found = []
    for path in sorted((ROOT / "evalspec").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for line, text in sentences(path.read_text(encoding="utf-8")):
            found += [f"{name}:{line}: {one}" for one in refused(text) if one not in ALLOWED.get(name, ())]
    assert found == []


def test_pages_avoid_them() -> None:
    found = []
    for path in PAGES:
        name = str(path.relative_to(ROOT))
        text = prose(path.read_text(encoding="utf-8"))
        found += [f"{name}: {one}" for one in refused(text) if one not in ALLOWED.get(name, ())]
    assert found == []


@pytest.mark.parametrize(
    "sentence",
    [
        "'a.txt' is no file of predictions",
        "take `ca` out, or write https://",
        "BCa of the mean, from 200 rows on",
        "the rows were held against the test set",
        "the key stands twice",
    ],
)
def test_a_planted_sentence_is_refused(sentence: str) -> None:
    source = f"def f():\n    raise ValueError({sentence!r})\n"
    assert [list(refused(text)) for _, text in sentences(source)] != []
    assert all(any(refused(text)) for _, text in sentences(source))
    assert any(refused(prose(f"# Title\n\nText: {sentence}.\n")))


@pytest.mark.parametrize("sentence", ["there is no such file", "the run is no longer there", "is not a file"])
def test_plain_sentences_pass(sentence: str) -> None:
    assert not any(refused(sentence))
