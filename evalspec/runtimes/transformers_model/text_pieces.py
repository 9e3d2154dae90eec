"""Tokens as they come, as pieces of a text: what a reader could have seen by then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalspec.language.streams import FINISHES, NOT_COUNTED, PIECES, StreamedAnswer

UNFINISHED = "\ufffd"
"""What stands for bytes that are no whole character yet."""
TEXT = PIECES.index("text")


class TextPieces:
    """The text of one answer, token by token.

    A piece is held back while its bytes are no whole character, and while it may be the beginning of a stop text.

    Args:
        coder: A tokenizer of transformers.
        stops: Texts that end the answer; they are no part of it.
    """

    def __init__(self, coder: Any, stops: Sequence[str]) -> None:
        self._coder = coder
        self._stops = stops
        self._ids: list[int] = []
        self._shown = self._read = 0
        self._decoded = ""
        self._said = 0
        self._times_ns: list[int] = []
        self._first_tokens = 0
        self.finish = ""

    def take(self, token: int, at_ns: int) -> bool:
        """One token, and when it came; true where a stop text ends the answer with it."""
        self._ids.append(token)
        before = self._text(self._ids[self._shown : self._read])
        now = self._text(self._ids[self._shown :])
        if len(now) > len(before) and not now.endswith(UNFINISHED):
            self._decoded += now[len(before) :]
            self._shown, self._read = self._read, len(self._ids)
        found = [place for stop in self._stops if (place := self._decoded.find(stop)) >= 0]
        if found:
            self._decoded = self._decoded[: min(found)]
            self._finished("stop", at_ns)
            return True
        self._say(len(self._decoded) - self._held_back(), at_ns)
        return False

    def end(self, finish: str, at_ns: int) -> None:
        """No token comes any more: what was held back is shown."""
        self._decoded += self._text(self._ids[self._shown :])[len(self._text(self._ids[self._shown : self._read])) :]
        self._finished(finish, at_ns)

    def _finished(self, finish: str, at_ns: int) -> None:
        self.finish = finish
        self._say(len(self._decoded), at_ns)

    def answer(self, prompt_tokens: int) -> StreamedAnswer:
        """The whole of it.

        Args:
            prompt_tokens: Of its prompt.
        """
        return StreamedAnswer(
            text=self._decoded,
            finish=FINISHES.index(self.finish),
            piece_ns=tuple(self._times_ns),
            piece_kind=(TEXT,) * len(self._times_ns),
            first_tokens=self._first_tokens if self._times_ns else NOT_COUNTED,
            usage_tokens=len(self._ids),
            counted_tokens=NOT_COUNTED,
            reasoning_tokens=NOT_COUNTED,
            prompt_tokens=prompt_tokens,
            cached_tokens=NOT_COUNTED,
        )

    def _say(self, length: int, at_ns: int) -> None:
        if length > self._said:
            self._said = length
            if not self._times_ns:
                self._first_tokens = len(self._ids)
            self._times_ns.append(at_ns)

    def _held_back(self) -> int:
        """Letters at the end that begin a stop text."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(self._decoded)), 0, -1):
            if any(stop.startswith(self._decoded[-length:]) for stop in self._stops):
                return length
        return 0

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self._coder.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
