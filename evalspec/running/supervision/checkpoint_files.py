"""Files of the checkpoints of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class CheckpointFile(NamedTuple):
    """A file of a checkpoint, as it was when it was looked at.

    Args:
        size: In bytes.
        changed_ns: When it changed.
        path: Where it is, behind links.
    """

    size: int
    changed_ns: int
    path: Path


Files = Mapping[str, CheckpointFile]
"""Files of checkpoints, by their path in the folder of checkpoints."""


def checkpoint_files(place: Path, run: Path, copy: Path | None = None) -> Files:
    """Files below a folder, or the one file that a path is; a link to what is there itself is none.

    Args:
        place: The folder or file.
        run: Folder of the run. A folder behind a link out of it is one entry, as a file is.
        copy: Of that folder, in which the place lies: what a link says of the folder is meant of its copy.

    Raises:
        OSError: Something is renamed or removed meanwhile.
    """
    root, real = Path(os.path.realpath(place)), run.resolve()
    of = _Links(root, real, real if copy is None else copy.resolve())
    if place.is_file():
        return {place.name: _file(of.behind(place))}
    return dict(of.below(root, "", set())) if place.is_dir() else {}


class _Links(NamedTuple):
    """Links of a folder of checkpoints, in the folder of a run or in a copy of that."""

    root: Path
    run: Path
    copy: Path

    def behind(self, path: Path) -> Path:
        """Where a path leads."""
        # `resolve` fails at links that go round in a circle.
        real = Path(os.path.realpath(path))
        return self.copy / real.relative_to(self.run) if real.is_relative_to(self.run) else real

    def below(self, folder: Path, prefix: str, seen: set[Path]) -> Iterator[tuple[str, CheckpointFile]]:
        """Files below a folder with their names; links into the checkpoints themselves are left out."""
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        for entry in ordered:
            name, is_link = f"{prefix}{entry.name}", entry.is_symlink()
            # Training goes on while they are looked at again and again, and only links lead elsewhere.
            path = self.behind(folder / entry.name) if is_link else folder / entry.name
            if is_link and (path.is_relative_to(self.root) or not path.exists()):
                continue
            if (path.is_dir() if is_link else entry.is_dir()) and path.is_relative_to(self.copy):
                if path not in seen:
                    yield from self.below(path, f"{name}/", seen | {path})
            elif is_link or entry.is_file():
                yield name, _file(path)


def _file(path: Path) -> CheckpointFile:
    stat = path.stat()
    return CheckpointFile(stat.st_size, stat.st_mtime_ns, path)
