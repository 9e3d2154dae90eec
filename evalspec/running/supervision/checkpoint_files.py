"""Files of the checkpoints of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

Stamps = Mapping[str, tuple[int, int]]
"""Size of each file, and when it changed, by its path in the folder of checkpoints."""


def checkpoint_files(place: Path) -> Stamps:
    """Files below a folder, or the one file that a path is; a link to one that is there itself is none.

    Args:
        place: The folder or file.

    Raises:
        OSError: Something is renamed or removed meanwhile.
    """
    if place.is_file():
        return {place.name: _stamp(place)}
    root, found = place.resolve(), {}
    for folder, _, names in os.walk(place):
        for name in names:
            path = Path(folder, name)
            if path.is_symlink() and (not path.exists() or path.resolve().is_relative_to(root)):
                continue
            found[path.relative_to(place).as_posix()] = _stamp(path)
    return found


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
