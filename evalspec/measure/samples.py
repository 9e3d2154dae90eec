"""Raw samples in a preallocated memory map: a kill loses nothing, and the disk is not waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import RecordError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Samples
from evalspec.language.timings import ANSWERED
from evalspec.measure.streams import StreamSink, read_streams, remove

if TYPE_CHECKING:
    from evalspec.language.streams import StreamedAnswer

MAGIC = "evalspec samples 2"
HEADER_BYTES = 4096
WORD = 8


def row_type(batch: int) -> np.dtype[Any]:
    """One query, all in words of 8 bytes. ``end`` is written last, so a row with an end is whole."""
    return np.dtype(
        [
            ("intended", "<i8"),
            ("sent", "<i8"),
            ("first", "<i8"),
            ("item", "<i8"),
            ("block", "<i8"),
            ("outcome", "<i8"),
            ("together", "<i8"),
            ("size", "<i8"),
            ("answers", "<f8", (batch,)),
            ("end", "<i8"),
        ]
    )


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of the map that a loop writes, by number of the query; an end over 0 is written last.

    Args:
        intended_ns, sent_ns, end_ns, outcome: One number a query.
        answer: First answer of a query.
    """

    intended_ns: memoryview[int]
    sent_ns: memoryview[int]
    end_ns: memoryview[int]
    outcome: memoryview[int]
    answer: memoryview[float]


class Sink:
    """Where the samples of one process go.

    Queries are planned first, many at once, so that a loop has only times to write. Rows that were planned and have
    no end are not there for a reader.

    Args:
        path: The file; it is written over.
        batch: Items of a query, or so many of them as the answers are kept of.
        capacity: Queries to make room for; it doubles when it is full, while planning.

    Raises:
        WorkerError: There is no room on the disk.
    """

    def __init__(self, path: Path, batch: int, capacity: int) -> None:
        self.path = path
        self.batch = batch
        self.count = 0
        """Queries planned or measured."""
        self.first = 0
        """Number of the first query that was planned last."""
        self._type = row_type(batch)
        self._header: dict[str, Any] = {"magic": MAGIC, "batch": batch, "warmup": 0}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(self._header_bytes())
        except OSError as error:
            raise self._no_room(error) from error
        self._rows = self._mapped(max(1, capacity))
        self._streams: StreamSink | None = None

    def plan(
        self,
        items: NDArray[np.int64],
        block: int | NDArray[np.int64],
        intended_ns: NDArray[np.int64] | None = None,
        sizes: NDArray[np.int64] | None = None,
    ) -> int:
        """Make rows for queries to come; touching them now spares the loop the page faults.

        Args:
            items: shape (q,), row of the first item of each.
            block: Index of the block, or shape (q,).
            intended_ns: shape (q,), from the start of measuring; None: known when they are sent.
            sizes: shape (q,), items of each; None: ``batch``.

        Returns:
            Number of the first of them.
        """
        first, stop = self.count, self.count + len(items)
        if stop > len(self._rows):
            self._rows = self._mapped(max(stop, 2 * len(self._rows)))
        rows = self._rows[first:stop]
        rows["item"], rows["block"], rows["together"] = items, block, 1
        rows["outcome"], rows["first"], rows["end"] = ANSWERED, 0, 0
        rows["answers"], rows["size"] = np.nan, self.batch if sizes is None else sizes
        if intended_ns is not None:
            rows["intended"] = intended_ns
        self.first, self.count = first, stop
        return first

    def record(
        self,
        query: int,
        *,
        sent_ns: int,
        end_ns: int,
        first_ns: int = 0,
        outcome: int = ANSWERED,
        answers: NDArray[np.float64] | None = None,
    ) -> None:
        """Record the outcome of a planned query.

        Args:
            query: Its number.
            sent_ns: From the start of measuring.
            end_ns: Of the answer, or of giving up; over 0.
            first_ns: First byte of the answer; 0: with the rest.
            outcome: Index into `evalspec.language.timings.OUTCOMES`.
            answers: shape (k,), or None where there are none; the first ``batch`` are kept.
        """
        row = self._rows[query]
        row["sent"], row["first"], row["outcome"] = sent_ns, first_ns, outcome
        if answers is not None:
            row["answers"][: len(answers)] = answers[: self.batch]
        row["end"] = end_ns

    def stream(self, query: int, answer: StreamedAnswer, origin_ns: int) -> None:
        """Keep a streamed answer beside the times of its query.

        Args:
            query: Its number.
            answer: Its pieces, tokens and text.
            origin_ns: Where times count from.

        Raises:
            WorkerError: There is no room on the disk.
        """
        if self._streams is None:
            self._streams = StreamSink(self.path)
        self._streams.keep(query, answer, origin_ns)

    def take_back(self, count: int) -> None:
        """Forget planned queries from this number on: they were not measured."""
        self._rows["end"][count : self.count] = 0
        self.count = count

    def columns(self) -> Columns:
        """For a loop; good until the next `plan`."""
        words = self._type.itemsize // WORD
        raw = self._rows.view(np.uint8).data
        numbers, answers = raw.cast("q"), raw.cast("d")
        offset = {name: self._type.fields[name][1] // WORD for name in self._type.names or () if self._type.fields}
        return Columns(
            intended_ns=numbers[offset["intended"] :: words],
            sent_ns=numbers[offset["sent"] :: words],
            end_ns=numbers[offset["end"] :: words],
            outcome=numbers[offset["outcome"] :: words],
            answer=answers[offset["answers"] :: words],
        )

    def rows(self, first: int, stop: int | None = None) -> NDArray[Any]:
        """Rows of queries as they stand in the map, of `row_type`; what is written there is kept."""
        return self._rows[first : self.count if stop is None else stop]

    def amend(self, query: int, *, outcome: int, answers: NDArray[np.float64] | None) -> None:
        """Amend the outcome of a query by what was found out after it was measured."""
        row = self._rows[query]
        row["outcome"] = outcome
        row["answers"] = np.nan
        if answers is not None:
            row["answers"][: len(answers)] = answers[: self.batch]

    def note(self, **facts: Any) -> None:
        """Write facts into the header, such as the count of warm-up queries."""
        self._header |= facts
        try:
            with self.path.open("r+b") as file:
                file.write(self._header_bytes())
        except OSError as error:
            raise self._no_room(error) from error

    def close(self) -> None:
        """Hand the rows over to the system."""
        if isinstance(self._rows, np.memmap):
            self._rows.flush()
        if self._streams is not None:
            self._streams.close()

    def _header_bytes(self) -> bytes:
        return json.dumps(self._header).encode().ljust(HEADER_BYTES)

    def _mapped(self, capacity: int) -> NDArray[Any]:
        size = HEADER_BYTES + capacity * self._type.itemsize
        try:
            with self.path.open("r+b") as file:
                if hasattr(os, "posix_fallocate"):
                    # A hole in the file would kill the process when the disk is full, instead of an error here.
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
            return np.memmap(self.path, dtype=self._type, mode="r+", offset=HEADER_BYTES, shape=(capacity,))
        except OSError as error:
            raise self._no_room(error) from error

    def _no_room(self, error: OSError) -> WorkerError:
        return WorkerError(f"raw samples can't be written to {self.path}: {error.strerror or error}; free some space")


def remove_samples(path: Path) -> None:
    """Remove a file of samples, and what lies beside it."""
    path.unlink(missing_ok=True)
    remove(path)


def read_samples(
    path: Path,
    *,
    model: str,
    process: int,
    details: Mapping[str, Cell] | None = None,
) -> Samples:
    """Samples that a `Sink` holds, also after its process was killed.

    Args:
        path: The file.
        model: Name of the model.
        process: Index of the fresh process.
        details: Facts of the run.

    Raises:
        RecordError: Missing, truncated or something else.
    """
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(HEADER_BYTES))
        if header["magic"] != MAGIC:
            raise ValueError("another kind of file")
        kind = row_type(int(header["batch"]))
        room = (path.stat().st_size - HEADER_BYTES) // kind.itemsize
        rows = np.fromfile(path, dtype=kind, offset=HEADER_BYTES, count=max(0, room))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"the raw samples in {path} can't be read: {error}") from error
    # Answers of a server end in another order than they were asked for, so there may be gaps.
    queries = np.flatnonzero(rows["end"] > 0)
    rows = rows[queries]
    first, together, outcome = rows["first"], rows["together"].copy(), rows["outcome"].copy()
    return Samples(
        model=model,
        process=process,
        block=rows["block"].copy(),
        intended_ns=rows["intended"].copy(),
        sent_ns=rows["sent"].copy(),
        end_ns=rows["end"].copy(),
        items=rows["item"].copy(),
        batch=int(header["batch"]),
        ok=outcome == ANSWERED,
        warmup=int(header["warmup"]),
        details=dict(details or {}),
        answers=rows["answers"].copy(),
        first_ns=np.where(first > 0, first, rows["end"]) if (first > 0).any() else None,
        outcome=outcome,
        together=together if (together > 1).any() else None,
        sizes=rows["size"].copy() if (rows["size"] != int(header["batch"])).any() else None,
        streams=read_streams(path, queries),
    )
