"""Index of the records of a spec, kept beside them so that they need not all be read again.

It is a cache and nothing else: each entry says of which file it was made, and counts only while that file is the very
same. It is written whole beside its place and renamed, so that several processes never see half of it; where it can't
be read it is made anew, and where it can't be written it is done without.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evalspec.version import __version__

NAME = ".history.sqlite"
VERSION = 2
"""Of the entries' form; those of another one are made anew."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Outcome of one record.

    Args:
        stamp: Of which file, see `stamp_of`.
        text: Itself, as JSON.
    """

    stamp: str
    text: str


def stamp_of(path: Path, beside: Path) -> str:
    """Stamp of two files and of the code that reads them: another one once any has changed.

    Args:
        path: A record.
        beside: The spec beside it, which need not be there.

    Raises:
        OSError: There is no record.
    """
    states = [path.stat(), *([beside.stat()] if beside.is_file() else ())]
    return " ".join([f"{VERSION} {__version__}", *(f"{s.st_mtime_ns} {s.st_ctime_ns} {s.st_size}" for s in states)])


def load(folder: Path) -> dict[str, IndexEntry]:
    """Entries by the folder of their run; none where the index is not there, or no index."""
    path = folder / NAME
    if not path.is_file():
        return {}
    try:
        import sqlite3
    except ImportError:
        return {}
    try:
        # It never changes in place, so that nothing need be locked or written to read it.
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            rows = database.execute("SELECT run, stamp, digest, text FROM runs").fetchall()
    except sqlite3.Error:
        return {}
    kept = [row for row in rows if all(isinstance(value, str) for value in row)]
    return {run: IndexEntry(stamp, text) for run, stamp, digest, text in kept if digest == _digest(run, stamp, text)}


def save(folder: Path, entries: Mapping[str, IndexEntry]) -> None:
    """Put an index in the place of the one that is there, if that is possible."""
    try:
        import sqlite3
    except ImportError:
        return
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f"{NAME}.")
        os.close(descriptor)
        rows = [(run, one.stamp, _digest(run, one.stamp, one.text), one.text) for run, one in sorted(entries.items())]
        with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("CREATE TABLE runs (run TEXT PRIMARY KEY, stamp TEXT, digest TEXT, text TEXT)")
            database.execute("BEGIN")
            database.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", rows)
            database.execute("COMMIT")
        os.chmod(temporary, 0o644)
        os.replace(temporary, folder / NAME)
        temporary = None
    except (OSError, sqlite3.Error):
        return
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _digest(run: str, stamp: str, text: str) -> str:
    return hashlib.sha256("\0".join((run, stamp, text)).encode(errors="surrogatepass")).hexdigest()
