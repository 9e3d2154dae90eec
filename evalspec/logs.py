"""Logs of our processes: a file that holds no secret, and the last line of it for a sentence."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from evalspec.redaction import NOTHING, Redaction

TAIL_BYTES = 2000
LONGEST = 300
AT_ONCE = 1 << 16
QUIET_S = 0.5
"""A secret may come in pieces: the end of what was written waits so long for more."""
ESCAPED = 12
"""Most letters of a log for a letter of a secret, escaped."""


class Log:
    """The log of a process.

    Args:
        path: File; what is written is added to it.
        hidden: What must not get into it. Without any the process writes to the file itself.
    """

    def __init__(self, path: Path, hidden: Redaction = NOTHING) -> None:
        self.path = path
        self._hidden = hidden
        self._thread: threading.Thread | None = None

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Where the process is to write; open until it has been started.

        Raises:
            OSError: The file can't be written to.
        """
        file = self.path.open("ab")
        if not self._hidden:
            with file:
                yield file
            return
        reading, writing = os.pipe()
        self._thread = threading.Thread(target=self._copy, args=(reading, file), name="log", daemon=True)
        self._thread.start()
        with open(writing, "wb", buffering=0) as pipe:
            yield pipe

    def finish(self, within_s: float = 2.0) -> None:
        """Wait until all that an ended process has written is in the file."""
        if self._thread is not None:
            self._thread.join(within_s)

    def _copy(self, reading: int, file: IO[bytes]) -> None:
        held, room = b"", ESCAPED * self._hidden.longest
        with open(reading, "rb", buffering=0) as pipe, file, suppress(OSError, ValueError):
            while True:
                if held and not select.select([pipe], [], [], QUIET_S)[0]:
                    file.write(self._hidden.raw(held))
                    file.flush()
                    held = b""
                data = pipe.read(AT_ONCE)
                if not data:
                    file.write(self._hidden.raw(held))
                    return
                held = self._hidden.raw(held + data)
                file.write(held[: max(0, len(held) - room)])
                held = held[max(0, len(held) - room) :]


def scrub(log: Path, hidden: Redaction) -> None:
    """Take out of a whole log what its pieces did not show."""
    if hidden:
        data = log.read_bytes()
        clean = hidden.raw(data)
        if clean != data:
            log.write_bytes(clean)


def last_line(log: Path) -> str:
    """The last line of a log, shortened; empty where there is none, or no log.

    Args:
        log: File that takes what a process writes.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            tail = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return tail[-1].strip()[:LONGEST] if tail else ""
