"""Runs made of rows with named columns: of JSON lines, and of CSV files."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from pydantic import Field

from evalspec.errors import InputError, did_you_mean
from evalspec.trainings.reading.files import LogFile
from evalspec.trainings.reading.log import TrainingLog
from evalspec.trainings.reading.run import Evaluation, TrainingRun

EPOCH_S = 1e8
"""A time from here on is one of day, in seconds since 1970: no run takes three years."""
PLACED = ("run", "time", "step", "samples", "seed", "workers", "energy")
T = TypeVar("T")


class RowsLog(TrainingLog):
    """Runs in rows; a subclass says how a file is cut into rows."""

    time: str | None = Field(
        None,
        description="Column with seconds since the process began, with seconds since 1970, or with a date and time.",
    )
    step: str | None = Field("step", description="Column with the step of the optimizer, where there is one.")
    samples: str | None = Field(None, description="Column with the samples that were seen so far.")
    batch: int | None = Field(
        None,
        ge=1,
        description="Samples of a step, all workers together: counts samples where the log counts steps only.",
    )
    seed: str | None = Field("seed", description="Column with the seed of the run, where there is one.")
    run: str | None = Field(None, description="Column that names the run, where a file holds several.")
    worker_count: str | None = Field(None, description="Column with the number of workers.")
    energy: str | None = Field(None, description="Column with the joules that were taken so far.")
    percent: bool = Field(False, description="Measures are logged in percent: they are divided by 100.")

    def runs_of(
        self, file: LogFile, rows: Sequence[tuple[int, Mapping[str, object]]], *, cut: bool
    ) -> list[TrainingRun]:
        """Runs of the rows of a file.

        Args:
            file: The file.
            rows: Line: column: value, a number, a text, or None.
            cut: Its last line is not whole.

        Raises:
            InputError: A column that the spec names is not there, or holds no numbers.
        """
        self._check_columns(file, {name for _, row in rows for name in row})
        groups: dict[str, list[tuple[int, Mapping[str, object]]]] = {}
        for line, row in rows:
            name = file.name if self.run is None else f"{file.name}: {self._named(file, line, row)}"
            groups.setdefault(name, []).append((line, row))
        return [self._run(file, name, many, cut=cut and many[-1] == rows[-1]) for name, many in groups.items()] or [
            TrainingRun(file.name, (), seed=file.seed, workers=file.workers, status="cut")
        ]

    def _check_columns(self, file: LogFile, there: set[str]) -> None:
        named = {"time": self.time, "samples": self.samples, "run": self.run, "worker_count": self.worker_count,
                 "energy": self.energy}  # fmt: skip
        named |= {key: getattr(self, key) for key in ("step", "seed") if key in self.model_fields_set}
        for key, column in named.items():
            if column is not None and there and column not in there:
                remedy = did_you_mean(column, there)
                raise InputError(
                    f"{file.name} has no {column!r}, which `{key}:` names", choices=sorted(there), remedy=remedy
                )

    def _named(self, file: LogFile, line: int, row: Mapping[str, object]) -> str:
        name = row.get(self.run or "")
        if name is None:
            raise InputError(f"line {line} of {file.name} does not say to which run it belongs ({self.run!r} is empty)")
        return str(name)

    def _run(
        self, file: LogFile, name: str, rows: Sequence[tuple[int, Mapping[str, object]]], *, cut: bool
    ) -> TrainingRun:
        seed = self._constant(file, rows, self.seed, "seed")
        workers = self._constant(file, rows, self.worker_count, "number of workers")
        times = [None if self.time is None else _time(file, line, self.time, row.get(self.time)) for line, row in rows]
        known = [one for one in times if one is not None]
        absolute = bool(known) and known[0] >= EPOCH_S
        begun = known[0] if absolute else 0.0
        aside = {getattr(self, "worker_count" if key == "workers" else key, None) for key in PLACED}
        evaluations: list[Evaluation] = []
        for (line, row), at in zip(rows, times, strict=True):
            step = _whole(file, line, self.step, row)
            samples = _real(file, line, self.samples, row)
            if samples is None and step is not None and self.batch is not None:
                samples = float(step) * self.batch
            evaluations += [
                Evaluation(
                    metric, value / 100.0 if self.percent else value, None if at is None else at - begun, step, samples,
                    _real(file, line, self.energy, row),
                )
                for metric, value in _measures(row, aside)
            ]  # fmt: skip
        return TrainingRun(
            name, tuple(evaluations),
            seed=file.seed if seed is None else seed, workers=file.workers if workers is None else workers,
            # A log that counts from the start of its process has nothing before it.
            before_s=None if absolute or not known else 0.0,
            end_s=max(known) - begun if known else None, status="cut" if cut else "ended", batch=self.batch,
        )  # fmt: skip

    def _constant(
        self, file: LogFile, rows: Sequence[tuple[int, Mapping[str, object]]], column: str | None, what: str
    ) -> int | None:
        """A whole number that all rows of a run share.

        Raises:
            InputError: It changes, so that there are two runs.
        """
        values = [(line, one) for line, row in rows if (one := _whole(file, line, column, row)) is not None]
        other = next(((line, one) for line, one in values if one != values[0][1]), None)
        if other is not None:
            change = f"from {values[0][1]} to {other[1]} in line {other[0]}"
            message = f"{file.name} holds two runs: the {what} changes {change}"
            raise InputError(
                message, remedy="give each run a file, or name the column that tells them apart with `run:`"
            )
        return values[0][1] if values else None


def _measures(row: Mapping[str, object], aside: set[str | None]) -> Iterable[tuple[str, float]]:
    """Measures of a row: all that are numbers and have no other meaning."""
    for name, value in row.items():
        if name not in aside and isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)


def _real(file: LogFile, line: int, column: str | None, row: Mapping[str, object]) -> float | None:
    value = None if column is None else row.get(column)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputError(f"line {line} of {file.name} has {value!r} for {column!r}: expected a number, 0 or more")
    return float(value)


def _whole(file: LogFile, line: int, column: str | None, row: Mapping[str, object]) -> int | None:
    value = _real(file, line, column, row)
    if value is None:
        return None
    if value != int(value) or value >= 2**63:
        raise InputError(f"line {line} of {file.name} has {value:g} for {column!r}: expected a whole number")
    return int(value)


def _time(file: LogFile, line: int, column: str, value: object) -> float | None:
    """Seconds of a number, or of a date with a time."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            read = datetime.datetime.fromisoformat(value)
        except ValueError as error:
            message = f"line {line} of {file.name} has {value[:40]!r} for {column!r}: expected a time"
            raise InputError(message, remedy="log seconds, or a date and time such as 2026-11-26T08:00:00Z") from error
        return (read if read.tzinfo is not None else read.replace(tzinfo=datetime.UTC)).timestamp()
    return _real(file, line, column, {column: value})
