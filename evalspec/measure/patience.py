"""Asking a server again that errs, where its answer is needed and nothing is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from evalspec.clocks import now_ns
from evalspec.errors import EvalspecError
from evalspec.measure.servable import Remote

if TYPE_CHECKING:
    from evalspec.measure.servable import Servable

T = TypeVar("T")
TRIES = 20
"""In a row; a server that answers one query in two fails so often once in a million."""
LONGEST_S = 30.0
"""In a row; a server that is waited for is not waited for 20 times."""


class Patience:
    """Asks again, and counts; a model in process, which fails of itself, is asked once.

    Args:
        servable: Who is asked.
    """

    def __init__(self, servable: Servable) -> None:
        self._tries = TRIES if isinstance(servable, Remote) else 1
        self.failed = 0
        """Times that it failed."""

    def answer(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer, or patience ends.

        Raises:
            EvalspecError: The last failure of a server that does not answer at all.
        """
        until = now_ns() + int(LONGEST_S * 1e9)
        for left in range(self._tries - 1, -1, -1):
            try:
                return ask()
            except EvalspecError:
                self.failed += 1
                if not left or now_ns() >= until:
                    raise
        raise AssertionError("the last try returns or raises")
