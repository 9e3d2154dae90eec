"""Two runs as wholes: what they are, and what of their surroundings is not the same."""

from __future__ import annotations

from collections.abc import Iterator

from evalspec.evidence.record import Record
from evalspec.evidence.words import short_digest
from evalspec.verdict.profile import as_run, holding


def run_notes(before: Record, after: Record) -> Iterator[str]:
    """Notes on two runs that are not an earlier and a later whole run of one spec."""
    if before.spec != after.spec:
        yield f"they are runs of two specs: {before.spec}, then {after.spec}"
    if before.started > after.started:
        yield f"the runs are in the wrong order: the first was made at {after.started}, the second at {before.started}"
    for which, one in (("earlier", before), ("later", after)):
        if one.draft:
            yield f"the {which} run is a draft, and a draft decides nothing"
        if one.interrupted:
            yield f"the {which} run was interrupted"
        if one.only:
            yield f"only a part of the {which} run was run: {', '.join(one.only)}"


def differences(before: Record, after: Record) -> tuple[tuple[str, str, str], ...]:
    """Spec, subject, datasets, machine, packages and counts of runs that are not the same in both."""
    pairs: list[tuple[str, object, object]] = [
        ("spec", before.spec_digest[:12], after.spec_digest[:12]),
        ("subject", short_digest(before.subject), short_digest(after.subject)),
        ("earlier decided runs on the test set", before.earlier_runs, after.earlier_runs),
    ]
    pairs += _profiles(before, after)
    ours, theirs = _facts(before), _facts(after)
    pairs += [(name, ours.get(name), theirs.get(name)) for name in {**ours, **theirs}]
    return tuple(
        (name, "absent" if old is None else str(old), "absent" if new is None else str(new))
        for name, old, new in pairs
        if old != new and name not in MOVES
    )


def _profiles(before: Record, after: Record) -> list[tuple[str, object, object]]:
    """Profile, and what answers each of its items."""
    ours, theirs = _asked(before), _asked(after)
    return [(name, ours.get(name), theirs.get(name)) for name in {**ours, **theirs}]


def _asked(record: Record) -> dict[str, str]:
    profile = as_run(record)
    if profile is None:
        return {}
    aside = holding(record)
    found = {"profile": f"{profile.name} {profile.digest[:12]}"}
    for one in profile.asked:
        missing = "set aside" if one.mandatory and one.name in aside else "missing"
        found[one.full_name] = ", ".join(one.found) or missing
    return found


MOVES = ("machine cpu_steal_s_since_boot", "machine cpu_MHz")
"""Facts that are another number each time they are read."""


def _facts(record: Record) -> dict[str, object]:
    """Circumstances of a run: field, its value."""
    found: dict[str, object] = {f"model {one.name}": short_digest(one.digest) for one in record.models}
    # Stages of one name may be set otherwise, so the digest stands beside them.
    found |= {
        f"model {one.name} preprocess": f"{', '.join(one.preprocess)} ({one.preprocess_digest[:8]})"
        for one in record.models
        if one.preprocess
    }
    found |= {f"dataset {one.name}": short_digest(one.digest) for one in record.datasets}
    found |= {f"machine {name}": value for name, value in record.environment.facts.items()}
    found |= {f"package {name}": value for name, value in record.environment.packages.items()}
    return found | {f"control {one.name}": one.state for one in record.environment.controls}
