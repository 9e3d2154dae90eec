"""A child that looks at leaves of datasets, one after the other, and hands over what it keeps of each."""

from __future__ import annotations

import base64
import contextlib
import pickle
from dataclasses import asdict
from typing import TYPE_CHECKING

from evalspec.language.parts import BATCH_ROWS
from evalspec.language.scans import Summary, columns_of
from evalspec.running.children.child import Handler
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf_journal import StateFile
from evalspec.running.children.messages import BLOCKS, Message, Progress
from evalspec.running.children.tables import Tables
from evalspec.running.engines.stamps import Stamps, unchanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from evalspec.language.scans import Scan


def start(parts: SpecParts) -> Handler:
    """The handler of this child."""
    parts.spare_pandas()
    looker: Looker | None = None
    file: StateFile | None = None
    stamps: Stamps = {}

    def handle(question: Message, progress: Progress) -> Message:
        """States of the summaries of a leaf, in the order of the scans, or where they are kept."""
        nonlocal looker, file, stamps
        if "scans" in question:
            # It comes from the process that started this one, over a socket that nobody else has.
            dataset, scans, files, stamps = pickle.loads(base64.b64decode(question["scans"]))
            looker = Looker(parts, dataset, scans)
            if file is not None:
                file.close()
            file = None
            with contextlib.suppress(OSError):
                file = None if files is None else StateFile(files)
        assert looker is not None
        rows, states = looker.look(int(question["start"]), int(question["stop"]))
        # What was read of other files than those of the plan is nothing to go on with.
        if file is not None and unchanged(stamps):
            try:
                places = file.add(int(question["number"]), rows, states)
                return {"rows": rows, "places": [asdict(one) for one in places]}
            except OSError:
                file = None
        return {"rows": rows, BLOCKS: states}

    return handle


class Looker:
    """Looks at leaves of a dataset.

    Args:
        parts: Of the spec.
        dataset: Its name.
        scans: Key: what is to be seen.
    """

    def __init__(self, parts: SpecParts, dataset: str, scans: Mapping[str, Scan]) -> None:
        self._scans = scans
        self._between = Tables(parts).between(dataset, columns_of(scans.values()))

    def look(self, start: int, stop: int) -> tuple[int, list[memoryview]]:
        """Rows of a leaf that went by, and the states of its summaries, in the order of the scans.

        Args:
            start: The leaf's first row.
            stop: The row after its last.
        """
        from evalspec.sources.reading.batches import evenly

        first = start
        summaries = [(scan.columns, _made(scan)) for scan in self._scans.values()]
        for batch in evenly(self._between(start, stop), BATCH_ROWS):
            for columns, summary in summaries:
                summary.update(batch if columns is None else batch.select(list(columns)), first)
            first += batch.num_rows
        return first - start, [as_bytes(summary.state()) for _, summary in summaries]


def _made(scan: Scan) -> Summary:
    summary = scan.make()
    assert isinstance(summary, Summary)
    return summary


def as_bytes(state: pa.Table) -> memoryview:
    """A state as a stream of Arrow."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, state.schema) as writer:
        writer.write_table(state)
    return memoryview(sink.getvalue())


def as_state(block: bytes) -> pa.Table:
    """The state that `as_bytes` wrote."""
    import pyarrow as pa

    return pa.ipc.open_stream(block).read_all()
