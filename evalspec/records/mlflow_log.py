"""A run in MLflow: values and bounds as metrics, what it was about as parameters, verdict and statuses as tags."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import Problem, RecordError, SpecError
from evalspec.evidence.record import Record
from evalspec.evidence.written import as_written
from evalspec.lineage.history import DECIDED
from evalspec.records.outputs import verdict_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

DEFAULT_URI = "sqlite:///mlflow.db"
PIP = "pip install 'evalspec-gate[mlflow]'"
ARTIFACTS = ("report.html", "record.json", "junit.xml", "summary.md")
LONGEST_VALUE = 500
"""Characters of a parameter or tag; MLflow refuses longer parameters."""
BATCH = 100
"""Parameters or tags that MLflow takes at once."""


@dataclass(frozen=True, slots=True)
class MlflowEntry:
    """A run as MLflow holds it.

    Args:
        experiment: Name of the experiment: that of the spec.
        metrics: Values, and bounds as ``NAME.lower`` and ``NAME.upper``, in the unit of the requirement.
        params: What the run was about.
        tags: Verdict, and the status of each requirement.
        started_ms, finished_ms: Milliseconds since 1970, or None.
    """

    experiment: str
    metrics: Mapping[str, float]
    params: Mapping[str, str]
    tags: Mapping[str, str]
    started_ms: int | None
    finished_ms: int | None


@dataclass(frozen=True, slots=True)
class MlflowPlace:
    """Place of a logged run."""

    uri: str
    experiment: str
    run: str


def mlflow_entry(record: Record) -> MlflowEntry:
    """A run as MLflow holds it; numbers that can't be judged are left out.

    Raises:
        RecordError: The record has no verdict, or is of a draft.
    """
    verdict = verdict_of(record)
    if record.draft:
        raise RecordError("the run is a draft, and a draft decides nothing; run the whole spec first")
    decisions = {one.name: one.status for one in verdict.decisions}
    metrics: dict[str, float] = {}
    tags = {
        "evalspec.verdict": verdict.word,
        "evalspec.headline": verdict.headline,
        "evalspec.reason": verdict.reason,
        "evalspec.version": record.evalspec,
    }
    for check in record.checks:
        for test in map(as_written, check.tests):
            status = decisions.get(test.name, "")
            key = mlflow_key(test.name)
            tags[f"status.{key}"] = status
            if test.unit:
                tags[f"unit.{key}"] = test.unit
            numbers = {key: test.value, f"{key}.lower": test.lower, f"{key}.upper": test.upper}
            if status in DECIDED:
                metrics |= {name: number for name, number in numbers.items() if number is not None}
    params = {
        "spec": record.spec,
        "spec_digest": record.spec_digest,
        "subject": record.subject or "not shown",
        "seed": str(record.seed),
        "git_commit": str(record.environment.facts.get("git_commit") or "not known"),
        **{f"model.{mlflow_key(one.name)}": one.path or one.kind for one in record.models},
        **{f"dataset.{mlflow_key(one.name)}": one.digest for one in record.datasets},
    }
    return MlflowEntry(
        record.spec, metrics, _cut(params), _cut(tags), _milliseconds(record.started), _milliseconds(record.finished)
    )


def mlflow_key(name: str) -> str:
    """A name with the characters that MLflow allows: ``slices/accuracy(dark)`` is ``slices/accuracy_dark``."""
    return re.sub(r"[^\w\-. /:]+", "_", name, flags=re.ASCII).strip("_ /.") or "unnamed"


def log_to_mlflow(record: Record, folder: Path, uri: str) -> MlflowPlace:
    """Log a run to a tracking server or file.

    Args:
        record: Of the run.
        folder: Of the run; its pages and its record become artifacts.
        uri: The tracking URI.

    Raises:
        RecordError: As `mlflow_entry`.
        SpecError: MLflow is not installed, or refuses.
    """
    entry = mlflow_entry(record)
    # MLflow would report each use to its makers; nothing here is sent anywhere unasked.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise SpecError(Problem("MLflow is not installed", remedy=PIP)) from error
    try:
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        return MlflowPlace(uri, entry.experiment, _write(client, entry, folder))
    except (MlflowException, SQLAlchemyError, OSError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SpecError(
            Problem(f"MLflow at {uri} refused the run: {said}", remedy="name a different one: --uri")
        ) from error


def _write(client: MlflowClient, entry: MlflowEntry, folder: Path) -> str:
    """Write a run; its id."""
    from mlflow.entities import Metric, Param, RunTag

    known = client.get_experiment_by_name(entry.experiment)
    experiment = client.create_experiment(entry.experiment) if known is None else known.experiment_id
    run = str(client.create_run(experiment, start_time=entry.started_ms, run_name=folder.resolve().name).info.run_id)
    when = entry.finished_ms or 0
    metrics = [Metric(name, value, when, 0) for name, value in entry.metrics.items()]
    params = [Param(name, value) for name, value in entry.params.items()]
    tags = [RunTag(name, value) for name, value in entry.tags.items()]
    for start in range(0, max(len(metrics), len(params), len(tags)), BATCH):
        part = slice(start, start + BATCH)
        client.log_batch(run, metrics[part], params[part], tags[part])
    for name in ARTIFACTS:
        if (folder / name).is_file():
            client.log_artifact(run, str(folder / name))
    client.set_terminated(run, end_time=entry.finished_ms)
    return run


def _cut(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:LONGEST_VALUE] for name, value in values.items()}


def _milliseconds(moment: str) -> int | None:
    try:
        return round(1000 * datetime.fromisoformat(moment).timestamp())
    except ValueError:
        return None
