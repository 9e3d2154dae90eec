"""Files that are looked at before a run starts: regular ones, and of each no more than is needed to know it."""

from __future__ import annotations

import stat
import struct
from pathlib import Path

from evalspec.errors import InputError

MOST_BYTES = 64 * 2**20
"""Of a file that is read whole, such as a list of classes."""
DIRECTORY_BYTES = 16 * 2**20
"""Of a zip archive's directory: some 200,000 members."""
SYSTEM = (Path("/proc"), Path("/sys"))
"""Folders whose files are views of the system: some wait for ever, some have no end."""
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_END, _END64, _PLACE64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_COMMENT = 65_535


def no_file(path: Path) -> str | None:
    """Description of what stands at a path in place of a file or folder; None: one of the two, or nothing.

    Args:
        path: Without links in it.

    Raises:
        OSError: It can't be looked up.
    """
    if any(path.is_relative_to(folder) for folder in SYSTEM):
        return "a view of the system"
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    return next((what for is_one, what in _KINDS if is_one(mode)), None)


def read_bounded(path: Path, shown: str, most: int = MOST_BYTES) -> bytes:
    """A file's bytes.

    Args:
        path: The file.
        shown: What it is called in errors.
        most: Bytes that it may have.

    Raises:
        InputError: It is larger.
        OSError: It can't be read.
    """
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"{shown} is larger than {most // 2**20:,} MiB, more than evalspec reads")
    return content


def check_zip(path: Path, shown: str) -> None:
    """Refuse a zip archive whose directory alone would take all memory; what is no archive is let through.

    Raises:
        InputError: It has too many members.
        OSError: It can't be read.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _COMMENT - 22 - 20))
        tail = stream.read()
        end = tail.rfind(_END)
        if end < 0 or end + 22 > len(tail):
            return
        directory = struct.unpack_from("<I", tail, end + 12)[0]
        if directory == 0xFFFFFFFF and end >= 20 and tail[end - 20 : end - 16] == _PLACE64:
            stream.seek(min(struct.unpack_from("<Q", tail, end - 12)[0], size))
            large = stream.read(56)
            if large[:4] == _END64 and len(large) == 56:
                directory = struct.unpack_from("<Q", large, 40)[0]
    if directory > DIRECTORY_BYTES:
        raise InputError(f"{shown} is a zip archive with too many members: its directory has {directory:,} bytes")
