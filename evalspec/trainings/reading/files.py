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
            if self.path.stat().st_size > MOST_BYTES:
                raise InputError(f"{self.name} is over {MOST_BYTES // 2**20} MiB, too much for the log of a run")
            return self.path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise InputError(f"{self.name} can't be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name} is not text in UTF-8") from error


def log_files(access: Access, relative: str) -> tuple[LogFile, ...]:
    """All logs behind a path, in the order of their names.

    Raises:
        InputError: There is none, or one lies outside the spec's folder and may not.
    """
    pattern = relative
    for place in PLACES:
        pattern = pattern.replace(place, "*")
    if not set(pattern) & set("*?["):
        path = access.path(relative)
        if path.is_dir():
            raise InputError(f"{relative!r} is a folder", remedy=f"name the logs in it: {relative.rstrip('/')}/*")
        return (LogFile(path, _name(access, path)),)
    matcher = re.compile(_expression(relative))
    files = [one for path in _matches(access, pattern) if (one := _log_file(access, path, matcher)) is not None]
    if not files:
        raise InputError(f"there is no file {relative!r} in {access.folder}", code=ProblemCode.NO_FILE)
    return tuple(sorted(files, key=lambda one: one.name))


def _matches(access: Access, pattern: str) -> Iterator[Path]:
    """Files that a pattern names, from the folder above its first star on."""
    parts = Path(pattern).parts
    first = next(index for index, part in enumerate(parts) if set(part) & set("*?["))
    if any("**" in part for part in parts):
        raise InputError(f"the pattern {pattern!r} has `**`", remedy="name each folder: runs/*/log.txt")
    root = access.path(str(Path(*parts[:first])) if first else ".")
    for number, path in enumerate(root.glob(str(Path(*parts[first:])))):
        if number == MOST_FILES:
            raise InputError(f"{pattern!r} names more than {MOST_FILES:,} files", remedy="name those of one training")
        if path.is_file():
            yield access.path(str(path))


def _log_file(access: Access, path: Path, matcher: re.Pattern[str]) -> LogFile | None:
    name = _name(access, path)
    match = matcher.search(path.as_posix())
    if match is None:
        return None
    told = match.groupdict()
    seed, workers = told.get("seed"), told.get("workers")
    return LogFile(path, name, None if seed is None else int(seed), None if workers is None else int(workers))


def _expression(relative: str) -> str:
    """A regular expression of the paths that a pattern stands for."""
    pieces = re.split(r"(\{seed\}|\{workers\}|\*|\?|\[[^\]]*\])", relative.removeprefix("./"))
    used: set[str] = set()
    text = ""
    for piece in pieces:
        if piece in PLACES:
            text += r"\d+" if piece in used else PLACES[piece]
            used.add(piece)
        elif piece == "*":
            text += "[^/]*"
        elif piece == "?":
            text += "[^/]"
        else:
            text += piece.replace("[!", "[^") if piece.startswith("[") else re.escape(piece)
    return rf"(?:^|/){text}$"


def _name(access: Access, path: Path) -> str:
    folder = access.folder.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
