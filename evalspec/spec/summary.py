"""What ``validate`` says of a spec that is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalspec.spec.model import Spec


def summary(spec: Spec) -> Iterator[str]:
    """Lines for people: what the spec holds, and what could not be verified."""
    blocking = sum(len(check.blocking) for check in spec.checks)
    warnings = sum(len(check.warn) for check in spec.checks)
    yield f"{spec.file}: the spec is right"
    yield (
        f"  {_count(len(spec.checks), 'check')} ({len(spec.system)} system, {len(spec.model)} model, "
        f"{len(spec.data)} data), {_count(blocking, 'requirement')} that block{'s' if blocking == 1 else ''}, "
        f"{_count(warnings, 'warning')}, {_count(len(spec.waivers), 'waiver')}"
    )
    for argument in spec.overrides:
        yield f"  set on the command line: {argument}"
    if spec.unverified or spec.asks:
        yield "  not verified:"
        yield from (f"    {sentence}" for sentence in (*spec.unverified, *spec.asks))


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
        "overrides": list(spec.overrides),
        "unverified": [*spec.unverified, *spec.asks],
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
