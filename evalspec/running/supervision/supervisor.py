"""A child that runs a training once: starts its command, follows its log, keeps it within limits, says how it ended."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec import guardian
from evalspec.errors import EvalspecError, InputError
from evalspec.evidence.record import Resaved
from evalspec.language.parts import Access
from evalspec.logs import Log, last_line
from evalspec.measure.gpu_neighbours import GpuNeighbours
from evalspec.pipeline.untrusted_code import need_trust
from evalspec.processes import Guarded
from evalspec.redaction import Redaction
from evalspec.running.children.child import Handler
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.process import resident_bytes
from evalspec.running.supervision.killed_run import KilledRun
from evalspec.running.supervision.log_watch import LogWatch
from evalspec.running.supervision.machine_time import MachineTime
from evalspec.running.supervision.round_trip import kept_aside, out_of_reach, place_in, resaved
from evalspec.runtimes.http_client.process import PYTHON
from evalspec.trainings.command import CommandTraining

POLL_S = 0.02
MEMORY_EVERY_S = 0.5
TOLD_EVERY_S = 1.0
KILL_ATTEMPTS = 4
DRAFT_EVALUATIONS = 2
"""A draft stops a run when each measure that is asked about was evaluated so often."""


@dataclass(frozen=True, slots=True)
class SupervisorJob:
    """Job of a supervisor.

    Args:
        trainings: What is run, by name.
        access: Its folder is where the command runs; it must allow that code runs.
        environment: Of the command.
        memory_bytes: Largest resident size of the command and all that it starts; None: no limit.
        draft: A run is stopped after a few evaluations.
    """

    trainings: Mapping[str, CommandTraining]
    access: Access
    environment: Mapping[str, str]
    memory_bytes: int | None
    draft: bool = False


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run that is asked for.

    Args:
        training: Name of its training.
        name: Its name.
        seed: Its seed.
        workers: Its workers; None: the spec does not say.
        out: Its own folder, made anew.
        printed: File for what it prints.
        measures: What of its log somebody asks about.
        plain: It writes no checkpoints.
    """

    training: str
    name: str
    seed: int
    workers: int | None
    out: str
    printed: str
    measures: Sequence[str]
    plain: bool = False
    kill_step: int | None = None
    """It is killed when its log has come to this step, and started again; None: it is let run."""
    kill_later_s: float = 0.0
    """So much later."""
    kill_growing: bool = False
    """Then, when a checkpoint is being written."""


def start(job: SupervisorJob) -> Handler:
    """The handler of this child."""

    def handle(question: Message, progress: Progress) -> Message:
        return _Run(job, RunRequest(**question), progress).go()

    return handle


class _Run:
    """One run, from the start of its process to its end."""

    def __init__(self, job: SupervisorJob, asked: RunRequest, progress: Progress) -> None:
        self._training = job.trainings[asked.training]
        need_trust(job.access, f"{asked.training} is the command {self._training.run[0]}")
        self._job = job
        self._asked = asked
        self._progress = progress
        self._out = Path(asked.out)
        self._printed = Log(Path(asked.printed), Redaction.of(job.access.env))
        self._gpus = GpuNeighbours()
        self._peak = 0
        self._looked = self._told = -TOLD_EVERY_S

    def go(self) -> Message:
        """Run it, and say how it went.

        Raises:
            InputError: The command can't be started, or ends before it can be killed.
        """
        self._printed.path.unlink(missing_ok=True)
        self._make_folder()
        machine, began = MachineTime(), time.monotonic()
        try:
            killed = None if self._asked.kill_step is None else self._killed()
            again = None if killed is None else self._resaved()
            stopped, code, took_s, watch = self._whole(killed)
        finally:
            self._gpus.close()
        told = self._told_of(stopped, code, took_s, watch) | machine.told(time.monotonic() - began)
        told |= self._gpus.told()
        return told if killed is None else told | {"kill": killed.told(watch) | {"resaved": again}}

    def _whole(self, killed: KilledRun | None) -> tuple[str | None, int | None, float, LogWatch]:
        """From the start of the process to its end: why it was stopped, its code, its time, its log."""
        with self._started() as (process, began):
            watch = LogWatch(self._training, self._out, began)
            stopped = self._watched(process, watch, began, killed)
            took_s = time.monotonic() - began
        code = None if stopped is not None else process.ended
        if code == guardian.NOT_FOUND:
            raise InputError(f"{self._asked.name} can't be run: {last_line(self._printed.path)}")
        watch.look(took_s, last=True)
        if killed is not None:
            killed.look(watch)
        return stopped, code, took_s, watch

    @contextmanager
    def _started(self, more: Sequence[str] = ()) -> Iterator[tuple[Guarded, float]]:
        """The process, with arguments behind its command, and when it was started; nothing of it is left afterwards."""
        asked = self._asked
        more = (*(self._training.without_checkpoints if asked.plain else ()), *more)
        command = list(self._training.command(asked.seed, asked.workers, self._out, more))
        command[0] = sys.executable if command[0] in PYTHON else command[0]
        guard = [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid())]
        with self._printed.opened() as output:
            began = time.monotonic()
            process = Guarded(
                guard, output, folder=self._job.access.folder, environment=self._job.environment, then=command
            )
        try:
            yield process, began
        finally:
            process.end()
            self._printed.finish()

    def _killed(self) -> KilledRun:
        """Start it, and kill it in the middle; earlier, where it ended before that.

        Raises:
            InputError: It always ends before.
        """
        asked = self._asked
        assert asked.kill_step is not None
        for attempt in range(KILL_ATTEMPTS):
            self._make_folder()
            step = asked.kill_step * (KILL_ATTEMPTS - attempt) // KILL_ATTEMPTS
            with self._started() as (process, began):
                watch = LogWatch(self._training, self._out, began)
                kill = KilledRun(self._training, self._out, step, asked.kill_later_s, asked.kill_growing)
                if kill.wait(process, watch, began):
                    return kill
        raise InputError(f"{asked.name} ended before it could be killed", remedy="have it train and log for longer")

    def _resaved(self) -> dict[str, Any] | None:
        """Outcome of a round trip of the newest checkpoint, as a `Resaved` of a record; None: none is made.

        Where a checkpoint was being written, nobody knows from which one it would go on.
        """
        asked, folder = self._training.round_trip, self._training.checkpoints_in(self._out)
        if asked is None or folder is None or self._asked.kill_growing:
            return None
        place, far = place_in(self._out, folder), out_of_reach(self._out, folder, asked)
        if place is None or far is not None:
            return Resaved(unknown=far).model_dump()
        with kept_aside(self._out) as aside:
            with self._started(asked.add) as (process, began):
                stopped = self._watched(process, LogWatch(self._training, self._out, began), began)
            if stopped is None and process.ended == 0:
                return resaved(aside, self._out, place, asked).model_dump()
        words = {"limit": "came to its limit", "out_of_memory": "ran out of memory"}
        how = words.get(stopped or "", f"ended with code {process.ended}")
        last = "" if stopped is not None else last_line(self._printed.path)
        said = f": {last}" if last else ""
        return Resaved(unknown=f"started with the arguments of `round_trip` it {how}{said}").model_dump()

    def _make_folder(self) -> None:
        # What an attempt that was cut off has left there is no part of this run.
        try:
            if self._out.exists():
                shutil.rmtree(self._out)
            self._out.mkdir(parents=True)
            self._printed.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self._out} can't be made: {error.strerror or error}") from error

    def _watched(self, process: Guarded, watch: LogWatch, began: float, killed: KilledRun | None = None) -> str | None:
        """Wait for the end of the process; returns why it was stopped, None: it ended by itself."""
        limit_s = self._training.limit_s
        while process.ended is None:
            now_s = time.monotonic() - began
            if now_s > limit_s:
                return "limit"
            if now_s - self._looked >= MEMORY_EVERY_S:
                self._looked = now_s
                self._gpus.look(process.pid)
                self._peak = max(self._peak, resident_bytes(process.pid))
                if self._job.memory_bytes is not None and self._peak > self._job.memory_bytes:
                    return "out_of_memory"
            watch.look(now_s)
            if killed is not None:
                killed.look(watch)
            if self._job.draft and watch.evaluated(self._asked.measures) >= DRAFT_EVALUATIONS:
                return "cut"
            if now_s - self._told >= TOLD_EVERY_S:
                self._told = now_s
                self._progress(
                    now_s, limit_s, f"{self._asked.training} {self._asked.name}{watch.latest(self._asked.measures)}"
                )
            process.wait(POLL_S)
        return None

    def _told_of(self, stopped: str | None, code: int | None, took_s: float, watch: LogWatch) -> dict[str, Any]:
        ended = stopped if stopped is not None else "ended" if code == 0 else "failed"
        path, why = watch.file()
        return {
            "ended": ended, "code": code, "process_s": took_s, "before_s": watch.before_s, "lag_s": watch.lag_s,
            "peak_mib": self._peak / 2**20, "said": "" if ended == "ended" else last_line(self._printed.path),
            "log": None if path is None else str(path), "no_log": why,
            "measures": sorted(watch.measures),
        }  # fmt: skip


def unreadable(training: CommandTraining, path: Path, name: str) -> str | None:
    """Reason why the log of a run can't be read; None: it can."""
    from evalspec.trainings.reading.supervised import read_run

    try:
        read_run(training.log, path, name)
    except EvalspecError as error:
        return str(error)
    return None
