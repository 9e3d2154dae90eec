"""Screens over the evidence of a run, in the child in which the checks ran."""

from __future__ import annotations

import base64
import contextlib
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from evalspec.errors import EvalspecError, InputError
from evalspec.evidence.record import CheckRecord, Dimension
from evalspec.evidence.screens import RowTrial, Suspicion
from evalspec.language.inputs import Predictions, Samples, SliceMask
from evalspec.language.parts import Check, Dataset, Model, Training
from evalspec.language.yaml_text import write
from evalspec.running.children.inputs import RunInputs
from evalspec.running.children.jobs import ScreenJob, samples_file, seed_of
from evalspec.running.children.messages import Message, Progress
from evalspec.running.journal.replay import Replay
from evalspec.running.samples import read_samples
from evalspec.screens.evidence import MOST_ROWS, MOST_UNNAMED_BYTES, Look
from evalspec.screens.level import look

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

MOST_READ = 1_000_000
"""Rows of the largest dataset that is read for screens: reading more would take longer than they are worth."""


@dataclass
class RunEvidence:
    """`evalspec.screens.evidence.Evidence` over the files of a run.

    Args:
        of: The job.
        name: The screen, ``dimension/name``.
    """

    of: ScreenJob
    name: str = ""
    _ids: set[str] = field(default_factory=set)
    _rows: dict[str, pa.Table] = field(default_factory=dict)
    _answers: dict[tuple[str, str], Predictions] = field(default_factory=dict)
    _unnamed: dict[str, int] | None = None

    def __post_init__(self) -> None:
        self._inputs = RunInputs(self.of.job, lambda *_: None, Replay(self.of.timings, ""))
        self._ids = {check.name for check, _ in self.of.checks} | set(self.of.job.parts.slices)

    def for_screen(self, name: str) -> RunEvidence:
        """The same rows, looked at by another screen."""
        self.name = name
        self.rng = np.random.default_rng(seed_of(self.of.job.seed, f"screen {name}"))
        return self

    @property
    def checks(self) -> tuple[Check, ...]:
        """Of the spec."""
        return tuple(check for check, _ in self.of.checks)

    @property
    def records(self) -> Mapping[str, CheckRecord]:
        """Check: what it wrote."""
        return {one.id: one for one in self.of.records}

    @property
    def datasets(self) -> tuple[str, ...]:
        """Those that the run has read, and those that no check names; logs of trainings are no rows for a model."""
        read = (name for name in self.of.datasets if not isinstance(self.dataset(name), Training))
        return (*read, *self.unnamed)

    @property
    def unnamed(self) -> tuple[str, ...]:
        """Datasets of the spec that no check and no model names, and that can be read."""
        if self._unnamed is None:
            self._unnamed = {}
            for name in self.of.job.parts.unnamed(self.of.datasets):
                with contextlib.suppress(EvalspecError, OSError):
                    if self.of.job.parts.file_bytes(name) <= MOST_UNNAMED_BYTES:
                        self._unnamed[name] = self._inputs.table(name).num_rows
        return tuple(self._unnamed)

    @property
    def answers(self) -> tuple[tuple[str, str], ...]:
        """(dataset, model)."""
        return self.of.answers

    def dataset(self, name: str) -> Dataset:
        """As the spec says it."""
        return self.of.job.parts.datasets[name]

    def model(self, name: str) -> Model:
        """As the spec says it."""
        return self.of.job.parts.models[name]

    def count(self, dataset: str) -> int:
        """All its rows."""
        if dataset not in self.of.datasets and dataset in self.unnamed and self._unnamed is not None:
            return self._unnamed[dataset]
        return self.of.datasets[dataset]

    def index(self, dataset: str) -> NDArray[np.int64]:
        """Rows that `rows` gives."""
        # Reading them shows that there are as many as the run says.
        self.rows(dataset)
        return spread_rows(self.count(dataset))

    def rows(self, dataset: str) -> pa.Table:
        """Its rows, evenly spread."""
        if dataset not in self._rows:
            if self.count(dataset) > MOST_READ:
                raise InputError(f"dataset {dataset} has {self.count(dataset):,} rows, more than screens read")
            table = self._inputs.table(dataset)
            if table.num_rows != self.count(dataset):
                raise InputError(
                    f"dataset {dataset} has {table.num_rows:,} rows, and the run says {self.count(dataset):,}"
                )
            whole = table.num_rows <= MOST_ROWS
            self._rows[dataset] = table if whole else table.take(spread_rows(table.num_rows))
        return self._rows[dataset]

    def features(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate reads, or may read."""
        return self._inputs.feature_columns(dataset)

    def stated_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate is said to read."""
        return self._inputs.stated_columns(dataset)

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        """Cluster of each row."""
        return self._inputs.clusters(dataset)

    def predictions(self, dataset: str, model: str) -> Predictions:
        """Answers to all rows: read once for all screens, but for those that are large."""
        if (dataset, model) in self._answers:
            return self._answers[dataset, model]
        told = self._inputs.predictions(dataset, model)
        if told.n <= MOST_READ and told.masks is None and told.embeddings is None:
            self._answers[dataset, model] = told
        return told

    def slices(self) -> Mapping[str, str]:
        """Slice: which rows."""
        return self.of.job.parts.slices

    def slice_mask(self, name: str, dataset: str) -> SliceMask:
        """Rows of a slice."""
        return self._inputs.slice_mask(name, dataset)

    def samples(self, check: str) -> Sequence[Samples]:
        """Every query that a check timed."""
        path = self.of.timings / samples_file(check)
        return read_samples(path) if path.exists() else []

    def asks(self, metric: str, datasets: Sequence[str] = (), part: str | None = None, model: str = "") -> bool:
        """A requirement of the spec decides this already."""
        return any(
            one.metric == metric and one.part in (None, part)
            for check, read in self.of.checks
            if set(datasets) <= set(read) and (not model or check.model == model)
            for one in check.requirements
        )

    @property
    def trials(self) -> tuple[RowTrial, ...]:
        """Models that were asked a few rows."""
        return self.of.trials

    def suspicion(
        self, subject: str, sentence: str, suggestion: str, p_value: float | None = None, *, weakens: bool = False
    ) -> Suspicion:
        """One of this screen."""
        dimension, _, name = self.name.partition("/")
        return Suspicion(
            screen=name,
            dimension=cast(Dimension, dimension),
            subject=subject,
            sentence=sentence,
            suggestion=suggestion,
            p_value=None if p_value is None else float(p_value),
            weakens=weakens,
        )

    def requirement(
        self,
        dimension: Literal["system", "model", "data"],
        check: str,
        require: str,
        fields: Mapping[str, Any],
    ) -> str:
        """The YAML of a check with one requirement."""
        name = self._free(f"{check}_{require.partition(' ')[0]}")
        return write({dimension: [{"check": check, "id": name, **fields, "require": [require]}]})

    def slice_requirement(self, where: str, require: str, fields: Mapping[str, Any]) -> str:
        """The YAML of a slice, and of a check of it with one requirement."""
        name = self._free(where)
        text = self.requirement("model", "slices", require, {**fields, "by": [name]})
        return write({"slices": [{"name": name, "where": where}]}) + text

    def same_files(self, model: str, other: str) -> bool:
        """Two models of the spec are the same artifact."""
        first, second = (self.of.job.model_facts.get(name, {}).get("digest") for name in (model, other))
        return first is not None and first == second

    def _free(self, words: str) -> str:
        """A name that the spec does not have."""
        base = name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")[:60].rstrip("_")
        number = 1
        while name in self._ids:
            number += 1
            name = f"{base}_{number}"
        self._ids.add(name)
        return name


def spread_rows(n: int) -> NDArray[np.int64]:
    """So many rows of n as a screen is handed, evenly spread."""
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, MOST_ROWS).astype(np.int64))


def looked(evidence: RunEvidence, name: str) -> Look:
    """Let one screen look at a run."""
    return look(name, evidence.for_screen(name))


def as_message(one: Look) -> Message:
    """A look as a child tells it."""
    return {"suspicions": [each.model_dump(mode="json") for each in one.suspicions], "questions": one.questions}


class Screener:
    """Answers questions of the parent; the job comes with the first, and the rows are read once for all screens."""

    def __init__(self) -> None:
        self._evidence: RunEvidence | None = None

    def handle(self, question: Message, progress: Progress) -> Message:
        """One screen."""
        if self._evidence is None or question["job"]:
            # It comes from the process that started this one, over a socket that nobody else has.
            job: ScreenJob = pickle.loads(base64.b64decode(question["job"]))
            job.job.parts.spare_pandas()
            self._evidence = RunEvidence(job)
        return as_message(looked(self._evidence, str(question["screen"])))
