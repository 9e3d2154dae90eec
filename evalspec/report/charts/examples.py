"""Rows to look at: pictures and texts in a gallery, records as a table, what differs within a pair marked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from evalspec.evidence.blocks import Example, Examples
from evalspec.report.charts.tables import cell
from evalspec.report.names import shorten

MAX_EXAMPLES = 24
MAX_TEXT = 2_000
MAX_PICTURE = 64_000
MOST_WORDS = 600
"""Words of a text that are compared with the other of its pair."""
PNG = b"\x89PNG\r\n\x1a\n"
_WORDS = re.compile(r"\s+|\S+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text; ``marked`` where the other of the pair does not have it."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class FieldView:
    """A cell of a row; ``marked`` where the other of the pair has another value."""

    name: str
    text: str
    number: bool
    marked: bool = False


@dataclass(frozen=True, slots=True)
class ExampleView:
    """One row to look at. ``picture`` is a data URI or empty; ``trouble`` says why there is none."""

    title: str
    fields: tuple[FieldView, ...]
    text: tuple[Piece, ...]
    picture: str
    trouble: str


@dataclass(frozen=True, slots=True)
class ExamplesView:
    """Rows to look at, in ones or in pairs; ``columns`` are those of a table, empty for a gallery."""

    title: str
    caption: str
    groups: tuple[tuple[ExampleView, ...], ...]
    shown: int
    total: int
    pairs: bool
    columns: tuple[str, ...] = ()
    kind: str = "examples"


def examples_view(block: Examples) -> ExamplesView:
    """View of examples; rows without picture and text that all have the same fields stand in one table."""
    shown = block.examples[:MAX_EXAMPLES]
    size = 2 if block.pairs else 1
    groups = tuple(_group(shown[start : start + size]) for start in range(0, len(shown), size))
    return ExamplesView(
        block.title, block.caption, groups, len(shown), block.total, block.pairs, _columns(groups, shown)
    )


def _columns(groups: Sequence[tuple[ExampleView, ...]], shown: Sequence[Example]) -> tuple[str, ...]:
    if len(shown) < 2 or any(one.image is not None or one.text for one in shown):
        return ()
    names = {tuple(field.name for field in view.fields) for group in groups for view in group}
    same = names.pop() if len(names) == 1 else ()
    return same if len(same) > 1 else ()


def _group(members: Sequence[Example]) -> tuple[ExampleView, ...]:
    """Views of examples that belong together, each marked where it is not as the other."""
    if len(members) < 2:
        return tuple(_view(one, None) for one in members)
    first, second = members
    return _view(first, second), _view(second, first)


def _view(example: Example, other: Example | None) -> ExampleView:
    picture, trouble = "", ""
    if example.image is not None:
        trouble = _picture_trouble(example.image)
        picture = "" if trouble else f"data:image/png;base64,{example.image}"
    fields = []
    for name, value in example.fields.items():
        if f"{name} {value}" != example.title:
            shown = cell(value)
            marked = other is not None and name in other.fields and other.fields[name] != value
            fields.append(FieldView(name, shorten(shown.text, 200), shown.number, marked))
    text = shorten(example.text or "", MAX_TEXT)
    beside = None if other is None or not other.text else shorten(other.text, MAX_TEXT)
    return ExampleView(example.title, tuple(fields), _pieces(text, beside), picture, trouble)


def _pieces(text: str, other: str | None) -> tuple[Piece, ...]:
    """A text in stretches, those marked whose words the other does not have in this place."""
    if not text:
        return ()
    words, others = _WORDS.findall(text), _WORDS.findall(other or "")
    if other is None or text == other or max(len(words), len(others)) > MOST_WORDS:
        return (Piece(text),)
    pieces = [
        Piece("".join(words[start:end]), tag != "equal")
        for tag, start, end, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
        if end > start
    ]
    # Where nothing is alike, marks say nothing.
    return tuple(pieces) if any(not one.marked for one in pieces) else (Piece(text),)


def _picture_trouble(image: str) -> str:
    """Why a picture can't be shown; empty: it can."""
    if len(image) > MAX_PICTURE:
        return "The picture is too large for this page."
    try:
        data = base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        return "The picture is not base64."
    return "" if data.startswith(PNG) else "The picture is not a PNG."
