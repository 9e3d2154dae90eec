"""Files that are there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from evalspec.errors import RecordError, WriteError
from evalspec.redaction import NOTHING, Redaction
from evalspec.run.events import read_events


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


class Journal:
    """Append-only lines of what was done; what a resume and a crash leave behind."""

    def __init__(self, path: Path, hidden: Redaction = NOTHING) -> None:
        """The journal at ``path``, which need not be there yet; ``hidden`` is what no line of it may hold."""
        self.path = path
        self._hidden = hidden
        self._held: IO[bytes] | None = None

    def hold(self) -> bool:
        """Keep other processes from going on with this run until this one ends; whether none of them has it.

        Where the system has no such locks nothing is kept out.
        """
        try:
            import fcntl
        except ImportError:
            return True
        try:
            file = self.path.open("ab")
        except OSError as error:
            raise WriteError(f"{self.path} can't be written: {error.strerror or error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        except OSError:
            # A file system without locks.
            file.close()
            return True
        self._held = file
        return True

    def let_go(self) -> None:
        """Undo `hold`."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def write(self, event: str, **details: Any) -> None:
        """Append one line and make sure that it is on disk.

        Raises:
            WriteError: It can't be written.
        """
        line = json.dumps(self._hidden.value({"event": event, **details}), allow_nan=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                # After a torn line a new one begins, or both would be lost.
                if file.tell() and file.seek(-1, 2) >= 0 and file.read(1) != b"\n":
                    line = "\n" + line
                file.write(line.encode("utf-8") + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise WriteError(f"{self.path} can't be written: {error.strerror or error}") from error

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
