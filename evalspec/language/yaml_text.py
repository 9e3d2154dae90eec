"""Writes plain values as YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import PurePath

from evalspec.errors import Problem, SpecError
from evalspec.evidence.record import MAPPING
from evalspec.language.yaml import Node, Place, Value, read_text, resolve, show_path, unplaced


def read_mapping(spec: Mapping[str, object]) -> tuple[str, Node]:
    """A spec that a program has made: as a YAML text, and its root node, which stands in no line.

    Raises:
        SpecError: It holds what YAML has no word for.
    """
    text = write(_plain(spec, ()))
    return text, unplaced(read_text(text, MAPPING), Place(MAPPING))


def _plain(value: object, path: tuple[str | int, ...]) -> Value:
    """The same of texts, numbers, lists and mappings alone."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, date | PurePath):
        return str(value)
    remedy = "pass models and data as arguments beside the spec: models={...}, datasets={...}"
    raise SpecError(
        Problem(
            f"an object of type {type(value).__name__} can't be part of a spec",
            file=MAPPING,
            path=show_path(path),
            remedy=remedy,
        )
    )


def write(value: Value) -> str:
    """A plain value as YAML that `read_text` reads back alike."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Value, indent: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            head = f"{indent}{_scalar_text(key)}:"
            if isinstance(item, dict | list) and item:
                yield head
                yield from _lines(item, indent + "  ")
            else:
                yield f"{head} {_scalar_text(item)}"
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item, indent + "  ")
            yield f"{indent}- {first.lstrip(' ')}"
            yield from rest
    else:
        yield indent + _scalar_text(value)


_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./ %()<>=+*-]*")


def _scalar_text(value: Value) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list):
        return "[]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if _BARE.fullmatch(value) and resolve(value) == value and not value.endswith(" "):
        return value
    return '"' + "".join(_escaped(character) for character in value) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
