"""Exceptions that a spec makes on purpose, for the top of the report: waivers, items of its profile left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.evidence.profile import PROFILE
from evalspec.evidence.record import Record
from evalspec.report.requirements import RequirementRow


@dataclass(frozen=True, slots=True)
class Aside:
    """One thing that is set aside.

    Args:
        word: That it is, or that it sets nothing aside.
        of: Name of the requirement.
        why: Why.
        by: Who answers for it, and until when.
        row: The requirement as it ended; None: the verdict does not name it.
    """

    word: str
    of: str
    why: str
    by: str
    row: RequirementRow | None


def asides(record: Record, rows: Sequence[RequirementRow]) -> tuple[Aside, ...]:
    """Waivers, then what is set aside of the profile, each with the requirement that it is of."""
    known = {row.name: row for row in rows}
    found = []
    for waiver in record.waivers:
        row = known.get(waiver.of)
        word = "Waiver without effect:" if row is not None and not row.decision.waived else "Waived:"
        found.append(Aside(word, waiver.of, waiver.why, f"Owner {waiver.owner}, until {waiver.expires}.", row))
    for one in record.without:
        name = f"{PROFILE}/{one.of}"
        row = known.get(name)
        word = "No longer set aside:" if row is not None and not row.decision.waived else "Set aside:"
        until = f", until {one.expires}" if one.expires is not None else ""
        found.append(Aside(word, name, one.why, f"Owner {one.owner}{until}.", row))
    return tuple(found)
