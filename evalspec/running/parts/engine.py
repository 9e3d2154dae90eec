"""An engine that answers parts: parts go in, their files come out, in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalspec.errors import EvalspecError


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """End of a part: its file, an error, or nothing, since it was lost.

    Args:
        number: Of the part.
        told: What is said beside the file, as `evalspec.running.parts.answering.part_of` has it.
        file: Its bytes.
        error: What can't be answered.
        lost: Why it was lost, in words; it may be answered again.
    """

    number: int
    told: Mapping[str, Any] = field(default_factory=dict)
    file: bytes = b""
    error: EvalspecError | None = None
    lost: str = ""


class PartEngine(Protocol):
    """Answers parts.

    Each call raises an `EngineError` where the engine itself is gone.
    """

    slots: int
    """Parts that are answered at once, as far as that is known; at least one."""
    gone: Sequence[str]
    """Names of nodes that were lost."""

    def submit(self, number: int, start: int, stop: int) -> None:
        """Have a part answered; there are never more than `slots` on their way."""
        ...

    def finished(self) -> Sequence[PartOutcome]:
        """Parts that have ended since; some wait for the first one, and may give up and return none."""
        ...

    def close(self) -> None:
        """Let go of all that still runs."""
        ...
