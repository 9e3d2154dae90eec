"""What can be said of a model's answers before it gives any: its classes, and the columns of files with answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from evalspec.errors import InputError, Problem, did_you_mean
from evalspec.language.parts import Access, Dataset, Model
from evalspec.language.registry import Registry
from evalspec.spec.entries import Entry
from evalspec.spec.problems import Problems

KINDS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npz": "npz",
}
"""Ending of a file of answers: the kind of dataset that reads its header."""


def check_classes(problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model], access: Access) -> None:
    """A class that a requirement, or ``positive``, names is one of the model's, where the spec states them."""
    known: dict[str, tuple[str, ...] | None] = {}
    for entry in entries:
        asked = [
            (entry.place(requirement), requirement.part, name)
            for requirement in entry.check.requirements
            if (metric := entry.check.metric(requirement.metric)) is not None and metric.parts == "class"
            for name in dict.fromkeys((entry.check.model, requirement.model or entry.check.model))
        ]
        asked.append(((*entry.path, "positive"), getattr(entry.check, "positive", None), entry.check.model))
        for place, wanted, name in asked:
            if name not in models or not isinstance(wanted, str):
                continue
            if name not in known:
                known[name] = _classes(models[name], access)
            classes = known[name]
            if classes is not None and wanted not in classes:
                message = f"{name} has no class {wanted!r}"
                problems.add(place, Problem(message, choices=classes, remedy=did_you_mean(wanted, classes)))


def _classes(model: Model, access: Access) -> tuple[str, ...] | None:
    """The classes that the spec states; None: none, or they can't be read, which is said elsewhere."""
    if model.classes is None:
        return None
    from evalspec.runtimes._labels import class_list

    try:
        return class_list(model, access)
    except (InputError, OSError):
        return None


def check_answer_files(
    problems: Problems,
    models: Mapping[str, Model],
    datasets: Mapping[str, Dataset],
    registry: Registry,
    access: Access,
) -> None:
    """The files of a model that is read, not run, have the key and the outputs among their columns."""
    for name, model in models.items():
        for dataset, file in model.answer_files().items():
            place = ("models", name, "files", dataset)
            columns = _columns(problems, place, file, registry, access)
            if columns is None or dataset not in datasets:
                continue
            key = datasets[dataset].key
            if key is None:
                message = f"the answers of {name} are joined by key, and {dataset} names none"
                problems.add(place, Problem(message, remedy=f"add `key:` to datasets.{dataset}"))
            elif key not in columns:
                problems.add(place, _without(file, f"the key column {key!r} of {dataset}", key, columns))
            for output, column in model.outputs.items():
                if isinstance(column, str) and not _has(columns, column, key):
                    what = f"the column {column!r} that is the {output}"
                    problems.add(("models", name, "outputs", output), _without(file, what, column, columns))


def _columns(
    problems: Problems, place: tuple[str, ...], file: str, registry: Registry, access: Access
) -> tuple[str, ...] | None:
    """The columns of a file of answers; None: it can't be read, which is noted here or elsewhere."""
    kind = KINDS.get(PurePath(file).suffix.lower())
    if kind is None:
        problems.add(place, Problem(f"{file!r} is no file of predictions", choices=tuple(KINDS)))
        return None
    try:
        access.path(file)
    except InputError:
        # Files that are not there are noted with those of all models.
        return None
    try:
        return tuple(registry.source(kind).model_validate({"kind": kind, "path": file}).header(access).columns)
    except InputError as error:
        problems.add(place, error.problem)
    except OSError as error:
        problems.add(place, f"{file!r} can't be read: {error.strerror or error}")
    return None


def _has(columns: Sequence[str], wanted: str, key: str | None) -> bool:
    """The column is there, or with a star one that is named so and is not the key."""
    before, star, after = wanted.partition("*")
    if not star:
        return wanted in columns
    return any(name.startswith(before) and name.endswith(after) and name != key for name in columns)


def _without(file: str, what: str, wanted: str, columns: Sequence[str]) -> Problem:
    return Problem(f"{file!r} lacks {what}", choices=tuple(columns), remedy=did_you_mean(wanted, columns))
