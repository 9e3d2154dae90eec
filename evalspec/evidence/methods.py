"""Facts that code reads from the method of an estimate: its family, and why it gives no bound.

A record keeps a method as one string, ``exact binomial on ...`` or ``BCa; no bound: 3 rows``, in all its versions.
Nothing else reads it.
"""

from __future__ import annotations

import re
from enum import StrEnum

NO_BOUND = "no bound: "
NO_VALUE = "no value: "
_TIMED = "binomial on the share of queries over"
_DISTANCE = "upper bound at the point of largest difference"
_PROCESSES = re.compile(r"\bt over (\d+) (?:processes|pairs|kills)")
_UNITS = re.compile(r"\bover ([\d,]+) (?:clusters|groups)")
_EFFECT = re.compile(r"\bdesign effect ([\d,]*\.?\d+)")


class IntervalFamily(StrEnum):
    """How an interval is made, as far as a design of the next run depends on it."""

    CLOPPER_PEARSON = "Clopper-Pearson"
    BINOMIAL = "binomial"
    OTHER = ""

    @property
    def counted(self) -> bool:
        """True if it is of a share that counts rows or queries."""
        return self is not IntervalFamily.OTHER


def family_of(method: str) -> IntervalFamily:
    """The family of a method."""
    return next(one for one in IntervalFamily if method.startswith(one))


def why_no_bound(method: str) -> str:
    """Why a method gives no bound; empty: it gives one."""
    return method.partition(NO_BOUND)[2]


def why_no_value(method: str) -> str:
    """Why a method gives no bound or no value; empty: it gives both."""
    return why_no_bound(method) or method.partition(NO_VALUE)[2]


def is_timed(method: str) -> bool:
    """True if it counts the queries that took longer."""
    return _TIMED in method


def is_distance(method: str) -> bool:
    """True if it is of the largest difference of two distributions."""
    return _DISTANCE in method


def processes_in(method: str) -> int | None:
    """Processes, pairs of them or kills whose spread gives the interval; None: it is made of rows or queries."""
    found = _PROCESSES.search(method)
    return None if found is None else int(found[1])


def units_in(method: str) -> int | None:
    """Clusters or groups that the interval rests on; None: rows."""
    found = _UNITS.search(method)
    return None if found is None else int(found[1].replace(",", ""))


def design_effect_in(method: str) -> float | None:
    """How many dependent queries said as much as one; None: the method tells of none."""
    found = _EFFECT.search(method)
    return None if found is None else float(found[1].replace(",", ""))
