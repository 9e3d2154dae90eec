"""Answers of a model to a dataset, part by part, wherever: each part once, kept as soon as it is whole."""

from __future__ import annotations

import time
from bisect import insort
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalspec.answers.again import ROWS, UNLIKE
from evalspec.errors import EngineError, EvalspecError, InputError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import duration, plural
from evalspec.running.children.messages import Progress
from evalspec.running.engines.engine import again_because, stopped
from evalspec.running.parts.cut import Cut
from evalspec.running.parts.engine import PartEngine, PartOutcome
from evalspec.running.parts.kept import KeptParts

ALIKE = ("framework", "provider", "precision", "device", "threads")
"""What was observed of a model that must be the same wherever it answers."""
SAME = ("version", "classes", "mask_shape", "extracted_as")
"""What is said beside the answers of a part that must be the same for all."""
SUMS = ("padded_rows", ROWS, UNLIKE)


@dataclass
class _State:
    """How far the parts have come.

    Args:
        waiting: Parts that nobody answers yet, in their order.
        flying: Parts that somebody answers.
        errors: Part: what can't be answered.
        answered: Parts that were answered now.
    """

    waiting: deque[int]
    flying: set[int] = field(default_factory=set)
    errors: dict[int, EvalspecError] = field(default_factory=dict)
    answered: int = 0

    def next(self) -> int | None:
        """The part to answer next; none that comes after one that can't be answered."""
        if not self.waiting or any(one < self.waiting[0] for one in self.errors):
            return None
        return self.waiting.popleft()


class PartAnswers:
    """Has the parts of a dataset answered that are not kept.

    Args:
        what: Model and dataset, for sentences.
        cut: Of the dataset.
        kept: Parts that are on disk.
        engine: Answers parts.
        observed: What was observed of the model in a process of this machine.
        progress: Told how far they have come.
    """

    def __init__(
        self,
        what: str,
        cut: Cut,
        kept: KeptParts,
        engine: PartEngine,
        observed: Mapping[str, Any],
        progress: Progress,
    ) -> None:
        self._what, self._cut, self._kept, self._observed = what, cut, kept, observed
        self._engine, self._progress = engine, progress
        self._lost: set[int] = set()
        self._begun_s = time.monotonic()

    @property
    def again(self) -> int:
        """Parts that were lost, and answered once more."""
        return len(self._lost)

    def answer(self) -> None:
        """Have all parts answered.

        Raises:
            InputError: Rows can't be answered; of several parts the first one's is told.
            WorkerError: A part was lost, and once more.
            EngineError: The engine is gone.
            WriteError: A part can't be written.
        """
        state = _State(deque(number for number in range(self._cut.parts) if number not in self._kept.parts))
        try:
            self._go(state)
        except EngineError as error:
            done = f"{len(self._kept.parts):,} of {self._cut.parts:,} parts of the {self._what} are kept"
            raise stopped(error, done) from error
        if state.errors:
            raise state.errors[min(state.errors)]

    def _go(self, state: _State) -> None:
        while True:
            while len(state.flying) < self._engine.slots and (number := state.next()) is not None:
                state.flying.add(number)
                self._engine.submit(number, *self._cut.range_of(number))
            if not state.flying:
                return
            self._progress(float(len(self._kept.parts)), float(self._cut.parts), self._line(state))
            for one in self._engine.finished():
                # One that was given up as lost may still answer: a part counts once.
                if one.number in state.flying:
                    state.flying.remove(one.number)
                    self._take(one, state)

    def _take(self, one: PartOutcome, state: _State) -> None:
        """Take what became of a part; one that was lost is answered once more."""
        number, rows = one.number, self._cut.words(one.number)
        first, stop = self._cut.range_of(number)
        if one.lost and number in self._lost:
            state.errors[number] = WorkerError(f"no {self._what} for {rows}: they were lost twice: {one.lost}")
        elif one.lost:
            self._lost.add(number)
            insort(state.waiting, number)
        elif one.error is not None:
            state.errors[number] = type(one.error)(f"no {self._what} for {rows}: {one.error}")
        elif one.told["rows"] != stop - first:
            said = f"{one.told['rows']:,} answers to {rows} of the {self._what}; the files changed meanwhile"
            state.errors[number] = WorkerError(said)
        elif (other := self._otherwise(one.told)) is not None:
            state.errors[number] = InputError(f"no {self._what} for {rows}: {other}")
        else:
            self._kept.put(number, one.told, one.file)
            state.answered += 1

    def _otherwise(self, told: Mapping[str, Any]) -> str | None:
        """Difference to this machine's process, or to other parts, in words; None: there is none."""
        for name in ALIKE:
            mine, theirs = self._observed.get(name), told["observed"].get(name)
            if mine != theirs:
                return f"the model ran with {name} {theirs}, and here with {mine}; install the same on every node"
        for one in self._kept.parts.values():
            differing = next((name for name in SAME if told["told"].get(name) != one["told"].get(name)), None)
            return None if differing is None else f"their {differing} are not those of other rows"
        return None

    def _line(self, state: _State) -> str:
        """How far it has come, for people."""
        done, parts = len(self._kept.parts), self._cut.parts
        said = f"{done:,} of {parts:,} parts"
        if state.answered:
            left_s = (parts - done) * (time.monotonic() - self._begun_s) / state.answered
            said += f", {duration(left_s)} left"
        return said + again_because(self.again, self._engine.gone)


def listed(cut: Cut, kept: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All parts as their list has them.

    Args:
        cut: Of the dataset.
        kept: Number: what was said beside it.
    """
    ranges = [cut.range_of(number) for number in range(cut.parts)]
    return [
        {"first_row": first, "rows": stop - first, "sha256": kept[number]["sha256"], "cpu": kept[number]["cpu"]}
        for number, (first, stop) in enumerate(ranges)
    ]


def facts_of(parts: Sequence[Mapping[str, Any]]) -> dict[str, Cell]:
    """Facts about all answers, as a process that answers them alone tells them.

    Args:
        parts: What was said beside each.
    """
    facts = [one["facts"] for one in parts]
    sums = {name: sum(one[name] for one in facts if name in one) for name in SUMS if any(name in one for one in facts)}
    return {"batch": facts[0]["batch"], **sums}


def observed_in(parts: Sequence[Mapping[str, Any]]) -> dict[str, Cell]:
    """Observed facts of the model, with facts about its answers.

    Args:
        parts: What was said beside each.
    """
    kinds = Counter(str(one["cpu"]) for one in parts)
    on = ", ".join(f"{kind} ({plural(count, 'part')})" for kind, count in sorted(kinds.items()))
    mixed = {"answered_on_several": f"{len(kinds)} kinds of CPU, whose last bits may differ"} if len(kinds) > 1 else {}
    return {**parts[0]["observed"], **facts_of(parts), "parts": len(parts), "answered_on": on, **mixed}
