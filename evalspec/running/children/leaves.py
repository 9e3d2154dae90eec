"""Leaves of datasets, looked at by an engine; what is kept of them is merged here, in the fixed tree."""

from __future__ import annotations

import contextlib
import time
from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evalspec.errors import EngineError, EvalspecError, WorkerError
from evalspec.evidence.words import duration
from evalspec.language.scans import Scan, Summary, Tree
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf import as_state
from evalspec.running.children.leaf_journal import LeafJournal, note_pass
from evalspec.running.children.messages import Progress
from evalspec.running.children.tables import Tables
from evalspec.running.engines.engine import LeafEngine, LeafOutcome, LeafWork, again_because, stopped
from evalspec.running.engines.node import versions
from evalspec.running.engines.stamps import Stamps, stamps_of

AHEAD = 2
"""Leaves for each that is looked at at once that may be looked at before an earlier one is merged."""


@dataclass
class _Pass:
    """How far the leaves of a dataset have come.

    Args:
        waiting: Leaves that nobody looks at yet, in their order.
        kinds: The class of each scan's summary, and what is merged of it so far.
        done: States of leaves that come after one that is not merged yet.
        merged: Leaves that are merged.
        lost: Leaves that were lost once.
        errors: Leaf: what can't be looked at.
    """

    waiting: deque[int]
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


@dataclass
class _Count:
    """Progress of a pass.

    Args:
        dataset: Its name.
        rows: Of the dataset.
        size: Rows of a leaf.
        begun_s: When it began.
        kept: Leaves that an earlier run had looked at.
        looked: Leaves that were looked at.
        looked_rows: Rows of these.
        again: Leaves that were looked at once more.
    """

    dataset: str
    rows: int
    size: int
    begun_s: float = field(default_factory=time.monotonic)
    kept: int = 0
    looked: int = 0
    looked_rows: int = 0
    again: int = 0

    @property
    def leaves(self) -> int:
        """Leaves of the dataset."""
        return -(-self.rows // self.size)

    def range_of(self, leaf: int) -> tuple[int, int]:
        """First row of a leaf, and the one after its last."""
        return leaf * self.size, min(self.rows, (leaf + 1) * self.size)

    def line(self, gone: Sequence[str]) -> str:
        """How far it has come, for people.

        Args:
            gone: Names of nodes that were lost.
        """
        done, spent_s = self.kept + self.looked, max(time.monotonic() - self.begun_s, 1e-9)
        said = f"{self.dataset}: {done:,} of {self.leaves:,} leaves"
        if self.looked:
            each_s = spent_s / self.looked
            said += f", {_short(self.looked_rows / spent_s)} rows/s, {duration((self.leaves - done) * each_s)} left"
        return said + again_because(self.again, gone)


class Leaves:
    """Looks at the leaves of datasets, each once, wherever they are looked at."""

    def __init__(
        self,
        parts: SpecParts,
        work: LeafWork,
        tables: Tables,
        progress: Progress,
        engine: LeafEngine | None = None,
    ) -> None:
        """Leaves of the datasets of a spec.

        Args:
            parts: Of the spec.
            work: How.
            tables: Of the process that asks, of the same ``parts``.
            progress: Told how far they have come.
            engine: Looks at them; None: the one that the work names.
        """
        # Rows that this machine keeps are not there for a node.
        self._tables = Tables(replace(parts, kept={})) if work.choice.address else tables
        self._parts, self._work, self._progress = parts, work, progress
        self._engine: LeafEngine = engine_of(parts, work) if engine is None else engine

    def close(self) -> None:
        """Let the engine go."""
        self._engine.close()

    def look(self, dataset: str, scans: Mapping[str, Scan]) -> dict[str, Summary]:
        """Key: the summary of the dataset, of those scans whose summaries can be merged.

        None are looked at where the dataset is a single leaf, or its rows can't be read from the middle.

        Args:
            dataset: Its name.
            scans: Key: what is to be seen.

        Raises:
            InputError: Rows can't be read, or hold what can't be looked at; of several leaves the first one's is told.
            WorkerError: A leaf was lost, and once more.
            EngineError: The engine is gone.
        """
        rows = self._tables.countable(dataset)
        size = self._tables.leaf_rows(dataset)
        if rows is None or rows <= size:
            return {}
        made = {key: scan.make() for key, scan in scans.items()}
        kinds = {key: type(one) for key, one in made.items() if isinstance(one, Summary)}
        if not kinds:
            return {}
        stamps = stamps_of(self._parts.datasets[dataset], self._parts.access)
        mergeable = {key: scans[key] for key in kinds}
        trees = [(kind, Tree()) for kind in kinds.values()]
        count = _Count(dataset, rows, size)
        state = _Pass(deque(range(count.leaves)), trees)
        journal = self._journal(mergeable, stamps, count)
        try:
            self._engine.aim(dataset, mergeable, stamps)
            self._go(state, count, journal)
        except BaseException:
            self.close()
            raise
        finally:
            journal.close()
            self._note(count)
        ends = {key: tree.end() for key, (_, tree) in zip(kinds, trees, strict=True)}
        return {key: one for key, one in ends.items() if one is not None}

    def _journal(self, scans: Mapping[str, Scan], stamps: Stamps, count: _Count) -> LeafJournal:
        part = self._parts.datasets[count.dataset]
        objects = [one.model_dump(mode="json") for one in part.stamps(self._parts.access)]
        # Without a stamp nothing says that rows stay the same.
        if not self._work.keeps or not (stamps or objects):
            return LeafJournal(self._work.folder, None, ())
        basis = [part.model_dump_json(), sorted(stamps.items()), objects, count.rows, count.size, versions()]
        keys = [(count.dataset, key, scan.columns) for key, scan in scans.items()]
        return LeafJournal(self._work.folder, basis, keys)

    def _go(self, state: _Pass, count: _Count, journal: LeafJournal) -> None:
        flying = set[int]()
        while True:
            try:
                self._send(state, count, journal, flying)
                outcomes = self._engine.finished() if flying else None
            except EngineError as error:
                raise self._stopped(error, count) from error
            if outcomes is None:
                break
            for one in outcomes:
                # One that was given up as lost may still answer: a leaf counts once.
                if one.leaf in flying:
                    flying.remove(one.leaf)
                    self._take(one, state, count, journal)
            state.merge()
            self._progress(float(count.kept + count.looked), float(count.leaves), count.line(self._engine.gone))
        if state.errors:
            raise state.errors[min(state.errors)]

    def _send(self, state: _Pass, count: _Count, journal: LeafJournal, flying: set[int]) -> None:
        """Have as many leaves looked at as can be; what an earlier run has kept is taken from there."""
        while (leaf := self._next(state, flying)) is not None:
            states = journal.get(leaf)
            if states is None:
                self._engine.submit(leaf, *count.range_of(leaf))
                flying.add(leaf)
                continue
            count.kept += 1
            state.done[leaf] = states
            state.merge()

    def _next(self, state: _Pass, flying: set[int]) -> int | None:
        slots = self._engine.slots
        return None if len(flying) >= slots else state.next(AHEAD * slots)

    def _take(self, one: LeafOutcome, state: _Pass, count: _Count, journal: LeafJournal) -> None:
        """Take what became of a leaf; one that was lost is looked at once more."""
        leaf, dataset = one.leaf, count.dataset
        first, stop = count.range_of(leaf)
        if one.lost and leaf in state.lost:
            state.errors[leaf] = WorkerError(f"leaf {leaf + 1} of {dataset} was lost twice: {one.lost}")
        elif one.lost:
            state.lost.add(leaf)
            insort(state.waiting, leaf)
            count.again += 1
            self._write("lost", f"leaf {leaf + 1} of {dataset} is scanned once more: {one.lost}")
        elif one.error is not None:
            state.errors[leaf] = one.error
        elif one.rows != stop - first:
            said = f"leaf {leaf + 1} of {dataset} gave {one.rows:,} rows in place of {stop - first:,}"
            state.errors[leaf] = WorkerError(f"{said}; its files changed while they were read")
        else:
            journal.put(leaf, one.states)
            state.done[leaf] = one.states
            count.looked += 1
            count.looked_rows += one.rows

    def _stopped(self, error: EngineError, count: _Count) -> EngineError:
        """The error with how far it has come."""
        done = count.kept + count.looked
        kept = f"{done:,} of {count.leaves:,} leaves of {count.dataset} are kept" if self._work.keeps else "it stopped"
        return stopped(error, kept)

    def _note(self, count: _Count) -> None:
        told = {
            "dataset": count.dataset, "leaves": count.looked, "kept": count.kept, "leaf_rows": count.size,
            "again": count.again, "lost": list(self._engine.gone),
        }  # fmt: skip
        note_pass(self._work.folder, told)

    def _write(self, which: str, line: str) -> None:
        """Write a line into a log of its own; what was measured does not show it, since it is the same."""
        with contextlib.suppress(OSError):
            path = self._work.log(which)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")


def engine_of(parts: SpecParts, work: LeafWork) -> LeafEngine:
    """The engine that some work names.

    Args:
        parts: Of the spec.
        work: How leaves are looked at.
    """
    if work.choice.address:
        from evalspec.running.engines.remote import RemoteLeaves

        return RemoteLeaves(parts, work)
    from evalspec.running.engines.local import LocalEngine

    return LocalEngine(parts, work)


def _short(rate: float) -> str:
    """A rate in a few letters."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if rate >= size:
            return f"{rate / size:.3g}{letter}"
    return f"{rate:.3g}"
