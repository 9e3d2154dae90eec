"""Leaves of datasets, looked at by an engine; what is kept of them is merged here, in the fixed tree."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalspec.errors import EvalspecError, WorkerError
from evalspec.language.scans import Scan, Summary, Tree
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf import as_state
from evalspec.running.children.leaf_journal import LeafJournal, note_pass
from evalspec.running.children.messages import Progress
from evalspec.running.children.tables import Tables
from evalspec.running.engines.engine import LeafEngine, LeafWork, PieceOutcome, RowEngine
from evalspec.running.engines.node import versions
from evalspec.running.engines.pieces import Cut, Pieces
from evalspec.running.engines.stamps import Stamps, stamps_of, unchanged
from evalspec.running.files import sha256_of

AHEAD = 2
"""Leaves for each that is looked at at once that may be looked at before an earlier one is merged."""


class LeafStates:
    """States of leaves, merged in the fixed tree.

    Args:
        kinds: The class of each scan's summary.
    """

    def __init__(self, kinds: Sequence[type[Summary]]) -> None:
        self.merged = 0
        """Leaves that are merged: all before the first one that is not there."""
        self._trees = [(kind, Tree()) for kind in kinds]
        self._waiting: dict[int, Sequence[bytes]] = {}

    def add(self, leaf: int, states: Sequence[bytes]) -> None:
        """Add the states of a leaf, in the order of the scans; they are merged when those of all before it are."""
        self._waiting[leaf] = states
        while self.merged in self._waiting:
            for (kind, tree), block in zip(self._trees, self._waiting.pop(self.merged), strict=True):
                tree.add(kind.restored(as_state(block)))
            self.merged += 1

    def ends(self) -> list[Summary | None]:
        """Summaries of all rows."""
        return [tree.end() for _, tree in self._trees]


class LeafPieces(Pieces):
    """Leaves of a dataset.

    Args:
        dataset: Its name.
        cut: Of its rows.
        states: Takes what was seen.
        journal: Has what an earlier run has seen, and takes what is seen now.
        stamps: Of the dataset's files when the pass began.
        engine: Looks at leaves.
        work: How.
        progress: Told how far they have come.
    """

    kind = "leaves"

    def __init__(
        self,
        dataset: str,
        cut: Cut,
        states: LeafStates,
        journal: LeafJournal,
        stamps: Stamps,
        engine: RowEngine,
        work: LeafWork,
        progress: Progress,
    ) -> None:
        super().__init__(cut, range(cut.pieces), engine, progress)
        self.of, self.title = dataset, f"{dataset}: "
        self._states, self._journal, self._stamps, self._work = states, journal, stamps, work

    @property
    def kept_words(self) -> str:
        return super().kept_words if self._work.keeps else "it stopped"

    def next(self) -> int | None:
        """The leaf to look at next, none too far ahead; what an earlier run has kept is taken from there."""
        while self.waiting and self.waiting[0] < self._states.merged + AHEAD * self.engine.slots:
            leaf = super().next()
            kept = None if leaf is None else self._journal.get(leaf, self.cut.rows_of(leaf))
            if leaf is None or kept is None:
                return leaf
            self.kept += 1
            self._states.add(leaf, kept)
        return None

    def again(self, one: PieceOutcome) -> None:
        """Have a leaf looked at once more; a log of its own says it, since what was measured is the same."""
        super().again(one)
        with contextlib.suppress(OSError):
            path = self._work.log("lost")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as log:
                log.write(f"leaf {one.number + 1} of {self.of} is scanned once more: {one.lost}\n")

    def error_of(self, one: PieceOutcome) -> EvalspecError | None:
        leaf, rows = f"leaf {one.number + 1} of {self.of}", self.cut.rows_of(one.number)
        if one.lost:
            return WorkerError(f"{leaf} was lost twice: {one.lost}")
        if one.error is None and one.rows != rows:
            said = f"{leaf} gave {one.rows:,} rows in place of {rows:,}"
            return WorkerError(f"{said}; its files changed while they were read")
        return one.error

    def keep(self, one: PieceOutcome) -> None:
        # What was read of other files than those of the plan is nothing to go on with.
        if not one.written and unchanged(self._stamps):
            self._journal.put(one.number, one.rows, one.blocks)
        self._states.add(one.number, one.blocks)


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
        cut, states = Cut(rows, size), LeafStates([*kinds.values()])
        journal = self._journal(mergeable, [*kinds.values()], stamps, dataset, cut)
        leaves = LeafPieces(dataset, cut, states, journal, stamps, self._engine, self._work, self._progress)
        try:
            self._engine.aim(dataset, mergeable, stamps, journal.files)
            leaves.run()
        except BaseException:
            self.close()
            raise
        finally:
            journal.close()
            self._note(leaves)
        return {key: one for key, one in zip(kinds, states.ends(), strict=True) if one is not None}

    def _journal(
        self, scans: Mapping[str, Scan], kinds: Sequence[type[Summary]], stamps: Stamps, dataset: str, cut: Cut
    ) -> LeafJournal:
        part = self._parts.datasets[dataset]
        objects = [one.model_dump(mode="json") for one in part.stamps(self._parts.access)]
        # Without a stamp nothing says that rows stay the same.
        if not self._work.keeps or not (stamps or objects):
            return LeafJournal(self._work.folder, None, ())
        read = self._parts.digests.get(dataset)
        basis = [part.model_dump_json(), sorted(stamps.items()), objects, read, cut.rows, cut.size, versions()]
        keys = [_key(dataset, scan, kind) for scan, kind in zip(scans.values(), kinds, strict=True)]
        return LeafJournal(self._work.folder, basis, keys)

    def _note(self, leaves: LeafPieces) -> None:
        told = {
            "dataset": leaves.of, "leaves": leaves.seen, "kept": leaves.kept, "leaf_rows": leaves.cut.size,
            "again": len(leaves.lost), "lost": list(self._engine.gone),
        }  # fmt: skip
        note_pass(self._work.folder, told)


def _key(dataset: str, scan: Scan, kind: type[Summary]) -> bytes:
    """Digest of all that a scan makes of rows: what it looks for may come from another dataset, or from a file."""
    module = getattr(sys.modules.get(kind.__module__), "__file__", None)
    code = sha256_of(Path(module)) if module and Path(module).is_file() else ""
    # Each by itself: whether two of them share an object is nothing that a key may hang on.
    parts = [pickle.dumps(one) for one in (dataset, scan.key, scan.columns, scan.make, code)]
    return hashlib.sha256(pickle.dumps(parts)).digest()


def engine_of(parts: SpecParts, work: LeafWork) -> LeafEngine:
    """The engine that some work names.

    Args:
        parts: Of the spec.
        work: How leaves are looked at.
    """
    if work.choice.address:
        from evalspec.running.engines.remote import RemoteLeaves

        return RemoteLeaves(parts, work)
    from evalspec.running.engines.local import LocalLeaves

    return LocalLeaves(parts, work)
