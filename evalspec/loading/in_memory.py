"""Objects that a program hands over in memory: written to a folder of their own, and put into the spec by name."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from evalspec.errors import InputError, Problem, SpecError
from evalspec.language.parts import Access, Dataset, Model
from evalspec.language.registry import Registry
from evalspec.language.yaml import Node, Place
from evalspec.loading.entries import NAME
from evalspec.loading.problems import NAME_REMEDY

Section = Literal["models", "datasets"]
MEMORY = "memory"
"""The kind of both."""
TAGS = ("kind", "path")


class OwnFolder:
    """A folder that only this user can look into, and that is gone when nobody holds this object any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="evalspec-memory-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Handover:
    """Objects that a program handed over, as files.

    Args:
        files: File of each object, by section of the spec and name in it.
        labels: Column with the truth of each dataset that says which it is.
        folder: In which the files lie.
        searched: Folders in which the program finds modules.
    """

    files: Mapping[tuple[Section, str], str]
    labels: Mapping[str, str]
    folder: OwnFolder
    searched: tuple[str, ...] = ()

    def given_to(self, access: Access) -> Access:
        """Access to it, as long as this object is held."""
        return replace(access, memory=self.folder.path, searched=self.searched)


def hand_over(models: Mapping[str, object], datasets: Mapping[str, object]) -> Handover | None:
    """Write objects to files that other processes read; None: there is none.

    Args:
        models: Estimators, torch modules and callables, by name.
        datasets: What holds rows, by name.

    Raises:
        SpecError: With all that can't be handed over.
    """
    if not models and not datasets:
        return None
    folder = OwnFolder()
    files: dict[tuple[Section, str], str] = {}
    labels: dict[str, str] = {}
    problems: list[Problem] = []

    def dataset(value: object, name: str) -> str:
        from evalspec.sources.reading.in_memory import write_table

        label = write_table(value, folder.path / f"{name}.arrow")
        if label is not None:
            labels[name] = label
        return f"{name}.arrow"

    def model(value: object, name: str) -> str:
        from evalspec.pipeline.objects import write_object

        return write_object(value, folder.path, name)

    sections: tuple[tuple[Section, Mapping[str, object], Callable[[object, str], str]], ...] = (
        ("models", models, model),
        ("datasets", datasets, dataset),
    )
    for section, objects, write in sections:
        for name, value in objects.items():
            place = f"{section}={{{name!r}: ...}}"
            if not NAME.fullmatch(name):
                problems.append(Problem(f"{name!r} is not a name", file=place, remedy=NAME_REMEDY))
                continue
            try:
                files[section, name] = write(value, name)
            except InputError as error:
                problems.append(error.problem.at(file=place, line=None, column=None, path=""))
    if problems:
        raise SpecError(problems)
    from evalspec.pipeline.objects import searched

    return Handover(files, labels, folder, searched() if models else ())


def filled(root: Node, objects: Handover, registry: Registry) -> Node:
    """The spec with kind and path of what was handed over; what was named in its place is not read.

    Args:
        root: Of the spec.
        objects: By section and name.
        registry: Kinds of models and datasets.
    """
    place = Place(root.place.file)
    for (section, name), file in objects.files.items():
        parts = root.child(section)
        if parts is None or parts.content is None:
            root = root.put((section,), Node(place, {}))
        elif not isinstance(parts.content, dict):
            continue
        entry = root.find((section, name)) or Node(place, {})
        if entry.content is not None and not isinstance(entry.content, dict):
            continue
        content = _kept(entry, section, registry)
        if section == "datasets" and name in objects.labels:
            content.setdefault("label", Node(place, objects.labels[name]))
        content = {"kind": Node(entry.place, MEMORY), "path": Node(entry.place, file), **content}
        root = root.put((section, name), Node(entry.place, content, keys=entry.keys))
    return root


def _kept(entry: Node, section: Section, registry: Registry) -> dict[str, Node]:
    """Fields of an entry that are about an object too: all but those of the kind that it names alone."""
    fields = entry.content if isinstance(entry.content, dict) else {}
    kind = fields.get("kind")
    find: Callable[[str], type[Model] | type[Dataset]]
    find = registry.runtime if section == "models" else registry.source
    foreign = set(TAGS)
    if kind is not None and isinstance(kind.content, str):
        # Of a kind that is none, its fields are unknown ones.
        with contextlib.suppress(SpecError):
            foreign |= set(find(kind.content).model_fields) - set(find(MEMORY).model_fields)
    return {key: node for key, node in fields.items() if key not in foreign}
