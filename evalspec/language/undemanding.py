"""Requirements that nothing realistic misses: they are doubted beside the verdict, and never block.

Three rules, none of which knows a metric by name. A threshold within 1 % of the worst that a metric can be asks nothing
of a bounded metric. A limit 1,000 times as far as what was measured asks nothing of an unbounded one; before anything
was measured, an hour for one answer or a hundredth of an item a second. And what an answer that never looks at the row
would pass as well (the most frequent class, the best constant, a random order) shows nothing of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evalspec.evidence.test import Test
from evalspec.evidence.units import UNITS, format_number, format_quantity, from_unit

if TYPE_CHECKING:
    from evalspec.evidence.metric import Metric
    from evalspec.language.parts import Check, CheckResult
    from evalspec.language.requirement import Requirement

WORST_END = 0.01
"""Of a metric's range, at its worse end."""
ROUNDING = 1e-9
TIMES = 1_000.0
"""A limit is so many times what was measured."""
FACTOR = 100.0
"""Of another model's value."""
LONGEST_S = 3_600.0
SLOWEST = 0.01
"""Items, queries or operations a second; or times another number."""
ENDLESS = 1e15
UNBOUNDED = frozenset({
    "time", "query rate", "sample rate", "operation rate", "size", "energy", "power", "samples by energy", "ratio",
})  # fmt: skip
"""Kinds of quantity without a worst end that are never near 0 because they are good."""
SLOW = frozenset({"query rate", "sample rate", "ratio"})


def undemanding(check: Check) -> Iterator[str]:
    """Sentences on requirements of a check that nothing realistic misses, as far as the spec alone tells.

    Args:
        check: Its requirements, those that only warn among them.
    """
    for one in check.requirements:
        metric = check.metric(one.metric)
        why = None if metric is None else _at_the_end(metric, one)
        if why is not None:
            yield _sentence(one, why)


def measured_undemanding(check: Check, result: CheckResult, tests: tuple[Test, ...]) -> Iterator[str]:
    """The same, with what was measured, and what a model that knows nothing would score.

    Args:
        check: The check.
        result: What it found.
        tests: Its tests, in the order of its requirements.
    """
    for one, test in zip(check.requirements, tests, strict=True):
        metric = check.metric(one.metric)
        if metric is None:
            continue
        why = _known_blind(one, test, result.blind) or _at_the_end(metric, one) or _far_beyond(metric, one, test)
        if why is not None:
            yield _sentence(one, why)


def _sentence(one: Requirement, why: str) -> str:
    return f"`{one.sentence}` requires almost nothing: {why}"


def _at_the_end(metric: Metric, one: Requirement) -> str | None:
    """Why a threshold can't be missed but by the worst there is; None: it can."""
    if one.op == "==":
        return None
    if one.is_ratio:
        far = one.factor >= FACTOR if one.upper else one.factor <= 1.0 / FACTOR
        return f"a model {format_number(FACTOR)} times as bad as {one.model} would pass it" if far else None
    held = from_unit(one.threshold, one.unit)
    least, most = _range(metric)
    if one.model is not None:
        far = least is not None and most is not None and abs(held) >= (1.0 - WORST_END) * (most - least) - ROUNDING
        wrong_way = held > 0 if one.upper else held < 0
        return f"it may be worse than {one.model} by nearly the whole range" if far and wrong_way else None
    if least is not None and most is not None:
        worst = most if one.upper else least
        room = (worst - held) if one.upper else (held - worst)
        close = room <= WORST_END * (most - least) + ROUNDING
        return f"the worst possible value is {format_quantity(_told(worst, one.unit), one.unit)}" if close else None
    return _beyond_all(one, held)


def _beyond_all(one: Requirement, held: float) -> str | None:
    """Sentence on an unbounded quantity whose limit no machine and no model reaches; None: one may."""
    unit = UNITS.get(one.unit)
    if unit is None:
        return None
    if one.upper and (held >= ENDLESS or (unit.kind == "time" and held * unit.scale >= LONGEST_S)):
        return "nothing takes that long" if unit.kind == "time" else "nothing is that large"
    if not one.upper and unit.kind in SLOW and held <= SLOWEST:
        return "nothing is that slow" if unit.kind != "ratio" else "nothing is that small"
    return None


def _range(metric: Metric) -> tuple[float | None, float | None]:
    """Smallest and largest value, fractions in 0..1; None: there is none."""
    unit = UNITS.get(metric.unit)
    kind = None if unit is None else unit.kind
    least, most = metric.least, metric.most
    if most is not None and not math.isfinite(most):
        most = None
    if kind == "fraction":
        return (0.0 if least is None else least), (1.0 if most is None else most)
    if kind == "difference":
        return (-1.0 if least is None else least), (1.0 if most is None else most)
    # What only a largest value is declared of counts from 0.
    return (0.0 if least is None and most is not None else least), most


def _told(value: float, unit: str) -> float:
    """A computed value as it is written in a unit."""
    return value / UNITS[unit].scale if unit in ("%", "pp") else value


def _far_beyond(metric: Metric, one: Requirement, test: Test) -> str | None:
    """Sentence on a limit that is very far from what was measured, or as far as all rows; None: it isn't."""
    if test.value is None or one.op == "==":
        return None
    threshold = one.factor if one.is_ratio else one.threshold
    unit = UNITS.get(one.unit)
    kind = None if unit is None else unit.kind
    if kind == "rows" and test.exact and one.upper and test.n:
        return "every row meets it" if threshold >= (1.0 - WORST_END) * test.n else None
    if one.model is not None and not one.is_ratio:
        return None
    if kind not in UNBOUNDED or metric.exact or test.value <= 0 or threshold <= 0:
        return None
    times = threshold / test.value if one.upper else test.value / threshold
    measured = format_quantity(test.value, one.unit)
    return (
        f"the limit is {format_number(float(f'{times:.2g}'))} times what was measured ({measured})"
        if (times >= TIMES)
        else None
    )


def _known_blind(one: Requirement, test: Test, blind: Mapping[str, tuple[float, str]]) -> str | None:
    """Sentence on a limit that an answer which never looks at the row would pass; None: it wouldn't, or none exists."""
    own = one.metric if one.part is None else f"{one.metric}({one.part})"
    scores = [blind[own]] if own in blind else []
    if not scores and one.part is None:
        scores = [score for name, score in blind.items() if name.startswith(f"{one.metric}(")]
    held = from_unit(one.threshold, one.unit)
    if one.model is not None:
        if test.baseline is None:
            return None
        beside = from_unit(test.baseline, test.metric_unit)
        held = one.factor * beside + (0.0 if one.is_ratio else held)
    if not scores or not all(value <= held if one.upper else value >= held for value, _ in scores):
        return None
    value, answer = (max if one.upper else min)(scores)
    return f"a model that ignores its input would pass it too ({answer}: {one.metric} {format_number(value)})"
