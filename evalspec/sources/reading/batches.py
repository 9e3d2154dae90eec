"""Rows some at a time, always cut at the same places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def evenly(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows, always so many at a time but for the last ones.

    How a file is cut into batches hangs on which columns are read: a dictionary ends with its row group.

    Args:
        batches: Of any sizes.
        rows: Of a batch.
    """
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - count)
            waiting.append(part)
            count += part.num_rows
            batch = batch.slice(part.num_rows)
            if count == rows:
                yield from _joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield from _joined(waiting)


def _joined(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return parts if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()
