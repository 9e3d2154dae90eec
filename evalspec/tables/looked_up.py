"""Rows that are looked up in those of another dataset while they go by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evalspec.language.scans import Scan, Watcher

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.inputs import Inputs

MOST_SENT = 4_000_000
"""Rows of the other dataset that each process is handed a copy of; more stay in one process."""
MOST_SENT_BYTES = 16 * 2**20
"""Likewise, of its texts; what they are looked up by takes several times as many."""


class Alone:
    """A summary that stays in its process; a `Watcher`."""

    def __init__(self, make: Callable[[], Watcher]) -> None:
        self.summary = make()

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows."""
        self.summary.update(batch, first_row)


def looked_up(inputs: Inputs, scan: Scan, rows: int) -> Any:
    """The summary of a scan, by leaves where the rows that it looks up are few enough to be handed on.

    Args:
        inputs: What gives the rows.
        scan: Of summaries.
        rows: That each of them holds, of the other dataset.

    Raises:
        InputError: Rows can't be read, or hold what can't be looked at.
    """
    if rows <= MOST_SENT:
        return inputs.scan([scan])[0]
    return inputs.scan([replace(scan, make=partial(Alone, scan.make))])[0].summary
