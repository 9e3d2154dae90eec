"""The docstring of a check, which is its documentation: a first line, then sections."""

from __future__ import annotations

import inspect
import re

from evalspec.language.parts import Check

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def text_of(check: type[Check]) -> str:
    """The docstring without its indentation."""
    return inspect.cleandoc(check.__doc__ or "")


def sections(check: type[Check]) -> dict[str, str]:
    """The sections: title: text; what stands before the first has no title."""
    pieces = _SECTION.split(text_of(check))
    return {"": pieces[0].strip()} | {
        title.strip(): body.strip() for title, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def first_line(check: type[Check]) -> str:
    """First line of a check's docstring; empty where it has none."""
    return text_of(check).partition("\n")[0]
