"""``--set calibration.bins=15``: values changed on the command line, validated like what stands in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.errors import Problem, SpecError, did_you_mean
from evalspec.language.registry import DIMENSIONS
from evalspec.language.yaml import Node, Place, Steps, read_text, unplaced

_TOP_LEVEL = ("name", "seed", "policy", "models", "datasets")


@dataclass(frozen=True, slots=True)
class Override:
    """One ``--set`` argument.

    Args:
        argument: As given.
        path: What it changes.
        node: The new value.
    """

    argument: str
    path: Steps
    node: Node


def apply(root: Node, arguments: Sequence[str]) -> Node:
    """A spec with its overrides in it.

    Args:
        root: The spec's root node.
        arguments: Each ``TARGET=VALUE``: ``<check id>.<field>``, or a path such as ``models.candidate.path``; the
            value is YAML.

    Raises:
        SpecError: With every argument that is not understood.
    """
    problems: list[Problem] = []
    for argument in arguments:
        try:
            override = _parse(argument, root)
            root = root.put(override.path, override.node)
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)
    return root


def _parse(argument: str, root: Node) -> Override:
    shown = f"--set {argument}"
    target, equals, text = argument.partition("=")
    target = target.strip()
    if not equals or not target or not all(target.split(".")):
        raise SpecError(Problem("no TARGET=VALUE", file=shown, remedy="write such as --set calibration.bins=15"))
    path = _path(target.split("."), root, shown)
    _check_parents(path, root, shown)
    node = read_text(text, shown) if text.strip() else Node(Place(shown))
    return Override(argument, path, unplaced(node, Place(shown)))


def _path(steps: list[str], root: Node, shown: str) -> Steps:
    """Where a target stands: a check by its name, or a path from the top."""
    checks = _checks(root)
    first = steps[0]
    if first in checks:
        if len(steps) == 1:
            raise SpecError(Problem(f"{first!r} is a whole check", file=shown, remedy=f"name a field: {first}.FIELD"))
        return (*checks[first], *_indexed(steps[1:]))
    if first in _TOP_LEVEL:
        return tuple(_indexed(steps))
    choices = (*checks, *_TOP_LEVEL)
    raise SpecError(
        Problem(f"there is nothing called {first!r}", file=shown, choices=choices, remedy=did_you_mean(first, choices))
    )


def _indexed(steps: Sequence[str]) -> list[str | int]:
    return [int(step) if step.isdecimal() and len(step) < 5 else step for step in steps]


def _checks(root: Node) -> dict[str, Steps]:
    """Names of the checks, and where they stand."""
    found: dict[str, Steps] = {}
    for dimension in DIMENSIONS:
        entries = root.child(dimension)
        for index, entry in enumerate(entries.content if entries and isinstance(entries.content, list) else []):
            named = entry.child("id") or entry.child("check")
            if named is not None and isinstance(named.content, str):
                found.setdefault(named.content, (dimension, index))
    return found


def _check_parents(path: Steps, root: Node, shown: str) -> None:
    """Refuse a path through a value that holds nothing, or a model or dataset that is not there."""
    node: Node | None = root
    for index, step in enumerate(path):
        if node is None:
            return
        child = node.child(step)
        last = index == len(path) - 1
        if isinstance(node.content, list) and child is None:
            raise SpecError(Problem(f"{step!r} is not a place in a list of {len(node.content)}", file=shown))
        if not isinstance(node.content, dict | list):
            raise SpecError(Problem(f"{path[index - 1]!r} is a value, so there is no {step!r} in it", file=shown))
        if child is None and not last and index == 1 and path[0] in ("models", "datasets"):
            choices = tuple(node.content) if isinstance(node.content, dict) else ()
            remedy = did_you_mean(str(step), choices)
            raise SpecError(
                Problem(f"unknown {str(path[0])[:-1]} {step!r}", file=shown, choices=choices, remedy=remedy)
            )
        node = child
