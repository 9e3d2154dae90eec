"""Nodes of a cluster that answer parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalspec.running.engines.engine import LeafWork
from evalspec.running.engines.remote import DriverChild, RemoteEngine, error_of
from evalspec.running.parts.engine import PartEngine, PartOutcome
from evalspec.running.parts.part_job import PartJob


class RemoteParts(RemoteEngine[PartOutcome], PartEngine):
    """Nodes of a cluster, each with workers that hold the model.

    Args:
        job: What they are asked.
        work: How.
        on_wait: Called while parts are waited for; what it raises ends the wait.
        start: Starts a driver.
    """

    def __init__(
        self,
        job: PartJob,
        work: LeafWork,
        on_wait: Callable[[], None] | None = None,
        start: Callable[[LeafWork], DriverChild] | None = None,
    ) -> None:
        super().__init__(work, start)
        self._on_wait = on_wait
        self.job = job.packed

    def finished(self) -> Sequence[PartOutcome]:
        if self._on_wait is not None:
            self._on_wait()
        return super().finished()

    def outcome_of(self, told: Mapping[str, Any], blocks: Sequence[bytes]) -> PartOutcome:
        number = int(told["leaf"])
        if "lost" in told:
            return PartOutcome(number, lost=str(told["lost"]))
        if "error" in told:
            return PartOutcome(number, error=error_of(told))
        return PartOutcome(number, told["beside"], blocks[0])
