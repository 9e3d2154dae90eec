"""Profiles: what a deployment context asks of a spec. One YAML file each; a team's own is a file beside the spec."""

from __future__ import annotations

import hashlib
import json
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from evalspec.errors import InputError, Problem, SpecError, did_you_mean
from evalspec.evidence.words import or_list
from evalspec.language.parts import Access, Check, Name, Part
from evalspec.language.registry import DIMENSIONS, Registry
from evalspec.language.yaml import Steps, read_file, read_text
from evalspec.loading.problems import Problems, fields_at

Dimension = Literal["system", "model", "data"]
STATED = {
    "rollback": "`rollback`",
    "baseline": "a blocking requirement against another model",
    "quantization": "the candidate's `precision`, and below 16 bits `quantization` with method and calibration data",
}
"""What a key is called that must be stated."""
NO_THRESHOLD = ("require", "warn", "slo", "threshold")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Item(Part):
    """One required item: a check with a blocking requirement, or a key of the spec."""

    name: Name | None = Field(
        None,
        description="Name of the item in `without:` and in the report; default: the check or key that it requires.",
    )
    check: str | None = Field(None, description="This check.")
    any_of: tuple[str, ...] = Field((), description="One of these checks.")
    states: Literal["rollback", "baseline", "quantization"] | None = Field(
        None,
        description="rollback: that key; baseline: a blocking requirement against another model; quantization: the "
        "candidate's precision, and below 16 bits how it was quantized.",
    )
    metrics: tuple[str, ...] = Field((), description="The requirement must be on one of these metrics.")
    having: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, alias="with", description="Field of the check and its allowed values."
    )
    soft: bool = Field(False, description="A `warn` requirement is enough.")
    served: bool = Field(False, description="Required only for a model on a server (kind http).")
    number: bool = Field(False, description="The requirement must name a number, not only another model.")
    why: str = Field(min_length=1, description="Why the item is required, in one sentence.")
    source: str = Field("", alias="from", description="Source of this rule.")

    @field_validator("having", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        if isinstance(value, dict):
            return {key: [one] if isinstance(one, str) else one for key, one in value.items()}
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Item:
        given = [key for key in ("check", "any_of", "states") if getattr(self, key)]
        if len(given) != 1:
            found = " and ".join(f"`{key}:`" for key in given) or "none of them"
            raise ValueError(f"an item has one of `check:`, `any_of:` and `states:`, and this one has {found}")
        if self.states is not None and (self.metrics or self.having or self.soft or self.number):
            raise ValueError(
                "`metrics:`, `with:`, `soft:` and `number:` belong to a check; remove them from an item with `states:`"
            )
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of check that can answer it."""
        return (self.check,) if self.check is not None else self.any_of

    @property
    def called(self) -> str:
        """Its name."""
        return self.name or self.states or "_or_".join(self.kinds)

    def words(self, *, soft: bool) -> str:
        """Request in words; ``soft``: a warning is enough."""
        if self.states is not None:
            return STATED[self.states]
        wanted = [f"`{field}` {or_list(choices)}" for field, choices in self.having.items()]
        on = f" on {or_list(self.metrics)}" if self.metrics else ""
        number = " that names a number" if self.number else ""
        wanted.append(f"a {'' if soft else 'blocking '}requirement{on}{number}")
        return f"{or_list([f'`{kind}`' for kind in self.kinds])} with {' and '.join(wanted)}"


class ProfileFile(Part):
    """A profile as it stands in its file."""

    profile: Literal[1] = Field(description="Version of the profiles' language.")
    name: Name = Field(description="Title in the report.")
    about: str = Field(min_length=1, description="Who the profile is for, in one sentence.")
    order: tuple[str, ...] = Field(min_length=1, description="Kinds of check, most important first.")
    mandatory: tuple[Item, ...] = Field(min_length=1, description="Items that block when missing.")
    recommended: tuple[Item, ...] = Field((), description="Items that warn when missing.")


@dataclass(frozen=True, slots=True)
class LoadedProfile:
    """A profile that holds together.

    Args:
        file: What it says.
        text: Its text.
        digest: Of its content, in hexadecimal; comments and layout don't count.
        dimensions: Of the checks in its order, then those that are not in it.
    """

    file: ProfileFile
    text: str
    digest: str
    dimensions: tuple[Dimension, ...]


def profile_names() -> tuple[str, ...]:
    """Names of the profiles that come with evalspec."""
    found = resources.files("evalspec.loading").joinpath("profiles").iterdir()
    return tuple(sorted(one.name.removesuffix(".yaml") for one in found if one.name.endswith(".yaml")))


def known_profile(name: str) -> str:
    """The name itself, if it is that of a profile that comes with evalspec.

    Raises:
        SpecError: It is not; with the choices.
    """
    names = profile_names()
    if name not in names:
        raise SpecError(Problem(f"unknown profile {name!r}", choices=names, remedy=did_you_mean(name, names)))
    return name


def load_profile(named: str, access: Access, registry: Registry, kept: Path | None = None) -> LoadedProfile:
    """The profile that a spec names.

    Args:
        named: A name of one that comes with evalspec, or the path of a file.
        access: Where that file may be.
        registry: The kinds of check there are.
        kept: The file that a run kept, read in place of the one that is named.

    Raises:
        SpecError: There is no such profile, or what is wrong with it, each with its place in its file.
        InputError: The file lies outside the spec's folder and may not, or it is not there.
    """
    if kept is not None:
        text, root = read_file(kept, str(kept))
    elif _NAME.fullmatch(named):
        try:
            known_profile(named)
        except SpecError as error:
            found = error.problems[0]
            remedy = found.remedy or f"your own profile is a file in the spec's folder: {named}.yaml"
            raise SpecError(Problem(found.message, choices=found.choices, remedy=remedy)) from error
        text = resources.files("evalspec.loading").joinpath("profiles", f"{named}.yaml").read_text(encoding="utf-8")
        root = read_text(text, f"{named}.yaml")
    else:
        path = access.path(named)
        if not path.is_file():
            raise InputError(f"{named!r} is not a file")
        text, root = read_file(path, named)
    if not isinstance(root.content, dict):
        raise SpecError(Problem("a profile is a mapping of keys", file=root.place.file, line=root.place.line))
    problems = Problems(root)
    try:
        file = ProfileFile.model_validate(root.value)
    except ValidationError as error:
        _note_thresholds(problems, root.value)
        problems.add_invalid((), ProfileFile, error)
        problems.raise_any()
        raise
    _check(problems, file, registry)
    problems.raise_any()
    content = json.dumps(root.value, sort_keys=True, ensure_ascii=False)
    return LoadedProfile(file, text, hashlib.sha256(content.encode()).hexdigest(), _dimensions(file, registry))


def _note_thresholds(problems: Problems, value: object) -> None:
    """A threshold in a profile would be one that no reader of the spec sees."""
    for section in ("mandatory", "recommended"):
        items = value.get(section) if isinstance(value, dict) else None
        for index, item in enumerate(items if isinstance(items, list) else ()):
            for key in NO_THRESHOLD if isinstance(item, dict) else ():
                if key in item:
                    remedy = "write the threshold in the spec; name only the metric here: `metrics: [...]`"
                    problem = Problem("a profile can't set a threshold", remedy=remedy)
                    problems.add((section, index, key), problem, key=True)


def _items(file: ProfileFile) -> Iterator[tuple[Steps, Item]]:
    for section, items in (("mandatory", file.mandatory), ("recommended", file.recommended)):
        for index, item in enumerate(items):
            yield (section, index), item


def _check(problems: Problems, file: ProfileFile, registry: Registry) -> None:
    kinds = registry.kinds("checks")
    for index, kind in enumerate(file.order):
        if _known(problems, ("order", index), kind, kinds) and kind in file.order[:index]:
            problems.add(("order", index), Problem(f"{kind} is listed twice in the order", remedy="keep the first"))
    seen: set[str] = set()
    for path, item in _items(file):
        if item.called in seen:
            message = f"two items are named {item.called!r}"
            problems.add(path, Problem(message, remedy="give each a `name:` of its own"))
        seen.add(item.called)
        places = [(*path, "check")] if item.check is not None else [
            (*path, "any_of", index) for index in range(len(item.any_of))
        ]  # fmt: skip
        known = [_known(problems, place, kind, kinds) for place, kind in zip(places, item.kinds, strict=True)]
        if all(known) and (item.metrics or item.having):
            _check_item(problems, path, item, [registry.check(kind) for kind in item.kinds])


def _known(problems: Problems, path: Steps, kind: str, kinds: Sequence[str]) -> bool:
    if kind not in kinds:
        problems.add(path, Problem(f"unknown check {kind!r}", choices=tuple(kinds), remedy=did_you_mean(kind, kinds)))
    return kind in kinds


def _check_item(problems: Problems, path: Steps, item: Item, parts: Sequence[type[Check]]) -> None:
    """Metrics and fields are those of the checks that it names."""
    metrics = tuple(dict.fromkeys(metric.name for part in parts for metric in part.metrics))
    for index, name in enumerate(item.metrics):
        if name not in metrics:
            message = f"unknown metric {name!r} of {or_list(item.kinds)}"
            problem = Problem(message, choices=metrics, remedy=did_you_mean(name, metrics))
            problems.add((*path, "metrics", index), problem)
    for field, wanted in item.having.items():
        choices = [one for part in parts for one in _choices(part, field)]
        place = (*path, "with", field)
        if not choices:
            fields = tuple(dict.fromkeys(name for part in parts for name in _choosable(part)))
            message = f"{or_list(item.kinds)} has no field {field!r} with choices"
            problems.add(place, Problem(message, choices=fields, remedy=did_you_mean(field, fields)), key=True)
        for one in wanted if choices else ():
            if one not in choices:
                message = f"{one!r} is not one of the choices of {field}"
                problems.add(place, Problem(message, choices=tuple(choices), remedy=did_you_mean(one, choices)))


def _choices(part: type[Check], field: str) -> tuple[str, ...]:
    """Choices of a field, where it has any; steps into a field are parted by points."""
    steps = field.split(".")
    info = fields_at(part, steps[:-1]).get(steps[-1])
    return () if info is None else tuple(_literals(info.annotation))


def _literals(annotation: object) -> Iterator[str]:
    if typing.get_origin(annotation) is Literal:
        yield from (one for one in typing.get_args(annotation) if isinstance(one, str))
    else:
        for argument in typing.get_args(annotation):
            yield from _literals(argument)


def _choosable(part: type[Check]) -> Iterator[str]:
    """Fields of a check that have choices."""
    for key in fields_at(part, ()):
        if key != "check" and _choices(part, key):
            yield key
        for inner in fields_at(part, [key]):
            if inner not in fields_at(part, ()) and _choices(part, f"{key}.{inner}"):
                yield f"{key}.{inner}"


def _dimensions(file: ProfileFile, registry: Registry) -> tuple[Dimension, ...]:
    named = [registry.checks[kind].dimension or registry.check(kind).dimension for kind in file.order]
    return tuple(sorted(DIMENSIONS, key=lambda one: named.index(one) if one in named else len(named)))
