"""Files that code of the spec's reads while it runs: the modules that it imports, and what it opens."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evalspec.errors import InputError
from evalspec.pipeline.digest import file_digest

WRITING = os.O_WRONLY | os.O_RDWR
SYSTEM = ("/proc/", "/sys/", "/dev/")
PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")
"""Folders where a system, another prefix or a user keeps installed packages."""
CHANGED = "changed while it was read"
"""Word in the place of a digest."""

Signature = tuple[int, int, int, int, int]


class CodeFiles:
    """Watches what is read in this process, for as long as the process lasts.

    Modules count wherever they lie, and other files where the spec or one of these modules lies, but for installed
    packages, whose versions are in the record. What a library opens without Python (a session of onnxruntime, a
    parquet file) is not seen; ``weights:`` names it.

    Args:
        folders: Where code lies whose files count.
        files: Single files that count, such as a module of an installed package.
    """

    def __init__(self, folders: Iterable[Path], files: Iterable[Path] = ()) -> None:
        self._folders = {f"{folder.resolve()}{os.sep}" for folder in folders}
        self._files = {str(path.resolve()) for path in files}
        self._opened: dict[str, Signature | None] = {}
        self._written: set[str] = set()
        self._digests: dict[str, str] = {}
        self._watching = False
        self._real_folders: dict[str, str] = {}
        self._modules_of_libraries: set[str] = set()
        self._libraries = tuple(f"{Path(path).resolve()}{os.sep}" for path in _libraries())
        # There is no way to take it back: only a process that holds one model makes one.
        sys.addaudithook(self._heard)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Code of the spec's may run meanwhile."""
        before, self._watching = self._watching, True
        try:
            yield
        finally:
            self._watching = before

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self._watching:
            return
        name, _, flags = arguments
        if not isinstance(name, str | bytes | os.PathLike):
            return
        path = _source(os.path.abspath(os.fsdecode(name)))
        if isinstance(flags, int) and flags & WRITING:
            # What the code itself writes is no part of what it was given.
            self._written.add(path)
        elif path not in self._opened and not path.startswith(SYSTEM):
            # Whether it counts is known once the modules are: not while something may be timed.
            self._opened[path] = _signature(path)

    def _real_module(self, path: str) -> str:
        """A module's path without links: a thousand of them lie in a few folders, which are resolved once."""
        folder, name = os.path.split(path)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        real = os.path.join(self._real_folders[folder], name)
        return os.path.realpath(real) if os.path.islink(real) else real

    def _library(self, path: str, real: str) -> bool:
        if real in self._files:
            return False
        return real.startswith(self._libraries) or PACKAGES.search(real) is not None or self._standard(path)

    def _standard(self, path: str) -> bool:
        # Debian's `sitecustomize` is a link from the standard library to /etc.
        return path.startswith(self._libraries[:2]) and PACKAGES.search(path) is None

    def _counts(self, path: str) -> bool:
        real = os.path.realpath(path)
        return real in self._files or (real.startswith(tuple(self._folders)) and not self._library(path, real))

    def digests(self) -> dict[str, str]:
        """Path: sha256 of each file that was read until now, or `CHANGED`."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if not isinstance(path, str) or (path := os.path.abspath(path)) in self._modules_of_libraries:
                continue
            if self._library(path, self._real_module(path)):
                self._modules_of_libraries.add(path)
                continue
            self._folders.add(f"{top_folder(Path(path).resolve())}{os.sep}")
            self._opened.setdefault(path, _signature(path))
        for path, signature in list(self._opened.items()):
            if path not in self._digests and signature is not None and self._counts(path):
                self._digests[path] = _digest(path, signature)
        return {path: digest for path, digest in self._digests.items() if path not in self._written}


def _digest(path: str, signature: Signature) -> str:
    try:
        digest = file_digest(Path(path))
    except InputError:
        return CHANGED
    return digest if _signature(path) == signature else CHANGED


def _signature(path: str) -> Signature | None:
    """Signature of a file, which changes when it is written to or replaced; None: there is no regular file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    regular = os.path.isfile(path)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if regular else None


def _source(path: str) -> str:
    """The module that a file of bytecode was made from; any other file as it is."""
    try:
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    except (ValueError, NotImplementedError):
        return path


def _libraries() -> list[str]:
    """Folders of the standard library, of installed packages and of this program: their versions are in the record."""
    paths = sysconfig.get_paths()
    return [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")] + [str(Path(__file__).parents[1])]


def code_folders(files: Iterable[Path], folder: Path) -> tuple[list[Path], list[Path]]:
    """Folders in which a model's code lies, and single files of it.

    Of an installed package only the file that is named counts: its version is in the record.

    Args:
        files: Of the model; modules outside of the spec's folder count with all that lies in theirs.
        folder: Of the spec.
    """
    folders, single = [folder.resolve()], []
    libraries = {Path(path).resolve() for path in _libraries()}
    for file in files:
        if file.suffix != ".py" or file.resolve().is_relative_to(folders[0]):
            continue
        top = top_folder(file.resolve())
        if top in libraries:
            single.append(file)
        else:
            folders.append(top)
    return folders, single


def top_folder(module: Path) -> Path:
    """The folder that a module is found in: above the package that it belongs to."""
    top = module.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    return top
