"""States of leaves on disk, so that a run that is gone on with looks at no leaf twice.

Files for each dataset, each written by one process: the one that merges the states, or a child that has seen the
leaves. A state has a digest of all that is known of it, and what a crash has torn is looked at again. Names of files
begin with the digest of all that the states rest on.
"""

from __future__ import annotations

import contextlib
import errno
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

from evalspec.running.files import open_lines, open_regular

FOLDER = "leaves"
PASSES = "passes.jsonl"
"""A line for each pass over a dataset, for the record."""
_HEAD = struct.Struct("!32sQQQ")
"""Digest of the scan, leaf, its rows, and length of the state. A digest of these and of the state follows."""
_BEFORE = _HEAD.size + hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class StatePlace:
    """Place of the state of a leaf.

    Args:
        file: Name of the file.
        begins: First byte of what is written of it.
        length: Bytes of the state.
    """

    file: str
    begins: int
    length: int


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

    def states(self, leaf: int, rows: int, places: Iterable[Sequence[StatePlace]]) -> list[bytes] | None:
        """States of a leaf of so many rows; None: one is not there as it was written.

        Args:
            leaf: Its number.
            rows: Of it.
            places: Where the state of each scan may be.
        """
        states = []
        for key, several in zip(self.keys, places, strict=True):
            read = (self._state(key, leaf, rows, place) for place in several)
            state = next((one for one in read if one is not None), None)
            if state is None:
                return None
            states.append(state)
        return states

    def _state(self, key: bytes, leaf: int, rows: int, place: StatePlace) -> bytes | None:
        try:
            with open_regular(self.folder / place.file) as file:
                file.seek(place.begins)
                written = file.read(_BEFORE + place.length)
        except OSError:
            return None
        head, state = _HEAD.pack(key, leaf, rows, place.length), written[_BEFORE:]
        whole = written[:_BEFORE] == head + _digest(head, state) and len(state) == place.length
        return state if whole else None


class StateFile:
    """A new file, to which one process adds states.

    Args:
        files: All of them.

    Raises:
        OSError: It can't be written.
    """

    def __init__(self, files: StateFiles) -> None:
        files.folder.mkdir(parents=True, exist_ok=True)
        self._keys = files.keys
        self._path = files.folder / f"{files.name}-{uuid.uuid4().hex}.states"
        self._file = open_regular(self._path, "xb+")

    def add(self, leaf: int, rows: int, states: Iterable[bytes | memoryview]) -> list[StatePlace]:
        """Add the states of a leaf, which come in the order of the scans.

        Raises:
            OSError: They don't fit, or the file is gone. Nothing is to be added after that, and nothing stays of the
                file: others need the room more.
        """
        places = []
        try:
            if not os.fstat(self._file.fileno()).st_nlink:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))
            for key, state in zip(self._keys, states, strict=True):
                places.append(StatePlace(self._path.name, self._file.tell(), len(state)))
                head = _HEAD.pack(key, leaf, rows, len(state))
                self._file.write(head + _digest(head, state))
                self._file.write(state)
            self._file.flush()
        except OSError:
            self.close()
            with contextlib.suppress(OSError):
                self._path.unlink()
            raise
        return places

    def close(self) -> None:
        """Add nothing more."""
        with contextlib.suppress(OSError):
            self._file.close()


class LeafJournal:
    """States of the leaves of some scans of a dataset. Where the disk takes no more, nothing more is kept.

    Args:
        folder: Of the run.
        basis: What all of the states rest on.
        keys: Digests of what those of each scan rest on beside; none: nothing is kept.
    """

    def __init__(self, folder: Path, basis: object, keys: Sequence[bytes]) -> None:
        name = _digest(json.dumps(basis, sort_keys=True).encode()).hex()[:32]
        self._files = StateFiles(folder / FOLDER, name, tuple(keys))
        self._keeps = bool(keys)
        self._file: StateFile | None = None
        self._places: dict[tuple[bytes, int], list[StatePlace]] = {}
        """Scan and leaf: where earlier runs have kept the state."""
        for path in sorted(self._files.folder.glob(f"{name}-*.states")) if keys else ():
            with contextlib.suppress(OSError):
                for key, leaf, place in _whole(path):
                    self._places.setdefault((key, leaf), []).append(place)

    @property
    def files(self) -> StateFiles | None:
        """Place where children may keep states themselves; None: nothing is kept."""
        return self._files if self._keeps else None

    def get(self, leaf: int, rows: int) -> list[bytes] | None:
        """States of a leaf of so many rows, in the order of the scans; None: not all of them were kept."""
        if not self._keeps:
            return None
        return self._files.states(leaf, rows, [self._places.get((key, leaf), ()) for key in self._files.keys])

    def put(self, leaf: int, rows: int, states: Sequence[bytes]) -> None:
        """Keep the states of a leaf."""
        if not self._keeps:
            return
        try:
            self._file = self._file or StateFile(self._files)
            self._file.add(leaf, rows, states)
        except OSError:
            self.close()

    def close(self) -> None:
        """Keep nothing more."""
        self._keeps = False
        if self._file is not None:
            self._file.close()
            self._file = None


def _whole(path: Path) -> Iterator[tuple[bytes, int, StatePlace]]:
    """Scan, leaf and place of the states in a file, up to the first that is torn."""
    with open_regular(path) as file:
        size, begins = file.seek(0, os.SEEK_END), 0
        while begins + _BEFORE <= size:
            file.seek(begins)
            key, leaf, _, length = _HEAD.unpack(file.read(_HEAD.size))
            if begins + _BEFORE + length > size:
                break
            yield key, leaf, StatePlace(path.name, begins, length)
            begins += _BEFORE + length


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def note_pass(folder: Path, told: Mapping[str, Any]) -> None:
    """Note a pass over a dataset, where that can be written.

    Args:
        folder: Of the run.
        told: What it took: counts of ``leaves`` and ``leaf_rows``, or of ``parts``; of those that were ``kept``, and
            looked at ``again``; nodes that were ``lost``.
    """
    with contextlib.suppress(OSError):
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        with open_lines(folder / FOLDER / PASSES) as file:
            file.write(json.dumps(told).encode() + b"\n")


def remove_leaves(folder: Path) -> None:
    """Remove what a run that has ended needs no more.

    Args:
        folder: Of the run.
    """
    leaves = folder / FOLDER
    with contextlib.suppress(OSError):
        if leaves.is_symlink() or not leaves.is_dir():
            leaves.unlink(missing_ok=True)
        else:
            shutil.rmtree(leaves, ignore_errors=True)


def passes_of(folder: Path) -> list[dict[str, Any]]:
    """Passes that were noted, in their order."""
    passes = []
    with contextlib.suppress(OSError), open_regular(folder / FOLDER / PASSES) as file:
        for line in file:
            with contextlib.suppress(ValueError, RecursionError):
                one = json.loads(line)
                if _is_pass(one):
                    passes.append(one)
    return passes


def _is_pass(one: object) -> bool:
    if not isinstance(one, dict):
        return False
    counts = [one.get(name) for name in ("kept", "again", *(["parts"] if "parts" in one else ["leaves", "leaf_rows"]))]
    lost = one.get("lost")
    return all(map(_is_count, counts)) and isinstance(lost, list) and all(isinstance(name, str) for name in lost)


def _is_count(one: object) -> bool:
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 2**63
