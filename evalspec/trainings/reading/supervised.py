"""Runs that the gate has made, read from the logs that it kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from evalspec.errors import InputError
from evalspec.evidence.record import TrainedRun
from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Training
from evalspec.trainings.command import CommandTraining
from evalspec.trainings.reading.files import LogFile
from evalspec.trainings.reading.log import TrainingLog
from evalspec.trainings.reading.run import COLUMNS, TrainingRun, supervised_table

if TYPE_CHECKING:
    import pyarrow as pa


class MadeTraining(Training):
    """A training whose runs are made.

    Args:
        of: As the spec has it.
        made: Its runs, and those that were made to try it.
        folder: Of the run of the gate, with the logs.
    """

    made_here: ClassVar[bool] = True
    kind: str = "command"
    of: CommandTraining
    made: tuple[TrainedRun, ...]
    folder: Path

    def files(self, access: Access) -> tuple[Path, ...]:
        """The logs that were kept."""
        return tuple(self.folder / one.log.path for one in self.made if one.log is not None)

    def header(self, access: Access) -> Header:
        """Columns and rows; logs are read for it.

        Raises:
            InputError: One can't be read.
        """
        return Header(rows=self.read(access, ("run",)).num_rows, columns=dict(COLUMNS))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All evaluations of all runs, these columns.

        Raises:
            InputError: A log can't be read or contradicts its run, or a column isn't there.
        """
        runs = [self._run(one) for one in self.made]
        return supervised_table(runs, self.of, choose(columns, tuple(COLUMNS), "a training"), self._started)

    @property
    def _started(self) -> int:
        """Runs that count; of a draft fewer than were asked for."""
        first = self.of.every_workers[0]
        counted = [one for one in self.made if one.part == "run" and not one.replaced]
        return sum(one.workers == first for one in counted)

    def _run(self, made: TrainedRun) -> TrainingRun:
        log = read_run(self.of.log, self.folder / made.log.path, made.name) if made.log is not None else None
        if log is not None and log.seed is not None and log.seed != made.seed:
            message = f"the log of {made.name} says seed {log.seed}, and it was started with {made.seed}"
            raise InputError(message, remedy="pass {seed} on to the training, or name no column in `log: {seed: ...}`")
        before = made.before_s or 0.0
        return TrainingRun(
            made.name, () if log is None else log.evaluations, seed=made.seed, workers=made.workers,
            before_s=made.before_s, end_s=max(0.0, made.process_s - before),
            status="replaced" if made.replaced else made.ended, spoiled=made.spoiled, lag_s=made.lag_s,
            part=made.part, pair=made.pair, kill=None if made.kill is None else made.kill.model_dump_json(),
            model=None if made.saved is None or self.of.makes is None else model_of(self.of.makes, made),
            saved=None if made.saved is None else made.saved.digest,
        )  # fmt: skip


def model_of(makes: str, made: TrainedRun) -> str:
    """Name under which the model that a run saved can be asked.

    Args:
        makes: The model of the spec that it is one of.
        made: The run.
    """
    return f"{makes}-{made.name}"


def read_run(log: TrainingLog, path: Path, name: str) -> TrainingRun:
    """The one run in a log.

    Args:
        log: Says how it is read.
        path: The log.
        name: Of the run, for people.

    Raises:
        InputError: It can't be read, or holds several runs.
    """
    runs = list(log.runs(LogFile(path, name)))
    if len(runs) != 1:
        raise InputError(f"the log of {name} holds {len(runs)} runs", remedy="write each run's log into {out}")
    return runs[0]
