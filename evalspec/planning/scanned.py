"""Datasets that several children scan at once in a run, and those that one process scans, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.evidence.words import plural
from evalspec.language.header import Header
from evalspec.language.parts import Check, Dataset
from evalspec.language.scans import leaf_rows
from evalspec.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class ScannedDataset:
    """Dataset that checks scan.

    Args:
        name: Its name.
        leaves: Parts that it is cut into; None: not known before it is read.
        leaf_rows: Rows of each but the last.
        why_one: Why one process scans all of them; empty: the engine does.
    """

    name: str
    leaves: int | None
    leaf_rows: int
    why_one: str

    def line(self, scans: str) -> str:
        """For people.

        Args:
            scans: Beginning of a sentence about the engine.
        """
        if self.why_one:
            return f"one process scans {self.name}: {self.why_one}"
        if self.leaves is None:
            return f"{scans} {self.name}, unless it is one leaf: a run counts its rows"
        return f"{scans} {self.name}: {self.leaves:,} leaves of {self.leaf_rows:,} rows"


def scanned(plan: Plan, *, elsewhere: bool = False) -> Sequence[ScannedDataset]:
    """Datasets of checks that scan, in the order of the plan.

    Args:
        plan: The plan.
        elsewhere: The engine is a cluster, whose nodes don't have what a run keeps of small datasets.
    """
    scans = [one.datasets if type(one.check).scans is not Check.scans else one.check.passing for one in plan.checks]
    names = dict.fromkeys(name for one in scans for name in one)
    return [_scanned(name, plan.spec.datasets[name], plan.spec.headers.get(name), elsewhere) for name in names]


def _scanned(name: str, dataset: Dataset, header: Header | None, elsewhere: bool) -> ScannedDataset:
    rows = None if header is None else header.rows
    size = leaf_rows(rows if dataset.by_number else None)
    leaves = None if rows is None else max(1, -(-rows // size))
    why = ""
    if leaves == 1:
        why = f"{plural(size, 'row')} or fewer are one leaf"
    elif not dataset.rows_fit:
        why = "its rows are read as many at a time as memory holds"
    elif not dataset.by_number:
        why = f"rows of kind {dataset.kind} can't be read by their numbers"
    elif dataset.where is not None:
        why = "which rows its `where` leaves is known only when all before them were read"
    if why and leaves != 1 and dataset.rows_fit and not elsewhere:
        why = f"{why} (where they take 256 MiB or less, a run keeps them and several children do)"
    return ScannedDataset(name, leaves, size, why)
