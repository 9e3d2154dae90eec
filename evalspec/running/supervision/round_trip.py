"""A checkpoint that a training goes on from and saves again at once: what of it is not as it was."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import InputError
from evalspec.evidence.record import LostState, Resaved
from evalspec.trainings.reading.checkpoint_state import StateValue, read_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalspec.trainings.command import RoundTrip

NAMED = 8
"""Differences that are named; the others are counted."""
DIGITS = re.compile(r"\d+")
UNFINISHED = frozenset({".tmp", ".temp", ".part", ".partial", ".writing", ".incomplete"})
"""Names of files that are being written, of which a kill leaves one behind."""
Key = tuple[str, str]
"""A file, without the numbers of its name, and the name of a value in it."""
State = Mapping[Key, StateValue]


@contextmanager
def kept_aside(out: Path) -> Iterator[Path]:
    """A copy of the folder of a run, which is put back afterwards, so that a round trip changes nothing for it.

    The round trip takes place in the folder itself: checkpoints may hold its path.

    Args:
        out: The folder.

    Raises:
        InputError: It can't be copied.
    """
    aside = out.with_name(f"{out.name}-aside")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(out, aside, symlinks=True)
    except OSError as error:
        raise InputError(f"{out} can't be copied for a round trip: {error.strerror or error}") from error
    try:
        yield aside
    finally:
        shutil.rmtree(out, ignore_errors=True)
        try:
            aside.rename(out)
        except OSError as error:
            raise InputError(f"{out} can't be put back after a round trip: {error.strerror or error}") from error


def resaved(before: Path, now: Path, asked: RoundTrip) -> Resaved:
    """State that a checkpoint has lost when it was read and saved again.

    Files that were written are held against the newest ones that are named like them but for numbers.

    Args:
        before: Folder of checkpoints as it was.
        now: As it is now.
        asked: Names of what must be there, and of what may change.
    """
    old, new = _files(before), _files(now)
    written = [name for name, stamp in new.items() if old.get(name) != stamp]
    if not old:
        return Resaved(unknown="when it was killed it had not written a checkpoint")
    if not written:
        return Resaved(unknown="started with the arguments of `round_trip` it wrote no checkpoint")
    pairs = {name: _counterpart(name, old) for name in written}
    lost = [*_older(before, pairs, old), *_left_out(pairs, old)]
    try:
        then, after = _states(before, now, pairs, asked.may_change)
    except InputError as error:
        return Resaved(unknown=str(error))
    lost += [LostState(name=one, what="absent") for one in asked.holds if not _any(after, one)]
    lost += _differences(then, after)
    lost = [one for one in lost if not _matches(one.name, asked.may_change)]
    missed = next((one for one in asked.holds if _any(after, one) and not _any(then, one)), None)
    newest = max((one for one in pairs.values() if one is not None), key=lambda name: old[name][1], default="")
    why = None if missed is None else f"when it was killed no checkpoint had {missed!r} yet"
    return Resaved(
        file=newest, names=len(then), lost=len(lost), first=tuple(lost[:NAMED]), unknown=None if lost else why
    )


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Files below a folder, or itself if it is one: size, and when each changed. Links are no checkpoints."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                stat = path.stat()
                found[path.relative_to(folder).as_posix()] = stat.st_size, stat.st_mtime_ns
    return found


def _pattern(name: str) -> str:
    return DIGITS.sub("#", name)


def _counterpart(name: str, old: Mapping[str, tuple[int, int]]) -> str | None:
    """The file of before that one is held against: its namesake, or the newest whose name differs in numbers alone."""
    if name in old:
        return name
    numbers = DIGITS.findall(name)

    def nearness(other: str) -> tuple[int, int]:
        # Of shards of several workers each has its own; the step is what differs.
        same = sum(one == two for one, two in zip(numbers, DIGITS.findall(other), strict=True))
        return same, old[other][1]

    return max((one for one in old if _pattern(one) == _pattern(name)), key=nearness, default=None)


def _older(before: Path, pairs: Mapping[str, str | None], old: Mapping[str, tuple[int, int]]) -> Iterable[LostState]:
    """Files of which the round trip wrote over one that was not the newest of its kind."""
    for kind in sorted({_pattern(one) for one in pairs}):
        like = [one for one in old if _pattern(one) == kind]
        if not like:
            continue
        newest = max(like, key=lambda name: old[name][1])
        if newest not in pairs.values() and not _is_torn(before, newest, max(old[one][0] for one in like), old):
            yield LostState(name=newest, what="passed over")


def _is_torn(before: Path, name: str, whole: int, old: Mapping[str, tuple[int, int]]) -> bool:
    """True for a file that the kill cut off, which a training does well to pass over."""
    return old[name][0] < whole and _named(before / name, name) is None


def _left_out(pairs: Mapping[str, str | None], old: Mapping[str, tuple[int, int]]) -> Iterable[LostState]:
    """Files of a checkpoint of which no like was saved again, where others of the same checkpoint were."""
    held = {one for one in pairs.values() if one is not None}
    checkpoints, kinds = {_checkpoint(one) for one in held} - {None}, {_pattern(one) for one in pairs}
    for name in old:
        if _pattern(name) not in kinds and _checkpoint(name) in checkpoints and Path(name).suffix not in UNFINISHED:
            yield LostState(name=name, what="gone")


def _checkpoint(name: str) -> str | None:
    """Folder of the files of one checkpoint, or the first number in their names; None: neither."""
    folder, _, rest = name.partition("/")
    if rest:
        return f"{folder}/"
    numbers = DIGITS.findall(name)
    return numbers[0] if numbers else None


def _states(before: Path, now: Path, pairs: Mapping[str, str | None], ignored: Iterable[str]) -> tuple[State, State]:
    """Contents of the files before, and now."""
    then: dict[Key, StateValue] = {}
    after: dict[Key, StateValue] = {}
    for name, other in pairs.items():
        if _matches(name, ignored):
            continue
        key, path = _pattern(name), now / name
        if other is not None and filecmp.cmp(before / other, path, shallow=False):
            # The same to the byte, whatever it is.
            same = _named(path, name) or {"": StateValue("file", (), "")}
            then |= {(key, one): value for one, value in same.items()}
            after |= {(key, one): value for one, value in same.items()}
            continue
        after |= {(key, one): value for one, value in read_state(path, name).items()}
        if other is not None:
            then |= {(key, one): value for one, value in read_state(before / other, other).items()}
    ignore = tuple(ignored)
    return (
        {key: value for key, value in then.items() if not _matches(key[1], ignore)},
        {key: value for key, value in after.items() if not _matches(key[1], ignore)},
    )


def _named(path: Path, name: str) -> dict[str, StateValue] | None:
    """Names in a file, None: they can't be read."""
    try:
        return read_state(path, name)
    except InputError:
        return None


def _differences(then: State, after: State) -> Iterable[LostState]:
    several = len({file for file, _ in then}) > 1
    for key, was in then.items():
        file, name = key
        shown = name if name and not several else f"{file}: {name}" if name else file
        now = after.get(key)
        if now is None:
            yield LostState(name=shown, what="gone")
        elif now.type != was.type:
            yield LostState(name=shown, what="type", then=was.type, now=now.type)
        elif now.shape != was.shape:
            yield LostState(name=shown, what="size", then=str(was.shape), now=str(now.shape))
        elif now.digest != was.digest:
            yield LostState(name=shown, what="value")


def _any(state: State, pattern: str) -> bool:
    of_file = _pattern(pattern)
    return any(
        fnmatchcase(name, pattern) or fnmatchcase(file, of_file) or fnmatchcase(file.rpartition("/")[2], of_file)
        for file, name in state
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """True if a name or a file, with or without its folder, is one of these."""
    ends = (name, name.rpartition("/")[2])
    return any(fnmatchcase(one, pattern) for pattern in patterns for one in ends)
