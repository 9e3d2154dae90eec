"""Parts of a spec that answer an item of a profile, and those that come near and do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.evidence.subject import subject_model
from evalspec.evidence.words import and_list
from evalspec.language.declarations import datasets_named
from evalspec.language.parts import Check, Model
from evalspec.language.requirement import Requirement

if TYPE_CHECKING:
    from evalspec.loading.profile import Item

COARSE = ("fp8", "int8", "int4")
"""Precisions that a model is brought to with data."""
MIXED = "mixed"
"""Several precisions, by whatever method."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject that a spec's checks have to be about to answer anything.

    Args:
        model: Name of the model.
        trained: Datasets that a check says it was trained on.
        judged: Datasets that a blocking requirement on it is about; none: it is not judged at all.
    """

    model: str
    trained: frozenset[str]
    judged: frozenset[str]

    @classmethod
    def of(cls, checks: Sequence[Check]) -> Subject:
        """Of all checks of a spec."""
        model = subject_model(check.model for check in checks if check.uses_model)
        trained = frozenset(name for check in checks for name in datasets_named(check, "trained"))
        scored = (one for one in checks if one.dimension == "model" and one.model == model and one.blocking)
        judged = frozenset(name for one in scored for name in datasets_named(one, "judged"))
        return cls(model, trained, judged - trained)

    def elsewhere(self, check: Check) -> str | None:
        """Why a check, whatever it asks, is about something else; None: it is not."""
        if check.uses_model and check.model != self.model:
            return f"{check.name} is about the model {check.model}"
        if check.dimension == "system":
            return None
        seen = [name for name in datasets_named(check, "judged") if name in self.trained]
        if seen:
            return f"{check.name} is about {and_list(seen)}, which the model was trained on"
        beside = datasets_named(check, "beside")
        if beside and self.judged and self.judged.isdisjoint(beside):
            return (
                f"{check.name} is about {and_list(beside)}, and the model is judged on {and_list(sorted(self.judged))}"
            )
        return None


def answers(
    item: Item, checks: Sequence[Check], subject: Subject, *, soft: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which checks answer an item that asks for checks.

    Args:
        item: The item.
        checks: All checks of the spec.
        subject: What they have to be about.
        soft: A warning is enough.

    Returns:
        Names of those that do, and of each other one of the kind why it does not.
    """
    reasons = {one.name: _why_not(item, one, subject, soft=soft) for one in checks if one.check in item.kinds}
    found = tuple(name for name, reason in reasons.items() if reason is None)
    return found, tuple(reason for reason in reasons.values() if reason is not None)


def compares(checks: Sequence[Check], subject: Subject) -> tuple[str, ...]:
    """Checks that block on how the model does beside another one."""
    return tuple(one.name for one in checks if _compares(one) and subject.elsewhere(one) is None)


def quantization(model: Model | None) -> tuple[str, ...]:
    """Keys that say how a model was brought to its precision: of a coarse one also by which method, with which data."""
    if model is None or model.precision is None:
        return ()
    method = model.quantization.get("method")
    if model.precision == MIXED:
        return ("precision", "quantization") if method is not None else ()
    if model.precision not in COARSE:
        return ("precision",)
    told = method is not None and (method == "dynamic" or "calibration" in model.quantization)
    return ("precision", "quantization") if told else ()


def _why_not(item: Item, check: Check, subject: Subject, *, soft: bool) -> str | None:
    elsewhere = subject.elsewhere(check)
    if elsewhere is not None:
        return elsewhere
    asked: tuple[Requirement, ...] = check.requirements if soft else check.blocking
    if not any(_is_wanted(item, one) for one in asked):
        return f"{check.name} is in the spec, but without such a requirement"
    for field, choices in item.having.items():
        value = _value(check, field)
        if value not in choices:
            return f"{check.name} has no {field}" if value is None else f"{check.name} has {field} {value}"
    return None


def _is_wanted(item: Item, requirement: Requirement) -> bool:
    if item.number and requirement.model is not None:
        return False
    return not item.metrics or requirement.metric in item.metrics


def _compares(check: Check) -> bool:
    return any(one.model is not None for one in check.blocking) or (check.compares and bool(check.blocking))


def _value(part: object, field: str) -> object:
    """The value of a field; steps into it are parted by points."""
    for step in field.split("."):
        fields = getattr(type(part), "model_fields", {})
        name = next((name for name, info in fields.items() if step == (info.alias or name)), None)
        part = None if name is None else getattr(part, name)
    return part
