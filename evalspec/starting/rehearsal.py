"""A child that loads one model, puts one batch through it and holds its classes against labels and requirements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError, InputError, Problem, did_you_mean
from evalspec.running.children.child import Handler
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.tables import Tables
from evalspec.starting.matching import shown_answers

if TYPE_CHECKING:
    from evalspec.answers.file import Answers
    from evalspec.language.parts import LoadedModel
    from evalspec.pipeline.serve import Served

BATCH_ROWS, SHOWN = 16, 3
"""Rows of a dataset that are put through a model, and answers that are shown."""
WHOLE_COLUMN = ("classes", "values", "labels", "text")
"""Tasks whose labels are plain values, which are all read."""


@dataclass(frozen=True, slots=True)
class RehearsalJob:
    """Job for the child.

    Args:
        parts: Of the spec.
        labels: Model: datasets on which its answers are held against labels.
        fed: Model: datasets that feed it.
        classes: Model: classes that requirements name.
    """

    parts: SpecParts
    labels: Mapping[str, Sequence[str]]
    fed: Mapping[str, Sequence[str]]
    classes: Mapping[str, Sequence[str]]


def start(job: RehearsalJob) -> Handler:
    """The handler of this child."""
    rehearsal = _Rehearsal(job)

    def handle(question: Message, progress: Progress) -> Message:
        name = str(question["name"])
        if question["do"] == "dataset":
            problems = list(rehearsal.dataset(name))
            return {"problems": [asdict(one) for one in problems], "answers": ""}
        problems, answers = rehearsal.model(name)
        return {"problems": [asdict(one) for one in problems], "answers": answers}

    return handle


class _Rehearsal:
    """Models and datasets of one spec."""

    def __init__(self, job: RehearsalJob) -> None:
        self.job = job
        self.parts = job.parts
        self.few = Tables(replace(job.parts, rows=BATCH_ROWS))
        self.whole = Tables(job.parts)

    def dataset(self, name: str) -> Iterator[Problem]:
        """Faults of the first rows of a dataset."""
        try:
            next(iter(self.few.batches(name)), None)
        except EvalspecError as error:
            yield _problem(error)

    def model(self, name: str) -> tuple[list[Problem], str]:
        """Faults of a model with its datasets, and its first answers in words."""
        model = self.parts.models[name]
        try:
            loaded = model.load(self.parts.access, threads=1)
        except EvalspecError as error:
            return [_problem(error)], ""
        try:
            return self._with_datasets(name, loaded)
        finally:
            loaded.close()

    def _with_datasets(self, name: str, loaded: LoadedModel) -> tuple[list[Problem], str]:
        problems: list[Problem] = []
        told = ""
        for dataset in self.job.fed[name]:
            served, answers, wrong = self._asked(name, dataset, loaded)
            problems += wrong
            if answers is not None and not told:
                told = f"the first rows of {dataset} answered: {shown_answers(answers, SHOWN)}"
            classes = None if served is None else served.classes if answers is None else answers.classes
            problems += self._classes(name, dataset, classes)
            if dataset in self.job.labels[name] and (answers is not None or classes is not None):
                problems += self._labels(dataset, classes, answers)
        return list(dict.fromkeys(problems)), told

    def _asked(
        self, name: str, dataset: str, loaded: LoadedModel
    ) -> tuple[Served | None, Answers | None, list[Problem]]:
        from evalspec.pipeline.serve import Served

        served = None
        try:
            served = Served(self.parts.models[name], loaded, self.parts.access, self.few.facts(dataset))
            return served, served.predict_all(self.few.get(dataset)), []
        except EvalspecError as error:
            return served, None, [_problem(error)]

    def _classes(self, name: str, dataset: str, classes: tuple[str, ...] | None) -> Iterator[Problem]:
        """Classes that requirements name and the model has not."""
        for wanted in self.job.classes[name] if classes is not None else ():
            if wanted in (classes or ()):
                continue
            remedy = did_you_mean(wanted, classes or ())
            names = self.parts.datasets[dataset].label_names(self.parts.access)
            if wanted in names:
                remedy = (
                    f"the dataset calls {names.index(wanted)} {wanted!r}: add `class_names: true` to "
                    f"datasets.{dataset} and `classes: [{', '.join(names)}]` to models.{name}"
                )
            yield Problem(f"{name} has no class {wanted!r}", choices=classes or (), remedy=remedy)

    def _labels(self, dataset: str, classes: tuple[str, ...] | None, answers: Answers | None) -> Iterator[Problem]:
        """Labels that do not fit the answers."""
        from evalspec.answers.classes import truth
        from evalspec.answers.from_labels import true_answers, unnamed_labels

        part = self.parts.datasets[dataset]
        if part.label is None:
            return
        try:
            column = self.whole.column(dataset, part.label)
            if answers is None:
                truth(column, part.label, classes)
            elif answers.task in WHOLE_COLUMN:
                true_answers(column, part.label, answers, self.parts.access)
        except InputError as error:
            named = unnamed_labels(part, dataset, classes or (), self.parts.access)
            yield _problem(named or error)
        except EvalspecError as error:
            yield _problem(error)


def _problem(error: EvalspecError) -> Problem:
    return error.problem if isinstance(error, InputError) else Problem(str(error))
