"""Extensions: classes of other distributions. Their faults bear their names."""

from __future__ import annotations

import os
import traceback
from types import TracebackType

from evalspec.errors import EvalspecError
from evalspec.language.parts import Check, Part
from evalspec.language.registry import OWN_DISTRIBUTION, KindEntry, Registry, discover


def label(entry: KindEntry) -> str:
    """An extension in words: kind, distribution and module."""
    return f"{entry.kind!r} of {entry.distribution} ({entry.module})"


def whose(part: Part) -> str:
    """A part in words; of an extension, with the distribution that brings it."""
    entry = _entry(type(part).__module__, type(part))
    if entry is not None:
        return label(entry)
    return f"check {part.name}" if isinstance(part, Check) else type(part).__name__


def at_fault(error: BaseException) -> str | None:
    """Which extension's code raised an error, and where, in one sentence; None: none did.

    Args:
        error: As it was caught.
    """
    place = _last_place(error.__traceback__)
    if place is None:
        return None
    entry, file, line = place
    text = str(error).strip().splitlines()
    said = f": {text[0][:300]}" if text else ""
    return f"{label(entry)} failed: {type(error).__name__}{said} (in {os.path.basename(file)}:{line})"


def _last_place(trace: TracebackType | None) -> tuple[KindEntry, str, int] | None:
    """The innermost frame that is an extension's."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(trace)]
    for frame, line in reversed(frames):
        name = str(frame.f_globals.get("__name__", ""))
        entry = _entry(name)
        if entry is not None:
            return entry, frame.f_code.co_filename, line
    return None


def _entry(module: str, part: type[Part] | None = None) -> KindEntry | None:
    """The extension that a module belongs to: its own, else the first of its package."""
    package = module.partition(".")[0]
    if package == "evalspec" or not package:
        return None
    try:
        entries = _entries(discover())
    except EvalspecError:
        return None
    kind = None if part is None else getattr(part.model_fields.get(_tag(part)), "default", None)
    own = [one for one in entries if one.module == module and kind in (None, one.kind)]
    near = [one for one in entries if one.module.partition(".")[0] == package]
    return next(iter([*own, *near]), None)


def _tag(part: type[Part]) -> str:
    return "check" if issubclass(part, Check) else "kind"


def _entries(registry: Registry) -> list[KindEntry]:
    groups = (registry.checks, registry.runtimes, registry.sources)
    return [one for group in groups for one in group.values() if one.distribution != OWN_DISTRIBUTION]
