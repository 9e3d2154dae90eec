"""Times that a server tells in its answers: the header ``Server-Timing``.

References:
    W3C, Server Timing, https://www.w3.org/TR/server-timing/.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from evalspec.language.abilities import ServerTiming
from evalspec.redaction import NOTHING, Redaction
from evalspec.runtimes.http_client.wire import Reply

if TYPE_CHECKING:
    from evalspec.language.streams import StreamedAnswer

HEADER = b"server-timing"
DECODE = "decode"
"""From the first piece of a streamed answer on."""
TOTAL = "total"
"""What servers call the time that all of it took."""
MOST_NAMES = 32
MOST_BYTES = 8192
SHOWN = 60

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_NUMBER = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# A quote that nothing ends goes on to the end.
_BETWEEN = {
    mark: re.compile(rf'((?:"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[^{mark}"])*)(?:{mark}|\Z)') for mark in (",", ";")
}  # fmt: skip


@dataclass(slots=True)
class Durations:
    """Durations in one header, or in several of one answer joined by commas.

    Args:
        ms: Name: its ``dur``, in ms; that of several entries of one name together.
        unread: What is not an entry, or no time, in words.
    """

    ms: dict[str, float] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def durations(header: bytes, hidden: Redaction = NOTHING) -> Durations:
    """Names with their times.

    An entry without ``dur`` is right and tells of no time. Of a parameter that stands twice the first counts; others
    than ``dur`` are left alone, as the standard wants it.

    Args:
        header: ``queue;dur=1.2, infer;desc="the model";dur=4.5``.
        hidden: What must not be in the words of what is unread.
    """
    found = Durations()
    if len(header) > MOST_BYTES:
        found.unread.append(f"a header of {len(header):,} bytes (at most {MOST_BYTES:,} are read)")
        return found
    for entry in _split(header.decode("latin-1"), ","):
        name, *parameters = [part.strip(" \t") for part in _split(entry, ";")]
        if not entry.strip(" \t"):
            continue
        said = _parameters(parameters).get("dur")
        if _TOKEN.fullmatch(name) is None or len(name) > SHOWN:
            found.unread.append(f"{_short(entry, hidden)} (its name is not a name, or over {SHOWN} letters)")
        elif said is None:
            continue
        elif _NUMBER.fullmatch(said) is None or not math.isfinite(float(said)):
            found.unread.append(f"{_short(entry, hidden)} (its dur is not a time in ms)")
        elif name not in found.ms and len(found.ms) == MOST_NAMES:
            found.unread.append(f"{_short(entry, hidden)} (more than {MOST_NAMES} names)")
        else:
            found.ms[name] = found.ms.get(name, 0.0) + float(said)
    return found


def _split(text: str, mark: str) -> Iterator[str]:
    """Pieces between marks that do not stand in quotes."""
    for match in _BETWEEN[mark].finditer(text):
        yield match[1]
        if match.end() == len(text) and not text.endswith(mark):
            return


def _parameters(parameters: list[str]) -> dict[str, str]:
    """Name in small letters: value, without its quotes; what follows a closing quote is left out."""
    found: dict[str, str] = {}
    for parameter in parameters:
        name, _, value = (part.strip(" \t") for part in parameter.partition("="))
        quoted = _QUOTED.match(value)
        found.setdefault(name.lower(), value if quoted is None else _ESCAPED.sub(r"\1", quoted[1]))
    return found


def _short(entry: str, hidden: Redaction) -> str:
    text = hidden.text(entry.strip(" \t"))
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def told(replies: Sequence[Reply], hidden: Redaction = NOTHING) -> ServerTiming:
    """Times in the answers to one query, all together; nothing where one of them holds no time.

    Args:
        replies: At least one.
        hidden: As in `durations`.
    """
    said = [durations(reply.headers.get(HEADER, b""), hidden) for reply in replies]
    unread = tuple(words for one in said for words in one.unread)
    if not all(one.ms for one in said):
        return ServerTiming(len(replies), {}, unread=unread)
    sums: dict[str, float] = {}
    for one in said:
        for name, ms in one.ms.items():
            sums[name] = sums.get(name, 0.0) + 1e6 * ms
    total = sums.pop(TOTAL, None)
    return ServerTiming(len(replies), sums, total if all(TOTAL in one.ms for one in said) else None, unread)


def with_decoding(
    said: ServerTiming, replies: Sequence[Reply], read: Callable[[Reply], StreamedAnswer]
) -> ServerTiming:
    """The same, with the time from the first piece of each answer to its last byte, by our clock, as `DECODE`.

    A total that a server tells stands before its stream, so it is none of the whole, and is left out.

    Args:
        said: Times in the headers.
        replies: At least one.
        read: The answer in a reply that was streamed.

    Returns:
        Without `DECODE` where an answer has no pieces: it was not streamed.

    Raises:
        HttpError: As ``read`` raises it.
    """
    spent = 0.0
    for reply in replies:
        pieces = read(reply).piece_ns
        if not pieces or not reply.arrivals:
            return said
        spent += max(0, reply.arrivals[-1][1] - pieces[0])
    parts = {name: ns for name, ns in said.parts_ns.items() if name != DECODE}
    return replace(said, parts_ns=parts | {DECODE: spent}, total_ns=None)
