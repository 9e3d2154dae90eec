"""A check's result, held against what a result may be before anything is made of it."""

from __future__ import annotations

from evalspec.errors import InputError
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts
from evalspec.language.extensions import whose
from evalspec.language.parts import Check, CheckResult

ESTIMATE = "return an estimate, such as evalspec.api.proportion(hits) or mean(values), or a Fact"
COMPARISON = "return a comparison, such as evalspec.api.paired_mean(candidate, baseline)"


def checked(check: Check, result: object) -> CheckResult:
    """The result of a check, if it is one.

    Raises:
        InputError: It is none, holds something else than estimates, or has neither value nor reason for what is asked.
    """
    if not isinstance(result, CheckResult):
        raise InputError(f"{whose(check)} returned {_type(result)} from run", remedy="return a CheckResult")
    for name, one in result.estimates.items():
        _check_estimate(check, name, one)
    for (name, model), other in result.comparisons.items():
        if not isinstance(other, Comparison | ComparisonParts):
            raise InputError(f"{whose(check)} returned {_type(other)} for {name} vs {model}", remedy=COMPARISON)
    for requirement in check.requirements:
        metric = requirement.metric
        there = metric in result.estimates or (metric, requirement.model) in result.comparisons
        if not there and not any(name.partition("(")[0] == metric for name in result.missing):
            raise InputError(
                f"{whose(check)} returned nothing for {metric}, which {requirement.sentence!r} is about",
                remedy="give an estimate of it, or the reason why there is none in CheckResult(missing=...)",
            )
    return result


def _check_estimate(check: Check, name: str, found: object) -> None:
    bare = found.estimate if isinstance(found, Measured) else found
    inside = [*bare.parts.values(), *([] if bare.whole is None else [bare.whole])] if isinstance(bare, Parts) else []
    for one in inside if isinstance(bare, Parts) else [bare]:
        plain = one.estimate if isinstance(one, Measured) else one
        if not isinstance(plain, Estimate | Fact):
            raise InputError(f"{whose(check)} returned {_type(plain)} for {name}", remedy=ESTIMATE)


def _type(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"
