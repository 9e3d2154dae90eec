"""A profile held against a spec: what of it answers each item, and what is set aside on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import InputError, Problem, SpecError, did_you_mean
from evalspec.evidence.profile import PROFILE, Asked, Profile
from evalspec.language.parts import Access, Check, Model
from evalspec.language.registry import Registry
from evalspec.language.requirement import Requirement
from evalspec.spec.entries import Entry
from evalspec.spec.model import SpecFields, SpecWithout
from evalspec.spec.problems import Problems

if TYPE_CHECKING:
    from evalspec.spec.profile import Item, Loaded

CANDIDATE = "candidate"
COARSE = ("fp8", "int8", "int4")
"""Precisions that a model is brought to with data."""
MIXED = "mixed"
"""Several precisions, by whatever method."""


@dataclass(frozen=True, slots=True)
class Held:
    """A profile that was held against a spec, and the text of its file."""

    held: Profile
    text: str


def read(problems: Problems, named: str | None, access: Access, registry: Registry, kept: Path | None) -> Loaded | None:
    """The profile that a spec names; None: it names none, or it is wrong, which is noted.

    What is wrong with the name stands in the spec, what is wrong with the file in that file.
    """
    if named is None:
        return None
    # Most specs name none, and its classes take time.
    from evalspec.spec.profile import load_profile

    try:
        return load_profile(named, access, registry, kept)
    except InputError as error:
        problems.add(("profile",), error.problem)
    except SpecError as error:
        if error.problems[0].file is None:
            problems.add_all(("profile",), error)
        else:
            problems.include(error)
    return None


def hold(loaded: Loaded, checks: Sequence[Check], models: Mapping[str, Model], fields: SpecFields) -> Profile:
    """What of a spec answers each item of a profile.

    A check answers where at least one of its requirements blocks (of a soft or recommended item: or warns), on one of
    the metrics that the item names. A check that only reports proves nothing, nor does one of a model that is not the
    candidate.

    Args:
        loaded: The profile.
        checks: All checks of the spec.
        models: All models of the spec.
        fields: The rest of it.
    """
    subject = _subject(checks)
    stated = {
        "rollback": ("rollback",) if fields.rollback else (),
        "quantization": _quantization(models.get(subject)),
    }
    about = [check for check in checks if not check.uses_model or check.model == subject]
    items = [(one, one.soft, True) for one in loaded.file.mandatory]
    items += [(one, True, False) for one in loaded.file.recommended]
    return Profile(
        name=loaded.file.name,
        digest=loaded.digest,
        about=loaded.file.about,
        order=loaded.file.order,
        dimensions=loaded.dimensions,
        asked=tuple(
            Asked(
                name=item.called,
                asks=item.words(soft=soft),
                kinds=item.kinds,
                why=item.why,
                source=item.source,
                mandatory=mandatory,
                found=_found(item, about, stated, soft=soft),
            )
            for item, soft, mandatory in items
        ),
    )


def check_without(problems: Problems, without: Sequence[SpecWithout], profile: Profile | None) -> None:
    """Each sets aside a mandatory item that is missing, once."""
    if profile is None:
        if without:
            remedy = "name the profile with `profile:`, or take `without:` out"
            problems.add(("without",), Problem("there is no profile to set anything aside from", remedy=remedy))
        return
    missing = tuple(one.name for one in profile.missing if one.mandatory)
    asked = {one.name: one for one in profile.asked}
    for index, one in enumerate(without):
        path = ("without", index, "of")
        if one.of not in asked:
            message = f"the profile {profile.name} asks for no {one.of!r}"
            problems.add(path, Problem(message, choices=missing, remedy=did_you_mean(one.of, missing)))
        elif asked[one.of].found:
            message = f"{one.of} is here ({', '.join(asked[one.of].found)}), so there is nothing to set aside"
            remedy = "take it out; a requirement is set aside with `waivers:`"
            problems.add(path, Problem(message, choices=missing, remedy=remedy))
        elif not asked[one.of].mandatory:
            message = f"{one.of} is only recommended, and blocks nothing"
            problems.add(path, Problem(message, choices=missing, remedy="take it out"))
        elif one.of in [other.of for other in without[:index]]:
            problems.add(path, Problem(f"{one.of!r} is set aside twice", remedy="keep one of the two"))


def check_name_is_free(problems: Problems, entries: Sequence[Entry], profile: Profile | None) -> None:
    """No check has the name under which the report lists what a profile asks for."""
    for entry in entries:
        if profile is not None and entry.check.name == PROFILE:
            message = f"{PROFILE!r} is what the report calls the items of the profile"
            problems.add((*entry.path, "id"), Problem(message, remedy="give the check another id"))


def _subject(checks: Sequence[Check]) -> str:
    """The candidate, else the only model that checks are about."""
    about = {check.model for check in checks if check.uses_model}
    return min(about) if len(about) == 1 else CANDIDATE


def _found(
    item: Item, checks: Sequence[Check], stated: Mapping[str, tuple[str, ...]], *, soft: bool
) -> tuple[str, ...]:
    if item.states == "baseline":
        return tuple(check.name for check in checks if _compares(check))
    if item.states is not None:
        return stated[item.states]
    return tuple(check.name for check in checks if check.check in item.kinds and _answers(item, check, soft=soft))


def _quantization(model: Model | None) -> tuple[str, ...]:
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


def _compares(check: Check) -> bool:
    """It blocks on how the model does beside another one."""
    return any(one.model is not None for one in check.blocking) or (check.compares and bool(check.blocking))


def _answers(item: Item, check: Check, *, soft: bool) -> bool:
    asked: tuple[Requirement, ...] = check.requirements if soft else check.blocking
    return any(not item.metrics or one.metric in item.metrics for one in asked) and all(
        _value(check, field) in choices for field, choices in item.having.items()
    )


def _value(part: object, field: str) -> object:
    """The value of a field; steps into it are parted by points."""
    for step in field.split("."):
        fields = getattr(type(part), "model_fields", {})
        name = next((name for name, info in fields.items() if step == (info.alias or name)), None)
        part = None if name is None else getattr(part, name)
    return part
