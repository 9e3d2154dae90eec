"""Jobs that children are handed, and names of the files that children write."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.units import UNITS
from evalspec.imports import arrow_without_pandas, import_whole
from evalspec.language.parts import Access, Check, Dataset, Model, Part, Training
from evalspec.language.undemanding import UNBOUNDED
from evalspec.running.children.process import Limits
from evalspec.running.engines.choice import LOCAL, EngineChoice

if TYPE_CHECKING:
    from evalspec.evidence.record import CheckRecord
    from evalspec.evidence.screens import RowTrial
    from evalspec.planning import Plan, PlannedCheck

DRAFT_ROWS = 64
"""Rows of each dataset that a draft looks at."""


@dataclass(frozen=True, slots=True)
class SpecParts:
    """The parts of the spec that a child may need."""

    models: Mapping[str, Model]
    datasets: Mapping[str, Dataset]
    slices: Mapping[str, str]
    access: Access
    rows: int | None = None
    """Number of rows to read of each dataset (a draft); None: all."""
    kept: Mapping[str, Path] = field(default_factory=dict)
    """File of a dataset's rows as the run first read them, where one is kept, by dataset."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digest of a dataset's rows as the run first read them, by dataset."""
    foreign_code: bool = True
    """Code that is not this package's may run where rows are read and checks are computed."""

    def spare_pandas(self) -> None:
        """Keep pyarrow from importing pandas, unless code may run here that has other libraries whole."""
        if self.foreign_code:
            import_whole()
        else:
            arrow_without_pandas()

    def unnamed(self, read: Collection[str]) -> tuple[str, ...]:
        """Datasets of rows that no check reads and no model names, as those of examples in a prompt are.

        Args:
            read: Those that checks read.
        """
        models = " ".join(model.model_dump_json() for model in self.models.values())
        own = (name for name, one in self.datasets.items() if not isinstance(one, Training))
        return tuple(name for name in own if name not in read and f'"{name}"' not in models)

    def file_bytes(self, dataset: str) -> float:
        """Size of a dataset's files; infinite where it is not known."""
        try:
            files = self.datasets[dataset].files(self.access)
            return float(sum(path.stat().st_size for path in files)) if files else float("inf")
        except (EvalspecError, OSError):
            return float("inf")


def foreign_code(plan: Plan) -> bool:
    """Where a plan's rows are read and its checks are computed, code may run that is not this package's.

    That of models runs in processes of their own.
    """
    of_checks = any(one.check.runs_code() or is_foreign(one.check) for one in plan.checks)
    return of_checks or any(one.in_memory or is_foreign(one) for one in plan.spec.datasets.values())


def is_foreign(part: Part) -> bool:
    """A class of another distribution."""
    return type(part).__module__.partition(".")[0] != __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """Job for a worker, which holds one model."""

    parts: SpecParts
    model: str
    threads: int

    @property
    def foreign_code(self) -> bool:
        """Code that is not this package's may run there: of a model, or of a dataset whose rows it reads."""
        models = self.parts.models.values()
        foreign = any(one.in_memory or is_foreign(one) for one in models)
        # A model's folder may hide code of its own.
        return self.parts.access.trust or self.parts.foreign_code or foreign


@dataclass(frozen=True, slots=True)
class CheckJob:
    """Job for a child that runs one check.

    Args:
        parts: As in `SpecParts`.
        check: The check.
        predictions: ``dataset/model``: file of predictions.
        model_facts: Model: what is known of it.
        confidence: Of the policy.
        alpha_fail: The strictest level that Holm asks for.
        seed: The check's own, from the spec's seed and its id.
        draft: Few queries.
        evidence: Folder for raw samples.
        limits: For the workers that it starts.
        threads: Of each worker.
        environment: Of the workers.
        timings_from: Folder of a run whose raw timings are used; None: time now.
        answers: Timed model: file of the answers that quality is computed on, on the rows that are timed.
        graders: Timed model: a dataset, and a check of which a blocking requirement is about its answers to these rows.
        repeating: Datasets of which many rows may be copies of others.
        today: The day on which the run began (UTC).
        engine: Looks at leaves of datasets.
        stop_early: Timing ends as soon as all requirements are far from their thresholds.
    """

    parts: SpecParts
    check: Check
    predictions: Mapping[str, str]
    model_facts: Mapping[str, Mapping[str, Cell]]
    confidence: float
    alpha_fail: float
    seed: int
    draft: bool
    evidence: Path
    limits: Limits
    threads: int
    environment: Mapping[str, str]
    timings_from: Path | None = None
    answers: Mapping[str, Path] = field(default_factory=dict)
    graders: Mapping[str, tuple[str, Check]] = field(default_factory=dict)
    repeating: frozenset[str] = frozenset()
    today: date = field(default_factory=lambda: datetime.now(UTC).date())
    engine: EngineChoice = LOCAL
    stop_early: bool = False

    def starts_workers_as(self, other: CheckJob) -> bool:
        """True where workers of the other job are as this one's own would be."""
        own = (self.parts, self.limits, self.threads, self.environment)
        return own == (other.parts, other.limits, other.threads, other.environment)


@dataclass(frozen=True, slots=True)
class ScreenJob:
    """The screens of a run.

    Args:
        job: As of its checks; which of them does not matter.
        checks: Of the spec, each with the datasets that it reads.
        records: What they wrote.
        datasets: Those that the run has read: rows.
        answers: (dataset, model) of answers that it has.
        timings: Folder of raw timings.
        trials: Models that were asked a few rows for the screens.
    """

    job: CheckJob
    checks: tuple[tuple[Check, tuple[str, ...]], ...]
    records: tuple[CheckRecord, ...]
    datasets: Mapping[str, int]
    answers: tuple[tuple[str, str], ...]
    timings: Path
    trials: tuple[RowTrial, ...] = ()


def predictions_file(dataset: str, model: str) -> str:
    """Name of a file of predictions in the folder of evidence."""
    return f"predictions-{model}-{dataset}.parquet"


def samples_file(check: str) -> str:
    """Name of a check's file of raw timings in the folder of evidence."""
    return f"samples-{check}.parquet"


def probes_file(check: str) -> str:
    """Name of a check's file of what probes found in the folder of evidence."""
    return f"probes-{check}.json"


def rows_file(dataset: str) -> str:
    """Name of a file of what was read of the logs of a training, in the folder of evidence."""
    return f"rows-{dataset}.parquet"


def altered_file(check: str, model: str, dataset: str, name: str) -> str:
    """Name of a file of answers to rows that a check made, in the folder of evidence."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    return f"answers-{check}-{model}-{dataset}-{plain}.parquet"


def likelihoods_file(check: str, model: str, name: str) -> str:
    """Name of a file of likelihoods of texts, in the folder of evidence."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    return f"likelihoods-{check}-{model}-{plain}.parquet"


def predictions_key(dataset: str, model: str) -> str:
    """Key of a file of predictions in a job."""
    return f"{dataset}/{model}"


def answers_beside(plan: Plan, planned: PlannedCheck) -> dict[str, tuple[str, str]]:
    """The (dataset, model) whose answers some other check judges, where there is one, by timed model."""
    return {
        model: (dataset, model)
        for model in planned.timed
        for dataset in planned.datasets
        if (dataset, model) in plan.predictions
    }


def graders_beside(plan: Plan, planned: PlannedCheck) -> dict[str, tuple[str, Check]]:
    """Timed model: dataset and the check that requires something of its answers to these rows, which it is timed on."""
    found: dict[str, tuple[str, Check]] = {}
    for model, pair in answers_beside(plan, planned).items():
        for one in plan.checks:
            if pair in one.predictions and _about_answers(one.check):
                found.setdefault(model, (pair[0], one.check))
    return found


def _about_answers(check: Check) -> bool:
    """True where the check requires something of answers: not only of time, size or energy."""
    metrics = (check.metric(one.metric) for one in check.blocking)
    units = (UNITS.get(one.unit) for one in metrics if one is not None)
    return check.dimension == "model" and any(unit is not None and unit.kind not in UNBOUNDED for unit in units)


def seed_of(seed: int, name: str) -> int:
    """Seed of one check: adding a check doesn't change what another one draws."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:4], "big")
