"""Summary that ``validate`` prints of a spec that is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalspec.language.undemanding import undemanding
from evalspec.loading.placeholders import placeholders
from evalspec.loading.spec import NOT_LOADED, Spec


def summary(spec: Spec, *, loaded: bool = False) -> Iterator[str]:
    """Lines for people: what the spec holds, and what could not be verified.

    Args:
        spec: The spec.
        loaded: Its models were loaded and asked, so that no sentence says that they were not.
    """
    blocking = sum(len(check.blocking) for check in spec.checks)
    warnings = sum(len(check.warn) for check in spec.checks)
    yield f"{spec.file}: no errors found"
    yield (
        f"  {_count(len(spec.checks), 'check')} ({len(spec.system)} system, {len(spec.model)} model, "
        f"{len(spec.data)} data), {_count(blocking, 'requirement')} that block{'s' if blocking == 1 else ''}, "
        f"{_count(warnings, 'warning')}, {_count(len(spec.waivers), 'waiver')}"
    )
    yield from (f"  {line}" for line in profile_lines(spec))
    yield from (f"  doubtful: {line}" for line in doubts(spec))
    for argument in spec.overrides:
        yield f"  set on the command line: {argument}"
    unverified = [line for line in (*spec.unverified, *spec.asks) if not loaded or line != NOT_LOADED]
    if unverified:
        yield "  not verified:"
        yield from (f"    {sentence}" for sentence in unverified)


def doubts(spec: Spec) -> Iterator[str]:
    """Parts of it that are allowed and hardly meant, as far as the spec alone tells.

    Requirements that nothing realistic misses, what models say of themselves, and what `init` left to be replaced.
    """
    yield from (f"{check.name}: {line}" for check in spec.checks for line in undemanding(check))
    yield from (f"{name}: {line}" for name, model in spec.models.items() for line in model.doubts())
    yield from placeholders(spec)


def profile_lines(spec: Spec) -> Iterator[str]:
    """Items that the profile asks for and the spec does not have; none where it names no profile."""
    profile = spec.profile
    if profile is None:
        return
    mandatory = [one for one in profile.asked if one.mandatory]
    here = sum(bool(one.found) for one in mandatory)
    yield f"profile {profile.name}: {here} of {len(mandatory)} mandatory items are present"
    aside = {one.of: one for one in spec.without}
    for one in profile.missing:
        if not one.mandatory:
            yield f"  recommended, missing: {one.wanted}: {one.why}"
        elif one.name in aside:
            until = aside[one.name].expires
            ends = f", until {until}" if until is not None else ""
            yield f"  set aside: {one.name}: {aside[one.name].why} (owner {aside[one.name].owner}{ends})"
        else:
            yield f"  missing, so no run can be READY: {one.name}: {one.wanted}: {one.why}"


def profile_json(spec: Spec) -> dict[str, Any] | None:
    """The same for machines."""
    if spec.profile is None:
        return None
    found = spec.profile.model_dump(mode="json", include={"name", "digest", "asked"})
    return found | {"without": [one.model_dump(mode="json") for one in spec.without]}


def to_json(spec: Spec) -> dict[str, Any]:
    """The same for machines."""
    return {
        "file": spec.file,
        "name": spec.name,
        "digest": spec.digest,
        "models": {name: model.kind for name, model in spec.models.items()},
        "datasets": {
            name: {"kind": dataset.kind, "rows": spec.headers[name].rows if name in spec.headers else None}
            for name, dataset in spec.datasets.items()
        },
        "checks": [
            {
                "name": check.name,
                "check": check.check,
                "dimension": check.dimension,
                "require": [one.name(check.name) for one in check.blocking],
                "warn": [one.name(check.name) for one in check.warn],
            }
            for check in spec.checks
        ],
        "profile": profile_json(spec),
        "doubtful": list(doubts(spec)),
        "overrides": list(spec.overrides),
        "unverified": [*spec.unverified, *spec.asks],
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
