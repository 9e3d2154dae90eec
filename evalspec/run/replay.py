"""Timings that were measured before, given back in the order in which a check asks for them."""

from __future__ import annotations

from pathlib import Path

from evalspec.errors import NotRunError
from evalspec.language.inputs import Samples, Schedule
from evalspec.run.messages import Progress
from evalspec.run.samples import read_samples


class Replay:
    """`evalspec.run.timing.Timing` over a file of samples."""

    def __init__(self, path: Path) -> None:
        """``path`` as `evalspec.run.samples.write_samples` wrote it."""
        self._left = read_samples(path) if path.exists() else []
        self.samples: tuple[Samples, ...] = tuple(self._left)

    def measure(self, schedule: Schedule, dataset: str, model: str, progress: Progress) -> list[Samples]:
        """The next processes.

        Raises:
            NotRunError: The file holds others, or none.
        """
        return self._next(schedule.processes, model)

    def measure_paired(
        self, schedule: Schedule, dataset: str, model: str, baseline: str, progress: Progress
    ) -> tuple[list[Samples], list[Samples]]:
        """The next pairs; as `measure`."""
        return self._next(schedule.processes, model), self._next(schedule.processes, baseline)

    def _next(self, count: int, model: str) -> list[Samples]:
        taken, self._left = self._left[:count], self._left[count:]
        if len(taken) < count or any(one.model != model for one in taken):
            raise NotRunError(f"the raw samples hold no {count} processes of {model} here")
        return taken
