"""Search in many texts that ends: a text on which it takes too long is named, and all of it stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from evalspec.errors import InputError

Found = TypeVar("Found")

LONGEST_S = 5.0
"""For one text."""


def each_found(search: Callable[[str], Found], texts: Sequence[str], first_row: int = 0) -> list[Found]:
    """Findings of a search in each text.

    Args:
        search: Of one text, by a pattern of the spec.
        texts: To be searched.
        first_row: Index of the first in its dataset, for sentences.

    Raises:
        InputError: One takes longer than `LONGEST_S`.
    """
    found = []
    for row, text in enumerate(texts, first_row):
        with _in_time(row):
            found.append(search(text))
    return found


@contextmanager
def _in_time(row: int) -> Iterator[None]:
    """Raise where it takes too long: `re` looks for signals while it goes on. Only the main thread can be told."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise InputError(
            f"the pattern takes more than {LONGEST_S:g} s on the text of row {row} (counted from 0)",
            remedy="write it with fewer repeats (*, +), and begin it with what comes right before the answer",
        )

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
