"""The screens of a run: who looks, what may be said of it, and why one could not look."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from evalspec.errors import EvalspecError
from evalspec.evidence.record import CheckRecord, DatasetRecord, EvidenceFile
from evalspec.evidence.screens import RowTrial, Screening, Suspicion
from evalspec.planning import Plan
from evalspec.running.children.jobs import CheckJob, ScreenJob, predictions_file, predictions_key
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.sharing import SharedChild, packed_job
from evalspec.screens.evidence import Look
from evalspec.screens.level import screen_names, screening

SHARE_OF_RUN = 0.1
LEAST_S = 10.0
"""Screens of a short run may take so long in all; of a longer one `SHARE_OF_RUN` of it."""


def screen_job(
    job: CheckJob,
    plan: Plan,
    records: Iterable[CheckRecord],
    datasets: Iterable[DatasetRecord],
    answered: Iterable[EvidenceFile],
    folder: Path,
    timings: Path,
    trials: Sequence[RowTrial] = (),
) -> ScreenJob | None:
    """Job of the screens of a run; None: it has read no dataset.

    Args:
        job: Of any check of the run.
        plan: Of the run.
        records: What checks wrote.
        datasets: As they were read.
        answered: Files of answers.
        folder: Of the run.
        timings: Folder of raw timings.
        trials: Models that were asked a few rows for the screens.
    """
    there = {one.path for one in answered}
    pairs = tuple(pair for pair in plan.predictions if f"evidence/{predictions_file(*pair)}" in there)
    files = {predictions_key(*pair): str(folder / "evidence" / predictions_file(*pair)) for pair in pairs}
    known = {one.name: one.rows for one in datasets}
    if not known:
        return None
    return ScreenJob(
        job=replace(job, predictions=files),
        checks=tuple((one.check, one.datasets) for one in plan.checks),
        records=tuple(records),
        datasets=known,
        answers=pairs,
        timings=timings,
        trials=tuple(trials),
    )


def screens_of(job: ScreenJob, child: SharedChild, progress: Progress, run_s: float) -> Screening:
    """Let all screens look; one that crashes, or takes too long, harms nobody.

    Args:
        job: What they look at.
        child: Where they look.
        progress: Told how far they have come.
        run_s: What the run has taken until now.
    """
    packed, looks, blind = packed_job(job), {}, {}
    ends = time.monotonic() + max(LEAST_S, SHARE_OF_RUN * run_s)
    for name in screen_names():
        left = ends - time.monotonic()
        if left <= 0:
            blind[name] = (
                f"the screens of a run have {max(LEAST_S, SHARE_OF_RUN * run_s):.0f} s, and that time had run out"
            )
            continue
        try:
            looks[name] = _as_look(child.screen(packed, name, progress=progress, time_s=left))
        except EvalspecError as error:
            blind[name] = str(error)
    return screening(looks, blind, job.trials)


def screens_again(job: ScreenJob) -> Screening:
    """As `screens_of`, in this process; of a run whose screens all could look.

    Raises:
        EvalspecError: One can't look here.
    """
    from evalspec.running.children.screening import RunEvidence, looked

    evidence = RunEvidence(job)
    return screening({name: looked(evidence, name) for name in screen_names()}, {}, job.trials)


def _as_look(message: Message) -> Look:
    """Look in the answer of a child."""
    return Look(tuple(Suspicion.model_validate(one) for one in message["suspicions"]), int(message["questions"]))
