"""Logs behind a path, with the seed and the number of workers that the path tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import InputError, ProblemCode
from evalspec.language.parts import Access

PLACES = {"{seed}": r"(?P<seed>\d+)", "{workers}": r"(?P<workers>\d+)"}
MOST_FILES = 10_000
MOST_BYTES = 512 * 2**20
PATH = (
    "A file, or a pattern over files, one a run: `runs/*/log.txt`. `{seed}` and `{workers}` in it stand for whole "
    "numbers, and tell those of each run."
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log.

    Args:
        path: Where it is.
        name: As it is told to people: relative to the spec's folder.
        seed: That its path tells.
        workers: That its path tells.
    """

    path: Path
    name: str
    seed: int | None = None
    workers: int | None = None

    def text(self) -> str:
        """Its text.

        Raises:
            InputError: It can't be read, is too large or is no text.
        """
        try:
            return self.content().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name} is not text in UTF-8") from error

    def check(self) -> None:
        """Open it; nothing is read.

        Raises:
            InputError: It is not there, or may not be read.
        """
        if self.path.is_dir():
            return
        try:
            self.path.open("rb").close()
        except OSError as error:
            raise InputError(f"{self.name} can't be read: {error.strerror or error}") from error

    def content(self) -> bytes:
        """Its bytes.

        Raises:
            InputError: It can't be read, or is too large.
        """
        try:
            if self.path.stat().st_size > MOST_BYTES:
                raise InputError(f"{self.name} is over {MOST_BYTES // 2**20} MiB, too much for the log of a run")
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.name} can't be read: {error.strerror or error}") from error


def log_files(access: Access, relative: str, *, folders: bool = False) -> tuple[LogFile, ...]:
    """All logs behind a path, in the order of their names.

    Args:
        access: Where they may be read from.
        relative: A path, or a pattern.
        folders: A folder stands for one log, too.

    Raises:
        InputError: There is none, or one lies outside the spec's folder and may not.
    """
    pattern = relative
    for place in PLACES:
        pattern = pattern.replace(place, "*")
    if not set(pattern) & set("*?["):
        path = access.path(relative)
        if path.is_dir() and not folders:
            raise InputError(f"{relative!r} is a folder", remedy=f"name the logs in it: {relative.rstrip('/')}/*")
        return (LogFile(path, _name(access, path)),)
    files = list(_matches(access, relative, pattern, folders=folders))
    if not files:
        raise InputError(f"there is no file {relative!r} in {access.folder}", code=ProblemCode.NO_FILE)
    return tuple(sorted(files, key=lambda one: one.name))


def _matches(access: Access, relative: str, pattern: str, *, folders: bool) -> Iterator[LogFile]:
    """Files that a pattern names, from the folder above its first star on."""
    parts, named = Path(pattern).parts, Path(relative).parts
    first = next(index for index, part in enumerate(parts) if set(part) & set("*?["))
    if any("**" in part for part in parts):
        raise InputError(f"the pattern {pattern!r} has `**`", remedy="name each folder: runs/*/log.txt")
    above = Path(*parts[:first])
    root = access.path(str(above) if first else ".")
    matcher = re.compile(_expression("/".join(named[first:])))
    for number, path in enumerate(root.glob(str(Path(*parts[first:])))):
        if number == MOST_FILES:
            raise InputError(f"{pattern!r} names more than {MOST_FILES:,} files", remedy="name those of one training")
        inside = path.relative_to(root)
        match = matcher.fullmatch(inside.as_posix())
        if match is None or not (path.is_file() or (folders and path.is_dir())):
            continue
        told = {name: int(text) for name, text in match.groupdict().items() if text is not None}
        yield LogFile(access.path(str(path)), (above / inside).as_posix(), told.get("seed"), told.get("workers"))


def _expression(relative: str) -> str:
    """A regular expression of the paths that a pattern stands for."""
    used: set[str] = set()
    text = ""
    for piece in re.split(r"(\{seed\}|\{workers\}|\*|\?|\[[^\]]*\])", relative):
        if piece in PLACES:
            text += r"\d+" if piece in used else PLACES[piece]
            used.add(piece)
        elif piece in ("*", "?"):
            text += "[^/]" + ("*" if piece == "*" else "")
        else:
            text += piece.replace("[!", "[^") if piece.startswith("[") else re.escape(piece)
    return text


def _name(access: Access, path: Path) -> str:
    folder = access.folder.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
