"""HTTP/1.1 as a client of a served model needs it: where the server is, requests as bytes, answers from bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import from_json

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.language.places import is_loopback
from evalspec.language.timings import ANSWERED, NOT_UNDERSTOOD, REFUSED, SERVER_ERROR

PORTS = {"http": 80, "https": 443}
"""Where a server listens whose address names no port."""


class HttpError(InputError):
    """A query to a server that came to nothing.

    Args:
        outcome: What became of it, an index into `evalspec.language.timings.OUTCOMES`.
        message: The sentence.
        remedy: What to do.
        again_after_s: The server says when it may be asked again; None: it does not.
    """

    def __init__(
        self, outcome: int, message: str, *, remedy: str | None = None, again_after_s: float | None = None
    ) -> None:
        self.outcome = outcome
        self.again_after_s = again_after_s
        super().__init__(message, remedy=remedy)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is.

    Args:
        host: Name or address.
        port: Of TCP.
        path: What every path of it begins with; empty, or with a slash at its start and none at its end.
        secure: It speaks https.
    """

    host: str
    port: int
    path: str
    secure: bool = False

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """Host and port as the header ``Host`` has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str) -> Address:
    """The address that a URL names.

    Raises:
        InputError: It is none that can be driven.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in PORTS or not host:
        raise InputError(f"{url!r} is not a usable address", remedy="write http://HOST:PORT or https://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise InputError("the URL holds a user or a password", remedy="refer to the secret in `headers`: {env: NAME}")
    if parts.fragment or not url.isascii() or any(letter <= " " for letter in url):
        raise InputError(f"{url!r} has a fragment, a space or a character that a URL can't have", remedy="quote it")
    query = f"?{parts.query}" if parts.query else ""
    return Address(host, port or PORTS[parts.scheme], parts.path.rstrip("/") + query, parts.scheme == "https")


def check_host(address: Address, access: Access) -> None:
    """Stop where a host is not this machine and was not allowed; nothing is looked up.

    Raises:
        InputError: It was not.
    """
    if not is_loopback(address.host) and address.host not in access.hosts:
        raise InputError(
            f"{address.host!r} is a different machine", remedy=f"pass --allow-host {address.host} if this is intended"
        )


def request_bytes(address: Address, path: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """A whole request.

    Args:
        address: Where it goes.
        path: After the address's own.
        headers: Beside ``Host`` and ``Content-Length``.
        body: POST with it; None: GET.
    """
    lines = [f"{'GET' if body is None else 'POST'} {address.path + path or '/'} HTTP/1.1"]
    lines += [f"Host: {address.authority}", "Accept-Encoding: identity", "User-Agent: evalspec"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of a server.

    Args:
        status: Of HTTP.
        headers: By name in small letters.
        body: Its bytes.
        arrivals: Bytes of the body that had come, rising, and when they were read, on `evalspec.clocks.now_ns`.
    """

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes
    arrivals: tuple[tuple[int, int], ...] = ()

    def read_at_ns(self, end: int) -> int:
        """When the byte before this place of the body was read; 0: nobody looked."""
        place = bisect_left(self.arrivals, (end,))
        return self.arrivals[place][1] if place < len(self.arrivals) else 0


def again_after_s(reply: Reply) -> float | None:
    """Seconds after which a server wants to be asked again, as ``Retry-After`` says; None: not so.

    It names them, or a date, which is held against the server's own clock.
    """
    text = reply.headers.get(b"retry-after", b"").decode("latin-1").strip()
    if text.isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        then = parsedate_to_datetime(text)
        now = parsedate_to_datetime(reply.headers.get(b"date", b"").decode("latin-1"))
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError):
        return None


def status_outcome(status: int) -> int:
    """Outcome of a query that was answered with this status."""
    if 200 <= status < 300:
        return ANSWERED
    if 400 <= status < 500:
        return REFUSED
    return SERVER_ERROR if status >= 500 else NOT_UNDERSTOOD


def parse_json(body: bytes) -> Any:
    """Value of a body of JSON.

    Raises:
        HttpError: It is none; such as one that was cut off.
    """
    try:
        return from_json(body)
    except ValueError as error:
        raise HttpError(NOT_UNDERSTOOD, f"the answer is not JSON: {error}") from error
