"""Files that are there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from evalspec.errors import WriteError


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


def is_whole(path: Path, digest: str) -> bool:
    """A file of this content is there, and no link to one."""
    try:
        return path.is_file() and not path.is_symlink() and sha256_of(path) == digest
    except OSError:
        return False


class Journal:
    """Append-only lines of what was done; what a resume and a crash leave behind.

    One process at a time holds it: whoever writes to the folder of a run.
    """

    def __init__(self, path: Path) -> None:
        """The journal at ``path``; it need not be there yet."""
        self.path = path
        self._file: IO[bytes] | None = None
        self._written = hashlib.sha256()

    def create(self) -> bool:
        """Make it and hold it; whether it was not there before. Of several processes that try, one makes it.

        Raises:
            WriteError: It can't be written.
        """
        try:
            file = self.path.open("xb", buffering=0)
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
        """Keep other processes from going on with this run until this one ends; whether none of them has it.

        Where the system has no such locks nothing is kept out.

        Raises:
            WriteError: It can't be written.
        """
        try:
            file = self.path.open("ab")
        except OSError as error:
            raise self._unwritable(error) from error
        if not self._lock(file) or not _is_at(file, self.path):
            file.close()
            return False
        before = self.path.read_bytes()
        if before and not before.endswith(b"\n"):
            # What comes next must not be taken for the rest of a line that was torn.
            _append(file, b"\n")
            before += b"\n"
        self._file, self._written = file, hashlib.sha256(before)
        return True

    @staticmethod
    def _lock(file: IO[bytes]) -> bool:
        """Whether nobody else has it."""
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
        """It is held, lies where it was made, and holds what was there then and what was written since."""
        return (
            self._file is not None
            and _is_at(self._file, self.path)
            and sha256_of(self.path) == self._written.hexdigest()
        )

    def write(self, event: str, **details: Any) -> None:
        """Append one line and make sure that it is on disk.

        Raises:
            WriteError: It can't be written.
        """
        line = json.dumps({"event": event, **details}, allow_nan=False).encode() + b"\n"
        try:
            if self._file is not None:
                _append(self._file, line)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab") as file:
                    _append(file, line)
        except OSError as error:
            raise self._unwritable(error) from error
        self._written.update(line)

    def read(self) -> list[Mapping[str, Any]]:
        """All whole lines; a torn last line is left out."""
        if not self.path.exists():
            return []
        events: list[Mapping[str, Any]] = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "event" in event:
                events.append(event)
        return events

    def _unwritable(self, error: OSError) -> WriteError:
        return WriteError(f"{self.path} can't be written: {error.strerror or error}")


def _append(file: IO[bytes], line: bytes) -> None:
    file.write(line)
    file.flush()
    os.fsync(file.fileno())


def _is_at(file: IO[bytes], path: Path) -> bool:
    """An open file is still the one at a path, which is no link."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except OSError:
        return False
