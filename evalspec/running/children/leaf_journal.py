"""States of leaves on disk, so that a run that is gone on with looks at no leaf twice.

A file for each dataset, to which the states of each leaf are added with their digests: what a crash has torn is looked
at again. Its name is the digest of all that the states rest on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

FOLDER = "leaves"
PASSES = "passes.jsonl"
"""A line for each pass over a dataset, for the record."""
_HEAD = struct.Struct("!32sQQ32s")
"""Digest of the scan, leaf, length and digest of the state."""


class LeafJournal:
    """States of the leaves of some scans of a dataset. Where the disk takes no more, nothing more is kept.

    Args:
        folder: Of the run.
        basis: What all of the states rest on.
        keys: What those of each scan rest on beside; none: nothing is kept.
    """

    def __init__(self, folder: Path, basis: object, keys: Sequence[object]) -> None:
        self._keys = [_digest(json.dumps(key).encode()) for key in keys]
        self._file: IO[bytes] | None = None
        self._places: dict[tuple[bytes, int], tuple[int, int, bytes]] = {}
        """Scan and leaf: where the state begins, how long it is, its digest."""
        name = _digest(json.dumps(basis, sort_keys=True).encode()).hex()[:32]
        with contextlib.suppress(OSError):
            if keys:
                (folder / FOLDER).mkdir(parents=True, exist_ok=True)
                self._file = (folder / FOLDER / f"{name}.states").open("a+b")
                self._index(self._file)

    def _index(self, file: IO[bytes]) -> None:
        size, place = file.seek(0, os.SEEK_END), 0
        while place + _HEAD.size <= size:
            file.seek(place)
            key, leaf, length, digest = _HEAD.unpack(file.read(_HEAD.size))
            begins = place + _HEAD.size
            if begins + length > size:
                break
            self._places[key, leaf] = begins, length, digest
            place = begins + length
        # What a crash has torn is no state, and nothing may follow it.
        file.truncate(place)

    def get(self, leaf: int) -> list[bytes] | None:
        """States of a leaf, in the order of the scans; None: not all of them are there."""
        states = [self._state(key, leaf) for key in self._keys]
        whole = [state for state in states if state is not None]
        return whole if whole and len(whole) == len(states) else None

    def _state(self, key: bytes, leaf: int) -> bytes | None:
        if self._file is None or (key, leaf) not in self._places:
            return None
        place, length, digest = self._places[key, leaf]
        self._file.seek(place)
        state = self._file.read(length)
        return state if _digest(state) == digest else None

    def put(self, leaf: int, states: Sequence[bytes]) -> None:
        """Keep the states of a leaf."""
        if self._file is None:
            return
        try:
            for key, state in zip(self._keys, states, strict=True):
                digest = _digest(state)
                begins = self._file.seek(0, os.SEEK_END) + _HEAD.size
                self._file.write(_HEAD.pack(key, leaf, len(state), digest))
                self._file.write(state)
                self._places[key, leaf] = begins, len(state), digest
            self._file.flush()
        except OSError:
            self.close()

    def close(self) -> None:
        """Keep nothing more."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def note_pass(folder: Path, told: Mapping[str, Any]) -> None:
    """Note a pass over a dataset, where that can be written.

    Args:
        folder: Of the run.
        told: What it took.
    """
    with contextlib.suppress(OSError):
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        with (folder / FOLDER / PASSES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


def remove_leaves(folder: Path) -> None:
    """Remove what a run that has ended needs no more.

    Args:
        folder: Of the run.
    """
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def passes_of(folder: Path) -> list[dict[str, Any]]:
    """Passes that were noted, in their order."""
    try:
        lines = (folder / FOLDER / PASSES).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    passes = []
    for line in lines:
        with contextlib.suppress(ValueError):
            one = json.loads(line)
            if isinstance(one, dict):
                passes.append(one)
    return passes
