"""States of leaves on disk, so that a run that is gone on with looks at no leaf twice.

A file for each scan of a dataset, to which the state of each leaf is added with its digest: what a crash has torn is
looked at again. Its name is the digest of all that the states rest on.
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
_HEAD = struct.Struct("!QQ32s")


class LeafJournal:
    """States of the leaves of some scans of a dataset. Where the disk takes no more, nothing more is kept.

    Args:
        folder: Of the run.
        basis: What all of the states rest on.
        keys: What those of each scan rest on beside.
    """

    def __init__(self, folder: Path, basis: object, keys: Sequence[object]) -> None:
        place = folder / FOLDER
        self._files: list[_StatesFile] = []
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            for key in keys:
                digest = hashlib.sha256(json.dumps([basis, key], sort_keys=True).encode()).hexdigest()
                self._files.append(_StatesFile(place / f"{digest[:32]}.states"))
        if len(self._files) < len(keys):
            self.close()

    def get(self, leaf: int) -> list[bytes] | None:
        """States of a leaf, in the order of the scans; None: not all of them are there."""
        states = []
        for file in self._files:
            state = file.get(leaf)
            if state is None:
                return None
            states.append(state)
        return states or None

    def put(self, leaf: int, states: Sequence[bytes]) -> None:
        """Keep the states of a leaf."""
        try:
            for file, state in zip(self._files, states, strict=False):
                file.put(leaf, state)
        except OSError:
            self.close()

    def close(self) -> None:
        """Keep nothing more."""
        for file in self._files:
            file.close()
        self._files = []


class _StatesFile:
    """The states of one scan."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("a+b")
        self._places: dict[int, tuple[int, int, bytes]] = {}
        """Leaf: where its state begins, how long it is, its digest."""
        size, place = self._file.seek(0, os.SEEK_END), 0
        while place + _HEAD.size <= size:
            self._file.seek(place)
            leaf, length, digest = _HEAD.unpack(self._file.read(_HEAD.size))
            if place + _HEAD.size + length > size:
                break
            self._places[leaf] = place + _HEAD.size, length, digest
            place += _HEAD.size + length
        # What a crash has torn is no leaf, and nothing may follow it.
        self._file.truncate(place)

    def get(self, leaf: int) -> bytes | None:
        if leaf not in self._places:
            return None
        place, length, digest = self._places[leaf]
        self._file.seek(place)
        state = self._file.read(length)
        return state if hashlib.sha256(state).digest() == digest else None

    def put(self, leaf: int, state: bytes) -> None:
        digest = hashlib.sha256(state).digest()
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(_HEAD.pack(leaf, len(state), digest) + state)
        self._file.flush()
        self._places[leaf] = place + _HEAD.size, len(state), digest

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


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
