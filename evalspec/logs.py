"""What a process of ours has written last, for a sentence."""

from __future__ import annotations

from pathlib import Path

TAIL_BYTES = 2000
LONGEST = 300


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
