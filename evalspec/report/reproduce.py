"""Means to do it again: every digest, seed, version and control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evalspec.evidence.record import (
    ContentFile,
    ControlRecord,
    DatasetRecord,
    ModelRecord,
    Record,
    TrainedRun,
    TrainingRecord,
)
from evalspec.evidence.words import short_digest
from evalspec.lineage.spec_diff import tightened
from evalspec.report.charts.tables import cell
from evalspec.report.checks import size_words
from evalspec.report.words import duration

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
"""Not those of the machine's language: a report is the same everywhere."""
MOST_FILES = 5
SAID = frozenset({"batch", "precision", "device", "size_bytes"})

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Thing:
    """A model or a dataset with its facts."""

    name: str
    kind: str
    digest: str
    facts: Pairs


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Everything that the reproducibility list shows."""

    run: Pairs
    models: tuple[Thing, ...]
    datasets: tuple[Thing, ...]
    environment: Pairs
    packages: Pairs
    controls: tuple[ControlRecord, ...]
    evidence: tuple[tuple[str, str, str], ...]

    @property
    def command(self) -> str:
        """Command line of the run."""
        return dict(self.run).get("command", "")


def took(record: Record) -> str:
    """How long the run took, or nothing where its times can't be read."""
    try:
        seconds = (datetime.fromisoformat(record.finished) - datetime.fromisoformat(record.started)).total_seconds()
    except (ValueError, TypeError):
        return ""
    return duration(seconds) if seconds >= 0 else ""


def when(moment: str) -> str:
    """A moment for people, in its own time zone: ``20 November 2026, 09:14 UTC``, or as it stands."""
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    return f"{parsed.day} {MONTHS[parsed.month - 1]} {parsed:%Y, %H:%M} {parsed.tzname() or ''}".strip()


def reproduction(record: Record) -> Reproduction:
    """The reproducibility list of a record."""
    environment = record.environment
    trainings = {one.name: one for one in record.trainings}
    logs = tuple(
        (run.log.path, run.log.digest, one.name)
        for one in record.trainings
        for run in (*one.runs, *one.trials)
        if run.log is not None
    )
    loads = [("load at start", environment.load_at_start), ("load at end", environment.load_at_end)]
    return Reproduction(
        run=_run(record),
        models=tuple(_model(model) for model in record.models),
        datasets=tuple(_dataset(dataset, trainings.get(dataset.name)) for dataset in record.datasets),
        environment=(
            *((name.replace("_", " "), cell(value).text) for name, value in environment.facts.items()),
            *((name, f"{value:.2f}") for name, value in loads if value is not None),
        ),
        packages=tuple(sorted(environment.packages.items(), key=lambda item: item[0].lower())),
        controls=environment.controls,
        evidence=(
            *((file.path, file.digest, check.id) for check in record.checks for file in check.evidence),
            *logs,
        ),
    )


def _run(record: Record) -> Pairs:
    policy = record.policy
    found = [
        ("command", " ".join(record.command)),
        ("spec", "spec.yaml of this folder, as Python gave it" if record.from_mapping else record.spec_file),
        ("spec digest", record.spec_digest),
        ("subject", record.subject or "not shown"),
        ("seed", str(record.seed)),
        ("confidence", f"{100 * policy.confidence:g} %"),
        ("inconclusive", policy.inconclusive),
        ("family", f"{len(record.family)} blocking, {len(record.family_warn)} warn"),
        ("earlier decided runs", _earlier(record)),
        ("asked more than before", tightened(record.asked_otherwise)),
        ("exit code", "" if record.verdict is None else str(record.verdict.exit_code)),
        ("started", record.started),
        ("finished", record.finished),
        ("evalspec", record.evalspec),
        ("rule", record.verdict.rule if record.verdict else ""),
        ("seeds of checks", ", ".join(f"{check.id} {check.seed}" for check in record.checks)),
    ]
    return tuple((name, value) for name, value in found if value)


def _earlier(record: Record) -> str:
    own = f" ({record.earlier_of_subject} of this subject)" if record.earlier_of_subject else ""
    return f"{record.earlier_runs}{own}"


def _model(model: ModelRecord) -> Thing:
    digest = model.digest or "not shown"
    facts = [
        ("path", model.path or ""),
        ("size", size_words(model.size_bytes)),
        ("precision", _asked(model.precision, model.precision_observed)),
        ("device", _asked(model.device, model.device_observed)),
        ("batch", str(model.batch)),
        ("preprocessing", ", ".join(model.preprocess)),
        ("preprocessing digest", model.preprocess_digest),
        *((f"quantization {name}", value) for name, value in model.quantization.items()),
        ("classes", f"{len(model.classes)}" if model.classes else ""),
        ("read from", _files(model.contents)),
        ("read by its code", _files(model.code_read)),
        *((name.replace("_", " "), cell(value).text) for name, value in model.details.items() if name not in SAID),
    ]
    stated = " (declared, not verified)" if model.digest_stated else ""
    return Thing(model.name, model.kind, digest + stated, tuple((name, value) for name, value in facts if value))


def _files(files: Sequence[ContentFile]) -> str:
    """Files with the beginnings of their digests, the first of them where they are many."""
    shown = ", ".join(f"{one.path} [{short_digest(one.digest)}]" for one in files[:MOST_FILES])
    return f"{shown} and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else shown


def _asked(asked: str | None, observed: str | None) -> str:
    if asked and observed and asked != observed:
        return f"{observed} observed, {asked} asked"
    return observed or (f"{asked} asked, not observed" if asked else "")


def _dataset(dataset: DatasetRecord, made: TrainingRecord | None = None) -> Thing:
    facts = [
        ("path", dataset.path or ""),
        ("rows", f"{dataset.rows:,}"),
        ("columns", ", ".join(f"{name}: {kind}" for name, kind in list(dataset.columns.items())[:40])),
        (
            "label",
            " ".join(
                part for part in (dataset.label or "", f"[{dataset.label_unit}]" if dataset.label_unit else "") if part
            ),
        ),
        ("cluster", dataset.cluster or ""),
        *((f"origin {name}", value) for name, value in dataset.origin.items()),
        *(() if made is None else _training(made)),
    ]
    return Thing(dataset.name, dataset.kind, dataset.digest, tuple((name, value) for name, value in facts if value))


def _training(made: TrainingRecord) -> Pairs:
    """Facts of a training whose runs were made."""
    return (
        ("command", " ".join(made.command)),
        ("limit", duration(made.limit_s)),
        ("code", _files(made.code)),
        ("runs", "; ".join(_trained(one) for one in made.runs)),
        ("runs beside", "; ".join(_trained(one) for one in made.trials)),
    )


def _trained(run: TrainedRun) -> str:
    workers = "" if run.workers is None else f" on {run.workers}"
    again = ", made again" if run.replaced else ""
    return f"seed {run.seed}{workers} {run.ended.replace('_', ' ')} after {duration(run.process_s)}{again}"
