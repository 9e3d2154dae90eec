"""Datasets that a check holds in memory with all their rows, where that is much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.evidence.words import plural
from evalspec.language.parts import Check
from evalspec.planning.plan import Plan, PlannedCheck

MUCH = 256 * 2**20
"""Bytes; of less nothing is said."""


@dataclass(frozen=True, slots=True)
class HeldDataset:
    """Dataset of which a check holds all rows.

    Args:
        check: Name of the check.
        dataset: Name of the dataset.
        rows: How many.
        bytes: Of its columns, at least.
    """

    check: str
    dataset: str
    rows: int
    bytes: int

    @property
    def line(self) -> str:
        """For people."""
        size = f"{self.bytes / 2**30:,.1f} GiB"
        return (
            f"{self.check} holds all rows of {self.dataset} in memory: {plural(self.rows, 'row')}, "
            f"with all columns {size} or more"
        )


def held(plan: Plan) -> Sequence[HeldDataset]:
    """Datasets that checks hold, of those whose headers tell how many rows they have, in the order of the plan."""
    found = []
    for one in plan.checks:
        for name in _whole(one, plan):
            header = plan.spec.headers.get(name)
            size = 0 if header is None else header.least_bytes()
            if header is not None and header.rows and size >= MUCH:
                found.append(HeldDataset(one.check.name, name, header.rows, size))
    return found


def _whole(planned: PlannedCheck, plan: Plan) -> list[str]:
    """Datasets that go by neither in scans nor before others; of rows in clusters, all are held even so."""
    check, datasets = planned.check, plan.spec.datasets
    by_scan = planned.datasets if type(check).scans is not Check.scans else check.passing
    return [name for name in planned.datasets if name not in by_scan or datasets[name].cluster is not None]
