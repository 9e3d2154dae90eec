"""Anchors and short forms of names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from evalspec.evidence.units import format_quantity
from evalspec.evidence.visible import visible
from evalspec.evidence.written import in_unit, unit_of

if TYPE_CHECKING:
    from evalspec.evidence.record import CheckRecord
    from evalspec.evidence.test import Test

MAX_UNIT = 16
LONGEST_WORD = 12
_JOINTS = re.compile(r"(?<=[A-Za-z0-9][_/:=-])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?=\()")
"""After what joins two words, and before a bracket."""


def anchors(prefix: str, names: Iterable[str]) -> tuple[str, ...]:
    """One id per name, in order, safe in HTML and in a link, and different from each other.

    It is made from the name, so that a link to a requirement stays when the spec's order changes.
    """
    taken: dict[str, int] = {}
    made = []
    for name in names:
        plain = f"{prefix}-{re.sub(r'[^A-Za-z0-9_.]+', '-', name).strip('-') or 'unnamed'}"[:120]
        count = taken.get(plain, 0) + 1
        taken[plain] = count
        made.append(plain if count == 1 else f"{plain}--{count}")
    return tuple(made)


def plain_name(check: CheckRecord | None, test: Test) -> str:
    """Name of what a requirement is about, for people who don't know its metric: ``expected calibration error``.

    Args:
        check: Its check, which declares plain names; None: the record does not have it.
        test: The requirement.
    """
    labels = {} if check is None or check.declares is None else check.declares.plain_names
    part = f" ({test.part})" if test.part else ""
    against = f" against {test.against}" if test.against else ""
    return f"{labels.get(test.metric) or test.metric.replace('_', ' ')}{part}{against}"


def upper_first(text: str) -> str:
    """The text with a capital at its beginning; a name with capitals or digits in its first word stays."""
    word = text.partition(" ")[0].rstrip(",:;.")
    return text if not word.isalpha() or not word.islower() else text[:1].upper() + text[1:]


def shorten(text: str, limit: int) -> str:
    """The text, cut with an ellipsis where it is longer than ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def breakable(text: str) -> tuple[str, ...]:
    """The pieces of a name between which it may go over to the next line: one, where no word of it is long."""
    shown = visible(text)
    if max((len(word) for word in shown.split()), default=0) <= LONGEST_WORD:
        return (shown,)
    return tuple(_JOINTS.split(shown))


def measured_quantity(check: CheckRecord, name: str) -> str:
    """A number of a check with its unit, as its requirements are written; it must be one."""
    unit, value = check.units.get(name, ""), check.measured[name]
    to = unit_of(check, name)
    return quantity(in_unit(float(value or 0.0), unit, to), to)


def quantity(value: float, unit: str, decimals: int | None = None) -> str:
    """A value with its unit. A unit is a short word: a longer one is cut, for a column must hold it."""
    return format_quantity(value, shorten(visible(unit), MAX_UNIT), decimals)
