"""Passes over datasets in a child that runs several checks: one pass serves all that look at the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalspec.errors import EngineError, EvalspecError
from evalspec.language.scans import LEAF_ROWS, Scan, Watcher, one_pass

if TYPE_CHECKING:
    from evalspec.language.parts import Check
    from evalspec.language.scans import Batches
    from evalspec.running.children.leaves import Leaves

Ahead = tuple[tuple["Check", int], ...]
"""Checks that this child will be asked for later, each with its seed."""
MOST_BYTES = 512 * 2**20
"""Bytes that a pass may add to the child's resident size; beyond, growing watchers of other checks are given up."""


@dataclass
class _Kept:
    """A watcher that has seen all rows.

    Args:
        watcher: It.
        by: Checks that have not asked for it yet.
    """

    watcher: Watcher
    by: set[str]


@dataclass(frozen=True)
class Passes:
    """How rows go by.

    Args:
        batches: Rows of a dataset.
        leaf_rows: Rows of a leaf of a dataset.
        leaves: Looks at leaves in other processes; None: nobody does.
    """

    batches: Batches
    leaf_rows: Callable[[str], int] = lambda dataset: LEAF_ROWS
    leaves: Leaves | None = None

    def go(
        self, dataset: str, scans: Mapping[str, Scan], given_up: Callable[[], frozenset[str]] = frozenset
    ) -> dict[str, Watcher]:
        """As `one_pass`; what other processes can't look at goes by here."""
        merged: dict[str, Watcher] = {}
        if self.leaves is not None:
            merged |= self.leaves.look(dataset, scans)
        left = {key: scan for key, scan in scans.items() if key not in merged}
        if left:
            merged |= one_pass(dataset, left, self.batches, given_up, self.leaf_rows(dataset))
        return merged


class Scans:
    """Watchers that have seen rows for later checks, kept until these ask for them."""

    def __init__(self) -> None:
        self.ahead: Ahead = ()
        self._kept: dict[tuple[str, str], _Kept] = {}

    def expect(self, check: str, ahead: Ahead) -> None:
        """Begin a check that others will follow; let go of watchers that none of them wants."""
        self.ahead = ahead
        self._let_go({check, *(one.name for one, _ in ahead)})

    @property
    def kept(self) -> int:
        """Watchers that wait for a check."""
        return len(self._kept)

    def give(
        self, check: str, asked: Sequence[Scan], passes: Passes, others: Callable[[], Mapping[str, Sequence[Scan]]]
    ) -> list[Any]:
        """The watchers that a check asks for, once all rows went by.

        Args:
            check: Its name.
            asked: Its scans.
            passes: How rows go by.
            others: What the checks ahead want to see.

        Raises:
            InputError: Rows can't be read, or hold what it can't look at.
        """
        missing = [scan for scan in asked if (scan.dataset, scan.key) not in self._kept]
        theirs = others() if missing and self.ahead else {}
        for dataset in dict.fromkeys(scan.dataset for scan in missing):
            own = {scan.key: scan for scan in missing if scan.dataset == dataset}
            self._pass(dataset, check, own, theirs, passes)
        watchers = [self._kept[scan.dataset, scan.key].watcher for scan in asked]
        self._let_go({name for one in self._kept.values() for name in one.by} - {check})
        return watchers

    def _let_go(self, waiting: set[str]) -> None:
        for place, one in list(self._kept.items()):
            one.by &= waiting
            if not one.by:
                del self._kept[place]

    def _pass(
        self,
        dataset: str,
        check: str,
        own: Mapping[str, Scan],
        theirs: Mapping[str, Sequence[Scan]],
        passes: Passes,
    ) -> None:
        import pyarrow as pa

        by = {key: {check} for key in own}
        scans = dict(own)
        for name, wanted in theirs.items():
            for scan in wanted:
                if scan.dataset == dataset and (dataset, scan.key) not in self._kept:
                    scans.setdefault(scan.key, scan)
                    by.setdefault(scan.key, set()).add(name)
        others = frozenset(scans) - frozenset(own)
        try:
            watchers = passes.go(dataset, scans, _Guard(own, scans).given_up if others else frozenset)
        except (EvalspecError, pa.ArrowException) as error:
            if not others or isinstance(error, EngineError):
                raise
            # What other checks look at is theirs to tell.
            watchers = passes.go(dataset, own)
        for key, watcher in watchers.items():
            self._kept[dataset, key] = _Kept(watcher, by[key])


class _Guard:
    """Gives up other checks' watchers when memory gets full: growing ones first, then all, unless the check grows too.

    Args:
        own: What the check that runs looks at.
        scans: All that is looked at.
    """

    def __init__(self, own: Mapping[str, Scan], scans: Mapping[str, Scan]) -> None:
        self._others = frozenset(scans) - frozenset(own)
        self._growing = frozenset(key for key in self._others if scans[key].grows)
        self._grows = any(scan.grows for scan in own.values())
        self._begun = _resident_bytes()

    def given_up(self) -> frozenset[str]:
        added = _resident_bytes() - self._begun
        if added <= MOST_BYTES:
            return frozenset()
        return self._growing if self._grows or added <= 2 * MOST_BYTES else self._others


def _resident_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)
