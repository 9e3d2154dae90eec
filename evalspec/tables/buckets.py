"""Digests of many rows, kept by their highest bits and counted a few at a time, so that memory does not grow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.errors import WriteError
from evalspec.language.states import State, Value
from evalspec.stats.sets.hashing import Words

Counts = NDArray[np.int64]

BITS = 10
BUCKETS = 2**BITS
HELD_ROWS = 2**20
"""Rows held in memory, of each of a few that are kept beside each other."""
LEAST_HELD = 2**16
CROWDED = 2
"""A bucket with so many times its share of the rows holds equal ones."""
_SHIFT = np.uint64(64 - BITS)


@dataclass(frozen=True, eq=False)
class _Segment:
    """Rows ordered by bucket.

    Args:
        lanes: shape (w, n).
        bounds: shape (BUCKETS + 1,), where each bucket begins.
    """

    lanes: Words
    bounds: NDArray[np.uint32]

    def bucket(self, number: int) -> Words:
        return self.lanes[:, self.bounds[number] : self.bounds[number + 1]]


@dataclass(frozen=True)
class _Written:
    """A segment in a file.

    Args:
        place: Its first byte.
        rows: How many.
        bounds: As of a segment.
    """

    place: int
    rows: int
    bounds: NDArray[np.uint32]


class _Segments:
    """Segments in memory, and beyond some rows in a file without a name, which is gone when this process is.

    Args:
        width: Words of a row.
        held: Rows in memory at most.
        folder: Where the file is made.
        rows: Of all of them.
    """

    def __init__(self, width: int, held: int, folder: Path) -> None:
        self._width, self._held, self._folder = width, held, folder
        self._kept: list[_Segment] = []
        self._written: list[_Written] = []
        self._file: _File | None = None
        self.rows = 0

    def add(self, segment: _Segment) -> None:
        """One more.

        Raises:
            WriteError: The disk is full.
        """
        self._kept.append(segment)
        self.rows += segment.lanes.shape[1]
        if sum(one.lanes.shape[1] for one in self._kept) > self._held:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = _File(self._folder)
        for one in self._kept:
            place = self._file.write(one.lanes)
            self._written.append(_Written(place, one.lanes.shape[1], one.bounds))
        self._kept = []

    def all(self) -> Iterator[_Segment]:
        """Each of them, in the order in which they came."""
        for one in self._written:
            lanes = np.empty((self._width, one.rows), np.uint64)
            assert self._file is not None
            self._file.read(one.place, lanes)
            yield _Segment(lanes, one.bounds)
        yield from self._kept

    @property
    def on_disk(self) -> bool:
        """Some of them are."""
        return bool(self._written)

    def whole(self) -> Words:
        """All rows, shape (w, n)."""
        return np.concatenate([np.zeros((self._width, 0), np.uint64), *(one.lanes for one in self.all())], axis=1)

    def sizes(self) -> NDArray[np.int64]:
        """Rows of each bucket, shape (BUCKETS,)."""
        total = np.zeros(BUCKETS, np.int64)
        for bounds in self._bounds():
            total += np.diff(bounds)
        return total

    def _bounds(self) -> list[NDArray[np.uint32]]:
        return [one.bounds for one in self._written] + [one.bounds for one in self._kept]

    def bucket(self, number: int) -> Words:
        """All rows of a bucket, shape (w, n)."""
        sizes = [int(one[number + 1]) - int(one[number]) for one in self._bounds()]
        lanes = np.empty((self._width, sum(sizes)), np.uint64)
        start = 0
        for written, size in zip(self._written, sizes, strict=False):
            assert self._file is not None
            for lane in range(self._width):
                place = written.place + 8 * (lane * written.rows + int(written.bounds[number]))
                self._file.read(place, lanes[lane, start : start + size])
            start += size
        for kept in self._kept:
            part = kept.bucket(number)
            lanes[:, start : start + part.shape[1]] = part
            start += part.shape[1]
        return lanes


class _File:
    """A file without a name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder if folder.is_dir() else Path(tempfile.gettempdir())
        self._end = 0
        try:
            self._file: IO[bytes] | None = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            self._file = None
            raise self._full(0, error) from error

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, words: Words) -> int:
        """Where they begin.

        Raises:
            WriteError: They don't fit.
        """
        assert self._file is not None
        place, left = self._end, np.ascontiguousarray(words).data.cast("B")
        try:
            self._file.seek(place)
            while len(left):
                left = left[self._file.write(left) :]
        except OSError as error:
            raise self._full(words.nbytes, error) from error
        self._end += words.nbytes
        return place

    def read(self, place: int, words: Words) -> None:
        """Fill an array with what begins there."""
        if not words.size:
            return
        assert self._file is not None
        self._file.seek(place)
        left = words.data.cast("B")
        while len(left):
            left = left[self._file.readinto(left) :]  # type: ignore[attr-defined]

    def _full(self, size: int, error: OSError) -> WriteError:
        written = f", after {self._end / 2**20:,.0f} MiB" if self._end else ""
        return WriteError(
            f"digests of rows can't be kept in {self._folder}{written}: {error.strerror or error}; "
            "make room there, or name another disk with --output"
        )


class Buckets:
    """Rows of words, the first of which is spread evenly; how often each occurs is counted bucket by bucket.

    Rows that crowd in a bucket are counted at once, so that a row which occurs often takes no more room than others.

    Args:
        width: Words of a row.
        folder: Where what does not fit into memory is written, in a file without a name.
        held: Rows in memory at most.
        rows: That went by.
    """

    def __init__(self, width: int, folder: Path, held: int = HELD_ROWS) -> None:
        self._width, self._folder, self._held = width, folder, held
        self._single = _Segments(width, held, folder)
        self._counted = _Segments(width + 1, held, folder)
        self._open: list[Words] = []
        self._waiting = 0
        self.rows = 0

    def add(self, lanes: Words) -> None:
        """More rows.

        Args:
            lanes: shape (w, n).

        Raises:
            WriteError: The disk is full.
        """
        self.rows += lanes.shape[1]
        while lanes.shape[1]:
            room = self._held - self._waiting
            self._open.append(lanes[:, :room])
            self._waiting += self._open[-1].shape[1]
            lanes = lanes[:, room:]
            if self._waiting == self._held:
                self._close()

    def _close(self) -> None:
        if not self._waiting:
            return
        lanes = np.concatenate(self._open, axis=1) if len(self._open) > 1 else self._open[0]
        self._open, self._waiting = [], 0
        places = (lanes[0] >> _SHIFT).astype(np.uint16)
        crowded = np.bincount(places, minlength=BUCKETS) > max(CROWDED * len(places) // BUCKETS, 64)
        if crowded.any():
            many = crowded[places]
            rows, counts = counted(lanes[:, many])
            self._counted.add(_ordered(np.concatenate([rows, counts.view(np.uint64)[np.newaxis]])))
            lanes = lanes[:, ~many]
        if lanes.shape[1]:
            self._single.add(_ordered(lanes))

    def merge(self, later: Buckets) -> None:
        """Take over what another one has seen."""
        self._close()
        later._close()
        self.rows += later.rows
        for mine, theirs in ((self._single, later._single), (self._counted, later._counted)):
            for segment in theirs.all():
                mine.add(segment)

    def each(self) -> Iterator[tuple[Words, Counts | None]]:
        """Rows of one bucket after the other, in rising order of the buckets; all at once where they are in memory.

        Returns:
            Rows, shape (w, n), in no order; and how often each went by, shape (n,), or None: once. The same row may
            come several times.
        """
        self._close()
        if not self._single.on_disk and not self._counted.on_disk:
            yield _with_counts(self._single.whole(), self._counted.whole())
            return
        for number in np.flatnonzero(self._single.sizes() + self._counted.sizes()).tolist():
            yield _with_counts(self._single.bucket(number), self._counted.bucket(number))

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        self._close()
        fields: dict[str, Value] = {
            "width": self._width, "folder": str(self._folder), "held": self._held, "rows": self.rows,
        }  # fmt: skip
        for name, segments in (("single", self._single), ("counted", self._counted)):
            all_of_them = list(segments.all())
            fields[f"{name} rows"] = np.array([one.lanes.shape[1] for one in all_of_them], np.int64)
            fields[name] = _joined([one.lanes for one in all_of_them])
        return fields

    @classmethod
    def of_fields(cls, fields: State) -> Buckets:
        """The rows of which these are the fields."""
        width, folder = fields.scalar("width"), Path(fields.scalar("folder"))
        kept = cls(width, folder, fields.scalar("held"))
        kept.rows = fields.scalar("rows")
        for name, segments, words in (("single", kept._single, width), ("counted", kept._counted, width + 1)):
            start = 0
            for rows in fields.numbers(f"{name} rows").tolist():
                flat = np.frombuffer(fields.buffer(name), np.uint64, words * rows, start)
                segments.add(_bounded(flat.reshape(words, rows)))
                start += flat.nbytes
        return kept


def held_rows(kept: int) -> int:
    """Rows that each of some may hold in memory, so many together as four of `HELD_ROWS`."""
    return max(LEAST_HELD, min(HELD_ROWS, 4 * HELD_ROWS // max(kept, 1)))


def counted(lanes: Words, counts: Counts | None = None) -> tuple[Words, Counts]:
    """Each of these rows once, in the order in which they came first, and how often it occurs.

    Args:
        lanes: shape (w, n).
        counts: shape (n,), of each; None: once.

    Returns:
        shape (w, k), (k,).
    """
    codes, first = coded(lanes)
    total = np.bincount(codes) if counts is None else np.zeros(len(first), np.int64)
    if counts is not None:
        np.add.at(total, codes, counts)
    return lanes[:, first], total.astype(np.int64)


def coded(lanes: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The code of each row, equal ones have the same, and where each code comes first.

    Args:
        lanes: shape (w, n).

    Returns:
        shape (n,), (k,).
    """
    width, n = lanes.shape
    if not n:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    flat = pa.py_buffer(np.ascontiguousarray(lanes.T))
    encoded = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8 * width), n, [None, flat]).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(encoded.dictionary), np.int64)
    # Backwards, so that the first one is what stays.
    first[codes[::-1]] = np.arange(n - 1, -1, -1)
    return codes, first


def maybe_repeated(words: Words) -> NDArray[np.int64]:
    """Places of those that occur more than once, rising.

    Args:
        words: shape (n,).
    """
    ordered = np.sort(words)
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.isin(words, ordered[1:][again], kind="sort"))


def _with_counts(single: Words, several: Words) -> tuple[Words, Counts | None]:
    """Rows, and how often each went by: ``several`` have that as their last word."""
    if not several.shape[1]:
        return single, None
    rows = np.concatenate([single, several[:-1]], axis=1)
    return rows, np.concatenate([np.ones(single.shape[1], np.int64), several[-1].view(np.int64)])


def _ordered(lanes: Words) -> _Segment:
    order = np.argsort((lanes[0] >> _SHIFT).astype(np.uint16), kind="stable")
    ordered = np.empty(lanes.shape, np.uint64)
    for lane, words in zip(ordered, lanes, strict=True):
        words.take(order, out=lane, mode="clip")
    return _bounded(ordered)


def _bounded(lanes: Words) -> _Segment:
    """A segment of rows that are ordered."""
    begins = np.arange(BUCKETS, dtype=np.uint64) << _SHIFT
    bounds = np.append(np.searchsorted(lanes[0], begins), lanes.shape[1])
    return _Segment(lanes, bounds.astype(np.uint32))


def _joined(parts: Sequence[Words]) -> pa.Buffer:
    """One after the other, without a copy of a single one."""
    if len(parts) == 1:
        return pa.py_buffer(np.ascontiguousarray(parts[0]))
    return pa.py_buffer(np.concatenate([part.ravel() for part in parts]) if parts else b"")
