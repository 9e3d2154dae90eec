"""A profile held against a spec: what of it answers each item, and what is set aside on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import InputError, Problem, SpecError, did_you_mean
from evalspec.evidence.profile import PROFILE, Profile, RequestedItem
from evalspec.language.parts import Access, Check, Model
from evalspec.language.registry import Registry
from evalspec.loading.entries import Entry
from evalspec.loading.problems import Problems
from evalspec.loading.profile_match import Subject, answers, compares, quantization
from evalspec.loading.spec import SpecFields, SpecWithout

if TYPE_CHECKING:
    from evalspec.loading.profile import Item, LoadedProfile


@dataclass(frozen=True, slots=True)
class RequestedProfile:
    """A profile that was held against a spec, and the text of its file."""

    held: Profile
    text: str


def read(
    problems: Problems, named: str | None, access: Access, registry: Registry, kept: Path | None
) -> LoadedProfile | None:
    """The profile that a spec names; None: it names none, or it is wrong, which is noted.

    What is wrong with the name stands in the spec, what is wrong with the file in that file.
    """
    if named is None:
        return None
    # Most specs name none, and its classes take time.
    from evalspec.loading.profile import load_profile

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


def hold(loaded: LoadedProfile, checks: Sequence[Check], models: Mapping[str, Model], fields: SpecFields) -> Profile:
    """Answers of a spec to each item of a profile.

    A check answers where at least one of its requirements blocks (of a soft or recommended item: or warns), on one of
    the metrics that the item names. A check that only reports proves nothing, nor does one of a model that is not the
    candidate, of rows that this was trained on, or one that holds other rows against each other than it is judged on.

    Args:
        loaded: The profile.
        checks: All checks of the spec.
        models: All models of the spec.
        fields: The rest of it.
    """
    subject = Subject.of(checks)
    model = models.get(subject.model)
    stated = {
        "rollback": ("rollback",) if fields.rollback else (),
        "quantization": quantization(model),
        "baseline": compares(checks, subject),
    }
    items = [(one, one.soft, True) for one in loaded.file.mandatory]
    items += [(one, True, False) for one in loaded.file.recommended]
    items = [given for given in items if not given[0].served or (model is not None and model.served)]
    return Profile(
        name=loaded.file.name,
        digest=loaded.digest,
        about=loaded.file.about,
        order=loaded.file.order,
        dimensions=loaded.dimensions,
        asked=tuple(_asked(item, checks, subject, stated, soft=soft, mandatory=must) for item, soft, must in items),
    )


def check_without(problems: Problems, without: Sequence[SpecWithout], profile: Profile | None) -> None:
    """Each sets aside a mandatory item that is missing, once."""
    if profile is None:
        if without:
            remedy = "name the profile with `profile:`, or remove `without:`"
            problems.add(("without",), Problem("there is no profile whose items could be set aside", remedy=remedy))
        return
    missing = tuple(one.name for one in profile.missing if one.mandatory)
    asked = {one.name: one for one in profile.asked}
    for index, one in enumerate(without):
        path = ("without", index, "of")
        if one.of not in asked:
            message = f"the profile {profile.name} does not require {one.of!r}"
            problems.add(path, Problem(message, choices=missing, remedy=did_you_mean(one.of, missing)))
        elif asked[one.of].found:
            message = f"{one.of} is in the spec ({', '.join(asked[one.of].found)}), so there is nothing to set aside"
            remedy = "remove it; a requirement is set aside with `waivers:`"
            problems.add(path, Problem(message, choices=missing, remedy=remedy))
        elif not asked[one.of].mandatory:
            message = f"{one.of} is only recommended and does not block"
            problems.add(path, Problem(message, choices=missing, remedy="remove it"))
        elif one.of in [other.of for other in without[:index]]:
            problems.add(path, Problem(f"{one.of!r} is set aside twice", remedy="keep one of the two"))


def check_name_is_free(problems: Problems, entries: Sequence[Entry], profile: Profile | None) -> None:
    """No check has the name under which the report lists what a profile asks for."""
    for entry in entries:
        if profile is not None and entry.check.name == PROFILE:
            message = f"{PROFILE!r} is the report's name for the items of the profile"
            problems.add((*entry.path, "id"), Problem(message, remedy="give the check another id"))


def _asked(
    item: Item,
    checks: Sequence[Check],
    subject: Subject,
    stated: Mapping[str, tuple[str, ...]],
    *,
    soft: bool,
    mandatory: bool,
) -> RequestedItem:
    found, near = answers(item, checks, subject, soft=soft) if item.states is None else (stated[item.states], ())
    return RequestedItem(
        name=item.called,
        asks=item.words(soft=soft),
        kinds=item.kinds,
        why=item.why,
        source=item.source,
        states=item.states or "",
        mandatory=mandatory,
        found=found,
        near=() if found else near,
    )
