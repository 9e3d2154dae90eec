"""A child that makes a check of a run again, on evidence with a defect in it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError
from evalspec.evidence.frozen import Cells
from evalspec.evidence.record import CheckRecord
from evalspec.language.defects import Defect
from evalspec.language.inputs import FIRST, Predictions, Variant
from evalspec.language.parts import BATCH_ROWS, CheckResult
from evalspec.running.children.checking import check_on, check_record
from evalspec.running.children.child import Handler
from evalspec.running.children.inputs import RunInputs
from evalspec.running.children.jobs import CheckJob, SpecParts, predictions_key
from evalspec.running.children.looks import in_looks
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.tables import Tables
from evalspec.running.journal.replay import Replay
from evalspec.running.timing import Timing
from evalspec.scoring.on_demand import nothing_shown

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.likelihoods import TokenLikelihoods, Windows

LATER = ("answers_again", "rows", "file", "likelihoods")
"""Hooks of a defect whose work is seen only while the check runs."""

MOST_KEPT, MOST_BYTES = 4, 128 * 2**20
"""Answers of a model to a dataset that are kept from one defect to the next: so many, and of so much each."""

Question = tuple[CheckJob, Path, Defect]
"""A check, the folder of its raw evidence, and what is planted."""


def packed(job: CheckJob, evidence: Path, defect: Defect) -> Message:
    """A question to this child."""
    question: Question = (job, evidence, defect)
    return {"do": "plant", "question": base64.b64encode(pickle.dumps(question)).decode("ascii")}


def start(job: None) -> Handler:
    """The handler of this child."""
    sound: dict[str, CheckRecord] = {}
    evidence_of_run = SoundEvidence()

    def handle(question: Message, progress: Progress) -> Message:
        # It comes from the process that started this one, over a socket that nobody else has.
        one, evidence, defect = pickle.loads(base64.b64decode(question["question"]))
        one.parts.spare_pandas()
        return {"record": planted(one, evidence, defect).model_dump(mode="json")}

    def planted(one: CheckJob, evidence: Path, defect: Defect) -> CheckRecord:
        timing = PlantedTimings(evidence, one.check.name, defect)
        touched = timing.touched or PlantedInputs(one, timing, defect, evidence_of_run).touched
        if one.check.name in sound and not touched:
            return sound[one.check.name]

        def measured(form: CheckJob, timings: Timing) -> CheckResult:
            return check_on(form, PlantedInputs(form, timings, defect, evidence_of_run))

        with nothing_shown():
            record = check_record(one, in_looks(one, timing, measured, judged=False), [])
        if not touched:
            sound[one.check.name] = record
        return record

    return handle


class PlantedTimings(Replay):
    """Measurements of a run, with a defect in them."""

    def __init__(self, evidence: Path, check: str, defect: Defect) -> None:
        """``evidence`` and ``check`` as of `Replay`."""
        super().__init__(evidence, check)
        before = (*self._left, *self._probes)
        self._left = [defect.samples(one) for one in self._left]
        self._probes = [defect.probe(one) for one in self._probes]
        self.samples = tuple(self._left)
        self.probes = tuple(self._probes)
        self.touched = any(one is not other for one, other in zip(before, (*self.samples, *self.probes), strict=True))


class SoundEvidence:
    """Rows and answers of the run as they are, read once for all that is planted."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._tables: Tables | None = None
        self._answers: dict[tuple[str, str, int], Predictions] = {}

    def tables(self, parts: SpecParts) -> Tables:
        """Rows; ``parts`` are those of one spec, the same each time."""
        self._tables = Tables(parts) if self._tables is None else self._tables
        return self._tables

    def answers(self, dataset: str, model: str, template: int, read: Callable[[], Predictions]) -> Predictions:
        """Answers of a model, nothing of which can be written to; the last `MOST_KEPT` are kept.

        Args:
            dataset: To the rows of which they are.
            model: Who gave them.
            template: Of the prompts.
            read: Reads them.
        """
        key = (dataset, model, template)
        if key not in self._answers:
            told = read()
            arrays = [getattr(told, one.name) for one in fields(told)]
            arrays = [one for one in arrays if hasattr(one, "setflags")]
            if sum(one.nbytes for one in arrays) > MOST_BYTES:
                return told
            for one in arrays:
                one.setflags(write=False)
            self._answers[key] = told
            while len(self._answers) > MOST_KEPT:
                del self._answers[next(iter(self._answers))]
        return self._answers[key]


class PlantedTables(Tables):
    """Rows with a defect in them."""

    def __init__(self, parts: SpecParts, defect: Defect, sound: Tables) -> None:
        """``parts`` of the spec; ``sound``: its rows as they are."""
        super().__init__(parts)
        self._defect = defect
        self._sound = sound
        self._planted: dict[str, pa.Table] = {}

    def get(self, dataset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, changed."""
        from evalspec.language.header import choose

        table = self.having(dataset, columns)
        return table if columns is None else table.select(choose(columns, table.column_names, f"dataset {dataset}"))

    def having(self, dataset: str, columns: Sequence[str] | None) -> pa.Table:
        """All rows and columns, changed."""
        if dataset not in self._planted:
            sound = self._sound.having(dataset, None)
            self._planted[dataset] = self._defect.rows(dataset, sound, self._sound.get)
        return self._planted[dataset]

    def batches(self, dataset: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The same, some at a time."""
        batches = self.get(dataset, columns).to_batches(max_chunksize=BATCH_ROWS)
        return (batch for batch in batches if batch.num_rows)


class PlantedInputs(RunInputs):
    """Inputs of a check in a run, with a defect in them."""

    def __init__(self, job: CheckJob, timing: Timing, defect: Defect, sound: SoundEvidence) -> None:
        """``timing`` with the same defect; ``sound``: what is read once for all of them."""
        tables = PlantedTables(job.parts, defect, sound.tables(job.parts))
        super().__init__(job, lambda *_: None, timing, tables=tables)
        self._defect = defect
        self._sound = sound

    @cached_property
    def touched(self) -> bool:
        """False where the defect surely leaves all but timings as it is."""
        own, job = type(self._defect), self._job
        if any(getattr(own, one) is not getattr(Defect, one) for one in LATER):
            return True
        if any(self._defect.facts(name, facts) != facts for name, facts in job.model_facts.items()):
            return True
        if own.answers is Defect.answers:
            return False
        model, dataset = (*self._defect.place, "", "", "")[1:3]
        if predictions_key(dataset, model) not in job.predictions:
            return True
        try:
            answers = self._sound_answers(dataset, model)
            return self._defect.answers(answers, self) is not answers
        except EvalspecError:
            return True

    def file(self, path: str) -> Path:
        """A file that the check names, or a copy of it with the defect."""
        return self._defect.file(path, super().file(path), self.evidence)

    def predictions(self, dataset: str, model: str | None = None) -> Predictions:
        """Answers that were made in the run, changed."""
        return self._defect.answers(self._sound_answers(dataset, model), self)

    def _sound_answers(self, dataset: str, model: str | None) -> Predictions:
        read = partial(super().predictions, dataset, model)
        if type(self._defect).rows is not Defect.rows:
            # Beside other rows the truth and what copies share are others.
            return read()
        return self._sound.answers(dataset, model or self._job.check.model, self.template, read)

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str | None = None, *, variant: Variant = FIRST
    ) -> Predictions:
        """Answers to rows that the check made, changed."""
        return self._defect.answers_again(super().predict(rows, dataset, name, model, variant=variant), name)

    def token_likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str | None = None, *, beside: str | None = None
    ) -> TokenLikelihoods:
        """Likelihoods that a language model gave in the run, changed."""
        return self._defect.likelihoods(super().token_likelihoods(texts, name, windows, model, beside=beside))

    def measured_facts(self, name: str) -> Cells:
        """Measured facts of a model, changed; a declared one, such as a number of templates, is no evidence."""
        return self._defect.facts(name, super().measured_facts(name))
