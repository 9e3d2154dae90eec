"""No code parses a sentence that was written for people."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import evalspec

ROOT = Path(evalspec.__file__).parent
ROOMS = (
    "lineage",
    "language",
    "loading",
    "planning",
    "running",
    "verdict",
    "report",
    "records",
    "cli",
    "checks",
    "stats",
)
SAID = {
    "reason",
    "method",
    "message",
    "sentence",
    "invalid",
    "missing",
    "withhold",
    "note",
    "notes",
    "interval",
    "remedy",
}
SAID |= {"weakened", "not_tested", "said", "why", "cannot_show"}
NAMED = {"test", "decision", "row", "requirement"}
"""What is called so has a name that `evidence/names.py` takes apart."""
TAKES_APART = {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "removeprefix", "find", "index"}
TAKES_APART |= {"removesuffix", "rindex", "rfind"}
SHOWN_AS_TEXT = {
    # A sentence of a claim or profile is put inside another one, and its full stop goes.
    "verdict/profile.py",
    # What pydantic says is put into our words, to be shown.
    "loading/problems.py",
}


def parses(source: str) -> Iterator[int]:
    """Lines on which a text for people is taken apart, or searched for a piece of text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKES_APART:
            if _said(node.func.value):
                yield node.lineno
        elif isinstance(node, ast.Call) and _matches(node.func) and any(_said(one) for one in node.args):
            yield node.lineno
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            text = isinstance(node.left, ast.JoinedStr) or (
                isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            )
            # Keys of `CheckResult.missing` are names of requirements.
            if text and isinstance(of := node.comparators[0], ast.Attribute) and _said(of) and of.attr != "missing":
                yield node.lineno


def _matches(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("match", "search", "fullmatch", "findall", "finditer", "split", "sub", "subn")
        and isinstance(function.value, ast.Name)
        and (function.value.id == "re" or function.value.id.isupper())
    )


def _said(node: ast.expr) -> bool:
    """An expression that reads an attribute with a text for people, also through ``or``, ``str(...)`` and an index."""
    if isinstance(node, ast.BoolOp):
        return any(_said(one) for one in node.values)
    if isinstance(node, ast.Call):
        return (isinstance(node.func, ast.Name) and any(_said(one) for one in node.args)) or (
            isinstance(node.func, ast.Attribute) and node.func.attr in ("strip", "lower") and _said(node.func.value)
        )
    if isinstance(node, ast.Subscript):
        return _said(node.value)
    if not isinstance(node, ast.Attribute):
        return isinstance(node, ast.Name) and node.id in ("note", "reason", "message", "method")
    owner = node.value
    if node.attr == "name":
        return isinstance(owner, ast.Name) and owner.id in NAMED
    return node.attr in SAID


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_takes_a_sentence_apart(room: str) -> None:
    files = [one for one in (ROOT / room).rglob("*.py") if str(one.relative_to(ROOT)) not in SHOWN_AS_TEXT]
    assert files
    found = [f"{one.relative_to(ROOT)}:{line}" for one in files for line in parses(one.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        'test.method.partition("no bound: ")[2]',
        'str(check.reason).startswith("left out")',
        '(row.decision.reason or "").startswith("not interpretable")',
        '"points the wrong way" in problem.message',
        'problem.message.split("\'")[1]',
        'test.name.partition("/")[2]',
        'note.partition(": ")[0]',
        're.match("unknown", problem.message)',
        '_NUMBER.sub("#", reason)',
        'test.notes[0].removeprefix("a")',
    ],
)
def test_a_sentence_taken_apart_is_seen(line: str) -> None:
    assert list(parses(line)) == [1]


@pytest.mark.parametrize("line", ["test.part", 'path.split("/")', "name in result.missing", "reason in reasons"])
def test_a_name_or_a_whole_reason_is_none(line: str) -> None:
    assert list(parses(line)) == []


def test_percentages_are_written_in_one_way() -> None:
    """`34 %`, as units stand: never `34%`."""
    format_of_percent = re.compile(r":\.\d%\}|\d\}%")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(ROOT.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if format_of_percent.search(line)
    ]
    assert found == []
