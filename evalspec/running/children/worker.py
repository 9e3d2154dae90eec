"""A child that holds one model and knows no check: load, predict, measure, probe."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.arrow import column_of
from evalspec.clocks import now_ns
from evalspec.errors import EvalspecError, NotRunError, WorkerError
from evalspec.imports import arrow_without_pandas
from evalspec.language.abilities import AsksAgain, GivesVariants
from evalspec.language.inputs import FIRST, Schedule, Variant
from evalspec.language.likelihoods import GivesLikelihoods, Windows
from evalspec.language.timings import TIMED_BEFORE
from evalspec.running.children.child import Handler
from evalspec.running.children.every_answer import with_others
from evalspec.running.children.jobs import WorkerJob
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.tables import Tables
from evalspec.running.children.workers import read_rows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.answers.file import Answers
    from evalspec.language.parts import Access, LoadedModel, Model
    from evalspec.language.parts.dataset import Between
    from evalspec.measure.session import Session
    from evalspec.pipeline.code_files import CodeFiles
    from evalspec.pipeline.serve import Served, ServedRows


def start(job: WorkerJob) -> Handler:
    """The handler of this child."""
    return _Worker(job).handle


class _Worker:
    """One model, loaded once."""

    def __init__(self, job: WorkerJob) -> None:
        self.job = job
        self.model = job.parts.models[job.model]
        self.tables = Tables(job.parts)
        self.served: dict[tuple[str, Variant], Served] = {}
        self.between: dict[str, Between] = {}
        self.session: Session | None = None
        self.sessions = 0
        self.rows: dict[str, ServedRows] = {}
        self.others: dict[str, LoadedModel] = {}
        if not job.foreign_code:
            # Other code may hand its own data frames to pyarrow.
            arrow_without_pandas()
        self.code = _code_files(self.model, job.parts.access)
        began = now_ns()
        for package in self.model.packages:
            importlib.import_module(package)
        imported = now_ns()
        with self._code_runs():
            self.loaded = self.model.load(job.parts.access, threads=job.threads)
        self.import_s, self.load_s = (imported - began) / 1e9, (now_ns() - imported) / 1e9

    def handle(self, question: Message, progress: Progress) -> Message:
        """``load`` (already done when this is made), ``predict``, ``likelihoods``, ``prepare``, ``block``, ..."""
        answers = {
            "load": self._told_of_loading, "keep": self._keep, "try": self._try, "prepare": self._prepare,
            "cut": self._in_parts, "part": self._in_parts, "list": self._in_parts,
        }  # fmt: skip
        if question["do"] in answers:
            return answers[question["do"]](question)
        if question["do"] == "predict":
            return self._predict(question, progress) | self._read(question)
        if question["do"] == "likelihoods":
            return self._likelihoods(question, progress) | self._read()
        if question["do"] == "probe":
            return self._probe(question, progress) | self._read()
        if self.session is None:
            raise WorkerError("a worker was asked to measure before it was prepared")
        with self._code_runs():
            if question["do"] == "block":
                begin = {"start_ns": int(question["start_ns"])} if "start_ns" in question else {}
                self.session.block(int(question["block"]), int(question["queries"]), float(question["min_s"]), **begin)
                return {"queries": self.session.count}
            details = self.session.finish()
        return {"details": details, "observed": dict(self.loaded.observed)} | self._read()

    def _told_of_loading(self, question: Message) -> Message:
        """How long it took; rows and files that are asked for are read before."""
        if question.get("rows"):
            self._rows(str(question["rows"]))
        told = {"import_s": self.import_s, "load_s": self.load_s, "observed": dict(self.loaded.observed)}
        return told | (self._read_so_far() if question.get("read") else {})

    def _keep(self, question: Message) -> Message:
        """Files of rows that were read since this was started."""
        self.tables.keep({name: Path(path) for name, path in question["rows"].items()})
        return {}

    def _read_so_far(self) -> Message:
        """Digests as in `_read`, once the stages are ready; they take time, so only where nobody waits for loading."""
        from evalspec.pipeline.preprocess import Pipeline, as_stages

        with self._code_runs():
            Pipeline(as_stages(self.model.preprocess), self.job.parts.access)
        return self._read()

    def _code_runs(self) -> contextlib.AbstractContextManager[None]:
        """Let the spec's own code run meanwhile, and note what it reads."""
        return contextlib.nullcontext() if self.code is None else self.code.watching()

    def _read(self, question: Message | None = None) -> Message:
        """Digests of the files that the model's code was seen to read, and of the file of answers asked for."""
        from evalspec.pipeline.artifact import shown_path
        from evalspec.pipeline.digest import file_digest

        access = self.job.parts.access
        digests = {} if self.code is None else self.code.digests()
        asked = None if question is None else self.model.answer_files().get(str(question["dataset"]))
        if asked is not None:
            path = access.path(asked)
            digests[str(path)] = file_digest(path)
        return {"read": {shown_path(Path(path), access): digest for path, digest in digests.items()}}

    def _serve(self, dataset: str, variant: Variant = FIRST, *, patient: bool | None = None) -> Served:
        from evalspec.pipeline.serve import Served

        if (dataset, variant) not in self.served:
            facts, loaded = self.tables.facts(dataset), self.loaded
            if variant != FIRST:
                if not isinstance(loaded, GivesVariants):
                    raise NotRunError(f"a model of kind {self.model.kind} can be asked in one way only")
                loaded = loaded.otherwise(variant.template, variant.sample, variant.order, writes=variant.writes)
            with self._code_runs():
                self.served[dataset, variant] = Served(self.model, loaded, self.job.parts.access, facts)
        served = self.served[dataset, variant]
        if patient is not None and isinstance(served.loaded, AsksAgain):
            served.loaded.patient = patient
        return served

    def _rows(self, dataset: str) -> ServedRows:
        if dataset not in self.rows:
            table = self.tables.get(dataset)
            # A model that chooses and writes is timed while it writes.
            beside = self.model.chooses is not None and self.model.writes_texts
            with self._code_runs():
                self.rows[dataset] = self._serve(dataset, Variant(writes=True) if beside else FIRST).rows(table)
        return self.rows[dataset]

    def _predict(self, question: Message, progress: Progress) -> Message:
        from evalspec.answers.file import count, write_answers

        dataset = str(question["dataset"])
        table = read_rows(Path(question["table"])) if "table" in question else self.tables.get(dataset)
        if "rows" in question:
            table = _spread(table, int(question["rows"]))
        patient = bool(question.get("patient"))
        served = self._serve(dataset, Variant(**question.get("variant", {})), patient=patient)
        progress(0.0, float(len(table)), f"{len(table):,} rows")

        def ask(variant: Variant, what: str) -> Answers:
            progress(0.0, float(len(table)), f"{len(table):,} rows, {what}")
            return self._serve(dataset, variant, patient=patient).predict_all(table)

        with self._code_runs():
            answers = served.predict_all(table)
            if question.get("again"):
                answers = replace(answers, details={**answers.details, **served.again(table, answers)})
            if "table" not in question and "rows" not in question:
                answers = with_others(answers, self.model, ask)
        if "rows_digest" in question:
            answers = replace(answers, details={**answers.details, "rows_digest": question["rows_digest"]})
        write_answers(answers, Path(question["out"]))
        return {"rows": count(answers), "observed": dict(served.loaded.observed) | dict(answers.details)}

    def _in_parts(self, question: Message) -> Message:
        """Where a dataset is cut into parts, answers to one of them, or all that were answered as a list."""
        from evalspec.running.parts.answering import part_of, write_the_list
        from evalspec.running.parts.cut import cut_of

        if question["do"] == "list":
            return write_the_list(question)
        dataset = str(question["dataset"])
        part = self.job.parts.datasets[dataset]
        if question["do"] == "cut":
            elsewhere = part.by_number and part.where is None
            rows = self.tables.countable(dataset)
            cut = cut_of(self.model, self.loaded, rows, elsewhere=elsewhere)
            return {"cut": None if cut is None else astuple(cut), "observed": dict(self.loaded.observed)}
        if dataset not in self.between:
            self.between[dataset] = self.tables.between(dataset, None)
        with self._code_runs():
            answered = part_of(self.between[dataset], self._serve(dataset), question)
        return {**answered, "observed": dict(self.loaded.observed), **self._read()}

    def _try(self, question: Message) -> Message:
        """Answers to a few rows, counted: rows without one, and rows that a file answers otherwise."""
        from evalspec.answers.again import otherwise
        from evalspec.answers.file import read_answers
        from evalspec.tables.odd_rows import odd_rows

        table = self.tables.get(str(question["dataset"]))
        if not _has_inputs(self.model, table):
            return {"rows": 0}
        beside, part = question["beside"], self.job.parts.datasets[str(question["dataset"])]
        names = [name for name in table.column_names if name not in (part.label, part.key, part.cluster)]
        index = odd_rows(table, [] if beside is not None else names, int(question["rows"]))
        if beside is not None:
            self.model = _stacking(self.model, self.loaded.input_names, table, names)
        with self._code_runs():
            served, reasons = self._serve(str(question["dataset"])), list[str]()
            rows = table.take(index)
            try:
                answers = served.predict_all(rows)
            except EvalspecError:
                if beside is not None:
                    raise
                reasons = list(_refusals(served, rows))
                return {"rows": len(index), "failed": len(reasons), "reason": reasons[0] if reasons else ""}
        if beside is None:
            return {"rows": len(index)}
        return {"rows": len(index), "other": otherwise(read_answers(Path(beside)), index, answers)}

    def _likelihoods(self, question: Message, progress: Progress) -> Message:
        from evalspec.running.children.likelihoods import write_likelihoods

        texts = read_rows(Path(question["table"])).column("text").to_pylist()
        with self._code_runs():
            own = _gives(self.loaded, self.model, self.job.model)
            models, beside = {self.job.model: self.loaded}, question["beside"]
            if beside is not None:
                models[beside] = self._beside(beside)
            other = None if beside is None else _gives(models[beside], self.job.parts.models[beside], beside)
            found = own.likelihoods(texts, Windows(**question["cut"]), other, progress)
        write_likelihoods(found, Path(question["out"]), str(question["texts_digest"]))
        return {"observed": {name: dict(one.observed) for name, one in models.items()}}

    def _beside(self, name: str) -> LoadedModel:
        """Another model of the spec, held beside the first."""
        if name not in self.others:
            self.others[name] = self.job.parts.models[name].load(self.job.parts.access, threads=self.job.threads)
        return self.others[name]

    def _prepare(self, question: Message) -> Message:
        from evalspec.measure.session import Session

        schedule = _with_arrays(Schedule(**question["schedule"]), question.get("arrays"))
        rows = self._rows(str(question["dataset"]))
        # What it holds in memory is not to lie beside the next one's.
        self.session = None
        self.session = Session(rows, schedule, Path(question["out"]), origin_ns=int(question["origin_ns"]))
        self.sessions += 1
        with self._code_runs():
            details = self.session.warm_up()
        return {"details": details, "before": {TIMED_BEFORE: self.sessions - 1} if self.sessions > 1 else {}}

    def _probe(self, question: Message, progress: Progress) -> Message:
        from evalspec.measure.probes import Context
        from evalspec.running.as_json import found_as_json

        rows = self._rows(str(question["dataset"]))

        def tensors(index: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
            return dict(rows.served.prepare(rows.raw(index)))

        context = Context(
            model=self.model, loaded=rows.served.loaded, rows=rows, tensors=tensors, access=self.job.parts.access,
            options=question["options"], seed=int(question["seed"]), progress=progress,
        )  # fmt: skip
        probe = importlib.import_module(f"evalspec.measure.probes.{question['probe']}").probe
        with self._code_runs():
            findings = probe(context)
        return {**found_as_json(findings), "observed": dict(rows.served.loaded.observed)}


def _has_inputs(model: Model, table: pa.Table) -> bool:
    """All columns that a model is said to read are there."""
    read = [name for one in model.inputs.values() for name in ([one] if isinstance(one, str) else one)]
    return all(name in table.column_names for name in read if "*" not in name)


def _stacking(model: Model, takes: Sequence[str], table: pa.Table, names: Sequence[str]) -> Model:
    """The same, fed with all columns of numbers side by side where its one input is none of the columns."""
    import pyarrow as pa

    if model.inputs or len(takes) != 1 or takes[0] in table.column_names or len(names) < 2:
        return model
    kinds = [(name, table.schema.field(name).type) for name in names]
    numbers = tuple(name for name, kind in kinds if pa.types.is_floating(kind) or pa.types.is_integer(kind))
    return model.model_copy(update={"inputs": {takes[0]: numbers}}) if numbers else model


def _refusals(served: Served, rows: pa.Table) -> Iterator[str]:
    """Errors of the rows that a model can't answer, each asked by itself."""
    for row in range(rows.num_rows):
        try:
            served.predict_all(rows.slice(row, 1))
        except EvalspecError as error:
            yield str(error)


def _gives(loaded: LoadedModel, model: Model, name: str) -> GivesLikelihoods:
    """A model that gives likelihoods.

    Raises:
        NotRunError: It gives none.
    """
    if not isinstance(loaded, GivesLikelihoods):
        raise NotRunError(f"model {name} (kind: {model.kind}) gives no likelihoods of tokens")
    return loaded


def _code_files(model: Model, access: Access) -> CodeFiles | None:
    """Recorder of the files that the model's code reads; None where none of the spec's code runs in this process."""
    if not model.runs_code() and not model.in_memory:
        return None
    from evalspec.pipeline.artifact import content_paths
    from evalspec.pipeline.code_files import CodeFiles, code_folders

    paths = content_paths(model, access)
    if model.served and "code" not in paths.values():
        return None
    return CodeFiles(*code_folders(paths, access.folder))


def _spread(table: pa.Table, rows: int) -> pa.Table:
    """At most so many rows, evenly spread over a table; always the same ones."""
    import numpy as np

    return table.take(column_of(np.unique(np.linspace(0, len(table) - 1, min(rows, len(table))).astype(np.int64))))


def _with_arrays(schedule: Schedule, path: str | None) -> Schedule:
    """The schedule with the arrays that `evalspec.running.timing` put into a file beside it."""
    import numpy as np

    if path is None:
        return schedule
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return replace(schedule, **arrays)
