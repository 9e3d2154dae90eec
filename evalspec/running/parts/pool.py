"""Workers of this machine, each of which holds the model and answers one part at a time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalspec.errors import EvalspecError, WorkerError
from evalspec.running.children.messages import BLOCKS
from evalspec.running.children.process import Child
from evalspec.running.parts.engine import PartEngine, PartOutcome

WAIT_S = 1.0


class WorkerPool(PartEngine):
    """Several workers; one that has ended is replaced when the next part comes.

    Args:
        start: Starts a worker, for a place among them.
        first: A worker that is there, and that is not ended with the others.
        question: What each is asked, but for the rows.
        slots: How many.
        on_wait: Called while parts are waited for; what it raises ends the wait.
    """

    def __init__(
        self,
        start: Callable[[int], Child],
        first: Child,
        question: Mapping[str, Any],
        slots: int,
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        self.slots = slots
        self.gone: Sequence[str] = ()
        self._start, self._first, self._question, self._on_wait = start, first, question, on_wait
        self._children: dict[int, Child] = {0: first}
        self._flying: dict[int, tuple[int, float]] = {}
        """Place of a worker: its part, and until when it may take."""
        self._ends: dict[int, WorkerError] = {}

    def submit(self, number: int, start: int, stop: int) -> None:
        place = next(place for place in range(self.slots) if place not in self._flying)
        try:
            child = self._worker(place)
            self._flying[place] = number, time.monotonic() + child.limits.time_s
            child.tell({**self._question, "start": start, "stop": stop})
        except WorkerError as error:
            # Whoever takes its answer is told.
            self._flying[place] = number, 0.0
            self._ends[place] = error

    def finished(self) -> Sequence[PartOutcome]:
        return [self._outcome(place) for place in self._ready()]

    def close(self) -> None:
        for child in self._children.values():
            # The first one is somebody else's, unless it is at work on what nobody waits for.
            if child is not self._first or self._flying:
                child.close()
        self._children.clear()
        self._flying.clear()

    def _worker(self, place: int) -> Child:
        child = self._children.get(place)
        if child is None or not child.alive:
            if child is not None:
                child.close()
            child = self._children[place] = self._start(place)
        return child

    def _ready(self) -> list[int]:
        """Workers that have answered, have ended, take too long, or too much memory."""
        if self._ends:
            return list(self._ends)
        if self._on_wait is not None:
            self._on_wait()
        ready, _, _ = select.select([self._children[place] for place in self._flying], [], [], WAIT_S)
        now = time.monotonic()
        for place in self._flying:
            try:
                self._children[place].watch_memory()
            except WorkerError as error:
                self._ends[place] = error
        over = {place for place, (_, until_s) in self._flying.items() if now > until_s} | set(self._ends)
        return [place for place in self._flying if self._children[place] in ready or place in over]

    def _outcome(self, place: int) -> PartOutcome:
        number, _ = self._flying.pop(place)
        try:
            if place in self._ends:
                raise self._ends.pop(place)
            child = self._children[place]
            ready, _, _ = select.select([child], [], [], 0)
            if not ready:
                child.kill()
                raise WorkerError(f"{child.role} did not answer within {child.limits.time_s:g} s and was killed")
            answer = child.answer()
        except EvalspecError as error:
            if place in self._children and self._children[place].alive:
                return PartOutcome(number, error=error)
            return PartOutcome(number, lost=str(error))
        (file,) = answer.pop(BLOCKS)
        return PartOutcome(number, answer, file)
