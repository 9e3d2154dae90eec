"""Texts made worse: typos, case, odd characters, truncation. A column's texts are one array of code points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Points = NDArray[np.int64]
    Corrupt = Callable[["CodePoints", int, np.random.Generator], "CodePoints"]

TYPOS = (0.02, 0.05, 0.1, 0.2, 0.3)
CASED = (0.1, 0.2, 0.4, 0.7, 1.0)
ODD = (0.01, 0.03, 0.05, 0.1, 0.2)
KEPT = (0.9, 0.75, 0.6, 0.45, 0.3)
SPACE = 32
LOOKALIKES = dict(
    zip(
        "aceiopxyABCEHIKMOPTX'\"- ",
        "\u0430\u0441\u0435\u0456\u043e\u0440\u0445\u0443\u0410\u0412\u0421\u0415\u041d\u0406\u041a\u041c\u041e\u0420\u0422\u0425\u2019\u201d\u2013\u00a0",
        strict=True,
    )
)
"""Characters that look alike: Cyrillic letters, curly quotes, a long dash, a space that does not break."""
NEIGHBOURS = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wertyuioposdfghjklkxcvbnmn", strict=True))
"""Letter: a key beside it on a QWERTY keyboard."""


class CodePoints:
    """Texts as code points, one after the other.

    Args:
        points: shape (k,), code points of all texts.
        row: shape (k,), rising: row of each code point.
        n: Number of rows.
    """

    def __init__(self, points: Points, row: Points, n: int) -> None:
        self.points, self.row, self.n = points, row, n

    @classmethod
    def of(cls, texts: list[str]) -> CodePoints:
        """Code points of strings."""
        points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
        return cls(points, np.repeat(np.arange(len(texts)), [len(text) for text in texts]), len(texts))

    def strings(self) -> list[str]:
        """Strings of the code points, one a row."""
        whole = self.points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
        ends = np.cumsum(np.bincount(self.row, minlength=self.n))
        return [whole[first:last] for first, last in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]

    def words(self) -> Points:
        """Index of the word that each character belongs to, -1 between words; shape (k,)."""
        between = _blank(self.points)
        starts = ~between & np.concatenate([[True], between[:-1] | (self.row[1:] != self.row[:-1])])[: len(between)]
        return np.where(between, -1, np.cumsum(starts) - 1)


def typos(texts: CodePoints, severity: int, rng: np.random.Generator) -> CodePoints:
    """Put a typo into a share of the words: two letters swapped, one left out, doubled, or the key beside it."""
    words = texts.words()
    count = int(words.max()) + 1 if len(words) else 0
    if count == 0:
        return texts
    length = np.bincount(words[words >= 0], minlength=count)
    first = np.searchsorted(np.maximum.accumulate(words), np.arange(count))
    hit = np.flatnonzero((rng.random(count) < TYPOS[severity - 1]) & (length >= 2))
    # Never the last letter, so that it has one after it to swap with.
    place = first[hit] + rng.integers(0, length[hit] - 1)
    kind = rng.integers(0, 4, len(hit))
    points = texts.points.copy()
    swapped = place[kind == 0]
    points[swapped], points[swapped + 1] = points[swapped + 1], points[swapped]
    beside = place[kind == 3]
    points[beside] = _mapped(points[beside], NEIGHBOURS)
    times = np.ones(len(points), dtype=np.int64)
    times[place[kind == 1]], times[place[kind == 2]] = 0, 2
    return CodePoints(np.repeat(points, times), np.repeat(texts.row, times), texts.n)


def case(texts: CodePoints, severity: int, rng: np.random.Generator) -> CodePoints:
    """Change the case of a share of the words: small letters become capital, and capital ones small."""
    words = texts.words()
    count = int(words.max()) + 1 if len(words) else 0
    hit = rng.random(count) < CASED[severity - 1]
    changed = np.append(hit, False)[words]
    return CodePoints(np.where(changed, _other_case(texts.points), texts.points), texts.row, texts.n)


def unicode(texts: CodePoints, severity: int, rng: np.random.Generator) -> CodePoints:
    """Replace a share of the characters by others that look alike."""
    hit = rng.random(len(texts.points)) < ODD[severity - 1]
    return CodePoints(np.where(hit, _mapped(texts.points, LOOKALIKES), texts.points), texts.row, texts.n)


def truncation(texts: CodePoints, severity: int, rng: np.random.Generator) -> CodePoints:
    """Cut off the end of each text; at least one character stays."""
    length = np.bincount(texts.row, minlength=texts.n)
    first = np.cumsum(length) - length
    kept = np.maximum(1, np.floor(KEPT[severity - 1] * length)).astype(np.int64)
    stays = np.arange(len(texts.points)) - first[texts.row] < kept[texts.row]
    return CodePoints(texts.points[stays], texts.row[stays], texts.n)


TEXTS: dict[str, Corrupt] = {"typos": typos, "case": case, "unicode": unicode, "truncation": truncation}


def _blank(points: Points) -> NDArray[np.bool_]:
    return np.isin(points, [9, 10, 13, SPACE, 0xA0])


def _other_case(points: Points) -> Points:
    """Letters in the other case, in any script that has two cases; a letter that would become two stays."""
    kinds, at = np.unique(points, return_inverse=True)
    swapped = [chr(point).swapcase() for point in kinds.tolist()]
    other = [ord(new) if len(new) == 1 else old for old, new in zip(kinds.tolist(), swapped, strict=True)]
    return np.array(other, dtype=np.int64)[at]


def _mapped(points: Points, table: dict[str, str]) -> Points:
    before = np.array(sorted(ord(key) for key in table), dtype=np.int64)
    after = np.array([ord(table[chr(point)]) for point in before.tolist()], dtype=np.int64)
    at = np.minimum(np.searchsorted(before, points), len(before) - 1)
    return np.where(before[at] == points, after[at], points)
