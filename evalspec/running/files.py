"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal

from evalspec.errors import RecordError, WriteError
from evalspec.interrupts import Interrupts
from evalspec.redaction import NOTHING, Redaction
from evalspec.running.journal.lines import read_events


def write_atomically(path: Path, text: str) -> None:
    """Write a file beside its place, then rename it.

    Raises:
        WriteError: The disk is full or the folder can't be written to.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise WriteError(
            f"{path} can't be written: {error.strerror or error}; free some space or pass --output"
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder where there is none.

    Raises:
        WriteError: The disk is full or its parent can't be written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"the folder {path} can't be made: {error.strerror or error}") from error


def sha256_of(path: Path) -> str:
    """Digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_regular(path: Path, mode: Literal["rb", "ab+", "xb+"] = "rb") -> IO[bytes]:
    """Open a file that somebody may have replaced: one that is no file, or a link to one, is never waited for.

    Args:
        path: Of the file.
        mode: To read it, to add to it, or to make it.

    Raises:
        OSError: It can't be opened, or is no file.
    """
    flags = {"rb": os.O_RDONLY, "ab+": os.O_RDWR | os.O_APPEND | os.O_CREAT, "xb+": os.O_RDWR | os.O_CREAT | os.O_EXCL}
    descriptor = os.open(path, flags[mode] | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a folder, a link or a pipe", str(path))
    return os.fdopen(descriptor, "ab+" if mode == "ab+" else "rb" if mode == "rb" else "wb+")


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines to add some: what a crash has torn is no line, and nothing may follow it.

    Raises:
        OSError: It can't be written, or is no file.
    """
    file = open_regular(path, "ab+")
    try:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
    except OSError:
        file.close()
        raise
    return file


def is_whole(path: Path, digest: str) -> bool:
    """True where a file of this content is there, and not a link to one."""
    try:
        return path.is_file() and not path.is_symlink() and sha256_of(path) == digest
    except OSError:
        return False


PREVIOUS = "previous"
"""Key of a line of a journal: sha256 of the line before it, without its end; of nothing for the first."""


def line_digest(line: bytes) -> str:
    """Digest of a line of a journal, without its end."""
    return hashlib.sha256(line).hexdigest()


class Journal:
    """Append-only lines of what was done, each with the digest of the one before it, to resume from.

    One process at a time holds it: whoever writes to the folder of a run.
    """

    def __init__(self, path: Path, hidden: Redaction = NOTHING) -> None:
        """The journal at ``path``, which need not be there yet; ``hidden`` is what no line of it may hold."""
        self.path = path
        self.hidden = hidden
        self.signals = Interrupts()
        """Interrupts of the run; none of them parts a line from what is known of it."""
        self._file: IO[bytes] | None = None
        self._written = hashlib.sha256()

    def create(self) -> bool:
        """Make the file and hold it; False where it was there before. Of several processes that try, one makes it.

        Raises:
            WriteError: It can't be written.
        """
        try:
            file = self.path.open("x+b")
        except FileExistsError:
            return False
        except OSError as error:
            raise self._unwritable(error) from error
        # Whoever comes upon it before it is locked finds no beginning in it, and does not go on with that.
        if not self._lock(file):
            file.close()
            return False
        self._file = file
        return True

    def hold(self) -> bool:
        """Keep other processes from going on with this run until this one ends; False where one of them has it.

        Where the system has no such locks, no process is kept out.

        Raises:
            WriteError: It can't be written.
        """
        try:
            file = self.path.open("a+b")
        except OSError as error:
            raise self._unwritable(error) from error
        if not self._lock(file) or not _is_at(file, self.path):
            file.close()
            return False
        self._file, self._written = file, hashlib.sha256(self.path.read_bytes())
        return True

    @staticmethod
    def _lock(file: IO[bytes]) -> bool:
        """Lock a file; False where somebody else has locked it."""
        try:
            import fcntl
        except ImportError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks.
            return True
        return True

    def let_go(self) -> None:
        """Undo `hold` and `create`."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def intact(self) -> bool:
        """True while the file is held, lies where it was made, and holds what was in it and what was written since."""
        return (
            self._file is not None
            and _is_at(self._file, self.path)
            and sha256_of(self.path) == self._written.hexdigest()
        )

    def write(self, event: str, **details: Any) -> None:
        """Append one line, with the digest of the line before it, and make sure that it is on disk.

        Raises:
            WriteError: It can't be written.
        """
        said = self.hidden.value({"event": event, **details})
        try:
            if self._file is not None:
                with self.signals.deferred():
                    self._written.update(_append(self._file, said))
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a+b") as file:
                    _append(file, said)
        except OSError as error:
            raise self._unwritable(error) from error

    def unchained(self) -> int | None:
        """Number of the first line, from 1, that does not follow the one before it; None where all do.

        Lines before the first one that carries a digest, which older versions wrote, are not looked at.
        """
        lines = self.path.read_bytes().removesuffix(b"\n").split(b"\n") if self.path.is_file() else []
        begun = False
        for number, line in enumerate(lines, 1):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            stated = event.get(PREVIOUS) if isinstance(event, dict) else None
            begun = begun or stated is not None
            if begun and stated != line_digest(lines[number - 2] if number > 1 else b""):
                return number
        return None

    def read(self) -> list[Mapping[str, Any]]:
        """All events that are whole; see `read_events`.

        Raises:
            RecordError: It can't be read.
        """
        if not self.path.is_file():
            return []
        try:
            return list(read_events(self.path))
        except OSError as error:
            raise RecordError(f"{self.path} can't be read: {error.strerror or error}") from error

    def _unwritable(self, error: OSError) -> WriteError:
        return WriteError(f"{self.path} can't be written: {error.strerror or error}")


def _append(file: IO[bytes], said: Mapping[str, Any]) -> bytes:
    """Append a line; a line that a crash has torn is ended first, so that this one is whole; return the bytes."""
    last, torn = _last_line(file)
    line = json.dumps({**said, PREVIOUS: line_digest(last)}, allow_nan=False)
    written = (b"\n" if torn else b"") + line.encode() + b"\n"
    file.seek(0, os.SEEK_END)
    file.write(written)
    file.flush()
    os.fsync(file.fileno())
    return written


def _last_line(file: IO[bytes]) -> tuple[bytes, bool]:
    """The last line of a file, and whether it lacks its end."""
    size, block = file.seek(0, os.SEEK_END), 1 << 16
    while True:
        file.seek(max(0, size - block))
        end = file.read(block)
        lines = end.removesuffix(b"\n").rsplit(b"\n", 1)
        if len(lines) > 1 or block >= size:
            return lines[-1], bool(end) and not end.endswith(b"\n")
        block *= 4


def _is_at(file: IO[bytes], path: Path) -> bool:
    """True where an open file is still the one at a path, which is no link."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except OSError:
        return False
