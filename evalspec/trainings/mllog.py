"""Logs of MLPerf Training, as the package mlperf-logging writes them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evalspec.errors import InputError
from evalspec.trainings.reading.files import LogFile
from evalspec.trainings.reading.log import TrainingLog
from evalspec.trainings.reading.run import Evaluation, Status, TrainingRun

TOKEN = ":::MLLOG"
SAMPLES, EPOCH, STEPS = "samples_count", "epoch_num", ("step_num", "step", "iteration")
BATCH = "global_batch_size"


class MllogTraining(TrainingLog):
    """Logs of MLPerf Training: lines with `:::MLLOG` and a JSON object, a file for each run.

    The run's clock starts at `run_start`; initialisation from `init_start` to there is counted beside it. Measures are
    all keys with a number whose metadata say at which `samples_count`, `epoch_num` or `step_num` it was taken.
    """

    kind: Literal["mllog"] = "mllog"

    def runs(self, file: LogFile) -> Iterator[TrainingRun]:
        """The run of one file."""
        lines = file.text().splitlines()
        events = [_event(file, number, line, last=number == len(lines)) for number, line in enumerate(lines, 1)]
        found = _RunLog(file)
        for one in events:
            if one is not None:
                found.add(one)
        yield found.run(self.workers)


@dataclass(frozen=True, slots=True)
class _Event:
    """One line: where, when, what."""

    line: int
    time_s: float
    key: str
    value: Any
    metadata: Mapping[str, Any]


def _event(file: LogFile, number: int, line: str, *, last: bool) -> _Event | None:
    """The event of a line; None of others, and of one that is cut in the middle at the end of the file."""
    _, token, text = line.partition(TOKEN)
    if not token:
        return None
    try:
        read = json.loads(text.strip())
        metadata = read.get("metadata") or {}
        return _Event(number, float(read["time_ms"]) / 1e3, str(read["key"]), read.get("value"), metadata)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # A crash may leave the last line unfinished: the run then has no end, which is told where it counts.
        if last:
            return None
    raise InputError(
        f"line {number} of {file.name} is not an MLLOG event: it has no `time_ms` and `key` as JSON",
        remedy="copy the log again, as it was written",
    )


@dataclass
class _RunLog:
    """Events of one file, as far as they were read."""

    file: LogFile
    init_s: float | None = None
    start_s: float | None = None
    stop: _Event | None = None
    last_s: float = -math.inf
    numbers: dict[str, float] = field(default_factory=dict)
    taken: list[tuple[_Event, float]] = field(default_factory=list)

    def add(self, event: _Event) -> None:
        """Take one event.

        Raises:
            InputError: A second run begins, or the clock goes back.
        """
        if event.key == "init_start" and self.init_s is None:
            self.init_s = event.time_s
        elif event.key == "run_start":
            if self.start_s is not None:
                message = f"{self.file.name} holds two runs: a second run_start is in line {event.line}"
                raise InputError(message, remedy="split it into a file for each run")
            self.start_s = self.last_s = event.time_s
        elif event.key == "run_stop" and self.stop is None:
            self.stop = event
        elif _number(event.value) is not None:
            self._take(event)
        if self.start_s is not None and (event.key == "run_stop" or _measured(event)):
            if event.time_s < self.last_s:
                back = self.last_s - event.time_s
                message = f"in line {event.line} of {self.file.name} the clock goes back by {back:.3f} s"
                raise InputError(message, remedy="a log holds one run, written by one process")
            self.last_s = event.time_s

    def _take(self, event: _Event) -> None:
        value = _number(event.value)
        if value is not None and _measured(event):
            if self.start_s is not None and self.stop is None:
                self.taken.append((event, value))
        elif value is not None:
            self.numbers.setdefault(event.key, value)

    def run(self, workers: int | None) -> TrainingRun:
        """The run.

        Raises:
            InputError: No run begins in this file.
        """
        if self.start_s is None:
            message = f"{self.file.name} has no run_start: no run of MLPerf begins in it"
            raise InputError(message, remedy="name logs of MLPerf Training, such as result_0.txt")
        seed = self._whole("seed")
        before = None if self.init_s is None or self.init_s > self.start_s else self.start_s - self.init_s
        last = max([self.start_s, *(event.time_s for event, _ in self.taken)])
        return TrainingRun(
            self.file.name,
            tuple(dict.fromkeys(self._evaluation(event, value) for event, value in self.taken)),
            seed=self.file.seed if seed is None else seed,
            workers=self.file.workers or workers,
            before_s=before,
            end_s=(last if self.stop is None else self.stop.time_s) - self.start_s,
            status=self._status(),
            batch=self._whole(BATCH),
        )

    def _whole(self, key: str) -> int | None:
        """A whole number that is logged; None: it is none, or not there."""
        found = self.numbers.get(key)
        return int(found) if found is not None and found.is_integer() and abs(found) < 2**63 else None

    def _status(self) -> Status:
        if self.stop is None:
            return "cut"
        return "success" if self.stop.metadata.get("status") == "success" else "aborted"

    def _evaluation(self, event: _Event, value: float) -> Evaluation:
        samples, epoch = _number(event.metadata.get(SAMPLES)), _number(event.metadata.get(EPOCH))
        if samples is None and epoch is not None and "train_samples" in self.numbers:
            samples = epoch * self.numbers["train_samples"]
        step = next((int(one) for key in STEPS if (one := _number(event.metadata.get(key))) is not None), None)
        return Evaluation(event.key, value, event.time_s - (self.start_s or 0.0), step, samples)


def _measured(event: _Event) -> bool:
    """True if it says how far the training had come."""
    return _number(event.value) is not None and any(key in event.metadata for key in (SAMPLES, EPOCH, *STEPS))


def _number(value: object) -> float | None:
    """A number, also one that stands as text; None of all else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
