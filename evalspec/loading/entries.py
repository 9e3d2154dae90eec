"""Reads models, datasets and checks: the tag (``kind:``, ``check:``) first, then that one class validates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from evalspec.errors import Problem, ProblemCode, SpecError
from evalspec.language.parts import Check, Dataset, Model, Part, SpecNames, Training
from evalspec.language.registry import DIMENSIONS, Group, Registry
from evalspec.language.requirement import Requirement, parse_requirement
from evalspec.language.yaml import Node, Steps
from evalspec.loading.problems import NAME_REMEDY, Problems, unknown_key

P = TypeVar("P", bound=Part)
NAME = re.compile(r"[a-z][a-z0-9_]*")
_LISTS = ("require", "warn")
_SINGLE = ("slo", "sla")


@dataclass(frozen=True, slots=True)
class Entry:
    """A check with its place.

    Args:
        check: The check.
        path: Where it stands.
        places: Requirement, and where its sentence stands.
    """

    check: Check
    path: Steps
    places: tuple[tuple[Requirement, Steps], ...]

    def place(self, requirement: Requirement) -> Steps:
        """Where a requirement stands."""
        return next((path for one, path in self.places if one is requirement), self.path)


class Reader:
    """Reads the parts of one spec."""

    def __init__(self, root: Node, registry: Registry, problems: Problems) -> None:
        """Reads from ``root`` with the kinds in ``registry``; notes what is wrong in ``problems``."""
        self.root = root
        self.registry = registry
        self.problems = problems
        self.failed = False
        """Some check did not come out, so what follows from all of them can't be said."""

    def models(self, names: SpecNames) -> dict[str, Model]:
        """The models by name."""
        return self._named("models", "runtimes", self.registry.runtime, names)

    def datasets(self, names: SpecNames) -> dict[str, Dataset]:
        """The datasets by name."""
        return self._named("datasets", "sources", self.registry.source, names)

    def trainings(self, names: SpecNames) -> dict[str, Training]:
        """The trainings by name; each has a name that no dataset has."""
        for name in names.trainings:
            if name in names.datasets:
                problem = Problem(f"{name!r} is a dataset and a training", remedy="rename one of the two")
                self.problems.add(("trainings", name), problem, key=True)
        return self._named("trainings", "trainings", self.registry.training, names)

    def _named(self, section: str, group: Group, find: Callable[[str], type[P]], names: SpecNames) -> dict[str, P]:
        node = self.root.child(section)
        if node is None:
            return {}
        if not isinstance(node.content, dict):
            self.problems.add(
                (section,), Problem(f"`{section}` is not a mapping", remedy="write NAME: {kind: ..., ...}")
            )
            return {}
        read: dict[str, P] = {}
        for name in node.content:
            path = (section, name)
            if not NAME.fullmatch(name):
                self.problems.add(path, Problem(f"{name!r} is not a name", remedy=NAME_REMEDY), key=True)
            part = self._tagged(path, "kind", self.registry.kinds(group), find)
            value = self._validated(path, part, None, names) if part is not None else None
            if value is not None:
                read[name] = value
        return read

    def checks(self, names: SpecNames) -> dict[str, tuple[Entry, ...]]:
        """The checks of each dimension, with their places."""
        return {dimension: tuple(self._dimension(dimension, names)) for dimension in DIMENSIONS}

    def _dimension(self, dimension: str, names: SpecNames) -> list[Entry]:
        node = self.root.child(dimension)
        if node is None:
            return []
        if not isinstance(node.content, list):
            self.failed = True
            self.problems.add((dimension,), Problem(f"`{dimension}` is not a list", remedy="write - check: ..."))
            return []
        found = (self._check(dimension, index, names) for index in range(len(node.content)))
        return [entry for entry in found if entry is not None]

    def _check(self, dimension: str, index: int, names: SpecNames) -> Entry | None:
        path: Steps = (dimension, index)
        own = [kind for kind, found in self.registry.checks.items() if found.dimension in (dimension, None)]
        part = self._tagged(path, "check", tuple(sorted(own)), self.registry.check)
        part = None if part is None else part.under(dimension)
        if part is not None and part.dimension != dimension:
            kind = part.model_fields["check"].default
            problem = Problem(f"{kind!r} is a {part.dimension} check", remedy=f"move it under `{part.dimension}:`")
            self.problems.add((*path, "check"), problem)
            part = None
        if part is None:
            self.failed = True
            return None
        sentences = _Sentences(self, path, part, names)
        check = self._validated(path, part, sentences.values(), names)
        self.failed = self.failed or check is None or sentences.failed
        return None if check is None else Entry(check, path, tuple(sentences.places))

    def _tagged(self, path: Steps, tag: str, kinds: tuple[str, ...], find: Callable[[str], type[P]]) -> type[P] | None:
        """The class that an entry's tag names."""
        node = self.root.find(path)
        if node is None or not isinstance(node.content, dict):
            empty = node is None or node.content is None
            message = "this is empty" if empty else "this is not a mapping"
            remedy = f"write {{{tag}: {'KIND' if tag == 'kind' else 'NAME'}, ...}}"
            self.problems.add(path, Problem(message, choices=kinds, remedy=remedy))
            return None
        kind = node.content.get(tag)
        if kind is None:
            self.problems.add(path, Problem(f"`{tag}` is missing", choices=kinds, remedy=f"add `{tag}:`"))
            return None
        if not isinstance(kind.content, str):
            self.problems.add((*path, tag), Problem(f"{kind.value!r} is not a {tag}", choices=kinds))
            return None
        try:
            return find(kind.content)
        except SpecError as error:
            self.problems.add_all((*path, tag), error)
            return None

    def _validated(self, path: Steps, part: type[P], values: Any, names: SpecNames) -> P | None:
        node = self.root.find(path)
        if values is None:
            values = node.value if node is not None else None
        try:
            return part.model_validate(values, context=names)
        except ValidationError as error:
            self.problems.add_invalid(path, part, error)
            return None


class _Sentences:
    """The sentences of one check, each read by itself, so that each has its place."""

    def __init__(self, reader: Reader, path: Steps, part: type[Check], names: SpecNames) -> None:
        self.reader = reader
        self.path = path
        self.part = part
        self.names = names
        self.failed = False
        self.places: list[tuple[Requirement, Steps]] = []
        node = reader.root.find(path)
        self.raw: dict[str, Any] = dict(node.value) if node is not None and isinstance(node.value, dict) else {}
        self.metrics = part.metrics_of(self.raw)
        self.label_unit = self._label_unit()

    def values(self) -> dict[str, Any]:
        """The entry's values with requirements in place of sentences; those that are wrong are noted and left out."""
        values = dict(self.raw)
        for key in _LISTS:
            if isinstance(values.get(key), list):
                found = [self._read(one, (*self.path, key, index), key) for index, one in enumerate(values[key])]
                values[key] = tuple(one for one in found if one is not None)
        for key in _SINGLE:
            if key in values:
                values[key] = self._read(values[key], (*self.path, key), key)
        return values

    def _read(self, text: Any, path: Steps, key: str) -> Requirement | None:
        try:
            if not isinstance(text, str):
                example = self.metrics[0].name if self.metrics else "metric"
                raise SpecError(Problem(f"{text!r} is not a sentence", remedy=f"write such as {example} <= 5 %"))
            requirement = parse_requirement(
                text,
                self.metrics,
                label_unit=self.label_unit,
                models=self.names.models if self.part.compares_with == "model" else self.names.trainings,
                blocking=key in ("require", "slo"),
                compared=self.part.compares_with,
            )
            if requirement.model is not None and not self.part.uses_model and self.part.compares_with == "model":
                kind = self.part.model_fields["check"].default
                message = f"{kind} checks data only, so it can't be compared with {requirement.model!r}"
                remedy = f"write {requirement.metric} {requirement.op} followed by a number"
                raise SpecError(Problem(message, remedy=remedy))
        except SpecError as error:
            self.failed = True
            self.reader.problems.add_all(path, self._helped(error))
            return None
        self.places.append((requirement, path))
        return requirement

    def _helped(self, error: SpecError) -> SpecError:
        """An unknown metric of this check may be one of another."""
        problem = error.problems[0]
        if problem.code is not ProblemCode.UNKNOWN_METRIC or problem.value is None:
            return error
        name = problem.value
        owners = [kind for kind in self.reader.registry.kinds("checks") if self._has_metric(kind, name)]
        if not owners:
            return error
        remedy = f"{name} is a metric of the check {' and of '.join(owners)}"
        return SpecError(Problem(problem.message, choices=problem.choices, remedy=remedy))

    def _has_metric(self, kind: str, name: str) -> bool:
        try:
            return any(metric.name == name for metric in self.reader.registry.check(kind).metrics)
        except SpecError:
            # A check that can't be used is no help here, and not what is wrong.
            return False

    def _label_unit(self) -> str | None:
        """The unit of the label of the dataset that the check is about."""
        named: Mapping[str, Any] = {"dataset": self.raw["dataset"]} if "dataset" in self.raw else self.raw
        for key, value in named.items():
            if key in (*_LISTS, *_SINGLE):
                continue
            for one in value if isinstance(value, list) else [value]:
                node = self.reader.root.find(("datasets", one, "label_unit")) if isinstance(one, str) else None
                if node is not None and isinstance(node.content, str):
                    return node.content
        return None


def check_keys(problems: Problems, root: Node, known: tuple[str, ...]) -> None:
    """Note keys at the top that are none."""
    for key in root.content if isinstance(root.content, dict) else ():
        if key not in known:
            problems.add((key,), unknown_key(key, known), key=True)
