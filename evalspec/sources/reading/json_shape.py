"""Shape that lines of JSON would have, seen before they are parsed: Arrow's reader ends the process over deep ones."""

from __future__ import annotations

import re

import numpy as np

from evalspec.errors import InputError
from evalspec.language.header import MOST_COLUMNS

DEEPEST = 200
CELLS_PER_BYTE = 8
"""Of a table that lines become: more are cells of keys that nearly all lines lack."""
FEW_CELLS = 2**24
_TEXT = re.compile(rb'"(?:[^"\\\n]++|\\[^\n])*+"?')
_NOTHING = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t\r]*null\b", re.MULTILINE)
"""Arrow's reader ends the process over a block in which no line is an object."""
_KEY = re.compile(rb'"([^"]*)"\s*:')


def check_shape(lines: bytes, what: str) -> None:
    """Refuse lines that are null or nested too deep, or whose keys are too many for columns.

    Args:
        lines: Whole lines.
        what: The file, in words.

    Raises:
        InputError: They are; says which.
    """
    nothing = _NOTHING.search(lines)
    if nothing is not None:
        line = lines.count(b"\n", 0, nothing.start()) + 1
        raise InputError(
            f"{what} can't be read as jsonl: line {line:,} is null", remedy="write one object per line, or leave it out"
        )
    deep = depth(lines)
    if deep is not None:
        line, levels = deep
        raise InputError(
            f"{what} can't be read as jsonl: line {line:,} is nested {levels:,} levels deep; at most {DEEPEST} are "
            "allowed"
        )
    keys = len(set(_KEY.findall(lines)))
    if keys > MOST_COLUMNS:
        raise InputError(
            f"{what} has {keys:,} different keys; at most {MOST_COLUMNS:,} columns are allowed",
            remedy="write values that belong together as one list",
        )
    rows = lines.count(b"\n") + 1
    if keys * rows > max(FEW_CELLS, CELLS_PER_BYTE * len(lines)):
        raise InputError(
            f"{what} has {keys:,} different keys in {rows:,} lines, and most lines lack most of them",
            remedy="write keys that vary from line to line as a list of {key, value}",
        )


def depth(lines: bytes) -> tuple[int, int] | None:
    """The first line that is nested deeper than `DEEPEST`, counted from 1, and its levels; None: there is none."""
    marks = np.frombuffer(_TEXT.sub(b"", lines), np.uint8)
    step = ((marks | 32) == ord("{")).astype(np.int32) - ((marks | 32) == ord("}"))
    levels = np.cumsum(step)
    ends = np.flatnonzero(marks == ord("\n"))
    before = np.concatenate([[0], levels[ends]]) if len(levels) else np.zeros(1, np.int64)
    row = np.searchsorted(ends, np.arange(len(marks)), side="left")
    inside = levels - before[row]
    if not len(inside) or int(inside.max()) <= DEEPEST:
        return None
    first = int(np.argmax(inside > DEEPEST))
    line = int(row[first])
    return line + 1, int(inside[row == line].max())
