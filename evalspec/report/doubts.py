"""Numbers that were measured and are not judged: they are shown, and never as if they counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evalspec.evidence.frozen import is_number
from evalspec.evidence.names import metric_of, part_of
from evalspec.evidence.record import CheckRecord
from evalspec.evidence.test import Test

if TYPE_CHECKING:
    from evalspec.report.requirements import RequirementRow


def measured_anyway(check: CheckRecord | None, test: Test) -> tuple[str, float, str] | None:
    """Measurement for an inadmissible requirement where the requirement itself has no value of it.

    A requirement over all parts is decided from those that are sound; the ones that are not stand in its check.

    Args:
        check: The test's own; None: the record does not have it.
        test: It has been found INVALID.

    Returns:
        Its name in ``check.measured``, the value and its unit; None where the test's own value is the one, or there is
        none.
    """
    if check is None or test.against is not None:
        return None
    values = {name: float(value) for name, value in check.measured.items() if is_number(value)}
    own = test.asked
    if own == test.metric and own not in check.measured:
        void = [(value, name) for name, value in values.items() if _is_void_part(name, test)]
        if void:
            value, name = (max if test.op in ("<=", "<") else min)(void)
            return name, value, check.units.get(name, "")
    if test.value is None and own in values:
        return own, values[own], check.units.get(own, "")
    return None


def doubted(check: CheckRecord, rows: Iterable[RequirementRow]) -> frozenset[str]:
    """Names in ``check.measured`` that are not judged, as its requirements have been decided.

    Args:
        check: A check.
        rows: Its requirements.
    """
    rows = list(rows)
    void = [row.test for row in rows if row.doubtful and row.test is not None]
    if check.status == "invalid" or (rows and len(void) == len(rows)):
        return frozenset(check.measured)
    found = set()
    for test in void:
        own = test.quantity
        found.add(own)
        if own == test.metric and own not in check.measured:
            found |= {name for name in check.measured if _is_void_part(name, test)}
    return frozenset(found & set(check.measured))


def _is_void_part(name: str, test: Test) -> bool:
    """True if it is a part of the test's metric that the test was not decided from."""
    part = part_of(name)
    return bool(part) and metric_of(name) == test.metric and part not in {one.part for one in test.parts}
