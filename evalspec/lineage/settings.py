"""Settings of checks as they stand in a spec: what else two numbers of one requirement must share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from evalspec.evidence.record import CheckRecord
from evalspec.evidence.test import Test
from evalspec.lineage.declared import declared

LONGEST = 60
WORDS_OF_A_CHECK = frozenset(("check", "id", "require", "warn", "slo", "sla", "report_only", "why", "owner"))
"""Fields of a check that the record holds already, or that ask nothing."""
HELD_ELSEWHERE = frozenset(("dataset", "model"))
"""Fields that the record holds with every number."""


def entries(spec: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """Checks as they stand in a spec, by id."""
    listed = [spec.get(dimension) for dimension in ("system", "model", "data")]
    checks = [one for many in listed if isinstance(many, list) for one in many]
    return {str(one.get("id", one["check"])): one for one in checks if isinstance(one, Mapping) and "check" in one}


def slices(spec: Mapping[str, object]) -> dict[str, object]:
    """Condition of each named slice, as it stands in a spec."""
    listed = spec.get("slices")
    definitions = listed if isinstance(listed, list) else []
    return {str(one["name"]): one.get("where") for one in definitions if isinstance(one, Mapping) and "name" in one}


def as_text(value: object) -> str:
    """A value of a spec in words."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shortly(text: str) -> str:
    """A value in words, cut where it is long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def settings_of(spec: object, check: CheckRecord, test: Test) -> dict[str, str] | None:
    """Settings that one number was measured with: fields of its check, and the slices that it is about.

    Args:
        spec: The spec as plain values, as it was run.
        check: The check as it was recorded.
        test: The requirement whose number it is.

    Returns:
        Setting: its value in words; None where the spec is not at hand.
    """
    entry = entries(spec).get(check.id) if isinstance(spec, Mapping) else None
    if entry is None or not isinstance(spec, Mapping):
        return None
    part = test.part
    says = declared(check)
    aside = {*WORDS_OF_A_CHECK, *HELD_ELSEWHERE, *says.effort, *says.conditions, *(says.lists if part else ())}
    settings = {f"{check.id}.{key}": as_text(value) for key, value in entry.items() if key not in aside}
    about = set(re.findall(r"\w+", part or as_text(entry)))
    settings |= {f"slice {name}": as_text(where) for name, where in slices(spec).items() if name in about}
    return settings


def unlike_settings(ours: Mapping[str, str] | None, theirs: Mapping[str, str] | None) -> tuple[str, ...]:
    """Settings in which two numbers of one requirement differ, each ``setting: before, then after``.

    Args:
        ours: `settings_of` the earlier one.
        theirs: Of the later one; what is not at hand of either differs in nothing that is known.
    """
    if ours is None or theirs is None:
        return ()
    return tuple(
        f"{name}: {shortly(ours.get(name, 'not set'))}, then {shortly(theirs.get(name, 'not set'))}"
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    )
