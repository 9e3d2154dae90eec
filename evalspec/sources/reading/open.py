"""A dataset as the checks see it: read, ``where`` applied, label and clusters looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.arrow import array_of, column_of
from evalspec.errors import InputError, did_you_mean
from evalspec.evidence.words import plural
from evalspec.language.header import choose
from evalspec.language.parts import BATCH_ROWS, Access, Dataset
from evalspec.language.where import Where, mask, parse_where


@dataclass(frozen=True, slots=True)
class Opened:
    """A dataset that was read.

    Args:
        table: The rows for which ``where`` holds; at least one.
        rows: Rows before ``where``.
        unknown: Rows of which ``where`` says nothing, since a column that it needs is missing there; they are left out.
    """

    table: pa.Table
    rows: int
    unknown: int


def open_dataset(dataset: Dataset, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of a dataset for which its ``where`` holds: the table of `open_counted`."""
    return open_counted(dataset, access, columns).table


def open_counted(dataset: Dataset, access: Access, columns: Sequence[str] | None = None) -> Opened:
    """Rows of a dataset for which its ``where`` holds, and what became of the others.

    Args:
        dataset: A dataset of the spec.
        access: Where it may be read from.
        columns: Columns wanted; label, key and cluster come along. None: all.

    Raises:
        InputError: It can't be read, a column isn't there, labels or clusters are missing, or no row is left.
    """
    where, marked, wanted, read = _columns(dataset, access, columns)
    table = dataset.read(access, read)
    rows, unknown = table.num_rows, 0
    if where is not None:
        chosen = mask(table, where)
        unknown = chosen.missing
        table = table.filter(column_of(chosen.inside))
    if columns is not None:
        table = table.select(wanted)
    if not table.num_rows:
        raise _nothing(dataset, rows)
    for what in ("label", "cluster"):
        name = marked[what]
        if name is not None:
            _refuse_missing(table, name, what)
    return Opened(table=table, rows=rows, unknown=unknown)


def open_batches(
    dataset: Dataset, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
) -> Batches:
    """The rows of `open_dataset`, some at a time, none of the batches empty.

    Args:
        dataset: A dataset of the spec.
        access: Where it may be read from.
        columns: Columns wanted; label, key and cluster come along. None: all.
        rows: Of a batch at most.

    Raises:
        InputError: As `open_counted`; about rows when their batch is asked for.
    """
    return Batches(dataset, access, columns, rows)


def open_between(
    dataset: Dataset, access: Access, columns: Sequence[str] | None = None
) -> Callable[[int, int], Iterator[pa.RecordBatch]]:
    """Reader of some of the rows of `open_batches`: first, and the one after the last -> these rows.

    Args:
        dataset: A dataset of the spec without ``where``, whose rows go by number.
        access: Where it may be read from.
        columns: As for `open_batches`.

    Raises:
        InputError: As `open_batches`.
    """
    _, marked, wanted, read = _columns(dataset, access, columns)
    between = dataset.between(access, read)

    def reader(start: int, stop: int) -> Iterator[pa.RecordBatch]:
        first = start
        for batch in between(start, stop):
            batch = batch if columns is None else batch.select(wanted)
            _refuse_missing_in(batch, marked, first)
            first += batch.num_rows
            yield batch

    return reader


class Batches:
    """Goes through the rows of a dataset once. What became of the others is known when all batches were asked for.

    Args:
        rows: Rows before ``where``, so far.
        unknown: Rows of which ``where`` says nothing, so far.
    """

    def __init__(self, dataset: Dataset, access: Access, columns: Sequence[str] | None, rows: int) -> None:
        self.rows = 0
        self.unknown = 0
        self._dataset = dataset
        self._where, self._marked, self._wanted, read = _columns(dataset, access, columns)
        self._every = columns is None
        self._batches = self._kept(dataset.batches(access, read, rows))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Itself."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """The next rows."""
        return next(self._batches)

    def _kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = 0
        for batch in batches:
            first, inside = self.rows, None
            self.rows += batch.num_rows
            if self._where is not None:
                chosen = mask(pa.Table.from_batches([batch]), self._where)
                self.unknown += chosen.missing
                inside = chosen.inside
                batch = batch.filter(column_of(inside))
            if not self._every:
                batch = batch.select(self._wanted)
            _refuse_missing_in(batch, self._marked, first, inside)
            kept += batch.num_rows
            if batch.num_rows:
                yield batch
        if not kept:
            raise _nothing(self._dataset, self.rows)


def _refuse_missing_in(
    batch: pa.RecordBatch, marked: Mapping[str, str | None], first: int, inside: NDArray[np.bool_] | None = None
) -> None:
    """Refuse rows without label or cluster: the first of them, so that the sentence does not hang on the batch.

    Args:
        batch: Rows.
        marked: Columns that mean something.
        first: Number of the first row of the batch that was read.
        inside: Which rows of that batch these are; None: all.
    """
    missing: list[tuple[int, str, str]] = []
    for what in ("label", "cluster"):
        name = marked[what]
        if name is not None:
            rows = np.flatnonzero(missing_values(pa.chunked_array([batch.column(name)])))
            missing += [(int(row), what, name) for row in rows[:1]]
    for row, what, name in sorted(missing, key=lambda one: one[0])[:1]:
        number = row if inside is None else int(np.flatnonzero(inside)[row])
        raise _missing(name, what, f"row {first + number:,} (rows are counted from 0)")


def _columns(
    dataset: Dataset, access: Access, columns: Sequence[str] | None
) -> tuple[Where | None, dict[str, str | None], list[str], list[str] | None]:
    """Parsed ``where``, columns that mean something, columns wanted, and columns to read (None: all).

    Raises:
        InputError: A column that means something isn't there.
    """
    where = parse_where(dataset.where) if dataset.where else None
    marked = {"label": dataset.label, "key": dataset.key, "cluster": dataset.cluster}
    there = list(dataset.header(access).columns)
    for what, name in marked.items():
        if name is not None and name not in there:
            raise InputError(f"there is no {what} column {name!r}", choices=there, remedy=did_you_mean(name, there))
    wanted = there if columns is None else [*columns, *(name for name in marked.values() if name is not None)]
    wanted = list(dict.fromkeys(wanted))
    needed = where.columns if where else ()
    return where, marked, wanted, None if columns is None else list(dict.fromkeys([*wanted, *needed]))


def _nothing(dataset: Dataset, rows: int) -> InputError:
    left = f"`where: {dataset.where}` matches none of its {plural(rows, 'row')}" if rows else "it has no rows"
    return InputError(f"there are no rows left: {left}")


def rows_at(batches: Iterable[pa.RecordBatch], rows: Sequence[int]) -> dict[int, pa.Table]:
    """Some rows of those that go by, each as a table of its own; no more batches are asked for than that takes.

    Args:
        batches: From the first row on.
        rows: Their numbers.

    Raises:
        InputError: There are fewer than when these were numbered.
    """
    found: dict[int, pa.Table] = {}
    wanted, first = sorted(set(rows)), 0
    for batch in batches if wanted else ():
        here = [row for row in wanted if first <= row < first + batch.num_rows]
        found |= {row: pa.Table.from_batches([batch.slice(row - first, 1)]) for row in here}
        first += batch.num_rows
        if first > wanted[-1]:
            return found
    if wanted:
        raise InputError(f"there is no row {wanted[-1]:,} any more: the rows change while they are read")
    return found


def missing_values(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which values are missing: null, or NaN.

    Returns:
        shape (n,).
    """
    is_float = pa.types.is_floating(column.type)
    return array_of(pc.is_null(column, nan_is_null=is_float))


def _refuse_missing(table: pa.Table, name: str, what: str) -> None:
    missing = int(missing_values(table.column(name)).sum())
    if missing:
        raise _missing(name, what, f"{missing:,} of {plural(table.num_rows, 'row')}")


def _missing(name: str, what: str, where: str) -> InputError:
    return InputError(
        f"{what} column {name!r} is missing (null or NaN) in {where}",
        remedy=f"drop them with `where: {name} is not None`, or fill them in",
    )


def clusters(table: pa.Table, column: str) -> NDArray[np.int64]:
    """Clusters of rows, as codes 0..k-1 in the order of first appearance.

    Returns:
        shape (n,).

    Raises:
        InputError: The column isn't there, or is missing in some rows: what these share with others is unknown.
    """
    choose([column], table.column_names, "the dataset")
    _refuse_missing(table, column, "cluster")
    values = table.column(column).combine_chunks()
    return np.asarray(pc.dictionary_encode(values).indices.to_numpy()).astype(np.int64)
