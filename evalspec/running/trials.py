"""Trials of models for the screens: a few rows of what they will meet, and an artifact beside its file of answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evalspec.errors import EvalspecError
from evalspec.evidence.screens import RowTrial
from evalspec.running.children.jobs import SpecParts, WorkerJob, predictions_file
from evalspec.screens.evidence import MOST_UNNAMED_BYTES
from evalspec.screens.pairs import compared

if TYPE_CHECKING:
    from evalspec.language.parts import Model
    from evalspec.planning import Plan
    from evalspec.running.subjects import Children, Observer, Subjects

ROWS = 64
LEAST_S, SHARE_OF_RUN = 10.0, 0.1
"""Trials of a short run may take so long in all; of a longer one a share of it."""


class _Question(NamedTuple):
    """Rows of one dataset for one model, which is asked itself or is the artifact behind a file of answers."""

    name: str
    model: Model
    dataset: str
    beside: Path | None = None
    is_stated: bool = False


def tried_models(
    plan: Plan, parts: SpecParts, subjects: Subjects, children: Children, observer: Observer, run_s: float
) -> list[RowTrial]:
    """Ask models a few rows; one that can't be loaded, or takes too long, is not tried.

    Args:
        plan: Of the run.
        parts: Of the spec.
        subjects: Datasets and answers of the run.
        children: Of the run.
        observer: Told how far it has come.
        run_s: What the run has taken until now.
    """
    found: list[RowTrial] = []
    ends = time.monotonic() + max(LEAST_S, SHARE_OF_RUN * run_s)
    for one in [*_of_traffic(plan, parts), *_of_artifacts(plan, parts, subjects, children.folder)]:
        left = ends - time.monotonic()
        if left <= 0:
            break
        job = WorkerJob(replace(parts, models={**parts.models, one.name: one.model}), one.name, children.threads)
        question = {
            "do": "try", "dataset": one.dataset, "rows": ROWS, "beside": None if one.beside is None else str(one.beside)
        }  # fmt: skip
        try:
            with children.start("evalspec.running.children.worker", job, f"try-{one.name}-{one.dataset}") as child:
                answer = child.ask(question, progress=observer.progress, time_s=left)
        except EvalspecError as error:
            if one.is_stated:
                # Who says how the artifact is run is to know that it does not.
                found.append(RowTrial(model=one.name, dataset=one.dataset, rows=0, unlike=0, reason=str(error)))
            continue
        if answer["rows"]:
            found.append(RowTrial(
                model=one.name, dataset=one.dataset, rows=answer["rows"], failed=answer.get("failed", 0),
                reason=answer.get("reason", ""), unlike=answer.get("other"),
            ))  # fmt: skip
    return found


def _of_traffic(plan: Plan, parts: SpecParts) -> Iterator[_Question]:
    """Models of this machine, and rows that a spec calls today's and that nobody has them answer."""
    about = dict.fromkeys(one.check.model for one in plan.checks if one.check.uses_model)
    read = {name for one in plan.checks for name in one.datasets}
    sides = [current for _, current in compared(one.check for one in plan.checks)]
    sides += parts.unnamed(read)
    for name in about:
        model = parts.models.get(name)
        if model is None or not model.timed or model.served or model.sampled or not model.answers_rows:
            continue
        for dataset in dict.fromkeys(sides):
            if (dataset, name) not in plan.predictions and parts.file_bytes(dataset) <= MOST_UNNAMED_BYTES:
                yield _Question(name, model, dataset)


def _of_artifacts(plan: Plan, parts: SpecParts, subjects: Subjects, folder: Path) -> Iterator[_Question]:
    """Artifacts that are said to have given the answers in files; one dataset of each."""
    there = {one.path for one in subjects.answered}
    seen: set[str] = set()
    for dataset, name in plan.predictions:
        model, file = parts.models[name], f"evidence/{predictions_file(dataset, name)}"
        if name in seen or file not in there:
            continue
        artifact = model.artifact_model(parts.access)
        if artifact is not None:
            seen.add(name)
            yield _Question(name, artifact, dataset, folder / file, bool(getattr(model, "runs_as", None)))
