"""Facts that files tell without being measured: that they are there, their columns, their rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from evalspec.errors import InputError, Problem, ProblemCode, SpecError, did_you_mean
from evalspec.language.header import Header
from evalspec.language.parts import Access, Dataset, Model, NeedPredictions, NeedRows, NeedTiming, SpecNames, Training
from evalspec.language.places import OBJECT_CLIENT
from evalspec.language.registry import OWN_DISTRIBUTION, install_line, missing_packages
from evalspec.language.where import Where, check_columns, parse_where
from evalspec.language.yaml import Node, Steps
from evalspec.loading.crosscheck import unknown_part
from evalspec.loading.entries import Entry
from evalspec.loading.problems import Problems
from evalspec.loading.spec import Slice

SAID = {"path", "label", "label_unit", "key", "cluster", "origin", "hub"}
"""Fields of a dataset that choose no rows, and the path, which may be written in several ways."""
NUMBERS = re.compile("float|double|halffloat|decimal")
"""Types of columns, as text, whose values are no groups."""
INDEX_REMEDY = (
    "it is the index of a frame, which pandas wrote without a name: name it (`frame.index.name = ...`), or say "
    "`key: __index_level_0__` in the dataset"
)
EVERY_COLUMN = (
    "`inputs` takes no pattern: leave `inputs` out if the model knows its columns by name; for a single tensor list "
    "them, [first, second, ...], in the order of training"
)
SENTENCES = ("require", "warn", "slo", "sla")
"""Fields whose texts are requirements, so that none is a name."""
DELIMITERS = (";", "\t", "|", ",")
"""What may stand between the cells of a file, beside what the spec says."""


def check_packages(problems: Problems, section: str, parts: Mapping[str, Model] | Mapping[str, Dataset]) -> set[str]:
    """Note kinds whose packages are not installed; returns the names of the parts that have theirs."""
    ready = set()
    for name, part in parts.items():
        missing = missing_packages(type(part))
        if missing:
            message = f"kind {part.kind!r} needs {', '.join(missing)}, which is not installed"
            problems.add((section, name, "kind"), Problem(message, remedy=install_line(type(part))))
        else:
            ready.add(name)
    return ready


def check_model_files(problems: Problems, models: Mapping[str, Model], access: Access) -> None:
    """Note models whose files are missing."""
    for name, model in models.items():
        path = ("models", name, "path")
        try:
            model.files(access)
        except (InputError, OSError) as error:
            _add_file_problem(problems, path, error, access)
        else:
            if model.artifact is not None:
                _check_artifact(problems, name, model, access)
        if isinstance(model.classes, str):
            try:
                _not_empty(access.path(model.classes), model.classes)
            except (InputError, OSError) as error:
                _add_file_problem(problems, ("models", name, "classes"), error, access)


def _check_artifact(problems: Problems, name: str, model: Model, access: Access) -> None:
    """Note an artifact that is stated and is not what is read."""
    from evalspec.pipeline.artifact import check_artifact_cheaply

    try:
        check_artifact_cheaply(model, access)
    except (InputError, OSError) as error:
        _add_file_problem(problems, ("models", name, "artifact"), error, access)


def _add_file_problem(problems: Problems, path: Steps, error: InputError | OSError, access: Access) -> None:
    """Note what is wrong with a file; where it isn't there, name the one that looks alike."""
    if isinstance(error, OSError):
        problems.add(path, f"can't be read: {error.strerror or error}")
        return
    node, problem = problems.root.find(path), error.problem
    if node is None:
        path = path[:-1]
    elif isinstance(node.content, str):
        problem = _alike(problem, node.content, access)
    problems.add(path, problem)


def _alike(problem: Problem, name: str, access: Access) -> Problem:
    """The problem; that a file is not there with the one that is called nearly so."""
    if problem.code is not ProblemCode.NO_FILE or problem.remedy is not None:
        return problem
    folder = (access.folder / name).parent
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    return replace(problem, remedy=did_you_mean(Path(name).name, names))


def _not_empty(path: Path, shown: str) -> None:
    if path.is_dir() or path.stat().st_size == 0:
        raise InputError(f"{shown!r} is {'a folder' if path.is_dir() else 'empty'}")


def check_places(problems: Problems, datasets: Mapping[str, Dataset], access: Access) -> None:
    """Note datasets outside this machine that nobody allowed, and what is not installed to read them."""
    for name, dataset in datasets.items():
        path = (section_of(dataset), name, "path")
        try:
            dataset.check_place(access)
        except InputError as error:
            problems.add(path, error.problem)
            continue
        if dataset.place is not None and find_spec(OBJECT_CLIENT) is None:
            message = f"{dataset.place.address} is read by {OBJECT_CLIENT}, which is not installed"
            problems.add(path, Problem(message, remedy=f"pip install '{OWN_DISTRIBUTION}[objects]'"))


def section_of(dataset: Dataset) -> str:
    """The section of the spec that a dataset stands in."""
    return "trainings" if isinstance(dataset, Training) else "datasets"


def read_headers(
    problems: Problems, datasets: Mapping[str, Dataset], access: Access, unverified: list[str]
) -> dict[str, Header]:
    """Rows and columns of every dataset whose header can be read without a heavy package."""
    headers = {}
    for name, dataset in datasets.items():
        if dataset.packages and not dataset.plain_header:
            unverified.append(f"columns and rows of {name}: kind {dataset.kind} is read when the run starts")
            continue
        if dataset.place is not None:
            unverified.append(f"columns and rows of {name}: {dataset.place.address} is asked when the run starts")
            continue
        try:
            headers[name] = dataset.header(access)
        except (InputError, OSError) as error:
            _add_file_problem(problems, (section_of(dataset), name, "path"), error, access)
            continue
        cut = _cut_otherwise(dataset, headers[name])
        if cut is not None:
            problems.add(("datasets", name, "path"), cut)
            # Columns that are not there would all be the same mistake.
            del headers[name]
    return headers


def _cut_otherwise(dataset: Dataset, header: Header) -> Problem | None:
    """Problem of a file whose cells are parted otherwise than it is read."""
    other = other_delimiter(tuple(header.columns))
    if other is None or "delimiter" not in type(dataset).model_fields:
        return None
    message = f"it has one column, called {next(iter(header.columns))[:80]!r}"
    return Problem(message, remedy=f"say `delimiter: {json.dumps(other)}`, the character between its cells")


def other_delimiter(columns: Sequence[str]) -> str | None:
    """Delimiter that seems to part the cells of a file of which only one column was read; None: there is none."""
    return next((mark for mark in DELIMITERS if mark in columns[0]), None) if len(columns) == 1 else None


def check_dataset_columns(problems: Problems, datasets: Mapping[str, Dataset], headers: Mapping[str, Header]) -> None:
    """Label, key, cluster and where of each dataset are among its columns."""
    for name, header in headers.items():
        dataset = datasets[name]
        for key in ("label", "key", "cluster"):
            column = getattr(dataset, key)
            if column is not None and column not in header.columns:
                problem = unknown_column(column, name, header)
                remedy = problem.remedy or f"name one of its columns, or remove `{key}:`"
                problems.add(("datasets", name, key), replace(problem, remedy=remedy))
        if dataset.where is not None:
            for problem in check_columns(parse_where(dataset.where), header.columns):
                problems.add(("datasets", name, "where"), problem)


def check_slice_columns(
    problems: Problems, slices: Sequence[Slice], headers: Mapping[str, Header], whole: bool
) -> None:
    """Each slice can be cut from one of the datasets at least; ``whole``: all headers are known."""
    for index, one in enumerate(slices):
        where = parse_where(one.where)
        found = [check_columns(where, header.columns) for header in headers.values()]
        if found and whole and all(found):
            # A column of another type is nearer to what was meant than one that is not there.
            there = [wrong for wrong, header in zip(found, headers.values(), strict=True) if _has(header, where)]
            for problem in min(there or found, key=len):
                problems.add(("slices", index, "where"), problem)


def _has(header: Header, where: Where) -> bool:
    return set(where.columns) <= set(header.columns)


def check_named_files(problems: Problems, entries: Sequence[Entry], access: Access) -> None:
    """Note files that checks name and that are missing."""
    for entry in entries:
        for path, name in entry.check.files_named():
            place = (*entry.path, *path)
            try:
                folder = access.path(name).is_dir()
            except InputError as error:
                problems.add(place, _alike(error.problem, name, access))
                continue
            if folder:
                problems.add(place, Problem(f"{name!r} is a folder", remedy="name a file in it"))


def check_sides(problems: Problems, entries: Sequence[Entry], datasets: Mapping[str, Dataset], access: Access) -> None:
    """Note checks that would hold rows against themselves."""
    for entry in entries:
        for first, second in entry.check.sides():
            if first in datasets and second in datasets and _same_rows(datasets[first], datasets[second], access):
                message = f"{first} and {second} are the same rows of the same files, so the check could find nothing"
                remedy = "name other files, or split them with `where:`"
                problems.add(find_text(problems, entry.path, second), Problem(message, remedy=remedy))


def _same_rows(first: Dataset, second: Dataset, access: Access) -> bool:
    """Nothing but what is said of the rows tells the two apart."""
    if type(first) is not type(second) or first.model_dump(exclude=SAID) != second.model_dump(exclude=SAID):
        return False
    try:
        if first.place is not None or second.place is not None:
            return first.place == second.place
        files = first.files(access)
        return bool(files) and files == second.files(access)
    except (InputError, OSError):
        return False


def unknown_column(column: str, dataset: str, header: Header) -> Problem:
    """A column that a dataset, or several, do not have."""
    choices = tuple(header.columns)
    verb = "have" if " and " in dataset else "has"
    remedy = INDEX_REMEDY if column.startswith("__index_level_") else did_you_mean(column, choices)
    return Problem(f"{dataset} {verb} no column {column!r}", choices=choices, remedy=remedy)


def not_timed(entry: Entry, models: Mapping[str, Model]) -> list[str]:
    """Sentences: what a check would time and can't, since there is nothing to run."""
    timed = dict.fromkeys(need.model for need in entry.check.needs() if isinstance(need, NeedTiming))
    still = [name for name in timed if name in models and not models[name].timed]
    return [f"{entry.check.name}: NOT_RUN, since {name} ({models[name].kind}) can't be timed" for name in still]


class NeedsCheck:
    """Holds what the checks need against models, datasets and their headers."""

    def __init__(
        self,
        problems: Problems,
        models: Mapping[str, Model],
        datasets: Mapping[str, Dataset],
        headers: Mapping[str, Header],
        slices: Sequence[Slice] = (),
    ) -> None:
        """Notes what is wrong in ``problems``."""
        self.problems = problems
        self.models = models
        self.datasets = datasets
        self.headers = headers
        self.slices = slices
        self._labels = {name: one.label for name, one in datasets.items() if one.label is not None}
        self._inputs_seen: set[tuple[str, str]] = set()

    def check(self, entry: Entry, names: SpecNames) -> None:
        """One check: its columns, its labels, its models' inputs."""
        model = self.models.get(entry.check.model)
        if entry.check.needs_start and model is not None and not model.starts_server:
            message = f"{entry.check.name} needs a server that the spec starts, which {entry.check.model} is not"
            remedy = "name a model of `kind: http` with `start: [command, ...]`"
            self.problems.add(entry.path, Problem(message, remedy=remedy))
        wanted: list[tuple[str, str]] = []
        for need in entry.check.needs():
            if isinstance(need, NeedRows):
                wanted += [(need.dataset, column) for column in need.columns]
            if isinstance(need, NeedPredictions | NeedTiming):
                self._inputs(need.model, need.dataset)
            if isinstance(need, NeedRows | NeedPredictions) and need.label:
                self._label(entry, need.dataset)
        for dataset, columns in entry.check.columns_read(names).items():
            wanted += [(dataset, column) for column in columns]
        self._column_parts(entry)
        self._by(entry)
        self._absent(entry, wanted)
        for misfit in entry.check.check_headers(self.headers, self._labels):
            self.problems.add((*entry.path, *misfit.path), misfit.problem)

    def _absent(self, entry: Entry, wanted: Sequence[tuple[str, str]]) -> None:
        """Columns that are not there: (dataset, column) of each."""
        without: dict[str, list[str]] = {}
        for dataset, column in dict.fromkeys(wanted):
            if dataset in self.headers and column not in self.headers[dataset].columns:
                without.setdefault(column, []).append(dataset)
        for column, found in without.items():
            problem = unknown_column(column, " and ".join(found), self.headers[found[0]])
            place = find_text(self.problems, entry.path, column)
            as_key = find_key(self.problems, entry.path, column) if place == entry.path else None
            self.problems.add(as_key or place, problem, key=as_key is not None)

    def _by(self, entry: Entry) -> None:
        """Check what a check cuts its dataset by: slices whose columns it has, and columns whose values are groups."""
        dataset = getattr(entry.check, "dataset", None)
        header = self.headers.get(dataset) if isinstance(dataset, str) else None
        by = getattr(entry.check, "by", None)
        if header is None or by is None:
            return
        path = (*entry.path, "by")
        for column, kind in header.columns.items():
            place = find_text(self.problems, path, column)
            if place != path and NUMBERS.match(kind) and column not in [one.name for one in self.slices]:
                message = f"column {column!r} of {dataset} holds numbers ({kind}), not groups"
                ranges = f"define the ranges that matter in `slices:`, such as `where: {column} < 100`"
                remedy = f"{ranges}, or store codes as whole numbers"
                self.problems.add(place, Problem(message, remedy=remedy))
        for one in self.slices:
            where, place = parse_where(one.where), find_text(self.problems, path, one.name)
            wrong = check_columns(where, header.columns)
            others = [found for found in self.headers.values() if not check_columns(where, found.columns)]
            # A slice that no dataset has the columns of is noted where it stands.
            noted = not others and len(self.headers) == len(self.datasets)
            if place != path and wrong and not noted:
                message = f"the slice {one.name!r} can't be taken from {dataset}: {wrong[0].message}"
                self.problems.add(place, replace(wrong[0], message=message))

    def _column_parts(self, entry: Entry) -> None:
        """A part that is a column is one of a dataset that the check reads."""
        read = [need.dataset for need in entry.check.needs() if isinstance(need, NeedRows)]
        headers = [self.headers[name] for name in read if name in self.headers]
        choices = tuple(dict.fromkeys(column for header in headers for column in header.columns))
        for requirement in entry.check.requirements:
            metric = entry.check.metric(requirement.metric)
            if metric is None or metric.parts != "column" or requirement.part is None or len(headers) < len(read):
                continue
            # A part may be what is made of a column: `pixels:mean`.
            if requirement.part not in choices and requirement.part.partition(":")[0] not in choices:
                message = f"unknown column {requirement.part!r} of {metric.name}"
                remedy = did_you_mean(requirement.part, choices)
                self.problems.add(entry.place(requirement), Problem(message, choices=choices, remedy=remedy))

    def _label(self, entry: Entry, dataset: str) -> None:
        found = self.datasets.get(dataset)
        if found is not None and found.label is None:
            message = f"{entry.check.name} needs true labels, and {dataset} names no label"
            path = find_text(self.problems, entry.path, dataset)
            self.problems.add(path, Problem(message, remedy=f"add `label:` to datasets.{dataset}"))

    def _inputs(self, model_name: str, dataset: str) -> None:
        model, header = self.models.get(model_name), self.headers.get(dataset)
        if model is None or (model_name, dataset) in self._inputs_seen:
            return
        self._inputs_seen.add((model_name, dataset))
        label = self.datasets[dataset].label if dataset in self.datasets else None
        for tensor, columns in model.inputs.items():
            path = ("models", model_name, "inputs", tensor)
            for column in (columns,) if isinstance(columns, str) else columns:
                if header is not None and column not in header.columns:
                    problem = unknown_column(column, dataset, header)
                    named = EVERY_COLUMN if "*" in column else problem.remedy
                    self.problems.add(path, replace(problem, remedy=named))
                elif column == label:
                    message = f"{column!r} is the label of {dataset}, so {model_name} would see the answer"
                    remedy = "remove it, and feed the columns that the model was trained on"
                    self.problems.add(find_text(self.problems, path, column), Problem(message, remedy=remedy))
        prompt = ("models", model_name, "prompt")
        for column in model.prompt_columns:
            if header is not None and column not in header.columns:
                self.problems.add(prompt, unknown_column(column, dataset, header))
            elif column == label:
                message = f"the prompt names {column!r}, the label of {dataset}: {model_name} would see the answer"
                self.problems.add(prompt, Problem(message, remedy="remove it from the prompt"))

    def can_pass(self, entry: Entry, names: SpecNames, confidence: float) -> None:
        """Each requirement can pass at the known number of rows and the policy's confidence."""
        rows = {name: self.headers[name].rows if name in self.headers else None for name in names.datasets}
        for requirement in entry.check.requirements:
            if unknown_part(entry.check, requirement, names) is not None:
                # It is noted already, and what follows from it is no second mistake.
                continue
            try:
                why = entry.check.check_requirement(requirement, rows, confidence)
            except SpecError as error:
                self.problems.add_all(entry.place(requirement), error)
                continue
            except (ArithmeticError, ValueError):
                # A check's own arithmetic ends where numbers are beyond all that can be measured.
                message = (
                    f"the numbers of {requirement.sentence!r}, or of this check, are outside the range of computable "
                    "numbers"
                )
                remedy = "write numbers of a measurable size"
                self.problems.add(entry.place(requirement), Problem(message, remedy=remedy))
                continue
            if why is not None:
                self.problems.add(entry.place(requirement), f"this can never pass: {why}")


def find_key(problems: Problems, path: Steps, text: str) -> Steps | None:
    """Where a text is a key of a mapping that a field of an entry holds; None: it is none."""
    node = problems.root.find(path)
    fields = node.content if node is not None and isinstance(node.content, dict) else {}
    holding = (name for name, child in fields.items() if isinstance(child.content, dict) and text in child.content)
    return next(((*path, name, text) for name in holding), None)


def find_text(problems: Problems, path: Steps, text: str) -> Steps:
    """Where inside an entry a text stands, its requirements left out, or the entry."""
    node = problems.root.find(path)
    return path if node is None else next(_places(node, path, text), path)


def _places(node: Node, path: Steps, text: str) -> Iterator[Steps]:
    """Places of a text in a node, from the top."""
    content = node.content
    if content == text:
        yield path
    elif isinstance(content, dict):
        for key, child in content.items():
            if key not in SENTENCES:
                yield from _places(child, (*path, key), text)
    elif isinstance(content, list):
        for index, child in enumerate(content):
            yield from _places(child, (*path, index), text)
