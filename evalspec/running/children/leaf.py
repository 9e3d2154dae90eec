"""A child that looks at leaves of datasets, one after the other, and hands over what it keeps of each."""

from __future__ import annotations

import base64
import pickle
from typing import TYPE_CHECKING

from evalspec.imports import arrow_without_pandas
from evalspec.language.parts import BATCH_ROWS
from evalspec.language.scans import Summary, columns_of
from evalspec.running.children.child import Handler
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.messages import BLOCKS, Message, Progress
from evalspec.running.children.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from evalspec.language.parts.dataset import Between
    from evalspec.language.scans import Scan


def start(parts: SpecParts) -> Handler:
    """The handler of this child."""
    arrow_without_pandas()
    return _Looker(parts).handle


class _Looker:
    """Looks at leaves of the dataset that it was told of last."""

    def __init__(self, parts: SpecParts) -> None:
        self._tables = Tables(parts)
        self._scans: Mapping[str, Scan] = {}
        self._between: Between | None = None

    def handle(self, question: Message, progress: Progress) -> Message:
        """States of the summaries of a leaf, in the order of the scans."""
        if question["scans"]:
            # It comes from the process that started this one, over a socket that nobody else has.
            dataset, self._scans = pickle.loads(base64.b64decode(question["scans"]))
            self._between = self._tables.between(dataset, columns_of(self._scans.values()))
        assert self._between is not None
        first = int(question["start"])
        summaries = [(scan.columns, _made(scan)) for scan in self._scans.values()]
        for batch in self._batches(first, int(question["stop"])):
            for columns, summary in summaries:
                summary.update(batch if columns is None else batch.select(list(columns)), first)
            first += batch.num_rows
        return {"rows": first, BLOCKS: [as_bytes(summary.state()) for _, summary in summaries]}

    def _batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        from evalspec.sources.reading.batches import evenly

        assert self._between is not None
        return evenly(self._between(start, stop), BATCH_ROWS)


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
