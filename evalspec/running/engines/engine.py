"""Engines as whoever hands rows to them sees them: rows go in, what is made of them comes out, in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from evalspec.errors import EvalspecError
from evalspec.language.scans import Scan
from evalspec.running.children.leaf_journal import StateFiles
from evalspec.running.children.process import Limits
from evalspec.running.engines.choice import LOCAL, EngineChoice
from evalspec.running.engines.cluster import Needs
from evalspec.running.engines.stamps import Stamps


@dataclass(frozen=True, slots=True)
class PieceOutcome:
    """End of a piece, a leaf or a part: what was made of its rows, an error, or nothing, since it was lost.

    Args:
        number: Of the piece.
        rows: Rows that went by.
        blocks: Of a leaf the states of its summaries, in the order of the scans; of a part its file.
        told: What is said beside.
        written: Of a leaf: whoever has seen it has kept the states as well.
        error: What is wrong with the rows.
        lost: Why it was lost, in words; it may be seen to again.
    """

    number: int
    rows: int = 0
    blocks: Sequence[bytes] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    written: bool = False
    error: EvalspecError | None = None
    lost: str = ""


class RowEngine(Protocol):
    """Has something made of pieces, which are rows that follow each other, many at once.

    Each call raises an `EngineError` where the engine itself is gone.
    """

    slots: int
    """How many are at work at once, as far as that is known; at least one."""
    gone: Sequence[str]
    """Names of nodes that were lost."""

    def submit(self, number: int, start: int, stop: int) -> None:
        """Have some rows seen to; there are never more than `slots` on their way."""
        ...

    def finished(self) -> Sequence[PieceOutcome]:
        """Ends since; some engines wait for the first one, and may give up and return none."""
        ...

    def close(self) -> None:
        """Let go of all that still runs."""
        ...


class LeafEngine(RowEngine, Protocol):
    """Looks at leaves."""

    def aim(self, dataset: str, scans: Mapping[str, Scan], stamps: Stamps, files: StateFiles | None) -> None:
        """Look at leaves of this dataset from now on; none of another one is on its way.

        Args:
            dataset: Its name.
            scans: Key: what is to be seen.
            stamps: Of its files.
            files: Where processes of this machine may keep the states themselves; None: they are handed over.
        """
        ...


@dataclass(frozen=True, slots=True)
class LeafWork:
    """How leaves are looked at.

    Args:
        choice: The engine.
        folder: Of the run.
        name: What logs are called.
        limits: Of each child that looks at leaves; of a node's only the time.
        environment: Of the processes that look at leaves.
        keeps: Leaves that have ended are written down, and those that were are not looked at again.
        needs: What each takes of a node.
    """

    choice: EngineChoice = LOCAL
    folder: Path = field(default_factory=Path)
    name: str = ""
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)
    keeps: bool = True
    needs: Needs = field(default_factory=Needs)

    def log(self, which: object) -> Path:
        """A log."""
        return self.folder / "logs" / f"leaves-{self.name}-{which}.log"
