"""Declaration of a recorded check, whichever version recorded it."""

from __future__ import annotations

from collections.abc import Iterator

from evalspec.evidence.declaration import Declaration
from evalspec.evidence.frozen import is_number
from evalspec.evidence.metric import Shows
from evalspec.evidence.record import CheckRecord
from evalspec.evidence.test import Test
from evalspec.lineage.before_0_3 import declared_before


def declared(check: CheckRecord) -> Declaration:
    """Declaration of a check on its fields and metrics."""
    return declared_before(check) if check.declares is None else check.declares


def is_shown(check: CheckRecord, test: Test, what: Shows) -> bool:
    """True if the metric of a requirement shows this."""
    return declared(check).is_shown(what, test.metric)


def tests_that_show(check: CheckRecord, *what: Shows) -> list[Test]:
    """Requirements of a check whose metric shows one of these."""
    declaration = declared(check)
    return [test for test in check.tests if any(declaration.is_shown(one, test.metric) for one in what)]


def numbers_that_show(check: CheckRecord, what: Shows) -> Iterator[tuple[str, float]]:
    """Measured numbers whose metric shows something: their name, with its part, and the value in the metric's unit."""
    declaration = declared(check)
    for name, value in check.measured.items():
        if not is_number(value):
            continue
        if name.partition("(")[0] in declaration.metrics.get(what, ()):
            yield name, float(value)


def number_that_shows(check: CheckRecord, what: Shows) -> float | None:
    """The number of the metric that shows something, over all parts; None: it was not measured."""
    return next((value for name, value in numbers_that_show(check, what) if "(" not in name), None)
