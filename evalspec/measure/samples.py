"""Raw samples in a preallocated memory map: a kill loses nothing, and the disk is not waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import RecordError, WorkerError
from evalspec.language.inputs import Samples

MAGIC = "evalspec samples 1"
HEADER_BYTES = 4096


def row_type(batch: int) -> np.dtype[Any]:
    """One query. ``end`` is written last, so a row with an end is whole."""
    return np.dtype(
        [
            ("intended", "<i8"),
            ("sent", "<i8"),
            ("item", "<i8"),
            ("block", "<i4"),
            ("ok", "?"),
            ("answers", "<f8", (batch,)),
            ("end", "<i8"),
        ]
    )


class Sink:
    """Where the samples of one process go.

    Args:
        path: The file; it is written over.
        batch: Items of a query.
        capacity: Queries to make room for; it doubles when it is full, between two queries.

    Raises:
        WorkerError: There is no room on the disk.
    """

    def __init__(self, path: Path, batch: int, capacity: int) -> None:
        self.path = path
        self.count = 0
        self._type = row_type(batch)
        self._batch = batch
        self._header: dict[str, Any] = {"magic": MAGIC, "batch": batch, "warmup": 0}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(self._header_bytes())
        except OSError as error:
            raise self._no_room(error) from error
        self._rows = self._mapped(max(1, capacity))

    def append(
        self, times: tuple[int, int, int], *, item: int, block: int, ok: bool, answers: NDArray[np.float64] | None
    ) -> None:
        """One query.

        Args:
            times: Intended, sent and end, in ns from the start of measuring; the end is over 0.
            item: Row of its first item.
            block: Index of the block.
            ok: It was answered.
            answers: shape (batch,), or None where there are none.
        """
        if self.count == len(self._rows):
            self._rows = self._mapped(2 * len(self._rows))
        row = self._rows[self.count]
        row["intended"], row["sent"] = times[0], times[1]
        row["item"], row["block"], row["ok"] = item, block, ok
        row["answers"] = np.nan if answers is None else answers
        row["end"] = times[2]
        self.count += 1

    def ok(self, first: int) -> NDArray[np.bool_]:
        """Whether each query from this one on was answered."""
        return np.asarray(self._rows["ok"][first : self.count])

    def amend(self, query: int, *, ok: bool, answers: NDArray[np.float64] | None) -> None:
        """What came of a query, found out after it was measured."""
        row = self._rows[query]
        row["ok"] = ok
        row["answers"] = np.nan if answers is None else answers

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


def read_samples(
    path: Path,
    *,
    model: str,
    process: int,
    details: Mapping[str, str | int | float | bool | None] | None = None,
) -> Samples:
    """What a `Sink` holds, also after its process was killed.

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
    unused = np.flatnonzero(rows["end"] == 0)
    rows = rows[: unused[0]] if unused.size else rows
    return Samples(
        model=model,
        process=process,
        block=rows["block"].astype(np.int64),
        intended_ns=rows["intended"].copy(),
        sent_ns=rows["sent"].copy(),
        end_ns=rows["end"].copy(),
        items=rows["item"].copy(),
        batch=int(header["batch"]),
        ok=rows["ok"].copy(),
        warmup=int(header["warmup"]),
        details=dict(details or {}),
        answers=rows["answers"].copy(),
    )
