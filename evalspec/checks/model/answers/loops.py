"""Words of texts, and texts that run in circles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONG, TIMES = 8, 4
"""A text loops where a run of so many words or more comes so many times, one right after the other."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+")


def words(text: str) -> list[str]:
    """Words of a text: runs of letters and digits, in small letters; of Chinese and Japanese each character is one."""
    return _WORD.findall(text.lower())


def loops(text: str) -> bool:
    """True if some run of at least `LONG` words comes at least `TIMES` times in a row.

    A shorter run that repeats is one of these as soon as it fills as many words: "no " 32 times is 4 times 8 words.
    """
    said = words(text)
    if len(said) < LONG * TIMES:
        return False
    _, codes = np.unique(np.array(said, dtype=object), return_inverse=True)
    if not _comes_again(codes):
        return False
    return any(_equal_run(codes, period) >= (TIMES - 1) * period for period in range(LONG, len(codes) // TIMES + 1))


def _comes_again(codes: NDArray[np.int64]) -> bool:
    """Some `LONG` words stand in `TIMES` places, as a loop's first words do: few texts need a closer look."""
    windows = np.lib.stride_tricks.sliding_window_view(codes, LONG)
    _, counts = np.unique(windows, axis=0, return_counts=True)
    return bool(counts.max() >= TIMES)


def _equal_run(codes: NDArray[np.int64], period: int) -> int:
    """Longest run of words that are equal to those ``period`` words on."""
    unequal = np.flatnonzero(codes[period:] != codes[:-period])
    ends = np.concatenate([[-1], unequal, [len(codes) - period]])
    return int(np.diff(ends).max()) - 1


def looping(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Texts that loop, shape (n,)."""
    return np.array([loops(text) for text in texts], dtype=np.bool_)


def word_counts(texts: Sequence[str]) -> NDArray[np.float64]:
    """Words of each text, shape (n,)."""
    return np.array([len(words(text)) for text in texts], dtype=np.float64)
