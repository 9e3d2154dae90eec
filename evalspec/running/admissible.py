"""Tests as their evidence leaves them: missing where there is none, standing where a disturbance can't have helped.

Zero rows are missing evidence, whatever the policy; and a disturbance voids only what it could have helped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evalspec.evidence.estimate import Estimate, Fact, Parts, Side
from evalspec.evidence.methods import why_no_value
from evalspec.evidence.reasons import NoEvidence, OnlyWorse
from evalspec.evidence.test import Test, holds
from evalspec.evidence.units import from_unit
from evalspec.evidence.words import plural
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

NAMED = 3
"""Empty parts that are named."""


def admitted(test: Test, confidence: float) -> Test:
    """A test as its evidence leaves it.

    Args:
        test: As it was written.
        confidence: Of the policy.
    """
    if isinstance(test.withhold, NoEvidence) and test.missing is None and not shown_violated(test, confidence):
        test = test.model_copy(update={"missing": test.withhold})
    if isinstance(test.invalid, OnlyWorse) and _holds(test, confidence):
        note = f"Met in spite of a disturbance that can only have made it worse: {test.invalid}."
        return test.model_copy(update={"invalid": None, "notes": (*test.notes, note)})
    return test


def _holds(test: Test, confidence: float) -> bool:
    """True where the test is shown to hold, and nothing else keeps it from PASS."""
    if test.missing is not None or test.withhold is not None:
        return False
    if test.exact:
        return test.value is not None and holds(test.op, test.value, test.threshold)
    return test.p_pass is not None and test.p_pass <= 1.0 - confidence


def shown_violated(test: Test, confidence: float) -> bool:
    """True where the test is violated, before Holm: FAIL, or *looks violated*, which blocks under every policy."""
    if test.exact:
        return test.value is not None and not holds(test.op, test.value, test.threshold)
    return test.p_fail is not None and test.p_fail <= 1.0 - confidence


def together(parts: Mapping[str, Estimate | Fact], requirement: Requirement) -> Estimate | Parts | None:
    """All parts as one: estimates by their conjunction, counted ones as they are; None where there are none."""
    from evalspec.stats.conjunction import AllParts

    estimates = {name: part for name, part in parts.items() if not isinstance(part, Fact)}
    if len(estimates) < len(parts):
        return Parts(parts)
    return AllParts(estimates, "lower" if requirement.upper else "higher") if estimates else None


def part_violated(
    parts: Mapping[str, Estimate | Fact], count: int, requirement: Requirement, confidence: float
) -> bool:
    """True where a part alone shows that the sentence over all is violated, at its share of the level.

    Args:
        parts: Those that count.
        count: Of all parts that the sentence is about.
        requirement: The sentence.
        confidence: Of the policy.
    """
    held = from_unit(requirement.threshold, requirement.unit)
    side: Side = "lower" if requirement.upper else "upper"
    for part in parts.values():
        if isinstance(part, Fact):
            if not holds(requirement.op, part.value, held):
                return True
            continue
        p = part.p_value(held, side)
        if p is not None and p * max(count, 1) <= 1.0 - confidence:
            return True
    return False


def with_evidence(test: Test, estimate: Estimate, missing: Mapping[str, str], confidence: float) -> Test:
    """A test that is missing where the whole or a part of its estimate has no value, or rests on no rows.

    What is shown to be violated all the same stays so: a violation needs no more than the parts that show it.

    Args:
        test: Written from the estimate.
        estimate: What it is about.
        missing: ``metric(part)``: why there is no value, as the check says it.
        confidence: Of the policy.
    """
    empty = dict(_empty(estimate))
    if not empty:
        return test
    if shown_violated(test, confidence):
        return test.model_copy(update={"withhold": test.withhold or _sentence(test, empty, missing)})
    return test.model_copy(update={"missing": test.missing or _sentence(test, empty, missing)})


def _empty(estimate: Estimate, name: str = "") -> Iterator[tuple[str, Estimate]]:
    """Parts without a value or without rows, by name; ``""`` is the whole, where only the whole has none."""
    inside = False
    for part, inner in estimate.parts.items():
        for one in _empty(inner, f"{name}, {part}" if name else part):
            inside = True
            yield one
    if not inside and (estimate.n < 1 or estimate.value is None or not math.isfinite(estimate.value)):
        yield name, estimate


def _sentence(test: Test, empty: Mapping[str, Estimate], missing: Mapping[str, str]) -> str:
    if "" in empty:
        why = _why(empty[""])
        return f"there is no evidence{f': {why}' if why else ''}"
    named = [_named(name, one, test.metric, missing) for name, one in list(empty.items())[:NAMED]]
    more = f", and {plural(len(empty) - NAMED, 'part')} more" if len(empty) > NAMED else ""
    return f"there is no evidence of {'; of '.join(named)}{more}; add rows that have it, or do not require it"


def _named(name: str, part: Estimate, metric: str, missing: Mapping[str, str]) -> str:
    why = missing.get(f"{metric}({name})") or _why(part)
    return f"{name} ({why})" if why else name


def _why(estimate: Estimate) -> str:
    """Reason why there is no value, as the estimate gives it; without rows, only that there are none."""
    why = why_no_value(estimate.method)
    if why:
        return why
    if isinstance(estimate, ValueOnly) and estimate.value is None:
        return estimate.method
    if estimate.value is not None and not math.isfinite(estimate.value):
        return "its value is not a number"
    return f"n {estimate.n:,}" if estimate.n < 1 else ""
