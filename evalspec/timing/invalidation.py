"""A fault of the measurement that can't have made a violation leaves it standing; otherwise it voids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts
from evalspec.evidence.reasons import gravest
from evalspec.evidence.units import from_unit

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

Found = Estimate | Fact | Parts | Measured


def violates(estimate: Estimate | Fact | Parts, requirements: Iterable[Requirement], confidence: float) -> bool:
    """One of these requirements, none against another model, is shown to be violated by an estimate.

    Args:
        estimate: Of what they are about.
        requirements: Those to look at.
        confidence: Of the policy; whether the verdict is FAIL is decided later, at Holm's level.
    """
    for one in requirements:
        held = from_unit(one.threshold, one.unit)
        if isinstance(estimate, Fact):
            violated = estimate.value > held if one.upper else estimate.value < held
        elif isinstance(estimate, Parts):
            violated = estimate.whole is not None and violates(estimate.whole, [one], confidence)
        else:
            p = estimate.p_value(held, "lower" if one.upper else "upper")
            violated = p is not None and p <= 1.0 - confidence
        if violated:
            return True
    return False


def _beaten(comparison: Comparison | ComparisonParts | None, one: Requirement, confidence: float) -> bool:
    """A requirement against another model is shown to be violated, by a comparison that counts."""
    if isinstance(comparison, ComparisonParts):
        if comparison.invalid is not None:
            return False
        comparison = comparison.whole if one.part is None else comparison.parts.get(one.part)
    if comparison is None:
        return False
    margin = from_unit(one.threshold, one.unit)
    estimate = comparison.ratio() if one.is_ratio else comparison.difference(one.factor, margin)
    if estimate is None:
        return False
    p = estimate.p_value(one.factor if one.is_ratio else margin, "lower" if one.upper else "upper")
    return p is not None and p <= 1.0 - confidence


def void_if_flattered(
    estimates: Mapping[str, Found],
    comparisons: Mapping[tuple[str, str], Comparison | ComparisonParts],
    requirements: Iterable[Requirement],
    reason: str,
    confidence: float,
) -> tuple[dict[str, Found], str | None]:
    """Estimates that are left by a fault which can only have made numbers better, such as a cache.

    A requirement that is violated all the same stays so, and what else is about its metric can't pass. Everything else
    is void.

    Args:
        estimates: By metric.
        comparisons: By metric and model.
        requirements: Of the check.
        reason: The fault.
        confidence: Of the policy.

    Returns:
        The estimates; and the reason where it voids the whole check.
    """
    wanted = list(requirements)
    marked: dict[str, Found] = {}
    kept = False
    for name, estimate in estimates.items():
        own = [one for one in wanted if one.metric == name]
        against = any(
            one.model is not None and _beaten(comparisons.get((name, one.model)), one, confidence) for one in own
        )
        alone = [one for one in own if one.model is None]
        if isinstance(estimate, Parts) and estimate.whole is None:
            parts = {}
            for part, inner in estimate.parts.items():
                stands = _stands(inner, [one for one in alone if one.part in (None, part)], confidence)
                kept = kept or stands
                parts[part] = _marked(inner, reason, stands=stands)
            marked[name] = Parts(parts)
            continue
        stands = against or _stands(estimate, [one for one in alone if one.part is None], confidence)
        kept = kept or stands
        marked[name] = _marked(estimate, reason, stands=stands)
    return (marked, None) if kept else (dict(estimates), reason)


def _stands(estimate: Found, requirements: list[Requirement], confidence: float) -> bool:
    measured = Measured.of(estimate)
    return measured.invalid is None and violates(measured.estimate, requirements, confidence)


def _marked(estimate: Found, reason: str, *, stands: bool) -> Measured:
    measured = Measured.of(estimate)
    if stands:
        return replace(measured, withhold=measured.withhold or reason)
    return replace(measured, invalid=gravest(measured.invalid, reason))
