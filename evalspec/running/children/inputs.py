"""Inputs of a check while it runs: rows, predictions made before, timings made now."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evalspec.errors import EvalspecError, InputError, NotRunError
from evalspec.evidence.frozen import Cells
from evalspec.language.inputs import FIRST, Predictions, Probe, Samples, Schedule, SentTexts, SliceMask, Variant
from evalspec.language.parts import BATCH_ROWS
from evalspec.language.scans import Scan
from evalspec.running.children.jobs import CheckJob, predictions_key
from evalspec.running.children.messages import Progress
from evalspec.running.children.scans import Passes, Scans
from evalspec.running.children.tables import Tables
from evalspec.running.equal_rows import EqualRows, columns_read
from evalspec.running.timing import Timing

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.answers.file import Answers
    from evalspec.language.likelihoods import TokenLikelihoods, Windows
    from evalspec.pipeline.answer_place import AnswerPlace
    from evalspec.sources.reading.copies import Copies


Measurement = TypeVar("Measurement")
DRAFT_WARMUP = 4


class RunInputs:
    """`evalspec.language.inputs.Inputs` over the files of a run."""

    def __init__(
        self,
        job: CheckJob,
        progress: Progress,
        timing: Timing,
        scans: Scans | None = None,
        tables: Tables | None = None,
    ) -> None:
        """``timing`` measures, or gives back what was measured before; ``scans`` keeps what other checks see.

        ``tables`` reads the rows; None: they are read as they are.
        """
        self._job = job
        self._tables = Tables(job.parts) if tables is None else tables
        self._progress = progress
        self.timing = timing
        self._scans = Scans() if scans is None else scans
        self.equal_rows = EqualRows(job.parts, self._tables, job.repeating)
        self.rng = np.random.default_rng(job.seed)
        self.template = 0
        """Template of the prompts whose answers `predictions` gives."""
        self._once: dict[str, Any] | None = None

    def ask_by(self, template: int) -> None:
        """Give the answers by another template of the prompts; what does not depend on it is measured once.

        Args:
            template: Its place in the list.
        """
        self.template = template
        self._once = {} if self._once is None else self._once
        self.rng = np.random.default_rng(self._job.seed)

    @property
    def confidence(self) -> float:
        """Confidence that the policy asks for."""
        return self._job.confidence

    @property
    def alpha_fail(self) -> float:
        """The strictest level that Holm asks for."""
        return self._job.alpha_fail

    @property
    def draft(self) -> bool:
        """True in a draft, where a few queries have to do."""
        return self._job.draft

    @property
    def today(self) -> date:
        """The day on which the run began."""
        return self._job.today

    @property
    def evidence(self) -> Path:
        """Folder for raw samples."""
        return self._job.evidence

    def table(self, dataset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a dataset.

        Raises:
            NotRunError: They would take more memory than this process may have.
        """
        self._refuse_too_large(dataset, columns)
        return self._tables.get(dataset, columns)

    def _refuse_too_large(self, dataset: str, columns: Sequence[str] | None) -> None:
        limit = self._job.limits.memory_bytes
        if limit is None:
            return
        rows, size = self._tables.least_bytes(dataset, columns)
        if size > limit:
            raise NotRunError(
                f"{self._job.check.name} holds all {rows:,} rows of {dataset} in memory, {size / 2**20:,.0f} MiB or "
                f"more, and may take {limit / 2**20:,.0f} MiB; raise --memory-limit, or leave rows out with `where:`"
            )

    def batches(self, dataset: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of a dataset, some at a time."""
        return self._tables.batches(dataset, columns)

    def scan(self, scans: Sequence[Scan]) -> list[Any]:
        """Watchers of these scans, once all rows went by."""
        leaves, job = None, self._job
        if job.engine.apart:
            from evalspec.running.children.leaves import Leaves
            from evalspec.running.engines.engine import LeafWork

            work = LeafWork(job.engine, job.evidence.parent, job.check.name, job.limits, job.environment)
            leaves = Leaves(job.parts, work, self._tables, self._progress)
        passes = Passes(self._evenly, self._tables.leaf_rows, leaves)
        try:
            return self._scans.give(self._job.check.name, scans, passes, self._wanted_later)
        finally:
            if leaves is not None:
                leaves.close()

    def _evenly(self, dataset: str, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Rows as watchers see them: in the same batches whatever else is read, so that sums are equal to the bit."""
        from evalspec.sources.reading.batches import evenly

        batches = self._tables.batches(dataset, columns)
        return evenly(batches, BATCH_ROWS) if self._job.parts.datasets[dataset].rows_fit else batches

    def _wanted_later(self) -> dict[str, list[Scan]]:
        """Scans that later checks will ask for, by check, where rows are handed on as in a pass of their own."""
        wanted: dict[str, list[Scan]] = {}
        for check, seed in self._scans.ahead:
            inputs = RunInputs(replace(self._job, check=check, seed=seed), self._progress, self.timing)
            inputs._tables = self._tables
            with contextlib.suppress(EvalspecError):
                scans = check.scans(inputs)
                wanted[check.name] = [one for one in scans if self._job.parts.datasets[one.dataset].rows_fit]
        return wanted

    def label(self, dataset: str) -> str | None:
        """Name of the label column."""
        return self._job.parts.datasets[dataset].label

    def key(self, dataset: str) -> str | None:
        """Name of the column that names a row."""
        return self._job.parts.datasets[dataset].key

    def label_unit(self, dataset: str) -> str | None:
        """Unit of a regression label."""
        return self._job.parts.datasets[dataset].label_unit

    def origin(self, dataset: str) -> Mapping[str, str]:
        """Origin of a dataset, as the spec states it."""
        return self._job.parts.datasets[dataset].origin

    def column_names(self, dataset: str) -> tuple[str, ...]:
        """Names of a dataset's columns."""
        return self._tables.names(dataset)

    def has_clusters(self, dataset: str) -> bool:
        """True where the dataset names a column of what rows share, or many of its rows are equal."""
        return self._job.parts.datasets[dataset].cluster is not None or self._equal(dataset) is not None

    def feature_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate is said to read, or all that are neither label, key nor cluster."""
        names = self._tables.names(dataset)
        read = self._columns_read()
        if read and all(name in names for name in read):
            return read
        # A column that slices look at may well be read by the model, so only these are surely none of its inputs.
        part = self._job.parts.datasets[dataset]
        return tuple(name for name in names if name not in (part.label, part.key, part.cluster))

    def stated_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate is said to read, of those that are there."""
        names = self._tables.names(dataset)
        return tuple(name for name in self._columns_read() if name in names)

    def _columns_read(self) -> tuple[str, ...]:
        return columns_read(self._job.parts)

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        """Index of each row's cluster."""
        column = self._job.parts.datasets[dataset].cluster
        own = None if column is None else self._clusters(dataset, self._tables.column(dataset, column))
        return own if self._job.draft else self.equal_rows.clusters(dataset, own)

    def _equal(self, dataset: str) -> Copies | None:
        return None if self._job.draft else self.equal_rows.of(dataset)

    def _clusters(self, dataset: str, table: pa.Table) -> NDArray[np.int64] | None:
        from evalspec.sources.reading.open import clusters

        column = self._job.parts.datasets[dataset].cluster
        return None if column is None else clusters(table, column)

    def predictions(self, dataset: str, model: str | None = None) -> Predictions:
        """Predictions made before, with the truth of each row.

        Raises:
            InputError: Labels don't fit the model's classes.
        """
        from evalspec.language.predictions import of_template, with_clusters

        model = model or self._job.check.model
        path = Path(self._job.predictions[predictions_key(dataset, model)])
        told = self.read_predictions(path, dataset, model)
        if not self._job.draft:
            clusters = self.equal_rows.clusters(dataset, told.clusters)
            told = with_clusters(told, clusters)
        return of_template(told, self.template)

    def answer_place(self, model: str) -> AnswerPlace | None:
        """Where in a text of a model the answer is; None: the text is the answer."""
        from evalspec.pipeline.model_fields import RuntimeModel

        part = self._job.parts.models[model]
        return part.answer if isinstance(part, RuntimeModel) else None

    def read_predictions(self, path: Path, dataset: str, model: str) -> Predictions:
        """Answers in a file, with the truth of each row.

        Raises:
            InputError: Labels don't fit the model's classes.
        """
        from evalspec.answers.file import read_answers

        answers = read_answers(path)
        part = self._job.parts.datasets[dataset]
        used = [name for name in (part.label, part.cluster, self._listing(model)) if name is not None]
        return self._told(answers, self._tables.having(dataset, used), dataset, model)

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str | None = None, *, variant: Variant = FIRST
    ) -> Predictions:
        """Predictions made now, of rows that the check made.

        Raises:
            InputError: Labels don't fit the model's classes.
            NotRunError: The model is read from files.
        """
        from evalspec.answers.file import read_answers

        model = model or self._job.check.model
        path = self.timing.predict(rows, dataset, name, model, variant, self._progress)
        return self._told(read_answers(path), rows, dataset, model)

    def sent_texts(self, model: str) -> SentTexts | None:
        """Prompt of a model, with its examples.

        Raises:
            InputError: They can't be read.
        """
        from evalspec.pipeline.prompted import PromptedModel

        part = self._job.parts.models[model]
        return part.sent_texts(self._job.parts.access) if isinstance(part, PromptedModel) else None

    def token_likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str | None = None, *, beside: str | None = None
    ) -> TokenLikelihoods:
        """Likelihoods made now, of texts that the check hands over.

        Raises:
            NotRunError: The model gives none.
        """
        from evalspec.running.children.likelihoods import read_likelihoods

        asked = model or self._job.check.model
        path = self.timing.likelihoods(texts, name, windows, asked, beside, self._progress)
        return read_likelihoods(path, asked, beside)

    def _told(self, answers: Answers, table: pa.Table, dataset: str, model: str) -> Predictions:
        """Answers beside the truth of their rows."""
        from evalspec.answers.from_labels import true_answers, unnamed_labels

        if answers.again or answers.by_template or answers.written is not None:
            told = [
                tuple(self._told(one, table, dataset, model) for one in several)
                for several in (answers.again, answers.by_template)
            ]
            first = self._told(replace(answers, again=(), by_template=(), written=None), table, dataset, model)
            written = None if answers.written is None else self._told(answers.written, table, dataset, model)
            return replace(first, again=told[0], by_template=told[1], written=written)
        if answers.n != table.num_rows:
            raise InputError(f"{model} answered {answers.n:,} rows of {dataset}, which now has {table.num_rows:,}")
        label = self.label(dataset)
        truth, true_boxes = None, None
        if label is not None:
            rows, access = self._lettered(table, label, model), self._job.parts.access
            try:
                truth, true_boxes = true_answers(rows, label, answers, access)
            except InputError as error:
                known = self._job.parts.datasets[dataset]
                raise unnamed_labels(known, dataset, answers.classes or (), access) or error from error
        return Predictions(
            model=model,
            dataset=dataset,
            n=answers.n,
            classes=answers.classes,
            probabilities=answers.probabilities,
            predicted=answers.predicted,
            values=answers.values,
            lower=answers.lower,
            upper=answers.upper,
            truth=truth,
            clusters=self._clusters(dataset, table),
            digest=str(self.model_facts(model).get("digest") or ""),
            label_unit=self.label_unit(dataset),
            details=answers.details,
            members=answers.members,
            texts=answers.texts,
            masks=answers.masks,
            boxes=answers.boxes,
            true_boxes=true_boxes,
            embeddings=answers.embeddings,
            finish_reasons=answers.finish_reasons,
            tokens=answers.tokens,
            extracted=answers.extracted,
            extracted_as=answers.extracted_as,
            masses=answers.masses,
        )

    def _listing(self, model: str) -> str | None:
        """Column that lists the options of a model that chooses."""
        from evalspec.pipeline.prompted import PromptedModel

        part = self._job.parts.models[model]
        return part.options.column if isinstance(part, PromptedModel) and part.options is not None else None

    def _lettered(self, table: pa.Table, label: str, model: str) -> pa.Table:
        """Rows with the letter of the right option as the label, of a model that chooses from options."""
        from evalspec.pipeline.options import as_letters
        from evalspec.pipeline.prompted import PromptedModel

        part = self._job.parts.models[model]
        options = part.options if isinstance(part, PromptedModel) else None
        return table if options is None else as_letters(table, label, options)

    def slice_names(self) -> tuple[str, ...]:
        """Names in the spec's ``slices:``."""
        return tuple(self._job.parts.slices)

    def slice_where(self, name: str) -> str:
        """Condition of a named slice, as in the spec's ``slices:``."""
        return self._job.parts.slices[name]

    def slice_mask(self, name: str, dataset: str) -> SliceMask:
        """Rows of a named slice."""
        from evalspec.language.where import mask, parse_where

        where = parse_where(self._job.parts.slices[name])
        return mask(self._tables.having(dataset, where.columns), where)

    def _drafted(self, schedule: Schedule) -> Schedule:
        """The schedule; in a draft with a few warm-up queries, settled or not, as it only shows that the check runs."""
        if not self._job.draft:
            return schedule
        few = min(schedule.warmup_queries, DRAFT_WARMUP)
        return replace(schedule, warmup_queries=few, warmup_s=0.0, settle=False)

    def measure(self, schedule: Schedule, dataset: str, model: str | None = None) -> list[Samples]:
        """Samples of fresh processes, one after the other."""
        return self.timing.measure(self._drafted(schedule), dataset, model or self._job.check.model, self._progress)

    def measure_paired(self, schedule: Schedule, dataset: str, baseline: str) -> tuple[list[Samples], list[Samples]]:
        """Samples of A B B A blocks in pairs of fresh processes."""
        asked, model = self._drafted(schedule), self._job.check.model

        def paired() -> tuple[list[Samples], list[Samples]]:
            return self.timing.measure_paired(asked, dataset, model, baseline, self._progress)

        return self._measured_once(repr(("paired", asked, dataset, baseline)), paired)

    def probe(
        self,
        probe: str,
        dataset: str,
        model: str | None = None,
        *,
        processes: int = 1,
        options: Cells | None = None,
        telemetry_s: float | None = None,
    ) -> list[Probe]:
        """Findings of fresh processes, one after the other."""
        name = model or self._job.check.model

        def probed() -> list[Probe]:
            return self.timing.probe(probe, dataset, name, processes, options or {}, telemetry_s, self._progress)

        return self._measured_once(repr(("probe", probe, dataset, name, processes, options)), probed)

    def _measured_once(self, asked: str, measure: Callable[[], Measurement]) -> Measurement:
        """Measurement of the first template that asks for it, where there are several."""
        if self._once is None:
            return measure()
        if asked not in self._once:
            self._once[asked] = measure()
        kept: Measurement = self._once[asked]
        return kept

    def model_facts(self, model: str | None = None) -> Cells:
        """Known facts about a model."""
        name = model or self._job.check.model
        part = self._job.parts.models.get(name)
        declared = {
            "served": part is not None and part.served, "elsewhere": part is not None and part.elsewhere,
            "always_new": part is not None and part.always_new, "samples": 1 if part is None else part.samples,
            "templates": 1 if part is None else part.templates, "orders": 1 if part is None else part.orders,
            "option_score": None if part is None else part.chooses,
            "trained_until": None if part is None else part.trained_until,
        }  # fmt: skip
        return {**declared, **self.measured_facts(name)}

    def measured_facts(self, name: str) -> Cells:
        """Those that the run measured or looked up itself, not those that the spec declares."""
        return self._job.model_facts.get(name, {})

    def code(self, path: str, what: str) -> Path:
        """A file of code, where the caller allows code to run."""
        from evalspec.pipeline.untrusted_code import need_trust

        access = self._job.parts.access
        need_trust(access, f"{what} runs the code {path}")
        return access.path(path)

    def file(self, path: str) -> Path:
        """A file that the check names."""
        return self._job.parts.access.path(path)

    def files(self, dataset: str) -> tuple[Path, ...]:
        """The files that a dataset is read from."""
        return self._job.parts.datasets[dataset].files(self._job.parts.access)

    def progress(self, done: float, total: float, what: str) -> None:
        """Tell how far the check has come."""
        self._progress(done, total, what)
