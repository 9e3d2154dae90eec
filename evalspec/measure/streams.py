"""Streamed answers on the disk, ragged: a kill loses at most the one that was being written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import WorkerError
from evalspec.language.streams import NOT_COUNTED, PER_STREAM, Streams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.streams import StreamedAnswer

ROW = np.dtype(
    [("query", "<i8"), ("first_piece", "<i8"), ("pieces", "<i8"), ("first_byte", "<i8"), ("bytes", "<i8")]
    + [(name, "<i8") for name in PER_STREAM]
)
"""One answer: where its pieces and its text stand, and its numbers."""
PIECE = np.dtype([("at", "<i8"), ("kind", "<i8")])


class StreamSink:
    """Where the streamed answers of one process go: rows, pieces and texts, each in a file that only grows.

    Args:
        path: Beside which the files are; they are written over.

    Raises:
        WorkerError: There is no room on the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces = self._bytes = 0
        try:
            self._files: list[IO[bytes]] = [one.open("wb", buffering=0) for one in files(path)]
        except OSError as error:
            raise self._no_room(error) from error

    def keep(self, query: int, answer: StreamedAnswer, origin_ns: int) -> None:
        """Keep an answer; of a query that has several the last one counts.

        Args:
            query: Its number.
            answer: With times on the clock.
            origin_ns: Where times count from.

        Raises:
            WorkerError: There is no room on the disk.
        """
        pieces = np.empty(len(answer.piece_ns), dtype=PIECE)
        pieces["at"], pieces["kind"] = np.array(answer.piece_ns, dtype=np.int64) - origin_ns, answer.piece_kind
        text = answer.text.encode("utf-8", "surrogatepass")
        numbers = tuple(getattr(answer, name) for name in PER_STREAM)
        row = np.array([(query, self._pieces, len(pieces), self._bytes, len(text), *numbers)], dtype=ROW)
        try:
            # The row comes last: one that is there is whole.
            for file, data in zip(self._files, (pieces.tobytes(), text, row.tobytes()), strict=True):
                if data:
                    file.write(data)
        except OSError as error:
            raise self._no_room(error) from error
        self._pieces += len(pieces)
        self._bytes += len(text)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def _no_room(self, error: OSError) -> WorkerError:
        return WorkerError(
            f"streamed answers can't be written beside {self._path}: {error.strerror or error}; free some space"
        )


def files(path: Path) -> tuple[Path, Path, Path]:
    """Pieces, texts and rows of the streamed answers beside a file of samples."""
    pieces, texts, rows = (path.with_name(path.name + end) for end in (".pieces", ".texts", ".streams"))
    return pieces, texts, rows


def remove(path: Path) -> None:
    """Remove the files beside a file of samples, where there are any."""
    for one in files(path):
        one.unlink(missing_ok=True)


def read_streams(path: Path, queries: NDArray[np.int64]) -> Streams | None:
    """Streamed answers of some queries, in their order; None: there are none.

    Args:
        path: File of samples that they are beside.
        queries: shape (q,), their numbers.
    """
    pieces_file, texts_file, rows_file = files(path)
    if not rows_file.exists():
        return None
    rows = np.fromfile(rows_file, dtype=ROW)
    pieces, texts = np.fromfile(pieces_file, dtype=PIECE), texts_file.read_bytes()
    last = np.full(int(max(queries.max(initial=-1), rows["query"].max(initial=-1))) + 2, -1)
    last[rows["query"]] = np.arange(len(rows))
    at = last[queries]
    there = at >= 0
    chosen = rows[np.maximum(at, 0)] if len(rows) else np.zeros(len(queries), dtype=ROW)
    counts = np.where(there, chosen["pieces"], 0)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    index = np.repeat(chosen["first_piece"] - offsets[:-1], counts) + np.arange(offsets[-1])
    said = np.empty(len(queries), dtype=object)
    for place in np.flatnonzero(there):
        first = int(chosen["first_byte"][place])
        said[place] = texts[first : first + int(chosen["bytes"][place])].decode("utf-8", "replace")
    numbers: dict[str, Any] = {name: np.where(there, chosen[name], NOT_COUNTED) for name in PER_STREAM}
    numbers["finish"] = np.where(there, chosen["finish"], 0)
    return Streams(offsets, pieces["at"][index], pieces["kind"][index], texts=said, **numbers)


def joined(parts: Sequence[Streams], order: NDArray[np.int64]) -> Streams:
    """Streams of several samples as those of one.

    Args:
        parts: One for each.
        order: shape (q,), the place of each query among those of all parts, one after the other.
    """
    counts = np.concatenate([np.diff(one.offsets) for one in parts])
    starts = np.concatenate(([0], np.cumsum(counts)))[:-1][order]
    offsets = np.concatenate(([0], np.cumsum(counts[order])))
    index = np.repeat(starts - offsets[:-1], counts[order]) + np.arange(offsets[-1])
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts]) for name in ("piece_ns", "piece_kind")
    }
    each: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts])[order] for name in (*PER_STREAM, "texts")
    }
    return Streams(offsets=offsets, **{name: array[index] for name, array in whole.items()}, **each)
