"""Follows a value through all processes of a run: which files of the package have it in their hands.

A file has it where one of its functions is given it, or gives it back: as itself, as an item of a list, tuple or
mapping, or as a field of an object that is. What a value is, its `Marks` say: they know it by what it is made of, since
it is copied, packed and counted on its way. An object that merely knows how to get it (a spec, a folder) does not have
it in its hands.
"""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

TraceFunction = Callable[[FrameType, str, Any], Any]
PACKAGE = Path(__file__).resolve().parent.parent / "evalspec"
LOG, MARKS = "EVALSPEC_TEST_FOLLOW", "EVALSPEC_TEST_MARKS"
DEPTH = 2
"""An object, what it holds, and what that holds."""
ITEMS = 64
"""Of a container that are looked at."""


@dataclass(frozen=True)
class Marks:
    """By what a value is known.

    Args:
        columns: Names of columns of a table: it has the value where it has all of these.
        words: What the first rows of it say, and no other column or array does.
        arrays: Arrays of numbers that it turns into, as 0 and 1.
        least: Any array of so many numbers is it, since nothing else in the run is so long; 0: none is.
    """

    columns: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    least: int = 0


class Follower:
    """Writes down the files that have a value in their hands, and the numbers that files hand on."""

    def __init__(self, marks: Marks, log: Path) -> None:
        self._marks = marks
        self._lengths = {len(one) for one in marks.arrays}
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._files: dict[CodeType, str] = {}
        self._seen: set[tuple[str, str, str]] = set()
        self._kinds: dict[type, Kind] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> TraceFunction | None:
        """As `sys.settrace` calls it for each function that begins: those of the package are heard of when they end."""
        code = frame.f_code
        file = self._files.get(code)
        if file is None:
            path = Path(code.co_filename)
            file = self._files[code] = str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else ""
        if not file:
            return None
        frame.f_trace_lines = False
        # Each look at them copies all.
        local = frame.f_locals
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self._look([local.get(name) for name in names], file, code.co_name)
        return self._on_return

    def _on_return(self, frame: FrameType, event: str, given: Any) -> TraceFunction:
        if event == "return":
            self._look([given], self._files[frame.f_code], frame.f_code.co_name)
        return self._on_return

    def _look(self, values: Sequence[Any], file: str, function: str) -> None:
        marks: set[str] = set()
        for value in values:
            self._add_marks(value, DEPTH, marks)
        for mark in marks:
            self._note(mark, file, function)

    def _note(self, mark: str, file: str, function: str) -> None:
        line = mark, file, function
        if line not in self._seen:
            self._seen.add(line)
            os.write(self._log, json.dumps(line).encode() + b"\n")

    def _add_marks(self, value: Any, depth: int, marks: set[str]) -> None:
        kind = self._kinds.get(type(value))
        if kind is None:
            kind = self._kinds[type(value)] = Kind.of(type(value))
        if kind.is_float:
            marks.add(repr(value))
        elif kind.may_be_it and self._is_it(value):
            marks.add("it")
        elif depth and kind.holds is not None:
            for one in kind.holds(value):
                self._add_marks(one, depth - 1, marks)

    def _is_it(self, value: Any) -> bool:
        kind = type(value).__module__.partition(".")[0]
        if kind == "pyarrow":
            return self._is_table(value)
        return kind == "numpy" and self._is_array(value)

    def _is_table(self, value: Any) -> bool:
        names = getattr(value, "schema", None)
        columns = self._marks.columns
        if names is not None and hasattr(names, "names"):
            return bool(columns) and set(columns) <= set(names.names)
        if not (hasattr(value, "to_pylist") and hasattr(value, "slice")):
            return False
        return self._has_words(value.slice(0, len(self._marks.words)).to_pylist())

    def _has_words(self, values: Sequence[Any]) -> bool:
        return bool(values) and tuple(values) == self._marks.words

    def _is_array(self, value: Any) -> bool:
        if getattr(value, "ndim", 0) != 1 or not len(value):
            return False
        if value.dtype.kind in "OUT":
            return self._has_words([str(one) for one in value[: len(self._marks.words)]])
        if value.dtype.kind not in "biuf":
            return False
        if 0 < self._marks.least <= len(value):
            return True
        if len(value) not in self._lengths:
            return False
        return "".join("1" if one else "0" for one in value.tolist()) in self._marks.arrays


@dataclass(frozen=True)
class Kind:
    """What is known of all values of a type.

    Args:
        is_float: It is a number with a point.
        may_be_it: It may be the value.
        holds: Gives what one holds: items, or fields; nothing is computed for it. None: it holds nothing.
    """

    is_float: bool
    may_be_it: bool
    holds: Callable[[Any], Iterable[Any]] | None

    @classmethod
    def of(cls, kind: type) -> Kind:
        """That of a type."""
        if issubclass(kind, float):
            return cls(True, False, None)
        if issubclass(kind, str | bytes | int | None.__class__):
            return cls(False, False, None)
        may_be_it = kind.__module__.partition(".")[0] in ("pyarrow", "numpy")
        holds: Callable[[Any], Iterable[Any]] | None = None
        if issubclass(kind, Mapping):
            holds = (lambda value: list(value.values())[:ITEMS]) if kind is dict else None
        elif kind in (list, tuple):
            holds = itemgetter(slice(ITEMS))
        elif kind.__module__.startswith("evalspec"):
            holds = partial(fields_of, slots=slots_of(kind))
        return cls(False, may_be_it, holds)


def slots_of(kind: type) -> list[str]:
    """Names of the fields of a type that are in no dictionary."""
    named = [one.__dict__.get("__slots__", ()) for one in kind.__mro__]
    each = [name for slots in named for name in ((slots,) if isinstance(slots, str) else slots)]
    return [name for name in each if name not in ("__dict__", "__weakref__")]


def fields_of(value: Any, slots: Sequence[str]) -> list[Any]:
    """What the fields of an object hold."""
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]


def install() -> None:
    """In a process that is to be followed, before anything of the package is imported."""
    marks = json.loads(os.environ[MARKS])
    follower = Follower(Marks(**{key: tuple(one) if isinstance(one, list) else one for key, one in marks.items()}),
                        Path(os.environ[LOG]))  # fmt: skip
    threading.settrace(follower)
    sys.settrace(follower)
    builtins.__import__ = untraced(builtins.__import__)


def untraced(load: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Imports without tracing: a module that is being loaded holds no value."""

    def importing(*arguments: Any, **named: Any) -> ModuleType:
        follower = sys.gettrace()
        sys.settrace(None)
        try:
            return load(*arguments, **named)
        finally:
            sys.settrace(follower)

    return importing


def follow(arguments: Sequence[str], marks: Marks, folder: Path) -> dict[str, dict[str, set[str]]]:
    """Runs ``evalspec`` with these arguments, and follows a value through all of its processes.

    Args:
        arguments: Of the command.
        marks: By what the value is known.
        folder: In which it runs; anything may be written there.

    Returns:
        Mark (``it``, or a number as it is written): file of the package: its functions that have it.
    """
    site, log = folder / "site", folder / "follow.jsonl"
    site.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    (site / "sitecustomize.py").write_text("from tests.follow import install\n\ninstall()\n")
    path = os.pathsep.join([str(site), str(PACKAGE.parent)])
    environment = os.environ | {"PYTHONPATH": path, LOG: str(log), MARKS: json.dumps(vars(marks))}
    done = subprocess.run(
        [sys.executable, "-m", "evalspec", *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1, 3), done.stdout + done.stderr
    marked: dict[str, dict[str, set[str]]] = {}
    for line in log.read_text().splitlines():
        mark, file, function = json.loads(line)
        marked.setdefault(mark, {}).setdefault(file, set()).add(function)
    return marked
