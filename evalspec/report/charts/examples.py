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
MOST_MARKED = 0.5
"""Share of differing words of a text, beyond which marks show what both have instead."""
_WORDS = re.compile(r"\s*\S+\s*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text; ``marked`` where it is what is to be seen beside the other of the pair."""

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
    """One row to look at.

    Args:
        title: Its heading.
        fields: Its cells.
        text: Its text.
        picture: A data URI, or empty.
        trouble: Why there is no picture; empty: there is one, or none was asked for.
        shared: Marked in its text are words that both have; else those that differ.
    """

    title: str
    fields: tuple[FieldView, ...]
    text: tuple[Piece, ...]
    picture: str
    trouble: str
    shared: bool = False


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
    pieces, shared = _pieces(text, beside)
    return ExampleView(example.title, tuple(fields), pieces, picture, trouble, shared)


def _pieces(text: str, other: str | None) -> tuple[tuple[Piece, ...], bool]:
    """A text in stretches, and whether those are marked that both have.

    Words that the other text does not have in this place are marked; where these are most, the words that both have.
    """
    words, others = _WORDS.findall(text), _WORDS.findall(other or "")
    if not words or other is None or text == other or max(len(words), len(others)) > MOST_WORDS:
        return ((Piece(text),) if text else ()), False
    plain, beside = ([word.strip() for word in all_] for all_ in (words, others))
    runs = [
        ("".join(words[start:end]), end - start, tag != "equal")
        for tag, start, end, _, _ in SequenceMatcher(None, plain, beside, autojunk=False).get_opcodes()
        if end > start
    ]
    apart = sum(count for _, count, differs in runs if differs)
    # Where nothing is alike, or nothing differs but spaces, marks say nothing.
    if apart in (0, len(words)):
        return (Piece(text),), False
    shared = apart > MOST_MARKED * len(words)
    pieces = [one for run, _, differs in runs for one in _piece(run, differs != shared)]
    return tuple(pieces), shared


def _piece(run: str, marked: bool) -> tuple[Piece, ...]:
    """A stretch, with the space around it apart: no line is drawn under a space."""
    text = run.strip()
    first = run.index(text)
    around = (Piece(run[:first]), Piece(text, marked), Piece(run[first + len(text) :]))
    return tuple(one for one in around if one.text) if marked else (Piece(run),)


def _picture_trouble(image: str) -> str:
    """Why a picture can't be shown; empty: it can."""
    if len(image) > MAX_PICTURE:
        return "The picture is too large for this page."
    try:
        data = base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        return "The picture is not base64."
    return "" if data.startswith(PNG) else "The picture is not a PNG."
