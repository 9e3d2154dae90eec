"""Lines of a record that have a name in them: written and taken apart here, so that nothing else reads them."""

from __future__ import annotations


def note_on(name: str, text: str) -> str:
    """A note on one condition, column or slice."""
    return f"{name}: {text}"


def name_in(note: str) -> str:
    """The name that a note of `note_on` is on."""
    return note.partition(": ")[0]


def text_in(note: str) -> str:
    """Text of a note, without the name that it is on, where it is on one."""
    return note.partition(": ")[2] or note


def limit_line(kind: str, limit: str) -> str:
    """Line on what a kind of check cannot show, as it stands in ``Record.not_tested``."""
    return f"{kind} cannot show: {limit}"
