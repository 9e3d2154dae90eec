"""Collects everything that is wrong, each thing once and with its place."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from evalspec.errors import Problem, SpecError, did_you_mean
from evalspec.language.parts.training import OF_ROWS, Training
from evalspec.language.units import WrittenIn
from evalspec.language.yaml import Node, Steps, show_path

NAME_REMEDY = "a name consists of a-z, 0-9 and _, and starts with a letter"
_PATTERN_REMEDIES = {
    r"^[a-z][a-z0-9_]*$": NAME_REMEDY,
    r"^[a-z0-9][a-z0-9._-]*$": "a name consists of a-z, 0-9, dot, _ and -",
    r"\S": "write it in words",
    r"^[\t !#-~]$": "write one character of ASCII that is not a quote, such as ; or |",
    r"^(cpu|cuda(:\d+)?)$": "write cpu, cuda or cuda:0",
}


LISTS = {"list_type", "tuple_type"}
"""What pydantic calls the problem that a list is wanted."""
_MAPPINGS = frozenset({"model_type", "model_attributes_type"})
"""What pydantic calls a value that stands where keys should."""
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


class Problems:
    """Problems of one spec so far."""

    def __init__(self, root: Node) -> None:
        """Places are those of ``root``."""
        self.root = root
        self._found: list[Problem] = []
        self._elsewhere: list[Problem] = []

    def add(self, path: Sequence[str | int], problem: Problem | str, *, key: bool = False) -> None:
        """Note a problem at a path.

        Args:
            path: Where; the closest parent gives the place where nothing stands there.
            problem: What; a bare sentence has neither choices nor remedy.
            key: It is about the key at the end of the path, not about its value.
        """
        if isinstance(problem, str):
            problem = Problem(problem)
        place, there = self.root.locate(path, key=key)
        shown = show_path(path if key else there) or None
        self._found.append(problem.at(file=place.file, line=place.line, column=place.column, path=shown))

    def add_all(self, path: Sequence[str | int], error: SpecError) -> None:
        """Note all problems of an error at a path."""
        for problem in error.problems:
            self.add(path, problem)

    def include(self, error: SpecError) -> None:
        """Note what is wrong in another file, with the places that it has there."""
        self._elsewhere += error.problems

    def add_invalid(self, path: Sequence[str | int], part: type[BaseModel], error: ValidationError) -> None:
        """Note what pydantic found, one problem for each place."""
        groups: dict[Steps, list[Any]] = {}
        for one in error.errors(include_url=False):
            groups.setdefault(self._steps(path, one["loc"], one["type"]), []).append(one)
        for steps, found in groups.items():
            # In a union every member complains; the one that came furthest knows best what was meant.
            parents = [other for other in groups if len(other) > len(steps) and other[: len(steps)] == steps]
            if parents and all(one["type"] != "evalspec" for one in found):
                continue
            first = found[0]
            if first["type"] == "missing" and self._misspelt(part, path, steps, groups):
                continue
            if first["type"] == "extra_forbidden":
                self.add(steps, _unknown_key(part, steps[len(path) :]), key=True)
            elif first["type"] == "missing":
                self.add(steps, _missing_key(part, steps[len(path) :]))
            elif first["type"] in _MAPPINGS:
                keys = tuple(fields_at(part, [str(step) for step in steps[len(path) :]]))
                self.add(steps, Problem(f"{_shown(first['input'])} should be a mapping", choices=keys))
            else:
                self.add(steps, self._out_of_bounds(part, path, steps, first) or _invalid(found))

    def _out_of_bounds(
        self, part: type[BaseModel], path: Sequence[str | int], steps: Steps, error: Mapping[str, Any]
    ) -> Problem | None:
        """A quantity that is too small or too large, as it was written, with the bound in its unit; None: it is not."""
        bound = _BOUNDS.get(error["type"])
        written = next(_written_in(part, steps[len(path) :]), None)
        if bound is None or written is None:
            return None
        key, words = bound
        node = self.root.find(steps)
        shown = _shown(error["input"] if node is None else node.value)
        return Problem(f"{shown} should be {words} {written.written(error['ctx'][key])}")

    @staticmethod
    def _misspelt(part: type[BaseModel], path: Sequence[str | int], steps: Steps, groups: Iterable[Steps]) -> bool:
        """A key is missing because it stands there with a slip of the pen, which is noted already."""
        fields = {key for owner in _owners(part, steps[len(path) : -1]) for key in keys_of(owner)}
        siblings = [other[-1] for other in groups if other[:-1] == steps[:-1] and other[-1] not in fields]
        return any(did_you_mean(str(key), fields) == f"did you mean {steps[-1]!r}?" for key in siblings)

    def _steps(self, path: Sequence[str | int], loc: Sequence[str | int], kind: str) -> Steps:
        """Where an error stands: its location without what pydantic adds, such as members of unions."""
        node = self.root.find(path)
        steps = list(path)
        for index, step in enumerate(loc):
            child = node.child(step) if node is not None else None
            if child is not None:
                node = child
                steps.append(step)
            elif kind in ("missing", "extra_forbidden") and index == len(loc) - 1:
                steps.append(step)
        return tuple(steps)

    def raise_any(self) -> None:
        """Raise what was found.

        Raises:
            SpecError: With every problem, in the order of the file.
        """
        if self._found or self._elsewhere:
            raise SpecError(list(dict.fromkeys([*sorted(self._found, key=_order), *self._elsewhere])))


def _order(problem: Problem) -> tuple[bool, int, int]:
    return (problem.line is None, problem.line or 0, problem.column or 0)


def keys_of(part: type[BaseModel]) -> dict[str, Any]:
    """The keys of a part as they stand in a spec, and their fields."""
    unused = OF_ROWS if issubclass(part, Training) else ()
    return {info.alias or name: info for name, info in part.model_fields.items() if name not in unused}


def fields_at(part: type[BaseModel], path: Sequence[str]) -> dict[str, Any]:
    """The keys at a path of keys inside a part, and their fields; empty: there is nothing that has keys."""
    known = all(path[index] in fields_at(part, path[:index]) for index in range(len(path)))
    owners = _owners(part, path) if known else []
    return {key: info for owner in owners for key, info in keys_of(owner).items()}


def unknown_key(key: str, keys: Iterable[str]) -> Problem:
    """An unknown key, and what would have been one."""
    keys = tuple(keys)
    return Problem(f"unknown key {key!r}", choices=keys, remedy=did_you_mean(key, keys))


def _unknown_key(part: type[BaseModel], loc: Sequence[str | int]) -> Problem:
    fields = {key: None for owner in _owners(part, loc[:-1]) for key in keys_of(owner)}
    return unknown_key(str(loc[-1]), fields)


def _missing_key(part: type[BaseModel], loc: Sequence[str | int]) -> Problem:
    info = next((keys_of(owner)[str(loc[-1])] for owner in _owners(part, loc[:-1]) if loc[-1] in keys_of(owner)), None)
    description = (
        f": {info.description[0].lower()}{info.description[1:].rstrip('.')}" if info and info.description else ""
    )
    return Problem(f"`{loc[-1]}` is missing{description}", remedy=f"add `{loc[-1]}:`")


def _owners(part: type[BaseModel], loc: Sequence[str | int]) -> list[type[BaseModel]]:
    """The classes whose keys stand at a location inside a part."""
    owners = [part]
    for step in loc:
        if isinstance(step, str):
            inner = [keys_of(owner)[step].annotation for owner in owners if step in keys_of(owner)]
            owners = [found for annotation in inner for found in _models_in(annotation)] if inner else owners
    return owners


def _written_in(part: type[BaseModel], loc: Sequence[str | int]) -> Iterator[WrittenIn]:
    """The units that the numbers at a location are written in."""
    keys = [index for index, step in enumerate(loc) if isinstance(step, str)]
    if not keys:
        return
    last = keys[-1]
    for owner in _owners(part, loc[:last]):
        info = keys_of(owner).get(str(loc[last]))
        if info is not None:
            yield from (one for one in (*info.metadata, *_metadata_in(info.annotation)) if isinstance(one, WrittenIn))


def _metadata_in(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    for argument in typing.get_args(annotation):
        yield from _metadata_in(argument)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


def _invalid(found: Sequence[Mapping[str, Any]]) -> Problem:
    """A value that does not fit; ``found`` holds what each member of a union says."""
    first = found[0]
    context = first.get("ctx", {})
    if first["type"] == "evalspec":
        return Problem(context["message"], choices=tuple(context["choices"]), remedy=context["remedy"])
    if first["type"] == "value_error" and isinstance(first["input"], Mapping):
        # It is about several keys of a part: all of the part would hide it.
        return Problem(str(context.get("error", first["msg"])))
    if first["input"] is None:
        wants = dict.fromkeys(_wanted(str(one["msg"])) for one in found)
        return Problem(f"this is empty, and it {' or '.join(wants)}", remedy="write a value, or remove the key")
    value = _shown(first["input"])
    if first["type"] in ("literal_error", "enum"):
        choices = tuple(re.findall(r"'([^']*)'", context["expected"])) or (context["expected"],)
        remedy = did_you_mean(str(first["input"]), choices)
        return Problem(f"{value} is not one of the choices", choices=choices, remedy=remedy)
    if first["type"] == "string_pattern_mismatch":
        pattern = context["pattern"]
        return Problem(f"{value} is not valid here", remedy=_PATTERN_REMEDIES.get(pattern, f"it must match {pattern}"))
    wants = dict.fromkeys(_wanted(str(one["msg"])) for one in found)
    listed = isinstance(first["input"], str) and {one["type"] for one in found} <= LISTS
    return Problem(f"{value} {' or '.join(wants)}", remedy=f"write [{first['input']}]" if listed else None)


def _wanted(message: str) -> str:
    message = re.sub(r"^(Input|Value|String|Dictionary|List|Tuple) should ", "should ", message)
    message = re.sub(r"^Value error, ", "is refused: ", message)
    # How a value was tried tells nothing that the value itself, which stands before it, does not.
    message = re.sub(r"^(should .*), (unable to|got a number) .*$", r"\1", message)
    message = message.replace("a valid dictionary", "a mapping").replace("a valid tuple", "a list")
    message = message.replace("a valid list", "a list").replace("a valid string", "text").replace("a valid ", "a ")
    message = message.replace("a integer", "a whole number").replace("a boolean", "true or false")
    return message if message.startswith(("should", "is refused")) else f"is refused: {message[0].lower()}{message[1:]}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
