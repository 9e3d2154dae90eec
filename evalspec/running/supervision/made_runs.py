"""All runs of the trainings of a plan, made one after the other; those that an unfinished run has made are kept."""

from __future__ import annotations

import itertools
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from evalspec.errors import EvalspecError, InputError
from evalspec.evidence.record import ContentFile, EvidenceFile, RunPart, TrainedRun, TrainingRecord
from evalspec.language.parts import Dataset, Model, TrialRuns
from evalspec.language.parts.part import MADE
from evalspec.logs import scrub
from evalspec.pipeline.digest import all_files, artifact_digest
from evalspec.planning import Plan
from evalspec.planning.permissions import trainings_of
from evalspec.planning.plan import trial_runs
from evalspec.redaction import Redaction
from evalspec.running.children.jobs import seed_of
from evalspec.running.children.process import Child, Limits
from evalspec.running.files import Journal, is_whole, sha256_of
from evalspec.running.subjects import Children, Observer, digest_of
from evalspec.running.supervision import disturbance
from evalspec.running.supervision.code_files import code_of
from evalspec.running.supervision.supervisor import KILL_ATTEMPTS, RunRequest, SupervisorJob, unreadable
from evalspec.stats.training.pair_order import pair_order
from evalspec.trainings.command import OUT, CommandTraining, awaited
from evalspec.trainings.reading.supervised import MadeTraining, model_of, read_run

EVENT = "training run"
FOLDER = "trainings"
MOST_SEED = 2**31
END_S = 60.0
"""Time beyond the limit of a run in which the supervisor must have killed it and answered."""
FIRST_FAILED = 2
"""So many first runs that fail before they log anything show that the command does not work here."""
FEWEST_STEPS = 3
"""So many steps must be logged, or there is nothing between which a run could be killed."""
LATEST_KILL = 0.9
"""Share of the steps within which a run is killed."""
ROLE = "evalspec.running.supervision.supervisor"


class RunMade(BaseModel):
    """Event of a journal: a run of a training has ended."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    key: str
    training: str
    run: TrainedRun


@dataclass
class _Making:
    """A training whose runs are being made."""

    name: str
    training: CommandTraining
    code: tuple[ContentFile, ...]
    basis: str
    measures: tuple[str, ...]
    spare: Iterator[int]
    left: deque[_Run]
    trials: TrialRuns
    made: list[TrainedRun] = field(default_factory=list)
    tried: list[TrainedRun] = field(default_factory=list)
    checked: bool = False
    """A log of it was found to hold what is asked about."""


@dataclass(frozen=True)
class _Run:
    """A run that is to be made."""

    name: str
    seed: int
    workers: int | None
    again: bool = False
    """It takes the place of one that was spoiled."""
    part: RunPart = "run"
    number: int = 0
    """Among those of its part."""


class MadeRuns:
    """Makes the runs of a plan.

    Args:
        plan: Its checks say which trainings are needed.
        folder: Of the run of the gate.
        journal: Takes a line for each run that has ended.
        children: How supervisors are started.
        observer: Who watches.
        draft: One run of each, stopped after two evaluations.
        events: Of the run that is gone on with.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        journal: Journal,
        children: Children,
        observer: Observer,
        *,
        draft: bool,
        events: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self._plan = plan
        # A command runs in the folder of the spec, wherever the gate was started.
        self._folder = folder.resolve()
        self._journal = journal
        self._children = children
        self._observer = observer
        self._draft = draft
        self._known = {one.key: one.run for one in _read(events)}
        self._child: Child | None = None
        self.records: list[TrainingRecord] = []
        self.broken: dict[str, EvalspecError] = {}
        """Trainings whose runs can't be made, by name."""

    def make(self, machine: str) -> None:
        """Make all runs.

        Args:
            machine: Digest of the machine and its software.
        """
        making = [self._begun(name, one, machine) for name, one in supervised(self._plan).items()]
        try:
            for number in itertools.count():
                for one in making:
                    self._add_trials(one)
                left = [one for one in making if one.left and one.name not in self.broken]
                if not left:
                    break
                # A B B A: neither of two trainings always has the machine as the other left it.
                for one in left if number % 2 == 0 else left[::-1]:
                    self._next(one)
        finally:
            if self._child is not None:
                self._child.close()
            self.records = [
                TrainingRecord(
                    name=one.name, command=one.training.run, limit_s=one.training.limit_s, code=one.code,
                    runs=tuple(one.made), trials=tuple(one.tried),
                )
                for one in making
            ]  # fmt: skip

    def _begun(self, name: str, training: CommandTraining, machine: str) -> _Making:
        code = code_of(training, self._children.access.folder)
        basis = digest_of(training.model_dump_json(), [one.model_dump() for one in code], machine, self._draft)
        measures = {
            one for planned in self._plan.checks for one in planned.check.measures_read(name)
        }  # what nobody asks about need not be logged
        drawn = _drawn(seed_of(self._plan.spec.seed, f"training {name}"), _listed(training))
        seeds = list(training.seeds) if isinstance(training.seeds, tuple) else [
            next(drawn) for _ in range(training.seeds)
        ]  # fmt: skip
        return _Making(
            name, training, code, basis, tuple(sorted(measures)), drawn,
            deque(_runs(seeds[:1] if self._draft else seeds, training.every_workers)),
            TrialRuns() if self._draft else trial_runs(self._plan, name),
        )  # fmt: skip

    def _add_trials(self, one: _Making) -> None:
        """Add what is to be tried, once all runs are made, of seeds that have run to their end."""
        whole = [run for run in one.made if run.ended == "ended" and not run.replaced and run.log is not None]
        if one.left or not whole:
            return
        trials, one.trials = one.trials, TrialRuns()
        # Without arguments that switch checkpoints off, runs would be held against their like.
        plain = trials.plain if one.training.without_checkpoints else 0
        parts: tuple[tuple[RunPart, int], ...] = (("twin", trials.twins), ("kill", trials.kills))
        for part, count in parts:
            for number in range(count):
                run = whole[number % len(whole)]
                one.left.append(_trial(part, number, run))
        for number, kept in pair_order(plain):
            one.left.append(_trial("paired" if kept else "plain", number, whole[number % len(whole)]))

    def _next(self, one: _Making) -> None:
        """Make the next run of a training, or keep it."""
        run = one.left.popleft()
        key = digest_of("run of a training", one.basis, run.seed, run.workers, run.part, run.number)
        made = self._known.get(key)
        try:
            if made is None or not self._whole(made):
                made = self._made(one, run)
                self._journal.write(EVENT, key=key, training=one.name, run=made.model_dump(mode="json"))
            if run.part != "run":
                one.tried.append(made)
                return
            if made.spoiled is not None and not run.again and not self._draft:
                other = replace(run, **_instead(run, next(one.spare)), again=True)
                one.left.appendleft(other)
                made = made.model_copy(update={"replaced": True})
                self._observer.step(f"{one.name}: {run.name} is made again: {made.spoiled}")
            one.made.append(made)
            self._check(one, made)
        except EvalspecError as error:
            self.broken[one.name] = error

    def _whole(self, made: TrainedRun) -> bool:
        """True if all that is kept of a run is still there, as it was."""
        if made.log is not None and not is_whole(self._folder / made.log.path, made.log.digest):
            return False
        return made.saved is None or _digest(self._folder / made.saved.path) == made.saved.digest

    def _made(self, one: _Making, run: _Run) -> TrainedRun:
        done = len(one.made) + len(one.tried) + 1
        what = {
            "run": "run", "twin": "again", "kill": "kill", "plain": "without checkpoints", "paired": "with checkpoints"
        }[run.part]  # fmt: skip
        self._observer.step(f"training {one.name}: {what} {done} of {done + len(one.left)}, seed {run.seed}")
        logs = self._folder / "logs"
        asked = RunRequest(
            training=one.name, name=run.name, seed=run.seed, workers=run.workers,
            out=str(self._folder / FOLDER / one.name / run.name), printed=str(logs / f"{one.name}-{run.name}.log"),
            measures=one.measures, plain=run.part == "plain", **(self._kill(one, run) if run.part == "kill" else {}),
        )  # fmt: skip
        # Of a run that is killed: attempts to do so, a round trip, and the second start.
        times = 1 if run.part != "kill" else 2 + KILL_ATTEMPTS
        told = self._supervisor().ask(
            asdict(asked), progress=self._observer.progress, time_s=times * one.training.limit_s + END_S
        )
        return self._as_told(one, run, told)

    def _kill(self, one: _Making, run: _Run) -> dict[str, Any]:
        """When a run is killed: at a random step of its uninterrupted twin's, every other time in a checkpoint."""
        twin = next(x for x in one.made if x.seed == run.seed and x.workers == run.workers and x.log is not None)
        assert twin.log is not None
        rows = read_run(one.training.log, self._folder / twin.log.path, twin.name).evaluations
        steps = sorted({x.step for x in rows if x.step is not None})
        if len(steps) < FEWEST_STEPS:
            raise InputError(
                f"{one.name}: {twin.name} logs {len(steps)} steps, too few to be killed between them",
                remedy="log the step of each evaluation, and more of them",
            )
        draw = Random(seed_of(self._plan.spec.seed, f"kill {one.name} {run.number}"))
        step = steps[0] + int(draw.random() * LATEST_KILL * (steps[-1] - steps[0]))
        times = [x.time_s for x in rows if x.time_s is not None]
        between = (times[-1] - times[0]) / max(1, len(set(times)) - 1) if times else 0.0
        growing = run.number % 2 == 1 and one.training.checkpoint is not None
        return {"kill_step": step, "kill_later_s": draw.random() * between, "kill_growing": growing}

    def _supervisor(self) -> Child:
        """The child that supervises, started again where it has ended."""
        if self._child is None or not self._child.alive:
            job = SupervisorJob(
                supervised(self._plan), self._children.access, dict(os.environ), self._children.limits.memory_bytes,
                self._draft,
            )  # fmt: skip
            self._child = Child(
                ROLE, job, limits=Limits(), log=self._folder / "logs" / "supervisor.log",
                secrets=self._children.secrets, on_wait=self._children.on_wait,
            )  # fmt: skip
        return self._child

    def _as_told(self, one: _Making, run: _Run, told: Mapping[str, Any]) -> TrainedRun:
        given = {name: told[name] for name in TrainedRun.model_fields if name in told and name != "log"}
        log = None if told["log"] is None else self._kept(one, run, Path(told["log"]))
        return TrainedRun(
            **given, name=run.name, seed=run.seed, workers=run.workers, log=log, part=run.part,
            pair=run.number if run.part in ("plain", "paired") else None,
            saved=self._saved(one, run) if told["ended"] == "ended" and run.part == "run" else None,
            spoiled=None if self._draft else disturbance.disturbance(told),
        )  # fmt: skip

    def _saved(self, one: _Making, run: _Run) -> EvidenceFile | None:
        """The model that a run has saved; None: it has saved none.

        Raises:
            InputError: It lies where another run may write over it.
        """
        makes = one.training.makes
        if makes is None:
            return None
        out = f"{FOLDER}/{one.name}/{run.name}"
        name = f"{out}/{saved_as(one.training, self._plan.spec.models[makes])}"
        digest = _digest(self._folder / name)
        if digest is not None and not _lies_in(self._folder / name, self._folder / out):
            raise InputError(
                f"{one.name}: the model that {run.name} saved is behind a link out of {OUT}, where other runs may "
                "write over it",
                remedy="have it save the model itself",
            )
        return None if digest is None else EvidenceFile(path=name, digest=digest, rows=0, what=f"model of {run.name}")

    def _kept(self, one: _Making, run: _Run, log: Path) -> EvidenceFile:
        """The log of a run, copied to the evidence as it was written."""
        name = f"evidence/training-{one.name}-{run.name}{log.suffix}"
        place = self._folder / name
        try:
            shutil.copyfile(log, place)
        except OSError as error:
            raise InputError(f"the log of {run.name} can't be kept: {error.strerror or error}") from error
        scrub(place, Redaction.of(self._children.secrets))
        return EvidenceFile(path=name, digest=sha256_of(place), rows=0, what=f"log of {run.name} of {one.name}")

    def _check(self, one: _Making, made: TrainedRun) -> None:
        """Stop early where no run could ever show what is asked.

        Raises:
            InputError: The first runs crash at once, or leave a log that can't be read or lacks a measure.
        """
        if made.log is None:
            if made.ended == "ended":
                message = f"{one.name}: {made.name} ended and left no log {one.training.log.path}"
                raise InputError(message, remedy="have the training write it there, or correct `log: {path: ...}`")
            first = one.made[:FIRST_FAILED]
            if len(one.made) == FIRST_FAILED and all(run.log is None and run.ended == "failed" for run in first):
                said = f"; its last line: {made.said}" if made.said else ""
                raise InputError(f"{one.name}: the first {FIRST_FAILED} runs failed before they logged anything{said}")
            return
        if made.ended != "ended" or one.checked:
            return
        why = unreadable(one.training, self._folder / made.log.path, made.name)
        if why is not None:
            raise InputError(f"{one.name}: {why}")
        absent = self._absent(one, made)
        if absent is not None:
            raise InputError(f"{one.name}: {absent}")
        one.checked = True

    def _absent(self, one: _Making, made: TrainedRun) -> str | None:
        """Sentence on a measure that the log of a run lacks; None: all are there."""
        assert made.log is not None
        there = {x.metric for x in read_run(one.training.log, self._folder / made.log.path, made.name).evaluations}
        absent = next((name for name in one.measures if name not in there), None)
        if absent is None:
            return None
        return (
            f"the log of {made.name} has no measure {absent!r}, which a check reads; it has {', '.join(sorted(there))}"
        )


def supervised(plan: Plan) -> dict[str, CommandTraining]:
    """Trainings whose runs a plan needs to be made, by name."""
    return {name: part for name, part in trainings_of(plan).items() if isinstance(part, CommandTraining)}


def made_parts(datasets: Mapping[str, Dataset], records: Iterable[TrainingRecord], folder: Path) -> dict[str, Dataset]:
    """Trainings that were made, as they can be read.

    Args:
        datasets: Of the spec.
        records: Of what was made.
        folder: Of the run of the gate, with the logs.
    """
    found: dict[str, Dataset] = {}
    for one in records:
        part = datasets.get(one.name)
        if isinstance(part, CommandTraining) and one.runs:
            found[one.name] = MadeTraining(of=part, made=(*one.runs, *one.trials), folder=folder.resolve())
    return found


def _trial(part: RunPart, number: int, like: TrainedRun) -> _Run:
    """A run that tries the recipe with the seed of another."""
    return _Run(f"{part}{number + 1}-seed{like.seed}", like.seed, like.workers, part=part, number=number)


def _instead(run: _Run, seed: int) -> dict[str, Any]:
    """Name and seed of a run that takes the place of another."""
    place, _, rest = run.name.partition("-seed")
    on = rest.removeprefix(str(run.seed))
    return {"name": f"{place}-again-seed{seed}{on}", "seed": seed}


def made_models(
    models: Mapping[str, Model], datasets: Mapping[str, Dataset], records: Iterable[TrainingRecord]
) -> dict[str, Model]:
    """Models that trainings have made: that of each run, and of the first where the spec leaves it to the training.

    Args:
        models: Of the spec.
        datasets: Of the spec, with its trainings.
        records: Of what was made.
    """
    found: dict[str, Model] = {}
    for one in records:
        part = datasets.get(one.name)
        if not isinstance(part, CommandTraining) or part.makes is None or part.makes not in models:
            continue
        model = models[part.makes]
        for run in one.runs:
            if run.saved is not None:
                found[model_of(part.makes, run)] = _at(model, run.saved)
        first = next((run for run in one.runs if not run.replaced), None)
        if awaited(model) and first is not None and first.saved is not None:
            found[part.makes] = _at(model, first.saved)
    return found


def saved_as(training: CommandTraining, model: Model) -> str:
    """Path of the model that a run saves, from its folder on."""
    return str(training.saves or getattr(model, "path", "")).removeprefix(f"{OUT}/")


def _at(model: Model, saved: EvidenceFile) -> Model:
    return model.model_copy(update={"path": f"{MADE}{saved.path.removeprefix(f'{FOLDER}/')}"})


def _digest(path: Path) -> str | None:
    """Digest of a model's files; None: there are none."""
    try:
        files = all_files([path]) if path.exists() else []
        return artifact_digest(files) if files else None
    except (EvalspecError, OSError):
        return None


def _lies_in(path: Path, folder: Path) -> bool:
    """True if all files of a model are in a folder, behind links."""
    real = folder.resolve()
    return all(one.is_relative_to(real) for one in all_files([path]))


def _runs(seeds: Sequence[int], workers: Sequence[int | None]) -> Iterator[_Run]:
    """All runs, so that neither few nor many workers always come first."""
    for number, seed in enumerate(seeds):
        for many in workers if number % 2 == 0 else workers[::-1]:
            on = "" if many is None or len(workers) == 1 else f"-on{many}"
            yield _Run(f"run{number + 1}-seed{seed}{on}", seed, many)


def _listed(training: CommandTraining) -> frozenset[int]:
    return frozenset(training.seeds) if isinstance(training.seeds, tuple) else frozenset()


def _drawn(seed: int, taken: frozenset[int]) -> Iterator[int]:
    """Seeds that all differ."""
    seen = set(taken)
    for number in itertools.count():
        one = seed_of(seed, str(number)) % MOST_SEED
        if one not in seen:
            seen.add(one)
            yield one


def _read(events: Iterable[Mapping[str, Any]]) -> Iterator[RunMade]:
    for event in events:
        if event["event"] == EVENT:
            try:
                yield RunMade.model_validate(event)
            except ValidationError:
                continue
