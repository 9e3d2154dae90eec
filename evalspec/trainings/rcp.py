"""Reference convergence points of MLPerf Training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from evalspec.errors import InputError
from evalspec.trainings.reading.files import LogFile
from evalspec.trainings.reading.log import TrainingLog
from evalspec.trainings.reading.run import Evaluation, TrainingRun

BATCH, SAMPLES, EPOCHS = "BS", "samples to converge", "Epochs to converge"
LARGEST = 1e18


class RcpTraining(TrainingLog):
    """Reference convergence points of MLPerf: `rcps_*.json`, as the package mlperf-logging has them.

    A point is what one run of the reference took to the target of its benchmark. Points know neither times nor
    measures: another training's samples are held against those of its own batch size, interpolated between two of
    them, and never extrapolated.
    """

    kind: Literal["rcp"] = "rcp"
    path: str = Field(description="The file: rcps_llama31_8b.json.")
    epoch: float | None = Field(
        None,
        gt=0,
        description="Samples of an epoch, where points are counted in epochs; 1 where `Epochs to converge` lists "
        "samples, as for llama31_8b.",
    )

    def runs(self, file: LogFile) -> Iterable[TrainingRun]:
        """The points of one file, a run each."""
        try:
            records = json.loads(file.text())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file.name} is not JSON") from error
        if not isinstance(records, dict) or not records or not all(isinstance(one, dict) for one in records.values()):
            raise InputError(f"{file.name} holds no reference points: expected records by name, as in rcps_*.json")
        batches: dict[int, str] = {}
        for name, record in records.items():
            batch = _batch(file, name, record)
            other = batches.setdefault(batch, name)
            if other != name:
                raise InputError(f"{file.name} has two records of the batch size {batch}: {other} and {name}")
            for number, samples in enumerate(self._points(file, name, record), 1):
                point = Evaluation("", 0.0, samples=samples)
                yield TrainingRun(f"{name} {number}", (point,), batch=batch, status="point")

    def _points(self, file: LogFile, name: str, record: Mapping[str, Any]) -> Iterator[float]:
        """Samples of the points of a record."""
        key = SAMPLES if SAMPLES in record else EPOCHS
        points = record.get(key)
        if not isinstance(points, list) or not points or not all(_positive(one) for one in points):
            raise InputError(f"{name} of {file.name} has no list of numbers above 0 as {EPOCHS!r} or {SAMPLES!r}")
        if key == EPOCHS and self.epoch is None:
            message = f"{name} of {file.name} lists {EPOCHS!r}, and the spec does not say how many samples an epoch has"
            raise InputError(message, remedy="write `epoch:`, or `epoch: 1` if the list counts samples all the same")
        yield from (float(one) * (1.0 if key == SAMPLES else self.epoch or 1.0) for one in points)


def _batch(file: LogFile, name: str, record: Mapping[str, Any]) -> int:
    batch = record.get(BATCH)
    if isinstance(batch, bool) or not isinstance(batch, int) or not 0 < batch < 2**63:
        raise InputError(f"{name} of {file.name} has {batch!r} as its batch size ({BATCH!r}): expected a whole number")
    return batch


def _positive(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 < value < LARGEST
