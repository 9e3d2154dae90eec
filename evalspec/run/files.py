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


PREVIOUS = "previous"
"""Key of a line of a journal: sha256 of the line before it, without its end; of nothing for the first."""


def line_digest(line: bytes) -> str:
    """Digest of a line of a journal, without its end."""
    return hashlib.sha256(line).hexdigest()


class Journal:
    """Append-only lines of what was done; what a resume and a crash leave behind."""

    def __init__(self, path: Path) -> None:
        """The journal at ``path``; it need not be there yet."""
        self.path = path
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
        """Append one line, with the digest of the line before it, and make sure that it is on disk.

        Raises:
            WriteError: It can't be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                # A line that a crash has torn is closed first, so that this one is whole.
                last, torn = self._last_line(file)
                line = json.dumps({"event": event, **details, PREVIOUS: line_digest(last)}, allow_nan=False)
                file.write((b"\n" if torn else b"") + line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise WriteError(f"{self.path} can't be written: {error.strerror or error}") from error

    def _last_line(self, file: IO[bytes]) -> tuple[bytes, bool]:
        """The last line of a file, and whether it lacks its end."""
        size, block = file.seek(0, os.SEEK_END), 1 << 16
        while True:
            file.seek(max(0, size - block))
            end = file.read(block)
            lines = end.removesuffix(b"\n").rsplit(b"\n", 1)
            if len(lines) > 1 or block >= size:
                return lines[-1], bool(end) and not end.endswith(b"\n")
            block *= 4

    def unchained(self) -> int | None:
        """The first line, counted from 1, that does not follow the one before it; None: there is none.

        Lines before the first one that carries a digest, which older versions wrote, are not looked at.
        """
        lines = self.path.read_bytes().removesuffix(b"\n").split(b"\n") if self.path.exists() else []
        begun = False
        for number, line in enumerate(lines, 1):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            stated = event.get(PREVIOUS) if isinstance(event, dict) else None
            begun = begun or stated is not None
            if begun and stated != line_digest(lines[number - 2] if number > 1 else b""):
                return number
        return None

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
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                events.append(event)
        return events
