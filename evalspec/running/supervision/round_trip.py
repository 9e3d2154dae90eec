"""A checkpoint that a training goes on from and saves again at once: what of it is not as it was."""

from __future__ import annotations

import filecmp
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import InputError
from evalspec.evidence.record import LostState, Resaved
from evalspec.running.supervision.checkpoint_files import Files, checkpoint_files
from evalspec.trainings.command import OUT
from evalspec.trainings.reading.checkpoint_state import StateValue, is_whole, read_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalspec.trainings.command import RoundTrip

NAMED = 8
"""Differences that are named; the others are counted."""
DIGITS = re.compile(r"\d+")
UNFINISHED = re.compile(r"\.(tmp|temp|part|partial|writing|incomplete|lock)(/|$)|(^|[/._-])(tmp|temp/)", re.IGNORECASE)
"""Names of files and folders that are being written, or last while others are, of which a kill leaves one behind."""
Key = tuple[str, str]
"""A file, and the name of a value in it."""
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
        shutil.copytree(out, aside, symlinks=True, ignore=_special)
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


def _special(folder: str, names: Sequence[str]) -> set[str]:
    """Sockets and pipes, which belong to processes: none of them outlives a kill."""
    paths = {name: Path(folder, name) for name in names}
    return {name for name, one in paths.items() if not (one.is_symlink() or one.is_dir() or one.is_file())}


def place_in(out: Path, folder: Path) -> Path | None:
    """Path of the checkpoints from the folder of a run on, behind links; None: they do not lie in it.

    Args:
        out: Folder of the run.
        folder: Where the run finds its checkpoints.
    """
    # `resolve` fails at links that go round in a circle.
    real, checkpoints = Path(os.path.realpath(out)), Path(os.path.realpath(folder))
    return checkpoints.relative_to(real) if checkpoints.is_relative_to(real) else None


def out_of_reach(out: Path, folder: Path, asked: RoundTrip) -> str | None:
    """Reason why checkpoints could not be put back; None: they could.

    Args:
        out: Folder of the run.
        folder: Where the run finds its checkpoints.
        asked: Names of what may change.
    """
    remedy = f"have it save in {OUT}"
    if place_in(out, folder) is None:
        return f"its checkpoints are behind a link out of {OUT}, where they can't be put back: {remedy}"
    try:
        real, files = out.resolve(), checkpoint_files(folder, out)
    except OSError as error:
        return _unread(error)
    far = (name for name, one in files.items() if not one.path.is_relative_to(real))
    name = next((one for one in far if not _is_file(one, asked.may_change)), None)
    return None if name is None else f"{name} is behind a link out of {OUT}, where it can't be put back: {remedy}"


def resaved(before: Path, now: Path, place: Path, asked: RoundTrip) -> Resaved:
    """State that a checkpoint has lost when it was read and saved again.

    Files that were written are held against the newest ones that are named like them but for numbers.

    Args:
        before: A copy of the folder of a run as it was.
        now: The folder as it is now.
        place: Of the checkpoints in it, a folder or the one file of them.
        asked: Names of what must be there, and of what may change.
    """
    try:
        old, new = checkpoint_files(before / place, now, before), checkpoint_files(now / place, now)
        return _compared(old, new, asked)
    except InputError as error:
        return Resaved(unknown=str(error))
    except OSError as error:
        return Resaved(unknown=_unread(error))


def _unread(error: OSError) -> str:
    return f"the checkpoints can't be read: {error.strerror or error}"


def _compared(old: Files, new: Files, asked: RoundTrip) -> Resaved:
    # What has only another name was not written: a checkpoint that makes way for the next.
    known = {one[:2] for one in old.values()}
    written = [name for name, one in new.items() if one[:2] not in known]
    if not old:
        return Resaved(unknown="when it was killed it had not written a checkpoint", early=True)
    if not written:
        return Resaved(unknown="started with the arguments of `round_trip` it wrote no checkpoint")
    pairs = {name: _counterpart(name, old) for name in written}
    then, after = _states(old, new, pairs, asked.may_change)
    found = _outcome(old, new, pairs, (then, after), asked)
    if found.unknown is not None and not found.early:
        others = {name: _other_name(pairs, old) if one is None else one for name, one in pairs.items()}
    elif any(_differences(then, after, pairs)):
        others = {name: _in_turn(name, old, written) or one for name, one in pairs.items()}
    else:
        return found
    if others == pairs:
        return found
    other = _outcome(old, new, others, _states(old, new, others, asked.may_change), asked)
    better = other.unknown is None and (other.lost < found.lost or not other.lost)
    return other if better else found


def _outcome(
    old: Files, new: Files, pairs: Mapping[str, str | None], states: tuple[State, State], asked: RoundTrip
) -> Resaved:
    """Loss if each file that was written is held against the one that it is paired with."""
    then, after = states
    missing = [*_left_out(pairs, old), *_vanished(old, new)]
    missing = [one for one in missing if not _is_file(one.name, asked.may_change)]
    held = [one for one in pairs.values() if one is not None]
    newest = max(held, key=lambda name: old[name].changed_ns, default="")
    lost = [*missing, *_absent(then, after, pairs, asked.holds), *_differences(then, after, pairs)]
    if lost:
        return Resaved(file=newest, names=len(then), lost=len(lost), first=tuple(lost[:NAMED]))
    late = next((one for one in asked.holds if not _any(then, one)), None)
    if late is None:
        return Resaved(file=newest, names=len(then))
    others = (one for one in old if one not in held and not UNFINISHED.search(one))
    elsewhere = next((one for one in others if _may_hold(old, one, late)), None)
    if elsewhere is None:
        why = f"when it was killed no checkpoint had {late!r} yet"
        return Resaved(file=newest, names=len(then), unknown=why, early=True)
    other = next((one for one in pairs if pairs[one] is None), next(iter(pairs)))
    why = f"it wrote {other}, which is not compared with {elsewhere}: have it save under the names of a training"
    return Resaved(file=newest, names=len(then), unknown=why)


def _pattern(name: str) -> str:
    return DIGITS.sub("#", name)


def _counterpart(name: str, old: Files) -> str | None:
    """The file of before that one is held against: its namesake, or the newest whose name differs in numbers alone."""
    return name if name in old else _nearest(name, old, old)


def _nearest(name: str, among: Iterable[str], old: Files) -> str | None:
    numbers = DIGITS.findall(name)

    def nearness(other: str) -> tuple[int, int]:
        # Of shards of several workers each has its own; the step is what differs.
        same = sum(one == two for one, two in zip(numbers, DIGITS.findall(other), strict=True))
        return same, old[other].changed_ns

    return max((one for one in among if _pattern(one) == _pattern(name)), key=nearness, default=None)


def _other_name(pairs: Mapping[str, str | None], old: Files) -> str | None:
    """The newest file that none is held against: one that a kill kept from its name may be saved under that now."""
    free = [one for one in old if one not in pairs.values() and not UNFINISHED.search(one)]
    return max(free, key=lambda one: old[one].changed_ns, default=None)


def _in_turn(name: str, old: Files, written: Collection[str]) -> str | None:
    """The newer file that is named like one but for numbers, where two take turns and the older is written over."""
    if name not in old:
        return None
    newer = [one for one in old if one not in written and old[one].changed_ns > old[name].changed_ns]
    return _nearest(name, newer, old)


def _left_out(pairs: Mapping[str, str | None], old: Files) -> Iterable[LostState]:
    """Files that belong to what was saved again, or are newer, and have no like among what was written."""
    held = {one for one in pairs.values() if one is not None}
    checkpoints, kinds = {_checkpoint(one) for one in held} - {None}, {_pattern(one) for one in pairs}
    oldest: dict[str, int] = {}
    for name in held:
        kind = _pattern(name)
        oldest[kind] = min(old[name].changed_ns, oldest.get(kind, old[name].changed_ns))
    others = [name for name in old if name not in held and not UNFINISHED.search(name)]
    newer = {name for name in others if old[name].changed_ns > oldest.get(_pattern(name), math.inf)}
    cut_off = _cut_off(newer, held, old)
    for name in others:
        kind, same = _pattern(name), _checkpoint(name) in checkpoints
        if kind not in kinds:
            left = same
        elif name in newer:
            left = name not in cut_off
        else:
            left = kind in oldest and same and (_begins_checkpoint(name, old) or _is_shard(name, held))
        if left:
            yield LostState(name=name, what="gone" if same else "passed over")


def _begins_checkpoint(name: str, old: Files) -> bool:
    """True if a file is newer than all of its kind in other checkpoints: that it is older than others is no matter."""
    others = [one for one in old if _pattern(one) == _pattern(name) and _checkpoint(one) != _checkpoint(name)]
    return bool(others) and old[name].changed_ns > max(old[one].changed_ns for one in others)


def _is_shard(name: str, held: Iterable[str]) -> bool:
    """True if files of one checkpoint have one of its kind more than once, and it has the numbers that they share."""
    numbers = [DIGITS.findall(one) for one in held if _pattern(one) == _pattern(name)]
    places = zip(DIGITS.findall(name), *numbers, strict=True)
    return len(numbers) > 1 and all(here == there[0] for here, *there in places if len(set(there)) == 1)


def _vanished(old: Files, new: Files) -> Iterable[LostState]:
    """Files of one name for all checkpoints, which no later one takes the place of."""
    for name in old:
        if name not in new and not DIGITS.search(name) and not UNFINISHED.search(name):
            yield LostState(name=name, what="gone")


def _cut_off(newer: set[str], held: set[str], old: Files) -> set[str]:
    """Files of a checkpoint that the kill cut off, which a training does well to pass over."""
    if not newer:
        return set()
    torn = _torn(newer, old)
    # The others were whole before it was begun.
    last = _checkpoint(max(newer, key=lambda name: old[name].changed_ns))
    there = Counter(_pattern(one) for one in old if _checkpoint(one) == last and one not in torn)
    whole: dict[str | None, Counter[str]] = {}
    for name in held:
        whole.setdefault(_checkpoint(name), Counter())[_pattern(name)] += 1
    whole.pop(last, None)
    # Of files that the checkpoint has that was saved again, some were still to be written.
    short = [files for files in whole.values() if any(there[one] < many for one, many in files.items())]
    return torn | {one for one in newer if _checkpoint(one) == last and any(_pattern(one) in files for files in short)}


def _torn(names: Iterable[str], old: Files) -> set[str]:
    """Those that are smaller than the largest of their kind, and not whole as that is."""
    largest: dict[str, str] = {}
    for name in sorted(old, key=lambda one: old[one].size):
        largest[_pattern(name)] = name
    smaller = [name for name in names if old[name].size < old[largest[_pattern(name)]].size]
    cut = [name for name in smaller if not is_whole(old[name].path, name)]
    ends = {kind: is_whole(old[name].path, name) for kind, name in largest.items() if kind in set(map(_pattern, cut))}
    return {name for name in cut if ends[_pattern(name)]}


def _checkpoint(name: str) -> str | None:
    """Folder of the files of one checkpoint, the first with a number, or that number; None: neither."""
    *folders, file = name.split("/")
    if folders:
        depth = next((place for place, one in enumerate(folders) if DIGITS.search(one)), 0)
        return f"{'/'.join(folders[: depth + 1])}/"
    numbers = DIGITS.findall(file)
    return numbers[0] if numbers else None


def _states(old: Files, new: Files, pairs: Mapping[str, str | None], ignored: Sequence[str]) -> tuple[State, State]:
    """Contents of the files before, and now, by the file of now."""
    then: dict[Key, StateValue] = {}
    after: dict[Key, StateValue] = {}
    # It knows files by their times, which a copy takes over.
    filecmp.clear_cache()
    for name, other in pairs.items():
        # An empty file that is held against none says that others are whole.
        if _is_file(name, ignored) or (other is None and not new[name].size):
            continue
        path = new[name].path
        if other is not None and filecmp.cmp(old[other].path, path, shallow=False):
            # The same to the byte, whatever it is.
            was = now_is = _named(path, name) or {"": StateValue("file", (), "")}
        else:
            now_is, was = read_state(path, name), {} if other is None else read_state(old[other].path, other)
        after |= {(name, one): value for one, value in now_is.items() if not _is_name(one, ignored)}
        then |= {(name, one): value for one, value in was.items() if not _is_name(one, ignored)}
    return then, after


def _named(path: Path, name: str) -> dict[str, StateValue] | None:
    """Names in a file, None: they can't be read."""
    try:
        return read_state(path, name)
    except InputError:
        return None


def _may_hold(old: Files, name: str, pattern: str) -> bool:
    """True if a file of before has such a name in it, or can't be read."""
    found = _named(old[name].path, name)
    return found is None or _any({(name, one): value for one, value in found.items()}, pattern)


def _absent(then: State, after: State, pairs: Mapping[str, str | None], holds: Iterable[str]) -> Iterable[LostState]:
    """Names that must be there, and are not: neither now, nor before in the file that has them now."""
    of_before = {key: value for key, value in after.items() if pairs[key[0]] is not None}
    for one in holds:
        if not _any(after, one):
            yield LostState(name=one, what="blank" if _any(after, one, empty=True) else "absent")
        elif not _any(then, one) and _any(of_before, one):
            yield LostState(name=one, what="unsaved")


def _differences(then: State, after: State, pairs: Mapping[str, str | None]) -> Iterable[LostState]:
    several = len({file for file, _ in then}) > 1
    for key, was in then.items():
        name, file = key[1], pairs[key[0]] or key[0]
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


def _any(state: State, pattern: str, *, empty: bool = False) -> bool:
    """True if a value has such a name, or its file; values that hold nothing count only where they are asked for."""
    of_file = (_pattern(pattern),)
    return any(
        (empty or not value.is_empty) and (fnmatchcase(name, pattern) or _is_file(_pattern(file), of_file))
        for (file, name), value in state.items()
    )


def _is_name(name: str, patterns: Iterable[str]) -> bool:
    """True if a value has one of these names."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_file(name: str, patterns: Iterable[str]) -> bool:
    """True if a file is one of these, with or without its folder."""
    return any(_is_name(one, patterns) for one in (name, name.rpartition("/")[2]))
