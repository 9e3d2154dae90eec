"""What would become of a requirement, alone in its family, by the rules that a verdict follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts, Side
from evalspec.language.parts import Check, CheckResult
from evalspec.language.requirement import Requirement

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "MISSING"]


def the(check: Check, sentence: str) -> Requirement:
    """The requirement of this sentence."""
    return next(requirement for requirement in check.requirements if requirement.sentence == sentence)


def outcome(result: CheckResult, requirement: Requirement, confidence: float = 0.95) -> Outcome:
    """PASS, FAIL or neither, for one requirement on what a check found."""
    if result.invalid is not None:
        return "INVALID"
    if requirement.model is not None:
        return _compared(result, requirement, confidence)
    found = result.estimates.get(requirement.metric)
    if found is None:
        assert requirement.metric in result.missing, f"{requirement.metric} is neither there nor missing with a reason"
        return "MISSING"
    if isinstance(found, Measured):
        decided = _measured(found, requirement, confidence)
    else:
        decided = _of(found, requirement, confidence)
    return "MISSING" if decided != "FAIL" and _lost(result, requirement) else decided


def _lost(result: CheckResult, requirement: Requirement) -> bool:
    """A sentence over all parts, and one of them could not be measured."""
    found = result.estimates[requirement.metric]
    found = found.estimate if isinstance(found, Measured) else found
    if requirement.part is not None or not isinstance(found, Parts) or found.whole is not None:
        return False
    start = f"{requirement.metric}("
    parts = (name[len(start) : -1] for name in result.missing if name.startswith(start) and name.endswith(")"))
    return any(part not in found.parts for part in parts)


def _measured(found: Measured, requirement: Requirement, confidence: float) -> Outcome:
    if found.invalid is not None:
        return "INVALID"
    decided = _of(found.estimate, requirement, confidence)
    return "INCONCLUSIVE" if decided == "PASS" and found.withhold is not None else decided


def _of(found: Estimate | Fact | Parts, requirement: Requirement, confidence: float) -> Outcome:
    if isinstance(found, Parts):
        whole = found.whole
        if requirement.part is not None:
            part = found.parts.get(requirement.part)
            if part is None:
                return "MISSING"
            if isinstance(part, Measured):
                return _measured(part, requirement, confidence)
            whole = part
        if whole is None:
            return _all_parts(found.parts, requirement, confidence)
        found = whole
    if isinstance(found, Fact):
        return "PASS" if _holds(found, requirement) else "FAIL"
    return _decided(*_p(found, requirement, requirement.threshold), confidence)


def _compared(result: CheckResult, requirement: Requirement, confidence: float) -> Outcome:
    assert requirement.model is not None
    found = result.comparisons.get((requirement.metric, requirement.model))
    if found is None:
        return "MISSING"
    if isinstance(found, ComparisonParts):
        if found.invalid is not None:
            return "INVALID"
        if found.withhold is not None:
            plain = replace(found, withhold=None)
            again = replace(result, comparisons={(requirement.metric, requirement.model): plain})
            decided = _compared(again, requirement, confidence)
            return "INCONCLUSIVE" if decided == "PASS" else decided
        if requirement.part is not None:
            return _decided(*_pair(found.parts[requirement.part], requirement), confidence)
        if found.whole is not None:
            return _decided(*_pair(found.whole, requirement), confidence)
        pairs = [_pair(part, requirement) for part in found.parts.values()]
        return _decided(*_conjunction(pairs), confidence)
    return _decided(*_pair(found, requirement), confidence)


def _pair(comparison: Comparison, requirement: Requirement) -> tuple[float | None, float | None]:
    if requirement.is_ratio:
        ratio = comparison.ratio()
        return (None, None) if ratio is None else _p(ratio, requirement, requirement.factor)
    margin = requirement.threshold / (100.0 if requirement.unit in ("pp", "%") else 1.0)
    return _p(comparison.difference(requirement.factor, margin), requirement, margin, scaled=True)


def _all_parts(parts: Mapping[str, Estimate | Fact | Measured], requirement: Requirement, confidence: float) -> Outcome:
    if not parts:
        return "MISSING"
    mistrusted = [part for part in parts.values() if isinstance(part, Measured)]
    plain = [part.estimate if isinstance(part, Measured) else part for part in parts.values()]
    facts = [part for part in plain if isinstance(part, Fact)]
    if len(facts) == len(plain):
        return "PASS" if all(_holds(part, requirement) for part in facts) else "FAIL"
    pairs = [
        (None, None)
        if isinstance(one, Measured) and one.invalid is not None
        else _p(part, requirement, requirement.threshold)
        for one, part in zip(parts.values(), plain, strict=True)
        if not isinstance(part, Fact | Parts)
    ]
    decided = _decided(*_conjunction(pairs), confidence)
    if decided != "FAIL" and any(part.invalid is not None for part in mistrusted):
        return "INVALID"
    withheld = any(part.withhold is not None for part in mistrusted)
    return "INCONCLUSIVE" if decided == "PASS" and withheld else decided


def _conjunction(pairs: list[tuple[float | None, float | None]]) -> tuple[float, float]:
    holds = max(1.0 if p is None else p for p, _ in pairs)
    fails = min(1.0, len(pairs) * min(1.0 if p is None else p for _, p in pairs))
    return holds, fails


def _p(
    estimate: Estimate, requirement: Requirement, threshold: float, *, scaled: bool = False
) -> tuple[float | None, float | None]:
    at = threshold / 100.0 if requirement.unit in ("%", "pp") and not scaled else threshold
    holds: Side = "upper" if requirement.upper else "lower"
    fails: Side = "lower" if requirement.upper else "upper"
    return estimate.p_value(at, holds), estimate.p_value(at, fails)


def _holds(fact: Estimate | Fact, requirement: Requirement) -> bool:
    assert fact.value is not None
    value, at = fact.value, requirement.threshold / (100.0 if requirement.unit in ("%", "pp") else 1.0)
    return {"<=": value <= at, ">=": value >= at, "<": value < at, ">": value > at, "==": value == at}[requirement.op]


def _decided(p_pass: float | None, p_fail: float | None, confidence: float) -> Outcome:
    if p_pass is not None and p_pass <= 1 - confidence:
        return "PASS"
    if p_fail is not None and p_fail <= 1 - confidence:
        return "FAIL"
    return "INCONCLUSIVE"
