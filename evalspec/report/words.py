"""How statuses are shown: their order, their shape, the words beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evalspec.evidence.record import CheckRecord
from evalspec.evidence.verdict import Decision, Status

WORST_FIRST: tuple[Status, ...] = ("FAIL", "ERROR", "INVALID", "NOT_RUN", "INCONCLUSIVE", "PASS")

DASH = "\u2013"
"""Stands where there is no value."""

NOT_JUDGED = "not judged"
"""Of what was measured and can't be used, whatever the reason: the one word of pages, terminal and Markdown."""

STATUS_WORDS: dict[Status, str] = {
    "FAIL": "failed",
    "ERROR": "crashed",
    "INVALID": NOT_JUDGED,
    "NOT_RUN": "not run",
    "INCONCLUSIVE": "inconclusive",
    "PASS": "met",
}
"""How a requirement ended, in a sentence."""

WORD_TONES = {"READY": "pass", "NOT READY": "fail", "UNDECIDED": "inconclusive", "ERROR": "error"}


@dataclass(frozen=True, slots=True)
class Badge:
    """A status for people: never a colour alone, always a shape and a word.

    Args:
        status: The status, or ``REPORT`` for what only reports.
        word: What is written.
        tone: Class of the colour and id of the shape.
        extra: A qualification, such as ``waived``.
    """

    status: str
    word: str
    tone: str
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.word}, {self.extra}" if self.extra else self.word


def label(status: str) -> str:
    """Words of a status for people: ``NOT RUN``, and ``NOT JUDGED`` for INVALID."""
    return NOT_JUDGED.upper() if status == "INVALID" else status.replace("_", " ")


def badge(status: Status, extra: str = "", *, blocking: bool = True) -> Badge:
    """The badge of a status; a failure that does not block has a shape and a colour of its own."""
    tone = status.lower().replace("_", "-") if blocking or status != "FAIL" else "warning"
    return Badge(status, label(status), tone, extra)


def worst(statuses: Iterable[Status]) -> Status | None:
    """The worst of these, or None of none."""
    present = set(statuses)
    return next((status for status in WORST_FIRST if status in present), None)


def check_badge(check: CheckRecord, worst_first: Iterable[Badge]) -> Badge:
    """Badge of a check: its own status where it has no measurement, else that of its worst requirement."""
    if check.status == "not_run":
        return badge("NOT_RUN")
    if check.status == "invalid":
        return badge("INVALID")
    if check.status == "error":
        return badge("ERROR")
    return next(iter(worst_first), Badge("REPORT", "report only", "report"))


def cause(decision: Decision) -> str:
    """The cause of what a decision gives as its reason, else the reason: alike for what was disturbed alike."""
    return decision.cause or decision.reason or ""


def duration(seconds: float) -> str:
    """A duration for people: ``0.4 s``, ``1 min 38 s``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
