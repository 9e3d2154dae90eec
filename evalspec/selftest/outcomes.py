"""Outcome of a self-test for each requirement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Answer = Literal["red", "implied", "excused", "green"]


@dataclass(frozen=True, slots=True)
class RequirementOutcome:
    """One requirement.

    Args:
        name: Of the requirement.
        sentence: As the spec has it.
        answer: ``red``: it goes red for its defect, and no other does. ``implied``: it goes red, but never alone: while
            those of ``implied_by`` hold, so does it. ``excused``: this run can't show it, for a reason that lies in the
            evidence. ``green``: it stays green under every defect.
        defect: What was planted; empty: nothing could be.
        why: Why it did not go red; empty: it did.
        fell_with: Requirements that went red for the same defect, of which there are the fewest.
        implied_by: Requirements of which one at least is red under every defect that turns this one red.
    """

    name: str
    sentence: str
    answer: Answer
    defect: str = ""
    why: str = ""
    fell_with: tuple[str, ...] = ()
    implied_by: tuple[str, ...] = ()
