"""The words a run ends with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.evidence.frozen import Frozen

RULE_VERSION = "2"

Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "NOT_RUN", "INVALID", "ERROR"]
Word = Literal["READY", "NOT READY", "UNDECIDED", "ERROR"]


class Decision(Frozen):
    """Status of one requirement, and why."""

    name: str
    status: Status
    blocking: bool = Field(description="It is in `require` and is not waived.")
    sentence: str = Field(description="One sentence for people: value, n, bound, what it needs.")
    looks_violated: bool = Field(False, description="Violated before Holm, not after: blocks under every policy.")
    waived: bool = False
    reason: str | None = None
    cause: str = Field("", description="What is behind the reason, alike for all that it spoils; empty: not known.")
    voided_by: tuple[str, ...] = Field((), description="Requirements on its data that leave nothing of it.")
    notes: tuple[str, ...] = ()


class Verdict(Frozen):
    """The verdict over the whole spec."""

    word: Word
    reason: str = Field(description="The one reason, for the top of the report.")
    headline: str = Field(description="The word with what it does not cover: READY (1 waived, 2 inconclusive).")
    exit_code: int
    counts: dict[str, int]
    decisions: tuple[Decision, ...] = ()
    weakened: tuple[str, ...] = Field((), description="Everything that makes the verdict weaker than it reads.")
    rule: str = RULE_VERSION
