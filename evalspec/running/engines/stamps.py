"""Stamps of a dataset's files: what a node that mounts other ones, or older ones, would see otherwise.

Objects in object storage have stamps of their own. They are listed once, travel with `Access`, and hold for each read,
whoever reads: a node only has to be able to.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path

from evalspec.errors import InputError
from evalspec.language.parts import Access, Dataset

TAIL_BYTES = 65_536
"""Of the end of a file, in which its footer is."""
Stamps = Mapping[str, tuple[int, int, str]]
"""Path: size, time of the last change in ns, digest of the end."""
SAME = "mount the same files on every node, at the same path; copies must keep their times"


def stamps_of(dataset: Dataset, access: Access) -> dict[str, tuple[int, int, str]]:
    """Stamps of the files of a dataset as they are seen here; its objects are listed, if nobody has.

    Raises:
        InputError: One is missing or can't be read.
    """
    dataset.list_objects(access)
    return stamps_of_files(dataset.files(access))


def same_files(dataset: Dataset, access: Access, planned: Stamps) -> None:
    """Stop where other files are seen here than where the run was planned, or where its objects can't be read.

    Args:
        dataset: As the spec has it.
        access: Where it may be read from, with the objects that were listed there.
        planned: Stamps there.

    Raises:
        InputError: The first difference, or what keeps objects from being read.
        InvalidError: An object has other contents than those that were listed.
    """
    _same({str(path) for path in dataset.files(access)}, planned, "the dataset")
    dataset.probe_objects(access)


def stamps_of_files(paths: Iterable[Path]) -> dict[str, tuple[int, int, str]]:
    """Stamps of some files as they are seen here.

    Raises:
        InputError: One is missing or can't be read.
    """
    return {str(path): _stamp(path) for path in paths}


def same_model(paths: Iterable[Path], planned: Stamps) -> None:
    """As `same_files`, of the files of a model.

    Raises:
        InputError: The first difference.
    """
    _same({str(path) for path in paths}, planned, "the model")


def _same(mine: Set[str], planned: Stamps, what: str) -> None:
    for path in sorted({*mine, *planned}):
        if path not in planned:
            raise InputError(f"{path} is there, which is not part of {what} elsewhere", remedy=SAME)
        if path not in mine:
            raise InputError(f"there is no {path}", remedy=SAME)
        other = _other(_stamp(Path(path)), planned[path])
        if other:
            raise InputError(f"{path} is a different file: {other}", remedy=SAME)


def unchanged(planned: Stamps) -> bool:
    """True while sizes and times are those of the plan; ends of files are not read again."""
    try:
        return all(_size_and_time(path) == (size, time) for path, (size, time, _) in planned.items())
    except OSError:
        return False


def _size_and_time(path: str) -> tuple[int, int]:
    told = os.stat(path)
    return told.st_size, told.st_mtime_ns


def _stamp(path: Path) -> tuple[int, int, str]:
    try:
        with path.open("rb") as file:
            told = os.fstat(file.fileno())
            file.seek(max(0, told.st_size - TAIL_BYTES))
            end = file.read(TAIL_BYTES)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}", remedy=SAME) from error
    return told.st_size, told.st_mtime_ns, hashlib.sha256(end).hexdigest()


def _other(mine: Sequence[object], planned: tuple[int, int, str]) -> str:
    """Difference between two stamps, in words; empty: none."""
    size, time, end = mine
    if size != planned[0]:
        return f"it has {size:,} bytes, and elsewhere {planned[0]:,}"
    if time != planned[1]:
        return f"it was changed at {_moment(time)}, and elsewhere at {_moment(planned[1])}"
    return "its end has other bytes than elsewhere" if end != planned[2] else ""


def _moment(time_ns: object) -> str:
    assert isinstance(time_ns, int)
    # Two that differ in less than a second shall not read the same.
    moment = datetime.fromtimestamp(time_ns // 10**9, UTC)
    return f"{moment.strftime('%Y-%m-%d %H:%M:%S')}.{time_ns % 10**9:09d} UTC"
