"""Range of a metric's values: sentences that no value, or every value, meets are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalspec.errors import Problem, SpecError
from evalspec.evidence.metric import Metric, Op
from evalspec.evidence.units import UNITS, format_quantity

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement, Sentence

_NEVER_BELOW_ZERO = (
    "fraction", "time", "query rate", "sample rate", "size", "ratio", "rows", "count", "age", "energy", "power",
    "samples by energy", "operation rate", "operations by byte",
)  # fmt: skip
_UPWARD: tuple[Op, ...] = (">", ">=")


def check_reach(sentence: Sentence, metric: Metric, unit: str, threshold: float) -> None:
    """Refuse what no value, or no sample, can ever show, and what every value shows.

    Args:
        sentence: A sentence with a number on its right.
        metric: What it is about.
        unit: Of the threshold.
        threshold: The number.

    Raises:
        SpecError: It can never pass, or never fail.
    """
    kind = UNITS[unit].kind if unit in UNITS else "label"
    bottom, top = _limits(metric, unit, kind)
    if not bottom <= threshold <= top:
        low = threshold < bottom
        side = _beyond(unit, bottom if low else top, low=low)
        raise SpecError(
            Problem(f"{sentence.right} is {side}, which {metric.name} never reaches", remedy="correct the number")
        )
    if sentence.op == "==" and kind in ("rows", "count") and not threshold.is_integer():
        raise SpecError(Problem(f"{sentence.text!r} can never pass: {metric.name} is a whole number"))
    upward = sentence.op in _UPWARD
    at_edge = threshold == (top if upward else bottom) and sentence.op != "=="
    if at_edge and (sentence.op in ("<", ">") or not _edge_shown(metric, kind)):
        reason = "no value can" if sentence.op in ("<", ">") else "no sample can show it"
        example = "99.9 %" if upward else "0.1 %"
        remedy = f"leave room, such as {example}" if kind == "fraction" else "leave room"
        raise SpecError(Problem(f"{sentence.text!r} can never pass: {reason}", remedy=remedy))
    # A fact may lie on the edge, which no sample shows to be crossed.
    crossed = metric.exact and sentence.op in ("<", ">")
    if sentence.op != "==" and not crossed and threshold == (bottom if upward else top):
        where = _beyond(unit, bottom if upward else top, low=upward)
        raise never_fails(sentence.text, f"{metric.name} is never {where}", "more" if upward else "less")


def check_difference(sentence: Sentence, metric: Metric, offset: float, factor: float) -> None:
    """Refuse a difference of fractions that every pair of values has, or none.

    Args:
        sentence: A sentence with a model on its right.
        metric: A fraction.
        offset: From the model's value, in pp.
        factor: That the model's value is taken times.

    Raises:
        SpecError: It can never pass, or never fail.
    """
    upward = sentence.op in _UPWARD
    least, most = -100.0 * factor, 100.0
    reason = f"{metric.name} is between 0 and 1"
    if offset <= least if upward else offset >= most:
        raise never_fails(sentence.text, reason, "more" if upward else "less")
    if offset >= most if upward else offset <= least:
        raise SpecError(Problem(f"{sentence.text!r} can never pass: {reason}", remedy="correct the number"))


def never_shown_zero(metric: Metric) -> bool:
    """Its smallest value is 0, and no sample can show that it is."""
    kind = UNITS[metric.unit].kind if metric.unit in UNITS else "label"
    return _limits(metric, metric.unit, kind)[0] == 0.0 and not _edge_shown(metric, kind)


def check_rows(requirement: Requirement, dataset: str, rows: int | None) -> str | None:
    """Hold a count of rows against the rows that there are.

    Args:
        requirement: On rows of this dataset.
        dataset: Its name.
        rows: The most that it can have; None: not known.

    Returns:
        Why it can never pass; None: it can.

    Raises:
        SpecError: It can never fail.
    """
    if not rows or requirement.unit != "rows" or requirement.model is not None:
        return None
    there, asked = f"{dataset} has {format_quantity(float(rows), 'rows')} in all", requirement.threshold
    if requirement.upper and (asked >= rows if requirement.op == "<=" else asked > rows):
        raise never_fails(requirement.sentence, there, "less")
    beyond = asked >= rows if requirement.op == ">" else asked > rows
    return there if not requirement.upper and beyond else None


def never_fails(sentence: str, reason: str, instead: str) -> SpecError:
    """Error of a sentence that every value meets: a gate that can't go red.

    Args:
        sentence: As written.
        reason: Why.
        instead: What to require: ``more``, ``less``.
    """
    remedy = f"require {instead}, or remove the sentence"
    return SpecError(Problem(f"{sentence!r} can never fail: {reason}", remedy=remedy))


def _edge_shown(metric: Metric, kind: str) -> bool:
    """True if it can be shown to be the best that it can be."""
    # That a search finds nothing can be shown, where it would have found something; that a share is 0 can not.
    return metric.exact or metric.edge_shown or kind == "count"


def _limits(metric: Metric, unit: str, kind: str) -> tuple[float, float]:
    """The smallest and the largest value that a metric can have, in ``unit``, as far as it or its unit tells."""
    top = 1 / UNITS[unit].scale if kind in ("fraction", "difference") else float("inf")
    bottom = 0.0 if kind in _NEVER_BELOW_ZERO else -top
    return bottom if metric.least is None else metric.least, top if metric.most is None else metric.most


def _beyond(unit: str, limit: float, *, low: bool) -> str:
    """``above 100 %``, ``below 0``, ``below -100 pp``."""
    shown = "100 %" if unit == "fraction" and limit == 1 else format_quantity(limit, unit) if limit else "0"
    return f"{'below' if low else 'above'} {shown}"
