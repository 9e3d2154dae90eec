"""Pieces of a dataset, its leaves or parts: each is seen to once, wherever, and once more where it was lost."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from bisect import insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from evalspec.errors import EngineError, EvalspecError
from evalspec.evidence.words import duration
from evalspec.running.children.messages import Progress
from evalspec.running.engines.engine import PieceOutcome, RowEngine


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut of a dataset into pieces.

    Args:
        rows: Of the dataset.
        size: Rows of each piece but the last.
        elsewhere: Nodes of a cluster can read the rows of a piece.
    """

    rows: int
    size: int
    elsewhere: bool = False

    @property
    def pieces(self) -> int:
        """How many there are."""
        return -(-self.rows // self.size)

    def range_of(self, number: int) -> tuple[int, int]:
        """First row of a piece, and the one after its last."""
        return number * self.size, min(self.rows, (number + 1) * self.size)

    def rows_of(self, number: int) -> int:
        """Rows of a piece."""
        first, stop = self.range_of(number)
        return stop - first

    def words(self, number: int) -> str:
        """Rows of a piece, for a sentence."""
        first, stop = self.range_of(number)
        return f"rows {first:,} to {stop - 1:,}"


class Pieces(ABC):
    """Has an engine see to pieces.

    Of several that can't be seen to the first one is told: those before it are waited for, none after it is begun.

    Args:
        cut: Of the dataset.
        numbers: Pieces that are to be seen to, in their order.
        engine: Sees to them.
        progress: Told how far they have come.
    """

    kind = "pieces"
    """What they are called."""
    of = "the dataset"
    """What they are of, for a sentence."""
    title = ""
    """Begin of a line of progress."""

    def __init__(self, cut: Cut, numbers: Iterable[int], engine: RowEngine, progress: Progress) -> None:
        self.cut, self.engine, self._progress = cut, engine, progress
        self.waiting = deque(numbers)
        """Pieces that nobody sees to yet, in their order."""
        self.kept = cut.pieces - len(self.waiting)
        """Pieces that an earlier run had seen to."""
        self.seen = 0
        """Pieces that were seen to now."""
        self.lost = set[int]()
        """Pieces that were lost once."""
        self.errors: dict[int, EvalspecError] = {}
        """Piece: why it can't be seen to."""
        self._rows = 0
        self._begun_s = time.monotonic()

    @abstractmethod
    def error_of(self, one: PieceOutcome) -> EvalspecError | None:
        """Error of a piece that was lost twice, or came to something wrong; None: nothing is wrong."""

    @abstractmethod
    def keep(self, one: PieceOutcome) -> None:
        """Keep what was made of a piece."""

    @property
    def kept_words(self) -> str:
        """Clause on how much is kept, for the error of an engine that is gone."""
        return f"{self.kept + self.seen:,} of {self.cut.pieces:,} {self.kind} of {self.of} are kept"

    def run(self) -> None:
        """Have all seen to.

        Raises:
            EvalspecError: One can't be seen to; an `EngineError` where the engine is gone.
        """
        flying, whole = set[int](), list[PieceOutcome]()
        begun = False
        try:
            while True:
                try:
                    # Keeping what came takes time, in which nobody need be idle.
                    self._submit(flying)
                finally:
                    for one in whole:
                        self._keep(one)
                # What is kept may let more begin.
                self._submit(flying)
                if begun:
                    self._progress(float(self.kept + self.seen), float(self.cut.pieces), self._line())
                if not flying:
                    break
                begun = True
                # One that was given up as lost may still answer: a piece counts once.
                whole = []
                for one in self.engine.finished():
                    if one.number in flying:
                        flying.remove(one.number)
                        if self._is_whole(one):
                            whole.append(one)
        except EngineError as error:
            again = "start the cluster again, then pass --resume to go on"
            raise EngineError(f"{error}; {self.kept_words}: {again}") from error
        if self.errors:
            raise self.errors[min(self.errors)]

    def next(self) -> int | None:
        """The piece to see to next; none that comes after one that can't be seen to."""
        if not self.waiting or any(one <= self.waiting[0] for one in self.errors):
            return None
        return self.waiting.popleft()

    def again(self, one: PieceOutcome) -> None:
        """Have a piece that was lost seen to once more."""
        self.lost.add(one.number)
        insort(self.waiting, one.number)

    def _submit(self, flying: set[int]) -> None:
        while len(flying) < self.engine.slots and (number := self.next()) is not None:
            self.engine.submit(number, *self.cut.range_of(number))
            flying.add(number)

    def _is_whole(self, one: PieceOutcome) -> bool:
        if one.lost and one.number not in self.lost:
            self.again(one)
        elif (error := self.error_of(one)) is not None:
            self.errors[one.number] = error
        else:
            return True
        return False

    def _keep(self, one: PieceOutcome) -> None:
        self.keep(one)
        self.seen += 1
        self._rows += one.rows

    def _line(self) -> str:
        """How far they have come, for people."""
        done, spent_s = self.kept + self.seen, max(time.monotonic() - self._begun_s, 1e-9)
        said = f"{self.title}{done:,} of {self.cut.pieces:,} {self.kind}"
        if self.seen:
            left_s = (self.cut.pieces - done) * spent_s / self.seen
            said += f", {_short(self._rows / spent_s)} rows/s, {duration(left_s)} left"
        if not self.lost:
            return said
        gone = self.engine.gone
        why = f": {'node' if len(gone) == 1 else 'nodes'} {', '.join(gone[:3])} lost" if gone else ""
        return f"{said} ({len(self.lost)} again{why})"


def _short(rate: float) -> str:
    """A rate in a few letters."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if rate >= size:
            return f"{rate / size:.3g}{letter}"
    return f"{rate:.3g}"
