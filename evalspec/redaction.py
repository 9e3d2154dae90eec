"""Secrets out of text: what a server or a child of ours echoes is never kept, in whatever form it says it."""

from __future__ import annotations

import base64
import binascii
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from html.entities import html5
from typing import Any
from urllib.parse import unquote

SHORTEST = 6
"""Letters of a secret, or of a part of one; a shorter one can't be told from other text."""
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Variables that libraries read by themselves."""

_ESCAPE = re.compile(
    r"(?:\\+|%)u(?P<u>[0-9a-fA-F]{4})|\\+u\{0*(?P<b>[0-9a-fA-F]{1,4})\}|\\+U0{4}(?P<w>[0-9a-fA-F]{4})"
    r"|\\+x(?P<x>[0-9a-fA-F]{2})|%(?:25)*(?P<p>[0-9a-fA-F]{2})"
    r"|&(?:amp;)*#x0*(?P<h>[0-9a-fA-F]{1,4});?|&(?:amp;)*#0*(?P<d>[0-9]{1,5});?|&(?:amp;)*(?P<n>[A-Za-z]{2,9});"
    r"|(?P<gap>(?:\r\n?[ \t]*|\n[ \t]*|\\+r|\\+n)+|\\+|\x1b\[[0-9;]*[A-Za-z]|[\0\u00ad\u200b-\u200f\u2060\ufeff]+)"
)
_CODES = re.compile(
    rf"\b(?:0[xX])?[0-9a-fA-F]{{2,3}}(?:[^0-9a-zA-Z]{{1,4}}(?:0[xX])?[0-9a-fA-F]{{2,3}}){{{SHORTEST - 1},}}\b"
)
"""Letters one by one, as their numbers: bytes of a buffer, a dump in hexadecimal digits, octal escapes."""
_CODE = re.compile(r"(?:0[xX])?([0-9a-fA-F]{2,3})\b")


class Redaction:
    """Replaces secrets in text by the names of their variables, in square brackets.

    Of each secret these are found, in small letters or capitals: its value; without the scheme before it (``Bearer
    ...``) and each of its parts; what it is base64 of, with user and password apart; its base64, at any place in a
    longer one, and its hexadecimal digits; each of them also with letters escaped as in JSON, URLs or HTML, broken
    over lines, or said one by one as numbers.

    Args:
        secrets: Name of a variable: its value. Values of fewer than 6 letters are left alone.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        found: dict[str, str] = {}
        for name, value in secrets.items():
            for needle in _forms(value):
                found.setdefault(needle, f"[{name}]")
        # The longest first, so that a part does not break up the whole.
        self._needles = sorted(found.items(), key=lambda item: (-len(item[0]), item[0]))
        self._letters = [(core.lower(), f"[{name}]") for name, value in secrets.items() for core in _whole(value)]
        self.longest = max((len(needle) for needle in found), default=0)
        """Letters of the longest form."""

    @classmethod
    def of(cls, names: Iterable[str], environment: Mapping[str, str] | None = None) -> Redaction:
        """Of variables of the environment, as far as they are set."""
        values = os.environ if environment is None else environment
        return cls({name: values[name] for name in dict.fromkeys((*names, *HUB_TOKENS)) if values.get(name)})

    def __bool__(self) -> bool:
        return bool(self._needles)

    def text(self, text: str) -> str:
        """The same text without secrets."""
        if not self._needles:
            return text
        return _CODES.sub(self._without_codes, self._without_forms(text))

    def _without_forms(self, text: str) -> str:
        plain, places = _plain(text)
        # Of some letters the small one is two: then places would not be those of the text.
        small = plain.lower() if plain.isascii() else "".join(c.lower() if c.isascii() else c for c in plain)
        spans = sorted(self._spans(small))
        if not spans:
            return text
        pieces, at = [], 0
        for first, stop, name in spans:
            begin, (last, width) = _place(places, first)[0], _place(places, stop - 1)
            end = last + width
            if begin >= at:
                pieces += [text[at:begin], name]
            at = max(at, end)
        return "".join([*pieces, text[at:]])

    def raw(self, data: bytes) -> bytes:
        """The same for bytes of whatever encoding."""
        return self.text(data.decode("latin-1")).encode("latin-1") if self._needles else data

    def value(self, value: Any) -> Any:
        """The same for all strings in a value of JSON, keys too."""
        if not self._needles or value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.raw(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.value(one) for one in value)
        return value

    def _without_codes(self, run: re.Match[str]) -> str:
        """A run of numbers, or the name of the secret that they are the letters of."""
        numbers = _CODE.findall(run[0])
        for base in (10, 16, 8):
            letters = "".join(_of_code(number, base) for number in numbers).lower()
            for needle, name in self._letters:
                if needle in letters:
                    return name
        return run[0]

    def _spans(self, small: str) -> Iterator[tuple[int, int, str]]:
        taken: list[tuple[int, int]] = []
        for needle, name in self._needles:
            at = small.find(needle)
            while at >= 0:
                stop = at + len(needle)
                if not any(first <= at and stop <= last for first, last in taken):
                    taken.append((at, stop))
                    yield at, stop, name
                at = small.find(needle, stop)


NOTHING = Redaction({})
"""Where there are no secrets."""


def _plain(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """A text without escapes and line ends, and where each stretch of it comes from.

    Returns:
        The text; and of each stretch its place in it, in the text as it was, and how many letters a letter had there.
    """
    pieces: list[str] = []
    places = [(0, 0, 1)]
    length = at = 0
    for match in _ESCAPE.finditer(text):
        letter = _letter(match)
        between = text[at : match.start()]
        pieces += [between, letter]
        length += len(between)
        if letter:
            places.append((length, match.start(), match.end() - match.start()))
        length += len(letter)
        at = match.end()
        places.append((length, at, 1))
    if not pieces:
        return text, places
    return "".join([*pieces, text[at:]]), places


def _letter(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "gap":
        return ""
    if kind == "n":
        named = html5.get(f"{match['n']};", "")
        return named if named.isascii() and named else match[0]
    return chr(int(match[kind], 10 if kind == "d" else 16) % 0x110000)


def _of_code(number: str, base: int) -> str:
    """The letter that a number stands for; none has the number 0."""
    try:
        return chr(int(number, base))
    except ValueError:
        return "\0"


def _place(places: list[tuple[int, int, int]], at: int) -> tuple[int, int]:
    """Where a letter of the plain text is in the text itself, and how many it is there."""
    plain, real, width = places[bisect_right(places, at, key=lambda place: place[0]) - 1]
    return real + at - plain, width


def _forms(value: str) -> Iterator[str]:
    for core in _whole(value):
        yield _plain(core)[0].lower()
        yield core.lower()
        yield core.replace(" ", "+").lower()
        data = core.encode()
        # What one library has encoded another one encodes again.
        for again in (data, base64.b64encode(data), data.hex().encode(), core.encode("utf-16-le")):
            yield again.hex()
            yield from _in_base64(again)
        yield base64.b32encode(data).rstrip(b"=").decode().lower()


def _whole(value: str) -> Iterator[str]:
    return (core for core in _cores(value) if len(core) >= SHORTEST)


def _cores(value: str) -> dict[str, None]:
    """A secret and all in it that is one by itself."""
    scheme, _, rest = value.strip().partition(" ")
    found = dict.fromkeys([value.strip()])
    if rest and scheme.isalpha():
        value = rest
    for part in [value.strip(), *re.split(r"[\s;,]+", value)]:
        name, equals, inner = part.partition("=")
        # The sign also fills up base64.
        of_name = inner.strip("\"'") if equals and inner.strip("=") and name.replace("-", "").replace("_", "") else ""
        for one in filter(None, (part, of_name)):
            found |= dict.fromkeys([one, unquote(one), *_decoded(one)])
    return found


def _decoded(text: str) -> Iterator[str]:
    """Texts that a text is base64 of, as ``user:password`` is sent, and the password by itself."""
    try:
        inner = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if set(text) & set("-_") else None,
                                 validate=True).decode()  # fmt: skip
    except (binascii.Error, ValueError):
        return
    if inner.isprintable() and ":" in inner:
        yield from (inner, inner.partition(":")[2])


def _in_base64(data: bytes) -> Iterator[str]:
    """Parts of some bytes' base64 that stay the same whatever stands before and after them."""
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data).decode()
        first = -(-before * 8 // 6)
        stop = (before + len(data)) * 8 // 6
        kept = whole[first:stop]
        if len(kept) >= SHORTEST:
            yield kept.lower()
            yield kept.translate(str.maketrans("+/", "-_")).lower()
