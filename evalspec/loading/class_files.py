"""Facts of a model's answers before it gives any: its classes, and the columns of files with answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from evalspec.errors import InputError, Problem, did_you_mean
from evalspec.language.declarations import ClassOfModel, fields_that_say
from evalspec.language.parts import Access, Dataset, Model, NeedPredictions
from evalspec.language.registry import Registry
from evalspec.loading.entries import Entry
from evalspec.loading.files import find_text, other_delimiter
from evalspec.loading.problems import Problems

ONE_COLUMN = (
    "name the columns of all classes by one pattern, or name the column of the second of two classes without a star"
)

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
    """A class that a requirement or a field names is one of the model's, where the spec states them."""
    known: dict[str, tuple[str, ...] | None] = {}
    for entry in entries:
        asked = [
            (entry.place(requirement), requirement.part, name)
            for requirement in entry.check.requirements
            if (metric := entry.check.metric(requirement.metric)) is not None and metric.parts == "class"
            for name in dict.fromkeys((entry.check.model, requirement.model or entry.check.model))
        ]
        for key, attribute in fields_that_say(type(entry.check), ClassOfModel).items():
            asked.append(((*entry.path, key), getattr(entry.check, attribute), entry.check.model))
        for place, wanted, name in asked:
            if name not in models or not isinstance(wanted, str):
                continue
            if name not in known:
                known[name] = _classes(models[name], access)
            classes = known[name]
            if classes is not None and wanted not in classes:
                message = f"{name} has no class {wanted!r}"
                problems.add(place, Problem(message, choices=classes, remedy=did_you_mean(wanted, classes)))


def check_label_names(
    problems: Problems,
    entries: Sequence[Entry],
    models: Mapping[str, Model],
    datasets: Mapping[str, Dataset],
    access: Access,
) -> None:
    """Labels that answers are held against are not read as numbers where the model's classes are their names."""
    needs = [need for entry in entries for need in entry.check.needs() if isinstance(need, NeedPredictions)]
    for dataset, model in dict.fromkeys((need.dataset, need.model) for need in needs if need.label):
        if dataset not in datasets or model not in models or models[model].classes is None:
            continue
        if not _has_names(datasets[dataset], access):
            continue
        from evalspec.answers.from_labels import unnamed_labels

        error = unnamed_labels(datasets[dataset], dataset, _classes(models[model], access) or (), access)
        if error is not None:
            problems.add(("datasets", dataset, "label"), error.problem)


def _has_names(dataset: Dataset, access: Access) -> bool:
    try:
        return bool(dataset.label_names(access))
    except (InputError, OSError):
        # That it can't be read is said where its header is.
        return False


def _classes(model: Model, access: Access) -> tuple[str, ...] | None:
    """The classes that the spec states; None: none, or they can't be read, which is said elsewhere."""
    if model.classes is None:
        return None
    from evalspec.answers.classes import class_list

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
        for dataset, file in model.answer_tables().items():
            place = ("models", name, "files", dataset)
            known = datasets[dataset].key if dataset in datasets else None
            columns = _columns(problems, place, {"path": file, "key": known}, registry, access)
            if columns is None or dataset not in datasets:
                continue
            key = datasets[dataset].key
            if key is None:
                message = f"the answers of {name} are joined by key, and {dataset} names none"
                problems.add(place, Problem(message, remedy=f"add `key:` to datasets.{dataset}"))
            elif key not in columns:
                problems.add(place, _without(file, f"the key column {key!r} of {dataset}", key, columns))
            for output, column in model.outputs.items():
                if not isinstance(column, str):
                    continue
                matched, path = _matched(columns, column, key), ("models", name, "outputs", output)
                if not matched:
                    what = f"the column {column!r} that is the {output}"
                    problems.add(path, _without(file, what, column, columns))
                elif "*" in column and len(matched) == 1 and not model.multilabel:
                    message = (
                        f"{column!r} matches one column of {file!r} only, {matched[0]!r}: it must match a column of "
                        "every class"
                    )
                    problems.add(path, Problem(message, choices=columns, remedy=ONE_COLUMN))


def check_answered(problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model]) -> None:
    """A model that is read, not run, has answers for every dataset that a check wants them of."""
    for entry in entries:
        for need in entry.check.needs():
            if not isinstance(need, NeedPredictions) or need.model not in models:
                continue
            files = models[need.model].answer_files()
            if not files or need.dataset in files:
                continue
            message = f"{need.model} has no file of answers for {need.dataset}"
            remedy = f"add it to models.{need.model}.files, or name another dataset"
            place = find_text(problems, entry.path, need.dataset)
            problems.add(place, Problem(message, choices=tuple(files), remedy=remedy))


def _columns(
    problems: Problems, place: tuple[str, ...], fields: Mapping[str, str | None], registry: Registry, access: Access
) -> tuple[str, ...] | None:
    """The columns of a file of answers; None: it can't be read, which is noted here or elsewhere."""
    file = str(fields["path"])
    kind = KINDS.get(PurePath(file).suffix.lower())
    if kind is None:
        problems.add(place, Problem(f"{file!r} is not a file of predictions", choices=tuple(KINDS)))
        return None
    try:
        access.path(file)
    except InputError:
        # Files that are not there are noted with those of all models.
        return None
    try:
        columns = tuple(registry.source(kind).model_validate({"kind": kind, **fields}).header(access).columns)
        other = other_delimiter(columns) if kind == "csv" else None
        if other is None:
            return columns
        message = f"{file!r} has one column, called {columns[0][:80]!r}"
        remedy = f"separate its cells with commas; now it has {json.dumps(other)} between them"
        problems.add(place, Problem(message, remedy=remedy))
    except InputError as error:
        problems.add(place, error.problem)
    except OSError as error:
        problems.add(place, f"{file!r} can't be read: {error.strerror or error}")
    return None


def _matched(columns: Sequence[str], wanted: str, key: str | None) -> list[str]:
    """The column, where it is there; with a star those that are named so and are not the key."""
    before, star, after = wanted.partition("*")
    if not star:
        return [wanted] if wanted in columns else []
    return [name for name in columns if name.startswith(before) and name.endswith(after) and name != key]


def _without(file: str, what: str, wanted: str, columns: Sequence[str]) -> Problem:
    return Problem(f"{file!r} lacks {what}", choices=tuple(columns), remedy=did_you_mean(wanted, columns))
