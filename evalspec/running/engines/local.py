"""Children of this process that look at leaves."""

from __future__ import annotations

import base64
import pickle
import select
import time
from collections.abc import Mapping, Sequence

from evalspec.errors import EvalspecError, WorkerError
from evalspec.language.scans import Scan
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.messages import BLOCKS
from evalspec.running.children.process import Child, Limits
from evalspec.running.engines.engine import LeafEngine, LeafOutcome, LeafWork
from evalspec.running.engines.stamps import Stamps

WAIT_S = 1.0


class LocalEngine(LeafEngine):
    """Several children, each with one leaf at a time.

    Args:
        parts: Of the spec.
        work: How.
    """

    def __init__(self, parts: SpecParts, work: LeafWork) -> None:
        self.slots = work.choice.children
        self.gone: Sequence[str] = ()
        self._parts, self._work = parts, work
        self._packed = ""
        self._children: dict[int, Child] = {}
        self._knows: dict[int, str] = {}
        self._flying: dict[int, tuple[int, float]] = {}
        """Place of a child: its leaf, and when it was asked."""
        self._ends: dict[int, WorkerError] = {}

    def aim(self, dataset: str, scans: Mapping[str, Scan], stamps: Stamps) -> None:
        self._packed = base64.b64encode(pickle.dumps((dataset, dict(scans)))).decode("ascii")

    def submit(self, leaf: int, start: int, stop: int) -> None:
        place = next(place for place in range(self.slots) if place not in self._flying)
        self._flying[place] = leaf, time.monotonic()
        try:
            if not self._alive(place):
                self._let_go(place)
                self._children[place] = self._started(place)
            known = self._knows.get(place) == self._packed
            self._knows[place] = self._packed
            question = {"start": start, "stop": stop, "scans": "" if known else self._packed}
            self._children[place].tell(question)
        except WorkerError as error:
            # Whoever takes its answer is told.
            self._ends[place] = error

    def finished(self) -> Sequence[LeafOutcome]:
        return [self._outcome(place, self._flying.pop(place)[0]) for place in self._ready()]

    def close(self) -> None:
        for place in list(self._children):
            self._let_go(place)
        self._ends.clear()
        self._flying.clear()

    def _alive(self, place: int) -> bool:
        return place in self._children and self._children[place].alive

    def _let_go(self, place: int) -> None:
        self._knows.pop(place, None)
        if place in self._children:
            self._children.pop(place).close()

    def _ready(self) -> list[int]:
        """Children that have answered, have ended, or take too long."""
        if self._ends:
            return list(self._ends)
        ready, _, _ = select.select([self._children[place] for place in self._flying], [], [], WAIT_S)
        late = time.monotonic() - self._work.limits.time_s
        return [place for place, (_, since) in self._flying.items() if self._children[place] in ready or since < late]

    def _outcome(self, place: int, leaf: int) -> LeafOutcome:
        try:
            if place in self._ends:
                raise self._ends.pop(place)
            # One that is late has no more time.
            ready, _, _ = select.select([self._children[place]], [], [], 0)
            answer = self._children[place].answer(time_s=None if ready else 0.0)
        except EvalspecError as error:
            if self._alive(place):
                return LeafOutcome(leaf, error=error)
            return LeafOutcome(leaf, lost=str(error))
        return LeafOutcome(leaf, answer["rows"], answer[BLOCKS])

    def _started(self, place: int) -> Child:
        return Child(
            "evalspec.running.children.leaf",
            self._parts,
            limits=Limits(time_s=self._work.limits.time_s),
            log=self._work.log(place + 1),
            environment=self._work.environment,
            secrets=self._parts.access.secrets,
        )
