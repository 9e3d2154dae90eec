"""Items that a profile asks for and the spec does not have: NOT_RUN, and blocking unless set aside on purpose."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from evalspec.evidence.profile import Profile, RequestedItem, Without
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import Decision
from evalspec.verdict.identical import against_itself

BASELINE = "baseline"
"""What an item states that asks for another model beside the candidate."""


def as_run(record: Record) -> Profile | None:
    """The profile with what the run itself shows to answer its items; None: the spec names none.

    That a model is its own baseline, under another name, shows only once both are digested: it answers nothing.
    """
    profile = record.profile
    if profile is None:
        return None
    checks = {check.id: check for check in record.checks}
    itself = {name: against_itself(record, check) for name, check in checks.items()}
    asked = tuple(_shown(one, itself) if one.states == BASELINE else one for one in profile.asked)
    return profile.model_copy(update={"asked": asked})


def _shown(one: RequestedItem, itself: Mapping[str, str | None]) -> RequestedItem:
    """A baseline without the checks that hold a model against itself."""
    same = {name: itself[name] for name in one.found if itself.get(name) is not None}
    if not same or len(same) < len(one.found):
        return one.model_copy(update={"found": tuple(name for name in one.found if name not in same)})
    near = tuple(
        f"{name} compares with {other}, which is the same artifact, run in the same way" for name, other in same.items()
    )
    return one.model_copy(update={"found": (), "near": near})


def missing(record: Record) -> list[Decision]:
    """A decision for each item of the profile that nothing in the spec answers."""
    profile = as_run(record)
    if profile is None:
        return []
    aside = holding(record)
    return [_decision(profile, one, aside.get(one.name)) for one in profile.missing]


def holding(record: Record) -> dict[str, Without]:
    """Items that are set aside on the run's date, by name."""
    today = record.started[:10]
    return {one.of: one for one in record.without if one.expires is None or one.expires >= today}


def set_aside(record: Record) -> list[str]:
    """Lines for the top of the report: what is set aside, and what no longer is."""
    if record.profile is None:
        return []
    held = holding(record)
    return [one.caution if one.of in held else one.ended for one in record.without]


def ranks(record: Record) -> Mapping[str, float]:
    """Where the profile's order puts each requirement, by name; what is not in the order comes after all that is."""
    found: dict[str, float] = defaultdict(lambda: math.inf)
    profile = as_run(record)
    if profile is None:
        return found
    places = {kind: index for index, kind in enumerate(profile.order)}
    found |= {test.name: places.get(check.check, math.inf) for check in record.checks for test in check.tests}
    for one in profile.missing:
        found[one.full_name] = min((places.get(kind, math.inf) for kind in one.kinds), default=math.inf)
    return found


def _decision(profile: Profile, one: RequestedItem, aside: Without | None) -> Decision:
    waived = aside is not None and one.mandatory
    verb = "asks for" if one.mandatory else "recommends"
    sentence = f"the profile {profile.name} {verb} {one.wanted}: {_clause(one.why)}"
    if aside is not None and waived:
        sentence += f"; set aside: {_clause(aside.why)}"
    elif one.mandatory:
        sentence += f"; {_remedy(one)}"
    return Decision(
        name=one.full_name,
        status="NOT_RUN",
        blocking=one.mandatory and not waived,
        sentence=sentence,
        waived=waived,
        reason="; ".join(one.near) or None,
    )


def _remedy(one: RequestedItem) -> str:
    if one.states == BASELINE and one.near:
        return "compare with another model, or remove the comparison and set the item aside with `without:`"
    return f"{'change that' if one.near else 'add it'}, or set it aside with `without:`"


def _clause(sentence: str) -> str:
    """A sentence as it stands inside another one."""
    text = sentence.strip().removesuffix(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
