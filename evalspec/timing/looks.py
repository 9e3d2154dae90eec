"""Early looks at checks that time several fresh processes."""

from __future__ import annotations

from math import ceil
from typing import TypeVar

from evalspec.language.parts import Check

LEAST = 3
"""Processes at the first look: with fewer nothing tells how far they differ."""

COUNT = "processes"
"""Field of such a check."""
Timed = TypeVar("Timed", bound=Check)


def looks_at(processes: int) -> tuple[int, ...]:
    """Numbers of processes after which a check of so many may end: 3, and two thirds of them."""
    return tuple(sorted({one for one in (LEAST, ceil(2 * processes / 3)) if LEAST <= one < processes}))


def with_fewer(check: Timed, processes: int, **fields: object) -> Timed:
    """A check with fewer processes, and what else is changed of it.

    Args:
        check: A check with the field ``processes``.
        processes: How many there are instead.
        fields: Values of other fields; names with an underscore are private attributes.
    """
    private = {name: value for name, value in fields.items() if name.startswith("_")}
    public = {name: value for name, value in fields.items() if name not in private}
    if processes != getattr(check, COUNT):
        # A field that is set counts as one that somebody wrote.
        public[COUNT] = processes
    fewer = check.model_copy(update=public)
    for name, value in private.items():
        setattr(fewer, name, value)
    return fewer


def forms(check: Timed) -> tuple[Timed, ...]:
    """A check after 3 processes, after two thirds of them, and whole."""
    return (*(with_fewer(check, some) for some in looks_at(getattr(check, COUNT))), check)
