"""Children of this machine that see to pieces of a dataset, each to one at a time."""

from __future__ import annotations

import base64
import pickle
import select
import time
from collections.abc import Callable, Mapping, Sequence

from evalspec.errors import EvalspecError, WorkerError
from evalspec.language.scans import Scan
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf_journal import StateFiles, StatePlace
from evalspec.running.children.messages import BLOCKS, Message
from evalspec.running.children.process import Child
from evalspec.running.engines.engine import LeafEngine, LeafWork, PieceOutcome, RowEngine
from evalspec.running.engines.stamps import Stamps

WAIT_S = 1.0


class LocalEngine(RowEngine):
    """Several children; one that has ended is replaced when the next piece comes.

    Args:
        start: Starts a child, for a place among them.
        slots: How many.
        asked: What each is asked, but for the rows.
        first: A child that is there, and that is not ended with the others; None: there is none.
        on_wait: Called while pieces are waited for; what it raises ends the wait.
    """

    def __init__(
        self,
        start: Callable[[int], Child],
        slots: int,
        asked: Mapping[str, object],
        first: Child | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        self.slots = slots
        self.gone: Sequence[str] = ()
        self._start, self._asked, self._first, self._on_wait = start, asked, first, on_wait
        self._children: dict[int, Child] = {} if first is None else {0: first}
        self._flying: dict[int, tuple[int, float]] = {}
        """Place of a child: its piece, and when it was asked."""
        self._lost: dict[int, str] = {}
        """Place of a child that has ended with its piece, and why."""

    def question(self, child: Child) -> Message:
        """Question to a child, but for the rows."""
        return dict(self._asked)

    def submit(self, number: int, start: int, stop: int) -> None:
        place = next(place for place in range(self.slots) if place not in self._flying)
        self._flying[place] = number, time.monotonic()
        try:
            child = self._child(place)
            child.tell({**self.question(child), "number": number, "start": start, "stop": stop})
        except WorkerError as error:
            # Whoever takes its answer is told.
            self._lost[place] = str(error)

    def finished(self) -> Sequence[PieceOutcome]:
        if self._on_wait is not None:
            self._on_wait()
        waiting = {place: self._children[place] for place in self._flying if place not in self._lost}
        ready, _, _ = select.select(waiting.values(), [], [], 0.0 if self._lost else WAIT_S)
        for place, child in waiting.items():
            if child not in ready:
                try:
                    child.watch(self._flying[place][1])
                except WorkerError as error:
                    self._lost[place] = str(error)
        ended = [place for place in self._flying if place in self._lost or self._children[place] in ready]
        return [self._outcome(place) for place in ended]

    def close(self) -> None:
        for place, child in self._children.items():
            # The first one is somebody else's, unless it is at work on what nobody waits for.
            if child is not self._first or place in self._flying:
                child.close()
        self._children.clear()
        self._flying.clear()
        self._lost.clear()

    def _child(self, place: int) -> Child:
        child = self._children.get(place)
        if child is None or not child.alive:
            if child is not None:
                child.close()
            child = self._children[place] = self._start(place)
        return child

    def _outcome(self, place: int) -> PieceOutcome:
        number, _ = self._flying.pop(place)
        if place in self._lost:
            return PieceOutcome(number, lost=self._lost.pop(place))
        child = self._children[place]
        try:
            answer = child.answer()
        except EvalspecError as error:
            return PieceOutcome(number, error=error) if child.alive else PieceOutcome(number, lost=str(error))
        return self.outcome(number, answer)

    def outcome(self, number: int, answer: Message) -> PieceOutcome:
        """Outcome of a piece, as a child tells it."""
        blocks = answer.pop(BLOCKS)
        return PieceOutcome(number, answer["rows"], blocks, answer)


class LocalLeaves(LocalEngine, LeafEngine):
    """Children that look at leaves.

    Args:
        parts: Of the spec.
        work: How.
    """

    def __init__(self, parts: SpecParts, work: LeafWork) -> None:
        def start(place: int) -> Child:
            return Child(
                "evalspec.running.children.leaf", parts, limits=work.limits, log=work.log(place + 1),
                environment=work.environment, secrets=parts.access.secrets,
            )  # fmt: skip

        super().__init__(start, work.choice.children, {})
        self._aimed = set[Child]()
        """Children that know what the leaves are looked at for."""
        self._files: StateFiles | None = None
        self._target: tuple[str, dict[str, Scan], Stamps] = "", {}, {}

    def aim(self, dataset: str, scans: Mapping[str, Scan], stamps: Stamps, files: StateFiles | None) -> None:
        self._target = dataset, dict(scans), stamps
        self._tell(files)

    def outcome(self, number: int, answer: Message) -> PieceOutcome:
        if "places" not in answer:
            return super().outcome(number, answer)
        places = [[StatePlace(**one)] for one in answer["places"]]
        blocks = None if self._files is None else self._files.states(number, answer["rows"], places)
        if blocks is None:
            if self._files is not None:
                # From now on children hand all over.
                self._tell(None)
            return PieceOutcome(number, lost="the file with its states is not as it was written")
        return PieceOutcome(number, answer["rows"], blocks, written=True)

    def _tell(self, files: StateFiles | None) -> None:
        dataset, scans, stamps = self._target
        self._asked = {"scans": base64.b64encode(pickle.dumps((dataset, scans, files, stamps))).decode("ascii")}
        self._aimed.clear()
        self._files = files

    def question(self, child: Child) -> Message:
        """The scans, which each child is told once."""
        known = child in self._aimed
        self._aimed.add(child)
        return {} if known else super().question(child)
