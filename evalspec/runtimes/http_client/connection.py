"""A connection to a server that is kept and used again, and what puts its answers together."""

from __future__ import annotations

import select
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Any

import httptools

from evalspec.clocks import now_ns
from evalspec.language.timings import BROKE, NOT_CONNECTED, NOT_UNDERSTOOD, TIMED_OUT
from evalspec.runtimes.http_client.wire import Address, HttpError, Reply

AT_ONCE = 1 << 18
"""Bytes that are read at once."""
SOON_NS = 1_000_000_000
"""A connection that a server closes later after an answer was idle for too long."""


@dataclass(slots=True)
class Keeping:
    """Habit of a server with its connections, as far as has been seen.

    Some promise it and end each connection after a stream. What is then sent may meet the end on its way, and can't be
    sent twice; so once a server has ended one right after an answer, each request has a connection of its own.
    """

    keeps: bool = True

    def closed(self, answered_ns: int) -> None:
        """The server has closed a connection.

        Args:
            answered_ns: When its last answer was whole, on `evalspec.clocks.now_ns`; 0: it had none.
        """
        if answered_ns and now_ns() - answered_ns < SOON_NS:
            self.keeps = False


@dataclass(slots=True)
class ResponseReader:
    """Puts an answer together from what comes over a connection, one answer after the other."""

    complete: bool = False
    keep_alive: bool = True
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    _bytes: int = 0
    _read_ns: int = 0
    _parser: Any = None

    def __post_init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: memoryview, read_ns: int) -> bool:
        """Take what came.

        Args:
            data: The bytes.
            read_ns: When they were read, on `evalspec.clocks.now_ns`.

        Returns:
            Whether the answer is whole.

        Raises:
            HttpError: It is no HTTP.
        """
        self._read_ns = read_ns
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise HttpError(NOT_UNDERSTOOD, f"the server's answer is not HTTP: {error}") from error
        return self.complete

    def ended(self) -> bool:
        """The connection has ended: whether that is how the answer ends."""
        lengthless = not {b"content-length", b"transfer-encoding"} & set(self.headers)
        if self.headers and lengthless and not self.complete:
            self.status = self._parser.get_status_code()
            self.keep_alive, self.complete = False, True
        return self.complete

    def take(self) -> Reply:
        """The whole answer; the reader is then ready for the next one."""
        reply = Reply(self.status, self.headers, b"".join(self.pieces), tuple(self.arrivals))
        self.complete, self.headers, self.pieces, self.arrivals, self._bytes = False, {}, [], [], 0
        return reply

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        name = name.lower()
        # One that stands there several times is one list.
        self.headers[name] = value if name not in self.headers else self.headers[name] + b", " + value

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self.pieces.append(body)
        self._bytes += len(body)
        self.arrivals.append((self._bytes, self._read_ns))

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self.keep_alive, self.complete = self._parser.should_keep_alive(), True


class Connection:
    """One connection that is kept, one request at a time.

    Args:
        address: The server.
        timeout_s: Longest time for an answer, and for the connection before it.
        tls: What is trusted, where the server speaks https.
    """

    def __init__(self, address: Address, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.tls = tls
        self.timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._reader: ResponseReader | None = None
        self.opened = 0
        """Times that it was."""
        self.keeping = Keeping()
        """Whether the server keeps its connections."""
        self._answered_ns = 0
        self.encryption: str | None = None
        """Version and cipher that were agreed upon last; None: none were."""
        self._room = memoryview(bytearray(AT_ONCE))

    def ask(self, request: bytes, timeout_s: float | None = None) -> Reply:
        """Send a request and wait for the whole answer.

        A kept connection that the server is seen to have closed is opened again before anything is written. A request
        of which anything was written is never sent twice: the server may have read it.

        Raises:
            HttpError: There is no answer; the connection is closed.
        """
        if self._socket is not None and is_stale(self._socket):
            self.keeping.closed(self._answered_ns)
            self.close()
        return self._ask(request, timeout_s or self.timeout_s)

    def open(self, timeout_s: float) -> None:
        """Connect, where it is not.

        Raises:
            HttpError: Nobody answers there.
        """
        self._open(timeout_s)

    def close(self) -> None:
        """Let it go."""
        if self._socket is not None:
            self._socket.close()
        self._socket = self._reader = None
        self._answered_ns = 0

    def _ask(self, request: bytes, timeout_s: float) -> Reply:
        deadline = time.monotonic() + timeout_s
        try:
            link, reader = self._open(timeout_s)
            link.settimeout(timeout_s)
            link.sendall(request)
            return self._answer(link, reader, deadline)
        except TimeoutError as error:
            self.close()
            raise HttpError(TIMED_OUT, f"{self.address} gave no complete answer within {timeout_s:g} s") from error
        except OSError as error:
            self.keeping.closed(self._answered_ns)
            self.close()
            raise HttpError(BROKE, f"the connection to {self.address} broke: {error.strerror or error}") from error
        except HttpError:
            self.close()
            raise

    def _open(self, timeout_s: float) -> tuple[socket.socket, ResponseReader]:
        if self._socket is None or self._reader is None:
            self._socket, self._reader = connect(self.address, timeout_s, self.tls), ResponseReader()
            self.opened += 1
            if isinstance(self._socket, ssl.SSLSocket):
                self.encryption = " ".join((self._socket.version() or "", *(self._socket.cipher() or ())[:1])).strip()
        return self._socket, self._reader

    def _answer(self, link: socket.socket, reader: ResponseReader, deadline: float) -> Reply:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            link.settimeout(left)
            count = link.recv_into(self._room)
            if count == 0 and not reader.ended():
                if not reader.headers:
                    self.keeping.closed(self._answered_ns)
                raise HttpError(BROKE, f"{self.address} closed the connection before its answer was complete")
            if count == 0 or reader.feed(self._room[:count], now_ns()):
                reply = reader.take()
                self._answered_ns = now_ns()
                if not (reader.keep_alive and self.keeping.keeps):
                    self.close()
                return reply


def is_stale(link: socket.socket) -> bool:
    """Nothing can be asked over a kept connection any more: the server has closed it, or speaks without being asked."""
    poll = select.poll()
    poll.register(link, select.POLLIN)
    if not poll.poll(0):
        return False
    if not isinstance(link, ssl.SSLSocket):
        return True
    # A server may send what belongs to TLS itself, which is no answer.
    before = link.gettimeout()
    link.settimeout(0.0)
    try:
        link.recv(1)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    except OSError:
        return True
    finally:
        link.settimeout(before)
    return True


def connect(address: Address, timeout_s: float, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A connection that sends what it is given at once.

    Args:
        address: The server.
        timeout_s: Longest time for it.
        tls: What is trusted; None: no https is spoken over it, whatever the address says.

    Raises:
        HttpError: Nobody answers there, or it can't be trusted.
    """
    try:
        link = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except OSError as error:
        raise HttpError(
            NOT_CONNECTED, f"no server answers at {address}: {error.strerror or error or type(error).__name__}"
        ) from error
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return link
    try:
        return wrapped(link, address, tls, at_once=True)
    except OSError as error:
        link.close()
        raise _untrusted(address, error) from error


def wrapped(link: socket.socket, address: Address, tls: ssl.SSLContext, *, at_once: bool) -> ssl.SSLSocket:
    """The same connection, over which https is spoken; the server must prove that it is the one of the address.

    Args:
        link: Connected.
        address: The server.
        tls: What is trusted.
        at_once: The handshake is done here.

    Raises:
        OSError: The handshake failed.
    """
    return tls.wrap_socket(link, server_hostname=address.host, do_handshake_on_connect=at_once)


def _untrusted(address: Address, error: OSError) -> HttpError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return HttpError(
            NOT_CONNECTED, f"the certificate of {address} is not trusted: {error.verify_message.rstrip('.')}",
            remedy="if it is your own authority, give the file with its certificate in `ca:`",
        )  # fmt: skip
    reason = getattr(error, "reason", None)
    said = reason.replace("_", " ").lower() if isinstance(reason, str) else error.strerror or str(error)
    return HttpError(NOT_CONNECTED, f"https does not work with {address}: {said or type(error).__name__}")
