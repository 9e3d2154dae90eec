"""What a profile asks for and the spec does not have: NOT_RUN, and blocks unless it was set aside on purpose."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from evalspec.evidence.profile import Asked, Profile, Without
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import Decision


def missing(record: Record) -> list[Decision]:
    """A decision for each item of the profile that nothing in the spec answers."""
    if record.profile is None:
        return []
    aside = holding(record)
    return [_decision(record.profile, one, aside.get(one.name)) for one in record.profile.missing]


def holding(record: Record) -> dict[str, Without]:
    """What is set aside on the run's date, by the item's name."""
    today = record.started[:10]
    return {one.of: one for one in record.without if one.expires is None or one.expires >= today}


def set_aside(record: Record) -> list[str]:
    """Lines for the top of the report: what is set aside, and what no longer is."""
    if record.profile is None:
        return []
    lines, held = [], holding(record)
    for one in record.without:
        if one.of in held:
            until = f", until {one.expires}" if one.expires is not None else ""
            lines.append(f"set aside: profile/{one.of}: {one.why} (owner {one.owner}{until})")
        else:
            lines.append(f"the setting aside of profile/{one.of} ended on {one.expires} and no longer holds")
    return lines


def ranks(record: Record) -> Mapping[str, float]:
    """Where the profile's order puts each requirement, by name; what is not in the order comes after all that is."""
    found: dict[str, float] = defaultdict(lambda: math.inf)
    if record.profile is None:
        return found
    places = {kind: index for index, kind in enumerate(record.profile.order)}
    found |= {test.name: places.get(check.check, math.inf) for check in record.checks for test in check.tests}
    for one in record.profile.missing:
        found[one.full_name] = min((places.get(kind, math.inf) for kind in one.kinds), default=math.inf)
    return found


def _decision(profile: Profile, one: Asked, aside: Without | None) -> Decision:
    why = _clause(one.why)
    if aside is not None and one.mandatory:
        sentence = f"the profile {profile.name} asks for {one.wanted}: {why}; set aside: {_clause(aside.why)}"
    elif one.mandatory:
        sentence = f"the profile {profile.name} asks for {one.wanted}: {why}; add it, or set it aside with `without:`"
    else:
        sentence = f"the profile {profile.name} recommends {one.wanted}: {why}"
    waived = aside is not None and one.mandatory
    return Decision(
        name=one.full_name,
        status="NOT_RUN",
        blocking=one.mandatory and not waived,
        sentence=sentence,
        waived=waived,
    )


def _clause(sentence: str) -> str:
    """A sentence as it stands inside another one."""
    text = sentence.strip().removesuffix(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
