"""Runs in a file store of MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Training
from evalspec.trainings.reading.run import COLUMNS, Evaluation, Status, TrainingRun, table_of

if TYPE_CHECKING:
    import pyarrow as pa

META = "meta.yaml"
STATUS: Mapping[int, Status] = {3: "ended", 4: "aborted", 5: "aborted"}
"""FINISHED, FAILED and KILLED; all others are runs that had not ended."""


class MlflowTraining(Training):
    """Runs of an experiment in a file store of MLflow, such as `mlruns/0`; each folder in it is a run.

    Times count from the start that MLflow noted. A run that was deleted is still on disk until it is purged, and
    counts: it was started.
    """

    kind: Literal["mlflow"] = "mlflow"
    path: str = Field(description="Folder of the experiment: mlruns/0.")
    seed: str = Field("seed", description="Parameter with the seed of a run, where there is one.")
    worker_count: str | None = Field(None, description="Parameter with the number of workers.")
    samples: str | None = Field(None, description="Metric with the samples that were seen so far.")
    batch: int | None = Field(
        None, ge=1, description="Samples of a step, all workers together: counts samples where runs count steps only."
    )
    percent: bool = Field(False, description="Measures are logged in percent: they are divided by 100.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """Files with metrics, parameters and facts of every run.

        Raises:
            InputError: There is no run.
        """
        found = [
            path
            for run in self._folders(access)
            for path in (run / META, *sorted((run / "metrics").rglob("*")), *sorted((run / "params").rglob("*")))
            if path.is_file()
        ]
        return tuple(access.path(str(path)) for path in found)

    def header(self, access: Access) -> Header:
        """Columns and rows; runs are read for it.

        Raises:
            InputError: There is no run, or one can't be read.
        """
        return Header(rows=self.read(access, ("run",)).num_rows, columns=dict(COLUMNS))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All evaluations of all runs, these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        runs = [self._run(folder) for folder in self._folders(access)]
        return table_of(runs, self, choose(columns, tuple(COLUMNS), repr(self.path)))

    def _folders(self, access: Access) -> list[Path]:
        root = access.path(self.path)
        folders = sorted(path.parent for path in root.glob(f"*/{META}")) if root.is_dir() else []
        if not folders:
            remedy = "name the folder of an experiment in a file store, such as mlruns/0"
            raise InputError(f"{self.path!r} holds no runs of MLflow", remedy=remedy)
        return [access.path(str(folder)) for folder in folders]

    def _run(self, folder: Path) -> TrainingRun:
        meta = _meta(folder)
        start = float(meta["start_time"])
        name = f"{folder.name[:8]} ({meta['run_name']})" if meta.get("run_name") else folder.name
        series = dict(_series(folder, start))
        samples = {one.step: one.value for one in series.pop(self.samples, ())} if self.samples else {}
        every = sorted((one for many in series.values() for one in many), key=lambda one: one.time_s or 0.0)
        seed, workers = _parameter(folder, self.seed), _parameter(folder, self.worker_count)
        end = meta.get("end_time")
        return TrainingRun(
            name, tuple(self._counted(one, samples) for one in every), seed=seed, workers=workers,
            end_s=None if not isinstance(end, int) else (end - start) / 1e3,
            status=STATUS.get(meta.get("status", 0), "cut"), batch=self.batch,
        )  # fmt: skip

    def _counted(self, one: Evaluation, samples: Mapping[int | None, float]) -> Evaluation:
        """An evaluation with its samples, on the scale of fractions."""
        seen = samples.get(one.step)
        if seen is None and self.batch is not None and one.step is not None:
            seen = float(one.step * self.batch)
        value = one.value / 100.0 if self.percent else one.value
        return Evaluation(one.metric, value, one.time_s, one.step, seen)


def _meta(folder: Path) -> Mapping[str, Any]:
    """Facts of a run.

    Raises:
        InputError: The file is damaged, or says no start.
    """
    try:
        meta = yaml.safe_load((folder / META).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{folder.name}/{META} can't be read: {type(error).__name__}") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("start_time"), int):
        raise InputError(f"{folder.name}/{META} does not say when the run started")
    return meta


def _series(folder: Path, start_ms: float) -> Iterator[tuple[str, list[Evaluation]]]:
    """Metrics of a run: lines with a time in milliseconds, a value and a step.

    Raises:
        InputError: A line is damaged, or the clock or the step goes back.
    """
    root = folder / "metrics"
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        name, many = path.relative_to(root).as_posix(), list[Evaluation]()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                time, value, step = line.split()[:3]
                many.append(Evaluation(name, float(value), (float(time) - start_ms) / 1e3, int(step)))
            except ValueError as error:
                message = f"line {number} of metrics/{name} of {folder.name} is not a time, a value and a step"
                raise InputError(message, remedy="copy the store again, as it was written") from error
            if len(many) > 1 and (many[-1].time_s or 0.0) < (many[-2].time_s or 0.0):
                raise InputError(f"in line {number} of metrics/{name} of {folder.name} the clock goes back")
        yield name, many


def _parameter(folder: Path, name: str | None) -> int | None:
    """A parameter that is a whole number; None: it is not there.

    Raises:
        InputError: It is something else.
    """
    path = folder / "params" / name if name is not None else None
    if path is None or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8").strip()
    if not text.isascii() or not text.isdecimal():
        raise InputError(f"the parameter {name!r} of {folder.name} is {text[:40]!r}: expected a whole number")
    return int(text)
