"""Many kept connections to one server, waited for by one thread: what carries queries, whoever says when they go."""

from __future__ import annotations

import contextlib
import errno
import gc
import select
import selectors
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evalspec.clocks import now_ns
from evalspec.language.timings import ANSWERED, BROKE, NOT_CONNECTED, TIMED_OUT
from evalspec.runtimes.http_client.connection import Keeping, ResponseReader, is_stale, wrapped
from evalspec.runtimes.http_client.wire import Address, HttpError, Reply, status_outcome

LONGEST_SLEEP_NS = 100_000_000
ROOM = 1 << 16
CLOSED, CONNECTING, SHAKING, IDLE, BUSY = range(5)
OPENING = (CONNECTING, SHAKING)

Took = Callable[[int, "Outcome"], None]


@dataclass(slots=True)
class Outcome:
    """Outcome of one query; times on `evalspec.clocks.now_ns`.

    Args:
        sent_ns: When its first byte was handed over; 0: it never was.
        first_ns: When the first byte of its answer was read; 0: there was none.
        end_ns: When the last one was, or when it was given up.
        outcome: Index into `evalspec.language.timings.OUTCOMES`.
        lag_ns: How much later it was sent than it could have been.
        reply: What was answered with a status of success.
    """

    sent_ns: int = 0
    first_ns: int = 0
    end_ns: int = 0
    outcome: int = ANSWERED
    lag_ns: int = 0
    reply: Reply | None = None


class PooledConnection:
    """One connection and the query that it carries."""

    __slots__ = ("address", "answered_ns", "family", "query", "reader", "socket", "state", "unsent", "watched")

    def __init__(self, family: int, address: tuple[object, ...]) -> None:
        self.family = family
        self.address = address
        self.state = CLOSED
        self.query = -1
        self.unsent = memoryview(b"")
        self.watched = 0
        self.answered_ns = 0
        """When its last answer was whole; 0: it has had none since it was opened."""
        self.socket: socket.socket
        self.reader: ResponseReader


class ConnectionPool:
    """Connections to one server, and the queries under way on them.

    Who uses it keeps `_due`, `_outcomes` and `_next` of its queries, hands each to `_carry` when `_free`, and calls
    `_expire` and `_wait` again and again.

    Args:
        address: The server.
        connections: Kept connections at the most.
        timeout_ns: A query that has no whole answer so long after its time in `_due` has failed.
        tls: What is trusted, where the server speaks https.

    Raises:
        HttpError: The server's name is not known.
    """

    def __init__(self, address: Address, connections: int, timeout_ns: int, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._tls = tls
        self._timeout_ns = timeout_ns
        family, place = _looked_up(address)
        self._selector = selectors.DefaultSelector()
        self._all = [PooledConnection(family, place) for _ in range(connections)]
        self._idle: deque[PooledConnection] = deque()
        self._closed: deque[PooledConnection] = deque(self._all)
        self._room = memoryview(bytearray(ROOM))
        self._free_ns = 0
        self.keeping = Keeping()
        """Whether the server keeps its connections."""
        self.reconnected = 0
        """Connections that were opened again."""
        self._reset([])

    def _reset(self, due_ns: list[int]) -> None:
        """Begin with other queries; ``due_ns`` says when the time of each counts from, rising."""
        self._due = due_ns
        self._outcomes = [Outcome() for _ in due_ns]
        self._next = self._ended = self._oldest = 0
        self._finished: deque[int] = deque()

    def open(self, timeout_s: float) -> int:
        """Open all connections, with all that belongs to it, so that none is opened while queries are timed.

        Returns:
            How many are open; those that are not are opened when a query needs one.
        """
        self._listen(0)
        for one in list(self._closed):
            self._closed.remove(one)
            self._connect(one)
        until = now_ns() + int(timeout_s * 1e9)
        while any(one.state in OPENING for one in self._all) and now_ns() < until:
            self._listen(max(0, until - now_ns()))
        for one in self._all:
            if one.state in OPENING:
                self._drop(one)
        return len(self._idle)

    def close(self) -> None:
        """Close every connection."""
        for one in self._all:
            if one.state != CLOSED:
                self._drop(one)
        self._selector.close()

    # -- sending ------------------------------------------------------------------------------------------------

    @property
    def _free(self) -> bool:
        """A connection has nothing to do."""
        return bool(self._idle or self._closed)

    def _carry(self, query: int, request: bytes) -> None:
        """Send a query over a free connection."""
        while self._idle and is_stale(self._idle[0].socket):
            self.keeping.closed(self._idle[0].answered_ns)
            self._drop(self._idle[0])
        outcome = self._outcomes[query]
        outcome.lag_ns = now_ns() - max(self._due[query], self._free_ns)
        one = self._idle.popleft() if self._idle else self._closed.popleft()
        one.query = query
        one.unsent = memoryview(request)
        if one.state == IDLE:
            self._send(one)
        else:
            self.reconnected += 1
            self._connect(one)

    def _send(self, one: PooledConnection) -> None:
        one.state = BUSY
        outcome = self._outcomes[one.query]
        if not outcome.sent_ns:
            outcome.sent_ns = now_ns()
        try:
            count = one.socket.send(one.unsent)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            count = 0
        except OSError:
            self.keeping.closed(one.answered_ns)
            self._fail(one, BROKE)
            return
        one.unsent = one.unsent[count:]
        self._watch(one, selectors.EVENT_READ | (selectors.EVENT_WRITE if one.unsent else 0))

    def _connect(self, one: PooledConnection) -> None:
        one.state = CONNECTING
        one.reader, one.answered_ns = ResponseReader(), 0
        one.socket = socket.socket(one.family, socket.SOCK_STREAM)
        one.socket.setblocking(False)
        one.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.watched = 0
        code = one.socket.connect_ex(one.address)
        if code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._watch(one, selectors.EVENT_WRITE)
        else:
            self._fail(one, NOT_CONNECTED)

    def _connected(self, one: PooledConnection) -> None:
        if one.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail(one, NOT_CONNECTED)
        elif self._tls is None:
            self._opened(one)
        else:
            self._shake(one, self._tls)

    def _shake(self, one: PooledConnection, tls: ssl.SSLContext) -> None:
        """One step of the handshake."""
        try:
            if not isinstance(one.socket, ssl.SSLSocket):
                # The selector knows the socket, which the one that speaks TLS takes over.
                self._watch(one, 0)
                one.socket, one.state = wrapped(one.socket, self._address, tls, at_once=False), SHAKING
            one.socket.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(one, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(one, selectors.EVENT_WRITE)
        except OSError:
            self._fail(one, NOT_CONNECTED)
        else:
            self._opened(one)

    def _opened(self, one: PooledConnection) -> None:
        if one.query >= 0:
            self._send(one)
        else:
            self._rest(one)

    # -- waiting ------------------------------------------------------------------------------------------------

    def _wait(self, took: Took, next_due_ns: int) -> None:
        """Read what has come; when nothing has, hand over what has ended, then sleep until something is due.

        Args:
            took: Handed each query that has ended.
            next_due_ns: When there will be something to send, if a connection is free.
        """
        if self._listen(0):
            return
        free = self._free
        now = now_ns()
        if not free:
            self._free_ns = now
        if self._finished:
            self._hand_over(took)
            return
        wake = now + LONGEST_SLEEP_NS
        if free:
            wake = min(wake, next_due_ns)
        if self._oldest < self._next:
            wake = min(wake, self._due[self._oldest] + self._timeout_ns)
        if wake > now:
            self._listen(wake - now)
        if not free:
            self._free_ns = now_ns()

    def _hand_over(self, took: Took) -> None:
        query = self._finished.popleft()
        took(query, self._outcomes[query])

    def _listen(self, longest_ns: int) -> bool:
        """Handle what has come within this time; whether anything has."""
        if longest_ns:
            # The selector's own wait counts in milliseconds.
            select.select([self._selector], [], [], longest_ns / 1e9)
        events = self._selector.select(0)
        for key, _ in events:
            self._ready(key.data)
        return bool(events)

    def _ready(self, one: PooledConnection) -> None:
        if one.state in OPENING:
            self._connected(one)
        elif one.unsent:
            self._send(one)
        elif one.state != CLOSED:
            self._read(one)

    def _read(self, one: PooledConnection) -> None:
        try:
            count = one.socket.recv_into(self._room)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            if one.query < 0 or not self._outcomes[one.query].first_ns:
                self.keeping.closed(one.answered_ns)
            self._fail(one, BROKE)
            return
        now = now_ns()
        if one.query < 0:
            self.keeping.closed(one.answered_ns)
            # A server may close a connection that nobody uses; it has nothing to say on one.
            self._fail(one, BROKE)
            return
        outcome = self._outcomes[one.query]
        if count and not outcome.first_ns:
            outcome.first_ns = now
        try:
            whole = one.reader.feed(self._room[:count], now) if count else one.reader.ended()
        except HttpError as error:
            self._fail(one, error.outcome, now)
            return
        if whole:
            self._answered(one, now)
        elif not count:
            if not outcome.first_ns:
                self.keeping.closed(one.answered_ns)
            self._fail(one, BROKE, now)

    # -- ending -------------------------------------------------------------------------------------------------

    def _answered(self, one: PooledConnection, now: int) -> None:
        reply = one.reader.take()
        outcome = self._outcomes[one.query]
        outcome.outcome = status_outcome(reply.status)
        if outcome.outcome == ANSWERED:
            outcome.reply = reply
        self._end(one, now)
        one.answered_ns = now
        if one.reader.keep_alive and self.keeping.keeps:
            self._rest(one)
        else:
            self._drop(one)

    def _end(self, one: PooledConnection, now: int) -> None:
        query, one.query = one.query, -1
        self._outcomes[query].end_ns = now
        self._ended += 1
        self._finished.append(query)

    def _fail(self, one: PooledConnection, code: int, now: int = 0) -> None:
        if one.query >= 0:
            self._outcomes[one.query].outcome = code
            self._end(one, now or now_ns())
        self._drop(one)

    def _rest(self, one: PooledConnection) -> None:
        one.state = IDLE
        self._watch(one, selectors.EVENT_READ)
        self._idle.append(one)

    def _drop(self, one: PooledConnection) -> None:
        if one.state == IDLE:
            self._idle.remove(one)
        self._watch(one, 0)
        one.socket.close()
        one.state, one.unsent = CLOSED, memoryview(b"")
        self._closed.append(one)

    def _drop_carriers(self) -> None:
        """Close what carries a query, which is forgotten."""
        for one in self._all:
            if one.query >= 0:
                one.query = -1
                self._drop(one)

    def _expire(self) -> None:
        """Give up what has taken too long: queries end in any order, but their time runs out in order."""
        now = now_ns()
        while self._oldest < len(self._due) and self._due[self._oldest] + self._timeout_ns <= now:
            query = self._oldest
            if not self._outcomes[query].end_ns:
                self._too_late(query, now)
            self._oldest += 1
        while self._oldest < self._next and self._outcomes[self._oldest].end_ns:
            self._oldest += 1

    def _too_late(self, query: int, now: int) -> None:
        """The time of a query that has not ended is over."""
        carrier = next(one for one in self._all if one.query == query)
        self._fail(carrier, NOT_CONNECTED if carrier.state in OPENING else TIMED_OUT, now)

    def _watch(self, one: PooledConnection, events: int) -> None:
        if events == one.watched:
            return
        if not one.watched:
            self._selector.register(one.socket, events, one)
        elif not events:
            self._selector.unregister(one.socket)
        else:
            self._selector.modify(one.socket, events, one)
        one.watched = events


def _looked_up(address: Address) -> tuple[int, tuple[object, ...]]:
    try:
        addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise HttpError(NOT_CONNECTED, f"the host {address.host!r} is not known: {error.strerror or error}") from error
    # A name may stand for an address of each family, and the server listens on one.
    for family, kind, protocol, _, place in addresses if len(addresses) > 1 else ():
        with socket.socket(family, kind, protocol) as link, contextlib.suppress(OSError):
            link.settimeout(1.0)
            link.connect(place)
            return family, place
    return addresses[0][0], addresses[0][4]


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Python looks for garbage later: nothing here makes any, and looking takes longer than a query."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
