"""Writes plain values as YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from evalspec.language.yaml import Value, resolve


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
