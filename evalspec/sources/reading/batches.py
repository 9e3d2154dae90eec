"""Rows some at a time, with the values and types that all of them together would have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from evalspec.errors import InputError
from evalspec.sources.reading.table import one_length, tidy

Raw = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Columns -> their batches as they stand in the file, from the first one on at each call."""


def tidied(raw: Raw, schema: pa.Schema, what: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of the rows that `tidy` would make of all of them.

    Whether lists have one length is known only when all were seen, so their columns are read twice.

    Args:
        raw: Gives the batches.
        schema: Columns wanted, with the types that they have in all files together.
        what: The files, in words.
        rows: Of a batch at most.

    Raises:
        InputError: A column is damaged, or its types in several files don't go together.
    """
    listed = [field.name for field in schema if _is_list(field.type)]
    lengths = list_lengths(raw(listed)) if listed else {}
    for batch in raw(schema.names):
        table = tidy(_as(batch, schema, what), lengths)
        yield from table.to_batches(max_chunksize=rows)


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


def list_lengths(batches: Iterable[pa.RecordBatch]) -> dict[str, int | None]:
    """Column of lists: the one length that they all have, or None.

    Args:
        batches: Of columns of lists.
    """
    lengths: dict[str, int | None] = {}
    names: set[str] = set()
    for batch in batches:
        names |= set(batch.schema.names)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if len(column):
                length = one_length(_lists(column))
                lengths[name] = length if lengths.get(name, length) == length else None
        if names and all(name in lengths and lengths[name] is None for name in names):
            break
    return lengths


def _lists(column: pa.Array) -> pa.ChunkedArray:
    while not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column.storage
    return pa.chunked_array([column])


def _is_list(kind: pa.DataType) -> bool:
    """`tidy` would make fixed-size lists of it, if they all had one length."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return False
    if isinstance(kind, pa.BaseExtensionType):
        return _is_list(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _is_list(kind.value_type)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    return bool(pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type))


def _as(batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.Table:
    """A batch with the types of all files together; dictionaries stay what they are."""
    columns = {}
    for field in schema:
        column = pa.chunked_array([batch.column(field.name)])
        if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type):
            column = column.cast(column.type.value_type)
        if not column.type.equals(field.type) and not pa.types.is_dictionary(column.type):
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"the files of {what} don't go together: column {field.name!r}: {reason}") from error
        columns[field.name] = column
    return pa.table(columns)
