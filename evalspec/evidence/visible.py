"""Text of anybody's making, made safe to be shown: on a terminal, on a page, in a log."""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that are not seen, or that change how others are shown: controls, directions, fillers, tags."""


def visible(text: str) -> str:
    """The text with its control and direction characters written out, so that what is read is what is there.

    Line feeds and tabs stay.
    """
    return _HIDDEN.sub(_written, text)


def one_line(text: str) -> str:
    """The same, and line feeds written out too: what comes from a file begins no line of its own."""
    return visible(text).replace("\n", "\\n")


def _written(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
