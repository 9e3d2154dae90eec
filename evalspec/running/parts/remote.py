"""Nodes of a cluster that answer parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evalspec.running.engines.engine import LeafWork
from evalspec.running.engines.remote import DriverChild, DriverLink, error_of
from evalspec.running.parts.engine import PartEngine, PartOutcome
from evalspec.running.parts.part_job import PartJob


class RemoteParts(PartEngine):
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
        self._link, self._on_wait = DriverLink(work, start), on_wait
        self._link.job = job.packed
        self.slots, self.gone = self._link.slots, self._link.gone

    def submit(self, number: int, start: int, stop: int) -> None:
        self._link.submit(number, start, stop)
        self.slots = self._link.slots

    def finished(self) -> Sequence[PartOutcome]:
        if self._on_wait is not None:
            self._on_wait()
        outcomes = []
        for told, blocks in self._link.finished():
            number = int(told["leaf"])
            if "lost" in told:
                outcomes.append(PartOutcome(number, lost=str(told["lost"])))
            elif "error" in told:
                outcomes.append(PartOutcome(number, error=error_of(told)))
            else:
                outcomes.append(PartOutcome(number, told["beside"], blocks[0]))
        self.slots, self.gone = self._link.slots, self._link.gone
        return outcomes

    def close(self) -> None:
        self._link.close()
