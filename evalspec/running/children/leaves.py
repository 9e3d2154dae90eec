"""Leaves of datasets, looked at by several local children at once; what they keep is merged here, in the fixed tree."""

from __future__ import annotations

import base64
import contextlib
import pickle
import select
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import EvalspecError, WorkerError
from evalspec.language.scans import Scan, Summary, Tree
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf import as_state
from evalspec.running.children.messages import BLOCKS, Progress
from evalspec.running.children.process import Child, Limits
from evalspec.running.children.tables import Tables

AHEAD = 2
"""Leaves for each child that may be looked at before an earlier one is merged."""


@dataclass(frozen=True, slots=True)
class LeafChildren:
    """Children that look at leaves.

    Args:
        count: So many at once.
        logs: Folder of their logs.
        name: What their logs are called.
        limits: Of the whole that they work for; only the time holds for each of them.
        environment: Of theirs.
    """

    count: int
    logs: Path
    name: str
    limits: Limits
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Pass:
    """How far the leaves of a dataset have come.

    Args:
        waiting: Leaves that nobody looks at yet, in their order.
        packed: What is looked at, as a message holds it.
        kinds: The class of each scan's summary, and what is merged of it so far.
        done: States of leaves that come after one that is not merged yet.
        merged: Leaves that are merged.
        lost: Leaves whose child has died.
        errors: Leaf: what can't be looked at.
    """

    waiting: deque[int]
    packed: str
    kinds: Sequence[tuple[type[Summary], Tree]]
    done: dict[int, Sequence[bytes]] = field(default_factory=dict)
    merged: int = 0
    lost: set[int] = field(default_factory=set)
    errors: dict[int, EvalspecError] = field(default_factory=dict)

    def next(self, most: int) -> int | None:
        """The leaf to look at next, if it is none too far ahead, nor after one that can't be looked at."""
        if not self.waiting or self.waiting[0] >= min([self.merged + most, *self.errors]):
            return None
        return self.waiting.popleft()

    def merge(self) -> None:
        """Merge what is next in the order of the leaves."""
        while self.merged in self.done:
            for (kind, tree), block in zip(self.kinds, self.done.pop(self.merged), strict=True):
                tree.add(kind.restored(as_state(block)))
            self.merged += 1


class Leaves:
    """Looks at the leaves of datasets in several children at once."""

    def __init__(self, parts: SpecParts, how: LeafChildren, tables: Tables, progress: Progress) -> None:
        """``tables`` of the process that asks, of the same ``parts``."""
        self._parts, self._how, self._tables, self._progress = parts, how, tables, progress
        self._children: dict[int, Child] = {}
        self._knows: dict[int, str] = {}
        self._ends: dict[int, WorkerError] = {}

    def close(self) -> None:
        """Let the children go."""
        for place in list(self._children):
            self._let_go(place)
        self._ends.clear()

    def look(self, dataset: str, scans: Mapping[str, Scan]) -> dict[str, Summary]:
        """Key: the summary of the dataset, of those scans whose summaries can be merged.

        None are looked at where the dataset is a single leaf, or its rows can't be read from the middle.

        Args:
            dataset: Its name.
            scans: Key: what is to be seen.

        Raises:
            InputError: Rows can't be read, or hold what can't be looked at; of several leaves the first one's is told.
            WorkerError: A child died, and another one of the same leaf.
        """
        rows = self._tables.countable(dataset)
        size = self._tables.leaf_rows(dataset)
        if rows is None or rows <= size:
            return {}
        made = {key: scan.make() for key, scan in scans.items()}
        kinds = {key: type(one) for key, one in made.items() if isinstance(one, Summary)}
        if not kinds:
            return {}
        packed = base64.b64encode(pickle.dumps((dataset, {key: scans[key] for key in kinds}))).decode("ascii")
        trees = [(kind, Tree()) for kind in kinds.values()]
        state = _Pass(deque(range(-(-rows // size))), packed, trees)
        try:
            self._go(dataset, state, rows, size)
        except BaseException:
            self.close()
            raise
        ends = {key: tree.end() for key, (_, tree) in zip(kinds, trees, strict=True)}
        return {key: one for key, one in ends.items() if one is not None}

    def _go(self, dataset: str, state: _Pass, rows: int, size: int) -> None:
        count, flying = len(state.waiting), dict[int, int]()
        while True:
            for place in range(self._how.count):
                leaf = None if place in flying else state.next(AHEAD * self._how.count)
                if leaf is not None:
                    flying[place] = leaf
                    self._tell(place, state.packed, leaf * size, min(rows, (leaf + 1) * size))
            if not flying:
                break
            for place in self._ready(flying):
                self._take(place, flying.pop(place), state, dataset)
            state.merge()
            self._progress(float(state.merged), float(count), f"{dataset}: {state.merged} of {count} leaves")
        if state.errors:
            raise state.errors[min(state.errors)]

    def _tell(self, place: int, packed: str, start: int, stop: int) -> None:
        try:
            if not self._alive(place):
                self._let_go(place)
                self._children[place] = self._started(place)
            known = self._knows.get(place) == packed
            self._knows[place] = packed
            self._children[place].tell({"start": start, "stop": stop, "scans": "" if known else packed})
        except WorkerError as error:
            # Whoever takes its answer is told.
            self._ends[place] = error

    def _alive(self, place: int) -> bool:
        return place in self._children and self._children[place].alive

    def _let_go(self, place: int) -> None:
        self._knows.pop(place, None)
        if place in self._children:
            self._children.pop(place).close()

    def _ready(self, flying: Mapping[int, int]) -> list[int]:
        """Children that have answered, or have ended."""
        if self._ends:
            return list(self._ends)
        ready, _, _ = select.select([self._children[place] for place in flying], [], [])
        return [place for place in flying if self._children[place] in ready]

    def _take(self, place: int, leaf: int, state: _Pass, dataset: str) -> None:
        """Take a child's answer; a leaf whose child has died is looked at once more."""
        try:
            state.done[leaf] = self._answer(place)
        except EvalspecError as error:
            if self._alive(place):
                state.errors[leaf] = error
            elif leaf in state.lost:
                state.errors[leaf] = WorkerError(f"leaf {leaf + 1} of {dataset} was lost twice: {error}")
            else:
                state.lost.add(leaf)
                state.waiting.appendleft(leaf)
                self._note(f"leaf {leaf + 1} of {dataset} is scanned once more: {error}")

    def _note(self, line: str) -> None:
        """Write a line into a log of its own; the record says nothing of it, since it is the same."""
        with contextlib.suppress(OSError), self._log("lost").open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")

    def _log(self, which: object) -> Path:
        return self._how.logs / f"leaves-{self._how.name}-{which}.log"

    def _answer(self, place: int) -> Sequence[bytes]:
        if place in self._ends:
            raise self._ends.pop(place)
        blocks: Sequence[bytes] = self._children[place].answer()[BLOCKS]
        return blocks

    def _started(self, place: int) -> Child:
        return Child(
            "evalspec.running.children.leaf",
            self._parts,
            limits=Limits(time_s=self._how.limits.time_s),
            log=self._log(place + 1),
            environment=self._how.environment,
            secrets=self._parts.access.secrets,
        )
