"""Logs of TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.trainings.reading.events import Scalar, scalars
from evalspec.trainings.reading.files import LogFile, log_files
from evalspec.trainings.reading.frames import CHECKED_BYTES, Frames
from evalspec.trainings.reading.log import TrainingLog
from evalspec.trainings.reading.run import Evaluation, TrainingRun

MARK = "tfevents"
"""Every event file has this in its name."""


class TensorboardTraining(TrainingLog):
    """Event files of TensorBoard, as TensorFlow, Keras, PyTorch and JAX write them: a file, or a folder, for each run.

    Measures are the scalars of a run, by their tags; those of a folder inside it, such as `validation`, by folder and
    tag: `validation/epoch_accuracy`. Times count from the first event, so that what the process did before it is not
    known. A last event that is not whole is a run that was cut off.
    """

    kind: Literal["tensorboard"] = "tensorboard"
    path: str = Field(
        description="An event file or the folder of a run, or a pattern over them, one a run: `runs/{seed}`. `{seed}` "
        "and `{workers}` in it stand for whole numbers, and tell those of each run."
    )
    samples: str | None = Field(None, description="Tag with the samples that were seen so far.")
    batch: int | None = Field(
        None,
        ge=1,
        description="Samples of a step, all workers together: counts samples where the log counts steps only.",
    )
    percent: bool = Field(False, description="Measures are logged in percent: they are divided by 100.")

    def logs(self, access: Access) -> tuple[LogFile, ...]:
        """Event files and folders of runs."""
        found = log_files(access, self.path, folders=True)
        for path in (path for one in found for path in _event_files(one)):
            access.path(str(path))
        return found

    def files(self, access: Access) -> tuple[Path, ...]:
        """The event files."""
        return tuple(path for one in self.logs(access) for path in _event_files(one))

    def runs(self, file: LogFile) -> Iterable[TrainingRun]:
        """The run of one file or folder."""
        inside, begun, torn = list[tuple[str, Scalar]](), list[float](), False
        for path in _event_files(file):
            relative = path.relative_to(file.path) if file.path.is_dir() else Path(path.name)
            name = file.name if file.path == path else f"{file.name}/{relative.as_posix()}"
            frames = Frames(LogFile(path, name).content(), name)
            folder = relative.parent.as_posix()
            for time_s, many in _read(frames, name):
                begun += [] if time_s is None else [time_s]
                inside += [(one.tag if folder == "." else f"{folder}/{one.tag}", one) for one in many]
            torn = torn or frames.torn
        start = min(begun, default=0.0)
        series: dict[str, list[Scalar]] = {}
        for tag, one in inside:
            series.setdefault(tag, []).append(one)
        _check_clock(file, series)
        seen = {one.step: one.value for one in self._seen(file, series)}
        every = [self._evaluation(tag, one, start, seen) for tag, many in series.items() for one in many]
        yield TrainingRun(
            file.name, tuple(sorted(every, key=lambda one: one.time_s or 0.0)), seed=file.seed, workers=file.workers,
            batch=self.batch,
            end_s=max(begun) - start if begun else None, status="cut" if torn or not begun else "ended",
        )  # fmt: skip

    def _seen(self, file: LogFile, series: dict[str, list[Scalar]]) -> Sequence[Scalar]:
        if self.samples is None or not series:
            return ()
        if self.samples not in series:
            message = f"{file.name} has no {self.samples!r}, which `samples:` names"
            raise InputError(message, choices=sorted(series), remedy="name the tag, or give `batch:`")
        return series.pop(self.samples)

    def _evaluation(self, tag: str, one: Scalar, start: float, seen: Mapping[int, float]) -> Evaluation:
        samples = seen.get(one.step)
        if samples is None and self.batch is not None:
            samples = float(one.step * self.batch)
        return Evaluation(tag, one.value / 100.0 if self.percent else one.value, one.time_s - start, one.step, samples)


def _event_files(log: LogFile) -> list[Path]:
    """Event files of a run, by folder and then in the order in which they were begun.

    Raises:
        InputError: There is none.
    """
    if not log.path.is_dir():
        return [log.path]
    inside = [path for path in log.path.rglob(f"*{MARK}*") if path.is_file()]
    if not inside:
        remedy = "name the folder of a run, in which there are files such as events.out.tfevents.1726000000.host"
        raise InputError(f"{log.name} holds no event files of TensorBoard", remedy=remedy)
    return sorted(inside)


def _read(frames: Frames, name: str) -> Iterator[tuple[float | None, list[Scalar]]]:
    """Events of a file.

    Raises:
        InputError: One of them is none.
    """
    for number, content in enumerate(frames, 1):
        try:
            time_s, many = scalars(content)
        except ValueError as error:
            message = f"event {number} of {name} is not one of TensorBoard: {error}"
            raise InputError(message, remedy="name files that TensorBoard itself can show") from error
        if many and len(content) > CHECKED_BYTES:
            frames.check()
        yield time_s, many


def _check_clock(file: LogFile, series: Mapping[str, Sequence[Scalar]]) -> None:
    """Refuse a tag whose times fall back: two runs wrote into one folder."""
    for tag, many in series.items():
        for before, after in pairwise(many):
            if after.time_s < before.time_s:
                message = f"in {file.name} the clock of {tag} goes back by {before.time_s - after.time_s:.3f} s"
                raise InputError(message, remedy="give each run a folder of its own")
