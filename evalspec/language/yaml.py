"""Reads YAML 1.2 with the place of every value, and refuses what a spec has no use for.

A YAML library's loader follows YAML 1.1 (``no`` is False, ``012`` is 10), lets the last of two equal keys win, bounds
neither nesting nor aliases, and can crash on deep input. So only its parser is used: events, which are bounded here,
become nodes with places, and nodes become plain values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import yaml

from evalspec.errors import Problem, SpecError
from evalspec.evidence.frozen import is_number
from evalspec.language.units import check_size

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
Steps = tuple[str | int, ...]

_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 400
BITS = 64
"""Of a whole number at most."""


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """How large a document may be.

    Args:
        size_bytes: Of the file.
        depth: Of nesting.
        nodes: Values, counted after every alias is replaced by what it stands for.
    """

    size_bytes: int = 1_000_000
    depth: int = 40
    nodes: int = 50_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands. Lines and columns count from 1; None where it stands in no file."""

    file: str
    line: int | None = None
    column: int | None = None


class _Mark(Protocol):
    """Where the parser is; both of its forms have this. Counted from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


@dataclass(slots=True)
class Node:
    """A value with its place.

    Args:
        place: Where it begins.
        content: Children by key, a list of children, or a plain value.
        keys: Places of the keys.
        count: Values in it, itself included, after aliases are replaced.
        depth: Levels of nesting in it, likewise.
    """

    place: Place
    content: dict[str, Node] | list[Node] | str | int | float | bool | None = None
    keys: dict[str, Place] = field(default_factory=dict)
    count: int = 1
    depth: int = 1

    @property
    def value(self) -> Value:
        """The plain value, a copy of its own."""
        if isinstance(self.content, dict):
            return {key: node.value for key, node in self.content.items()}
        if isinstance(self.content, list):
            return [node.value for node in self.content]
        return self.content

    def child(self, step: str | int) -> Node | None:
        """The child under a key or an index."""
        if isinstance(self.content, dict):
            return self.content.get(str(step))
        if isinstance(self.content, list) and isinstance(step, int) and 0 <= step < len(self.content):
            return self.content[step]
        return None

    def find(self, path: Sequence[str | int]) -> Node | None:
        """The node at a path, or None."""
        node: Node | None = self
        for step in path:
            node = node.child(step) if node is not None else None
        return node

    def locate(self, path: Sequence[str | int], *, key: bool = False) -> tuple[Place, Steps]:
        """The place of a path, and the part of the path that is there: the closest parent where it isn't.

        Args:
            path: Keys and indices from here.
            key: The place of the last key rather than of its value.
        """
        node, place, there = self, self.place, []
        for index, step in enumerate(path):
            child = node.child(step)
            if child is None:
                break
            last = key and index == len(path) - 1
            place = node.keys.get(str(step), child.place) if last else child.place
            node = child
            there.append(step)
        return place, tuple(there)

    def put(self, path: Sequence[str | int], new: Node) -> Node:
        """A copy in which ``new`` stands at a path whose parents are there."""
        if not path:
            return new
        step, rest = path[0], path[1:]
        if isinstance(self.content, dict):
            child = self.content.get(str(step), Node(new.place, {}))
            content: dict[str, Node] | list[Node] = {**self.content, str(step): child.put(rest, new)}
            return replace(self, content=content, keys={**self.keys, str(step): self.keys.get(str(step), new.place)})
        if isinstance(self.content, list) and isinstance(step, int):
            content = [child.put(rest, new) if index == step else child for index, child in enumerate(self.content)]
            return replace(self, content=content)
        raise KeyError(step)


def unplaced(node: Node, place: Place) -> Node:
    """The node as if it stood in no line: the argument itself is its place."""
    if isinstance(node.content, dict):
        content: dict[str, Node] | list[Node] = {key: unplaced(child, place) for key, child in node.content.items()}
        return replace(node, place=place, content=content, keys=dict.fromkeys(node.keys, place))
    if isinstance(node.content, list):
        content = [unplaced(child, place) for child in node.content]
        return replace(node, place=place, content=content)
    return replace(node, place=place)


def show_path(path: Sequence[str | int]) -> str:
    """A path as it is printed: ``model[0].require[1]``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def read_file(path: Path, shown: str, limits: DocumentLimits | None = None) -> tuple[str, Node]:
    """The text of a file, and its root node.

    Args:
        path: The file.
        shown: Its name as the user gave it.
        limits: How large it may be.

    Raises:
        SpecError: It can't be read, is no UTF-8, too large, empty, or no YAML that a spec may hold.
    """
    limits = limits or DocumentLimits()
    try:
        with path.open("rb") as file:
            data = file.read(limits.size_bytes + 1)
    except FileNotFoundError as error:
        raise _refuse(shown, "there is no such file") from error
    except IsADirectoryError as error:
        raise _refuse(shown, "this is a folder, not a file", remedy="name the spec file in it") from error
    except OSError as error:
        raise _refuse(shown, f"the file can't be read: {error.strerror or error}") from error
    if len(data) > limits.size_bytes:
        raise _refuse(shown, f"the file is larger than {limits.size_bytes:,} bytes, which is not a spec")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise SpecError(
            Problem("the file is not UTF-8", file=shown, line=line, column=column, remedy="save it as UTF-8")
        ) from error
    return text, read_text(text, shown, limits)


def read_text(text: str, shown: str, limits: DocumentLimits | None = None) -> Node:
    """The root node of a YAML text.

    Args:
        text: One document.
        shown: What stands for the file in places.
        limits: How large it may be.

    Raises:
        SpecError: No YAML, or YAML that a spec may not hold; with its place.
    """
    return _Reader(shown, limits or DocumentLimits()).read(text)


def _refuse(file: str, message: str, *, mark: _Mark | None = None, remedy: str | None = None) -> SpecError:
    line = None if mark is None else mark.line + 1
    column = None if mark is None else mark.column + 1
    return SpecError(Problem(message, file=file, line=line, column=column, remedy=remedy))


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read."""

    node: Node
    anchor: str | None
    key: str | None = None


class _Reader:
    """Turns parse events into nodes."""

    def __init__(self, file: str, limits: DocumentLimits) -> None:
        self.file = file
        self.limits = limits
        self.anchors: dict[str, Node] = {}
        self.stack: list[_Open] = []
        self.root: Node | None = None
        self.events = 0
        self.documents = 0

    def read(self, text: str) -> Node:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(text, Loader=loader):
                self._take(event)
        except yaml.MarkedYAMLError as error:
            message = " ".join(part for part in (error.context, error.problem) if part)
            raise _refuse(self.file, f"this is not valid YAML: {message}", mark=error.problem_mark) from error
        except yaml.YAMLError as error:
            raise self._unreadable(text, error) from error
        except UnicodeEncodeError as error:
            raise _refuse(self.file, "this is not valid YAML: half a character (a lone surrogate)") from error
        if self.root is None or (self.root.content is None and self.root.count == 1):
            raise _refuse(self.file, "the file is empty")
        return self.root

    def _unreadable(self, text: str, error: yaml.YAMLError) -> SpecError:
        position = getattr(error, "position", None)
        if not isinstance(position, int):
            return _refuse(self.file, f"this is not valid YAML: {error}")
        # The C parser counts bytes, the other one characters.
        before = text.encode("utf-8", "replace")[:position].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"this is not valid YAML: {getattr(error, 'reason', 'a character that YAML does not allow')}"
        return SpecError(Problem(message, file=self.file, line=line, column=column))

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.NodeEvent):
            self.events += 1
            if self.events > self.limits.nodes:
                raise self._too_many(event.start_mark)
            self._take_node(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self.stack.pop()
            self._keep(done.node, done.anchor)
            self._place(done.node)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _refuse(
                    self.file, "a second document starts here", mark=event.start_mark, remedy="a file holds one spec"
                )

    def _take_node(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._place(self._alias(event), event.start_mark)
            return
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _refuse(
                self.file,
                f"a YAML tag ({_shown_tag(tag)}) is not allowed in a spec",
                mark=event.start_mark,
                remedy="remove it: values are text, numbers, true, false and null",
            )
        place = self._at(event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            if self.stack and isinstance(self.stack[-1].node.content, dict) and self.stack[-1].key is None:
                self._key(event)
                return
            node = Node(place, self._scalar(event))
            self._keep(node, event.anchor)
            self._place(node)
            return
        self._no_key(event.start_mark)
        if len(self.stack) >= self.limits.depth:
            raise _refuse(self.file, f"nested deeper than {self.limits.depth} levels", mark=event.start_mark)
        content: dict[str, Node] | list[Node] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.stack.append(_Open(Node(place, content), event.anchor))

    def _key(self, event: yaml.ScalarEvent) -> None:
        """Keys are names: their text as it stands."""
        top = self.stack[-1]
        assert isinstance(top.node.content, dict)
        if event.anchor is not None:
            raise _refuse(self.file, f"an anchor (&{event.anchor}) on a key", mark=event.start_mark, remedy="remove it")
        key = str(event.value)
        if key in top.node.content:
            first = top.node.keys[key]
            raise _refuse(
                self.file,
                f"duplicate key {key!r}: it is already on line {first.line}",
                mark=event.start_mark,
                remedy="keep one of the two",
            )
        top.node.keys[key] = self._at(event.start_mark)
        top.key = key

    def _no_key(self, mark: _Mark | None) -> None:
        if self.stack and isinstance(self.stack[-1].node.content, dict) and self.stack[-1].key is None:
            raise _refuse(self.file, "a key must be a name, not a list, a mapping or an alias", mark=mark)

    def _alias(self, event: yaml.AliasEvent) -> Node:
        self._no_key(event.start_mark)
        name = event.anchor
        if any(one.anchor == name for one in self.stack):
            raise _refuse(self.file, f"the alias *{name} is inside what it names", mark=event.start_mark)
        if name not in self.anchors:
            raise _refuse(self.file, f"the alias *{name} names no anchor above it", mark=event.start_mark)
        return self.anchors[name]

    def _keep(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node

    def _place(self, node: Node, mark: _Mark | None = None) -> None:
        """Hang a finished node into what is open."""
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        # An alias brings all that it names, so nesting and numbers are counted as if it were written out.
        top.node.count += node.count
        if top.node.count > self.limits.nodes:
            raise self._too_many(mark, node.place)
        top.node.depth = max(top.node.depth, node.depth + 1)
        if mark is not None and len(self.stack) + node.depth > self.limits.depth:
            raise _refuse(self.file, f"nested deeper than {self.limits.depth} levels by an alias", mark=mark)
        if isinstance(top.node.content, list):
            top.node.content.append(node)
        elif isinstance(top.node.content, dict) and top.key is not None:
            top.node.content[top.key] = node
            top.key = None

    def _too_many(self, mark: _Mark | None, place: Place | None = None) -> SpecError:
        message = f"more than {self.limits.nodes:,} values, counting what aliases stand for"
        if mark is not None or place is None:
            return _refuse(self.file, message, mark=mark)
        return SpecError(Problem(message, file=self.file, line=place.line, column=place.column))

    def _scalar(self, event: yaml.ScalarEvent) -> str | int | float | bool | None:
        text = str(event.value)
        if "\0" in text:
            raise _refuse(self.file, "a null character in a text", mark=event.start_mark, remedy="remove it")
        if not event.implicit[0]:
            return text
        if _NO_NUMBER.fullmatch(text):
            raise _refuse(self.file, f"{text} is not a number that a spec can hold", mark=event.start_mark)
        value = resolve(text)
        if is_number(value):
            self._check_number(value, text, event)
        return value

    def _check_number(self, value: int | float, text: str, event: yaml.ScalarEvent) -> None:
        if isinstance(value, int) and value.bit_length() > BITS:
            remedy = "put it in quotes if it is a name"
            raise _refuse(self.file, f"{text[:40]} has more than {BITS} bits", mark=event.start_mark, remedy=remedy)
        try:
            check_size(float(value), text)
        except SpecError as error:
            problem = error.problems[0]
            raise _refuse(self.file, problem.message, mark=event.start_mark, remedy=problem.remedy) from error

    def _at(self, mark: _Mark | None) -> Place:
        return Place(self.file) if mark is None else Place(self.file, mark.line + 1, mark.column + 1)


def resolve(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar under the core schema of YAML 1.2."""
    for pattern, read in _CORE:
        if pattern.fullmatch(text):
            return read(text)
    return text


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_NUMBER else math.inf


_CORE: tuple[tuple[re.Pattern[str], Callable[[str], int | float | bool | None]], ...] = (
    (_NULL, lambda _: None),
    (_TRUE, lambda _: True),
    (_FALSE, lambda _: False),
    (_INT, _integer),
    (_OCTAL, lambda text: int(text[2:], 8) if len(text) <= _LONGEST_NUMBER else math.inf),
    (_HEX, lambda text: int(text[2:], 16) if len(text) <= _LONGEST_NUMBER else math.inf),
    (_FLOAT, float),
)


def _shown_tag(tag: str) -> str:
    return "!!" + tag.removeprefix("tag:yaml.org,2002:") if tag.startswith("tag:yaml.org,2002:") else tag
