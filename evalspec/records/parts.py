"""Parts of a record that were made again, and what is held against them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from evalspec.evidence.frozen import Frozen

Kind = Literal["fixed", "facts", "values", "rules"]
"""What another version may give otherwise: nothing; what it says that was not said before; words as well; anything."""


def _as_is(value: Any) -> Any:
    return value


def names_of(items: Any) -> list[Any]:
    """Names of the items of a list."""
    return [one.get("id", one.get("name")) for one in items or ()]


def picked(names: Iterable[str], one: Any) -> dict[str, Any]:
    """Some fields of something; None: it has no such field, or is not there."""
    return {name: (one or {}).get(name) for name in names}


@dataclass(frozen=True, slots=True)
class RemadePart:
    """A part of a record as it was made again.

    Args:
        what: What a finding calls it.
        place: Where it stands in a record: keys, and names of items of lists.
        value: As it was made again, as JSON.
        kind: What another version may give otherwise of it.
        read: What of the value at that place is held against it.
    """

    what: str
    place: tuple[str, ...]
    value: Any
    kind: Kind = "fixed"
    read: Callable[[Any], Any] = _as_is


@dataclass(slots=True)
class Remade:
    """Parts of a record that were made again.

    Args:
        parts: All of them.
        same: Files that are as they were.
        differs: What is not.
        skipped: What can't be made again here, with the reason.
    """

    parts: list[RemadePart] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, what: str, value: Any, *place: str, kind: Kind = "fixed") -> None:
        """One more part; its place is its name where none is given."""
        self.parts.append(RemadePart(what, place or (what,), _plain(value), kind))

    def add_fields(self, what: str, one: Frozen, but: Iterable[str], *place: str, kind: Kind) -> None:
        """All fields of something, but for some, as one part."""
        names = sorted(set(type(one).model_fields) - set(but))
        value = picked(names, one.model_dump(mode="json"))
        self.parts.append(RemadePart(what, place, value, kind, read=partial(picked, names)))


def _plain(value: Any) -> Any:
    """A value as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
