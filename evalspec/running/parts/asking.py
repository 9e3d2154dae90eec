"""The parts of a dataset, handed to whoever answers them, and the list of them at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.language.parts import Model
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf_journal import note_pass
from evalspec.running.children.messages import Progress
from evalspec.running.children.process import Child, Limits
from evalspec.running.engines.choice import EngineChoice
from evalspec.running.engines.cluster import Needs
from evalspec.running.engines.engine import LeafWork, RowEngine
from evalspec.running.engines.local import LocalEngine
from evalspec.running.engines.pieces import Cut
from evalspec.running.engines.remote import RemoteEngine, shared
from evalspec.running.engines.stamps import stamps_of, stamps_of_files
from evalspec.running.parts.answers import PartAnswers, facts_of, listed, observed_in
from evalspec.running.parts.kept import KeptParts
from evalspec.running.parts.part_job import PartJob


@dataclass(frozen=True, slots=True)
class Asking:
    """How the parts of a dataset are answered.

    Args:
        parts: Of the spec.
        dataset: Its name.
        model: That of the model.
        choice: The engine.
        folder: Of the run.
        threads: Of each worker.
        limits: Of each worker.
        environment: Of each worker.
        start: Starts a worker of this machine, for the name of its log.
        observed: What was observed of the model in a process of this machine.
        on_wait: Called while parts are waited for.
    """

    parts: SpecParts
    dataset: str
    model: str
    choice: EngineChoice
    folder: Path
    threads: int
    limits: Limits
    environment: Mapping[str, str]
    start: Callable[[str], Child]
    observed: Mapping[str, Any]
    on_wait: Callable[[], None] | None = None

    @property
    def spec(self) -> Model:
        """The model, as the spec has it."""
        return self.parts.models[self.model]


def answered_in_parts(
    asking: Asking, cut: Cut, child: Child, file: Path, key: str, progress: Progress
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have all parts answered that are not kept.

    Args:
        asking: How.
        cut: Of the dataset.
        child: A worker that holds the model.
        file: The list of the parts, once it is written.
        key: Digest of all that the answers rest on.
        progress: Told how far they have come.

    Returns:
        The question to a worker that writes the list, and what was observed of the model, with rows and files read.

    Raises:
        EvalspecError: As `evalspec.running.engines.pieces.Pieces.run`.
        WriteError: A part can't be written.
    """
    kept = KeptParts(asking.folder, file, key)
    with contextlib.closing(kept), contextlib.closing(_engine(asking, cut, child)) as engine:
        what = f"answers of {asking.model} on {asking.dataset}"
        answers = PartAnswers(what, cut, kept, engine, asking.observed, progress)
        try:
            answers.run()
        finally:
            counted = {"parts": answers.seen, "kept": answers.kept, "again": len(answers.lost)}
            note_pass(asking.folder, {**counted, "lost": list(engine.gone)})
        beside = [kept.parts[number] for number in range(cut.pieces)]
    read = {path: digest for one in beside for path, digest in one["read"].items()}
    told = {**beside[0]["told"], "details": facts_of(beside)}
    question = {"do": "list", "out": str(file), "parts": listed(cut, kept.parts), "told": told}
    return question, {"observed": observed_in(beside), "rows": cut.rows, "read": read}


def _engine(asking: Asking, cut: Cut, child: Child) -> RowEngine:
    gpus = 0 if asking.spec.device == "cpu" else 1
    if asking.choice.address and cut.elsewhere:
        work = LeafWork(
            asking.choice, asking.folder, f"answers-{asking.model}", asking.limits, asking.environment,
            needs=Needs(asking.threads, gpus, stays=True),
        )  # fmt: skip
        return RemoteEngine(work, _job(asking, cut).packed, asking.on_wait)
    # One on a GPU that the spec names has that to itself.
    slots = 1 if asking.choice.address or gpus else min(asking.choice.children, cut.pieces)
    question = {"do": "part", "dataset": asking.dataset, "rows": cut.rows}

    def start(place: int) -> Child:
        return asking.start(f"worker-{asking.model}-{place + 1}")

    return LocalEngine(start, slots, question, child, asking.on_wait)


def _job(asking: Asking, cut: Cut) -> PartJob:
    from evalspec.pipeline.artifact import content_paths

    parts = shared(asking.parts, [asking.dataset], [asking.model])
    return PartJob(
        parts, asking.dataset, asking.model, cut.rows, stamps_of(parts.datasets[asking.dataset], parts.access),
        stamps_of_files(content_paths(parts.models[asking.model], parts.access)), asking.threads, asking.limits,
        asking.environment,
    )  # fmt: skip
