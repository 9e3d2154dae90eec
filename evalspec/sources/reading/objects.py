"""Objects in object storage as files: listed once, and read in ranges of the contents that were listed."""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Literal, Protocol

from evalspec.errors import InputError
from evalspec.evidence.record import ObjectStamp
from evalspec.language.places import ObjectPlace

if TYPE_CHECKING:
    import pyarrow as pa

MOST_OBJECTS = 200_000
"""Of one dataset: each is named in the record."""
MOST_LISTED = 2_000_000
"""Below one prefix, objects of other kinds counted."""
TAIL_BYTES = 2**16
"""At the end of an object, read at once: footers lie there."""
MOST_TAILS = 256
"""Ends of objects that are kept."""
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
"""Ending of a name: how the content is compressed."""
AT_ONCE = 16
"""Requests for ends of objects."""
PART_BYTES = 8 * 2**20
"""Read by one request."""


class Store(Protocol):
    """A bucket that may be read. It raises sentences, whatever went wrong."""

    def look_up(self, key: str) -> ObjectStamp | None:
        """The object of this key; None: there is none."""
        ...

    def listed(self, prefix: str) -> Iterator[ObjectStamp]:
        """Objects whose keys begin with a prefix that is empty or ends in a slash."""
        ...

    def read(self, stamp: ObjectStamp, start: int, stop: int) -> bytes:
        """Bytes of an object, from one place to before another.

        Raises:
            InvalidError: It has other contents by now, or is gone.
        """
        ...


class ObjectFile:
    """An object as a file, of which any part can be read."""

    def __init__(self, store: Store, place: ObjectPlace, stamp: ObjectStamp, tails: OrderedDict[str, bytes]) -> None:
        """``tails``: ends of objects that were read, which all files of a listing share."""
        self._store, self._tails = store, tails
        self.stamp = stamp
        self.url = place.url(stamp.key)

    @property
    def suffix(self) -> str:
        """As of a path."""
        return PurePosixPath(self.stamp.key).suffix

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stamp.size

    def open(self, mode: Literal["rb"] = "rb") -> IO[bytes]:
        """A stream of its bytes."""
        return io.BufferedReader(Cursor(self), PART_BYTES)

    def read(self, start: int, stop: int) -> bytes:
        """Bytes from one place to before another.

        Raises:
            InvalidError: It has other contents by now, or is gone.
            InputError: It can't be read.
        """
        first = max(0, self.size - TAIL_BYTES)
        if start >= stop:
            return b""
        if start >= first:
            return self.tail()[start - first : stop - first]
        parts = range(start, stop, PART_BYTES)
        return b"".join(self._store.read(self.stamp, part, min(stop, part + PART_BYTES)) for part in parts)

    def tail(self) -> bytes:
        """The last `TAIL_BYTES`, which are kept."""
        kept = self._tails.get(self.stamp.key)
        if kept is None:
            kept = self._store.read(self.stamp, max(0, self.size - TAIL_BYTES), self.size)
            self._tails[self.stamp.key] = kept
            if len(self._tails) > MOST_TAILS:
                self._tails.popitem(last=False)
        return kept


DataFile = Path | ObjectFile
"""A file of a dataset, wherever it lies."""


def with_tails(files: Sequence[DataFile]) -> Iterator[DataFile]:
    """The same files; the ends of objects are read before, many at once, since each takes a request."""
    for first in range(0, len(files), MOST_TAILS // 2):
        some = files[first : first + MOST_TAILS // 2]
        stored = [file for file in some if isinstance(file, ObjectFile)]
        if len(stored) > 1:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for _ in pool.map(ObjectFile.tail, stored):
                    pass
        yield from some


def size_of(file: DataFile) -> int:
    """Bytes of a file."""
    return file.size if isinstance(file, ObjectFile) else file.stat().st_size


def head_of(file: DataFile, size: int) -> bytes:
    """So many bytes at the beginning of a file, or all of it."""
    if isinstance(file, ObjectFile):
        return file.read(0, min(size, file.size))
    with file.open("rb") as stream:
        return stream.read(size)


def stream_of(file: DataFile, *, unpacked: bool = False) -> pa.NativeFile:
    """A file as Arrow reads it, from its beginning to its end.

    Args:
        file: The file.
        unpacked: What its name says to be compressed comes out plain.
    """
    import pyarrow as pa

    if not isinstance(file, ObjectFile):
        return pa.input_stream(str(file), compression="detect") if unpacked else pa.OSFile(str(file))
    stream = pa.BufferedInputStream(pa.PythonFile(Cursor(file), mode="r"), PART_BYTES)
    codec = CODECS.get(file.suffix.lower()) if unpacked else None
    return stream if codec is None else pa.CompressedInputStream(stream, codec)


class Cursor(io.RawIOBase):
    """A place in an object, from which reading goes on."""

    def __init__(self, file: ObjectFile) -> None:
        """At the beginning."""
        self._file, self._at = file, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes before it."""
        return self._at

    def size(self) -> int:
        """Bytes of the whole."""
        return self._file.size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or all that are left."""
        stop = self._file.size if size is None or size < 0 else min(self._file.size, self._at + size)
        content = self._file.read(self._at, stop)
        self._at += len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer, as far as there are bytes."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def find_objects(store: Store, place: ObjectPlace, suffixes: tuple[str, ...]) -> tuple[ObjectStamp, ...]:
    """Objects of a dataset: the one that is named, all of some kinds below a prefix, or those that match a pattern.

    What begins with a dot or an underscore below the prefix, a folder or a file, is no data: ``_temporary/`` and
    ``_SUCCESS`` are what a job leaves behind.

    Args:
        store: The bucket.
        place: What the spec names.
        suffixes: That names end in, where a prefix is named.

    Returns:
        In the order of their keys.

    Raises:
        InputError: There is none, one is empty, or there are too many.
    """
    named = None if place.is_pattern or place.key.endswith("/") or not place.key else store.look_up(place.key)
    found = [named] if named is not None else sorted(_below(store, place, suffixes), key=lambda one: one.key)
    if not found:
        remedy = f"names must end in {' or '.join(suffixes)}, and no part of them may begin with _ or a dot"
        raise InputError(f"there is no such object: {place.url(place.key)!r}", remedy=remedy)
    if len(found) > MOST_OBJECTS:
        raise InputError(
            f"{place.url(place.key)!r} holds more than {MOST_OBJECTS:,} objects", remedy="put the rows into fewer"
        )
    for one in found:
        if one.size == 0:
            raise InputError(f"{place.url(one.key)!r} is empty (0 bytes)")
        if not one.etag:
            raise InputError(
                f"the store gives no ETag for {place.url(one.key)!r}, so nothing would show that it stays the same",
                remedy="read a copy of it on this machine",
            )
    return tuple(found)


def _below(store: Store, place: ObjectPlace, suffixes: tuple[str, ...]) -> Iterator[ObjectStamp]:
    pattern = _pattern(place) if place.is_pattern else None
    folder = place.key if not place.key or place.key.endswith("/") else f"{place.key}/"
    root = folder if pattern is None else place.root
    for one in _bounded(store.listed(root), place):
        inside = one.key.removeprefix(root)
        if not inside or any(part.startswith((".", "_")) for part in inside.split("/")) or inside.endswith("/"):
            continue
        if pattern is not None:
            fits = _matches(one.key.split("/"), pattern)
        else:
            fits = PurePosixPath(inside).suffix.lower() in suffixes
        if fits:
            yield one


def _bounded(objects: Iterable[ObjectStamp], place: ObjectPlace) -> Iterator[ObjectStamp]:
    for number, one in enumerate(objects):
        if number == MOST_LISTED:
            raise InputError(
                f"there are more than {MOST_LISTED:,} objects below {place.url(place.root)!r}",
                remedy="give the prefix of the dataset",
            )
        yield one


def _pattern(place: ObjectPlace) -> list[str]:
    """Parts of a pattern; ``*`` stays within a part, ``**`` stands for any number of whole parts.

    Raises:
        InputError: ``**`` is not a whole part, or occurs twice.
    """
    parts = place.key.split("/")
    if any("**" in part and part != "**" for part in parts) or parts.count("**") > 1 or parts[-1] == "**":
        raise InputError(
            f"the pattern {place.url(place.key)!r} is not supported: ** must be a whole part, not the last, and once",
            remedy="write such as data/**/*.parquet",
        )
    return parts


def _matches(key: Sequence[str], pattern: Sequence[str]) -> bool:
    """The parts of a key are those of a pattern."""
    if "**" not in pattern:
        return len(key) == len(pattern) and all(map(fnmatchcase, key, pattern))
    first = pattern.index("**")
    last = len(pattern) - first - 1
    around = (*key[:first], *key[len(key) - last :])
    return len(key) >= first + last and all(map(fnmatchcase, around, (*pattern[:first], *pattern[first + 1 :])))
