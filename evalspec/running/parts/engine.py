"""An engine that answers parts: parts go in, their files come out, in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalspec.errors import EvalspecError
from evalspec.running.engines.engine import RowEngine


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


class PartEngine(RowEngine[PartOutcome], Protocol):
    """Answers parts."""
