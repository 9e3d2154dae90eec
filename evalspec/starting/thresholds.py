"""Thresholds from what a first run measured: the bound, rounded to the side that leaves room, and marked."""

from __future__ import annotations

import math
from dataclasses import replace

from evalspec.evidence.metric import Metric
from evalspec.evidence.test import Test
from evalspec.evidence.units import UNITS, format_quantity
from evalspec.starting.drafts import Ask

YOURS = "yours to decide"
WIDE = 0.1
"""Of a share: what lies between value and bound and says that there are few rows."""
LOOSE = {"fraction": "99 %", "time": "1000 s", "size": "1000 GiB", "ratio": "1000x", "difference": "99 pp"}
"""Upper thresholds that every value meets, by kind of unit."""
STRICTEST = 0.99
"""Of a share: beyond, tenths of a percent are told."""
STEPS = (1, 2, 5, 10)


def loose(ask: Ask, metric: Metric) -> str:
    """A threshold that nearly every value meets, for the run that measures."""
    against = _against(ask)
    if against:
        return "99 pp" if UNITS[metric.unit].kind == "fraction" else "1000"
    kind = UNITS[metric.unit].kind if metric.unit in UNITS else "label"
    if ">=" in ask.start:
        return "1 %" if kind == "fraction" else "-1000000"
    return LOOSE.get(kind, "1000000000")


def measured(ask: Ask, test: Test) -> Ask:
    """The sentence with a threshold that the measured bound meets, or without, with the reason.

    Args:
        ask: The sentence.
        test: What the first run found of it.
    """
    if not ask.otherwise:
        return ask
    why = test.missing or test.invalid
    bound = _bound(test)
    if test.value is None or (bound is None and why is None):
        return replace(ask, left_out=test.missing or f"there is no bound for {test.n:,} rows")
    around = test.value if bound is None else bound
    threshold = _threshold(test, around, against=_against(ask))
    if threshold is None:
        side = "lower" if test.op in (">=", ">") else "upper"
        shown = _told(around, test)
        return replace(ask, left_out=f"with {test.n:,} rows the {side} bound is {shown}, which is uninformative")
    comment = _comment(test, around) if why is None else f"measured {_told(test.value, test)}, but {why}: {YOURS}"
    return replace(ask, threshold=threshold, comment=comment)


def _bound(test: Test) -> float | None:
    """The bound of a test; of one that holds for several parts that of the worst."""
    upward = test.op in (">=", ">")
    if test.parts:
        bounds = [one.lower if upward else one.upper for one in test.parts]
        known = [one for one in bounds if one is not None]
        return None if not known else min(known) if upward else max(known)
    return test.lower if upward else test.upper


def unmeasured(ask: Ask, query_s: float = 0.0) -> Ask:
    """The sentence with a threshold by the time of a query, or one that stands for the user's own.

    Args:
        ask: The sentence.
        query_s: Seconds within which 99 of 100 single rows were answered; 0: not measured.
    """
    if ask.timed and query_s:
        shown, threshold = format_quantity(query_s * 1e3, "ms"), _step_up(query_s * 1e3 * ask.times)
        comment = f"measured {shown} by `init`, times {ask.times:g} and rounded up: {YOURS}"
        return replace(ask, threshold=f"{_plain(threshold)} ms", comment=comment)
    return replace(ask, threshold=ask.otherwise, comment=f"not measured: {YOURS}") if ask.otherwise else ask


def _against(ask: Ask) -> bool:
    return ask.start.endswith((" -", " +"))


def _comment(test: Test, bound: float) -> str:
    upward = test.op in (">=", ">")
    shown = bound
    if _is_share(test):
        # Rounded as the threshold is, so that the two never seem to contradict each other.
        shown = (math.floor(bound * 1000) if upward else math.ceil(bound * 1000)) / 1000
    value, side = _told(test.value or 0.0, test), "lower" if upward else "upper"
    text = f"measured {value} on {test.n:,} rows, {side} bound {_told(shown, test)}"
    if _is_share(test) and abs((test.value or 0.0) - bound) > WIDE:
        text += " (few rows: the bound is wide)"
    return f"{text}: {YOURS}"


def _told(value: float, test: Test) -> str:
    return format_quantity(value * 100, "%", 1) if test.unit == "fraction" else format_quantity(value, test.unit)


def _is_share(test: Test) -> bool:
    return test.unit == "fraction"


def _threshold(test: Test, bound: float, *, against: bool) -> str | None:
    """The threshold with its unit; None: none that says anything."""
    upward = test.op in (">=", ">")
    if against:
        return f"{max(1, math.ceil(-bound if upward else bound))} pp"
    if _is_share(test):
        return _share(bound, upward)
    kind = UNITS[test.unit].kind if test.unit in UNITS else "label"
    written = _plain(_rounded(bound, upward))
    return f"{written} {test.unit}" if kind not in ("label", "score", "count") else written


def _share(bound: float, upward: bool) -> str | None:
    scale = 1000 if (bound > STRICTEST if upward else bound < 1 - STRICTEST) else 100
    steps = math.floor(bound * scale) if upward else max(math.ceil(bound * scale), 1)
    steps = min(steps, scale - 1)
    percent = steps * 100 / scale
    return f"{percent:g} %" if 1 <= percent <= 99.9 or (not upward and percent < 50) else None


def _rounded(bound: float, upward: bool) -> float:
    """Two significant digits, to the side that leaves room."""
    if bound == 0 or not math.isfinite(bound):
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) - 1)
    return (math.floor(bound / unit) if upward else math.ceil(bound / unit)) * unit


def _plain(number: float) -> str:
    return f"{number:.12f}".rstrip("0").rstrip(".")


def _step_up(value: float) -> float:
    """The next of 1, 2, 5, 10, ..."""
    unit = 10.0 ** math.floor(math.log10(max(value, 1e-6)))
    return next(step * unit for step in STEPS if step * unit >= value)
