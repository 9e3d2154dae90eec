"""One defect in several strengths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from evalspec.evidence.frozen import is_number
from evalspec.language.defects import Defect

Ladder = tuple[Defect, ...]
"""A defect in its strengths, mildest first."""


def ladders(defects: Iterable[Defect]) -> tuple[Ladder, ...]:
    """Defects of one class that differ in a number alone are one in several strengths, in the order given."""
    found: list[list[Defect]] = []
    for one in defects:
        same = next((ladder for ladder in found if _alike(ladder[0], one)), None)
        if same is None:
            found.append([one])
        else:
            same.append(one)
    return tuple(map(tuple, found))


def _alike(one: Defect, other: Defect) -> bool:
    if type(one) is not type(other):
        return False
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(one) if field.name != "what"]
    return all(a == b or (is_number(a) and is_number(b)) for a, b in pairs)
