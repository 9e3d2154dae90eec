"""States of leaves on disk, so that a run that is gone on with looks at no leaf twice.

Files for each dataset, to which the states of each leaf are added with their digests: one of the process that merges
them, and one of each child that writes what it has seen itself. What a crash has torn is looked at again. Their names
begin with the digest of all that the states rest on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "leaves"
PASSES = "passes.jsonl"
"""A line for each pass over a dataset, for the record."""
_HEAD = struct.Struct("!32sQQ32s")
"""Digest of the scan, leaf, length and digest of the state."""


@dataclass(frozen=True, slots=True)
class StatePlace:
    """Place of the state of a leaf.

    Args:
        file: Name of the file.
        begins: Its first byte.
        length: Bytes.
        digest: Of them, in hex.
    """

    file: str
    begins: int
    length: int
    digest: str


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Files with the states of the leaves of some scans of a dataset.

    Args:
        folder: Of all such files.
        name: Begin of the names of these.
        keys: What the states of each scan rest on, as digests.
    """

    folder: Path
    name: str
    keys: tuple[bytes, ...]

    def read(self, place: StatePlace) -> bytes | None:
        """A state; None: it is not there any more."""
        try:
            with (self.folder / place.file).open("rb", buffering=0) as file:
                file.seek(place.begins)
                state = file.read(place.length)
        except OSError:
            return None
        return state if len(state) == place.length else None


class StateFile:
    """File to which states are added.

    Args:
        files: All of them.
        name: Its own; None: a new one.

    Raises:
        OSError: It can't be written.
    """

    def __init__(self, files: StateFiles, name: str | None = None) -> None:
        files.folder.mkdir(parents=True, exist_ok=True)
        self._keys = files.keys
        self.name = name or f"{files.name}-{uuid.uuid4().hex}.states"
        self._file = (files.folder / self.name).open("a+b")

    def add(self, leaf: int, states: Iterable[bytes | memoryview]) -> list[StatePlace]:
        """Add the states of a leaf, which come in the order of the scans.

        Raises:
            OSError: They don't fit; nothing is to be added after that.
        """
        places = []
        for key, state in zip(self._keys, states, strict=True):
            digest = _digest(state)
            begins = self._file.seek(0, os.SEEK_END) + _HEAD.size
            self._file.write(_HEAD.pack(key, leaf, len(state), digest))
            self._file.write(state)
            places.append(StatePlace(self.name, begins, len(state), digest.hex()))
        self._file.flush()
        return places

    def cut(self, size: int) -> None:
        """Keep so many bytes of it."""
        self._file.truncate(size)

    def close(self) -> None:
        """Add nothing more."""
        with contextlib.suppress(OSError):
            self._file.close()


class LeafJournal:
    """States of the leaves of some scans of a dataset. Where the disk takes no more, nothing more is kept.

    Args:
        folder: Of the run.
        basis: What all of the states rest on.
        keys: What those of each scan rest on beside; none: nothing is kept.
    """

    def __init__(self, folder: Path, basis: object, keys: Sequence[object]) -> None:
        name = _digest(json.dumps(basis, sort_keys=True).encode()).hex()[:32]
        self._files = StateFiles(folder / FOLDER, name, tuple(_digest(json.dumps(key).encode()) for key in keys))
        self._file: StateFile | None = None
        self._places: dict[tuple[bytes, int], StatePlace] = {}
        """Scan and leaf: where the state is."""
        with contextlib.suppress(OSError):
            if keys:
                self._file = StateFile(self._files, f"{name}.states")
                for path in sorted(self._files.folder.glob(f"{name}*.states")):
                    end = 0
                    for key, leaf, place in _whole(path):
                        self._places[key, leaf] = place
                        end = place.begins + place.length
                    if path.name == self._file.name:
                        # What a crash has torn is no state, and nothing may follow it.
                        self._file.cut(end)

    @property
    def files(self) -> StateFiles | None:
        """Place where others may keep states themselves, and then say so to `note`; None: nothing is kept."""
        return None if self._file is None else self._files

    def get(self, leaf: int) -> list[bytes] | None:
        """States of a leaf, in the order of the scans; None: not all of them are there."""
        states = [self._state(key, leaf) for key in self._files.keys]
        whole = [state for state in states if state is not None]
        return whole if whole and len(whole) == len(states) else None

    def _state(self, key: bytes, leaf: int) -> bytes | None:
        place = self._places.get((key, leaf))
        if self._file is None or place is None:
            return None
        state = self._files.read(place)
        return state if state is not None and _digest(state).hex() == place.digest else None

    def put(self, leaf: int, states: Sequence[bytes]) -> None:
        """Keep the states of a leaf."""
        if self._file is None:
            return
        try:
            self.note(leaf, self._file.add(leaf, states))
        except OSError:
            self.close()

    def note(self, leaf: int, places: Sequence[StatePlace]) -> None:
        """Note where the states of a leaf are kept, in the order of the scans."""
        self._places |= {(key, leaf): place for key, place in zip(self._files.keys, places, strict=True)}

    def close(self) -> None:
        """Keep nothing more."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _whole(path: Path) -> Iterator[tuple[bytes, int, StatePlace]]:
    """Scan, leaf and place of the states in a file, up to the first that is torn."""
    with path.open("rb") as file:
        size, place = file.seek(0, os.SEEK_END), 0
        while place + _HEAD.size <= size:
            file.seek(place)
            key, leaf, length, digest = _HEAD.unpack(file.read(_HEAD.size))
            begins = place + _HEAD.size
            if begins + length > size:
                break
            yield key, leaf, StatePlace(path.name, begins, length, digest.hex())
            place = begins + length


def _digest(data: bytes | memoryview) -> bytes:
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
