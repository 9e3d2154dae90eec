"""An open loop over many connections: each query is sent at its time, whether or not the ones before were answered.

One thread waits for all connections at once. A query that finds every connection busy waits for one, and its latency
counts that wait. What the client itself adds is its lag: from the moment at which a query could have been sent (its
intended time, or later the moment at which the client, with nothing left to read, last saw every connection busy) to
the moment at which it was. So a slow server makes queries wait, and a client that can't keep up makes lag.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import select
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evalspec.clocks import NEVER_NS, fine_timer, now_ns
from evalspec.runtimes._http_connection import Reader
from evalspec.runtimes._http_wire import (
    ANSWERED,
    BROKE,
    NOT_CONNECTED,
    NOT_SENT,
    TIMED_OUT,
    Address,
    HttpError,
    Reply,
    status_outcome,
)

SPIN_NS = 50_000
"""The last stretch before a query is due is not slept: a timer wakes up so late at times."""
LONGEST_SLEEP_NS = 100_000_000
ROOM = 1 << 16
CLOSED, CONNECTING, IDLE, BUSY = range(4)

Took = Callable[[int, "Outcome"], None]


@dataclass(slots=True)
class Outcome:
    """What came of one query; times on `evalspec.clocks.now_ns`.

    Args:
        sent_ns: When its first byte was handed over; 0: it never was.
        first_ns: When the first byte of its answer was read; 0: there was none.
        end_ns: When the last one was, or when it was given up.
        outcome: Index into `evalspec.language.inputs.OUTCOMES`.
        lag_ns: How much later it was sent than it could have been.
        reply: What was answered with a status of success.
    """

    sent_ns: int = 0
    first_ns: int = 0
    end_ns: int = 0
    outcome: int = ANSWERED
    lag_ns: int = 0
    reply: Reply | None = None


class _Connection:
    """One connection and the query that it carries."""

    __slots__ = ("address", "family", "query", "reader", "socket", "state", "unsent", "watched")

    def __init__(self, family: int, address: tuple[object, ...]) -> None:
        self.family = family
        self.address = address
        self.state = CLOSED
        self.query = -1
        self.unsent = memoryview(b"")
        self.watched = 0
        self.socket: socket.socket
        self.reader: Reader


class Client:
    """Sends queries to one server.

    Args:
        address: The server.
        connections: Kept connections at the most.
        timeout_ns: A query that has no whole answer so long after its intended time has failed.

    Raises:
        HttpError: The server's name is not known.
    """

    def __init__(self, address: Address, connections: int, timeout_ns: int) -> None:
        self._timeout_ns = timeout_ns
        family, place = _looked_up(address)
        self._selector = selectors.DefaultSelector()
        self._all = [_Connection(family, place) for _ in range(connections)]
        self._idle: deque[_Connection] = deque()
        self._closed: deque[_Connection] = deque(self._all)
        self._room = memoryview(bytearray(ROOM))
        self._free_ns = 0
        self.until_ns = NEVER_NS
        """Send nothing that is due after this; another thread may set it while `run` lasts."""
        self.reconnected = 0
        """Connections that were opened again."""

    def open(self, timeout_s: float) -> int:
        """Open all connections, so that none is opened while queries are timed.

        Returns:
            How many are open; those that are not are opened when a query needs one.
        """
        for one in list(self._closed):
            self._closed.remove(one)
            self._connect(one)
        until = now_ns() + int(timeout_s * 1e9)
        while any(one.state == CONNECTING for one in self._all) and now_ns() < until:
            self._listen(max(0, until - now_ns()))
        self.reconnected = 0
        return len(self._idle)

    def run(self, requests: Sequence[bytes], due_ns: Sequence[int], took: Took) -> bool:
        """Send every request at its time, until `until_ns`; then wait for the answers to those that were sent.

        Args:
            requests: The bytes of each query.
            due_ns: When each is to be sent, rising.
            took: Handed each query that has ended, as soon as there is nothing else to do.

        Returns:
            Whether the time of each of them came.
        """
        self._requests, self._due, self._total = requests, due_ns, len(due_ns)
        self._outcomes = [Outcome() for _ in range(self._total)]
        self._next = self._ended = self._oldest = 0
        self._finished: deque[int] = deque()
        with fine_timer(), _no_collections():
            while self._ended < self._total:
                now, until = now_ns(), self.until_ns
                self._send_due(min(now, until))
                if now >= until:
                    self._give_up(now, until)
                self._expire()
                self._wait(took)
        for query in self._finished:
            took(query, self._outcomes[query])
        return self._total == len(due_ns)

    def close(self) -> None:
        """Close every connection."""
        for one in self._all:
            if one.state != CLOSED:
                self._drop(one)
        self._selector.close()

    # -- sending ------------------------------------------------------------------------------------------------

    def _send_due(self, now: int) -> None:
        """Send what is due, as far as there are connections."""
        while self._next < self._total and self._due[self._next] <= now:
            if self._idle:
                one = self._idle.popleft()
                self._assign(one)
                self._send(one)
            elif self._closed:
                one = self._closed.popleft()
                self._assign(one)
                self.reconnected += 1
                self._connect(one)
            else:
                return

    def _assign(self, one: _Connection) -> None:
        query = one.query = self._next
        self._next += 1
        self._outcomes[query].lag_ns = now_ns() - max(self._due[query], self._free_ns)
        one.unsent = memoryview(self._requests[query])

    def _send(self, one: _Connection) -> None:
        one.state = BUSY
        outcome = self._outcomes[one.query]
        if not outcome.sent_ns:
            outcome.sent_ns = now_ns()
        try:
            count = one.socket.send(one.unsent)
        except BlockingIOError:
            count = 0
        except OSError:
            self._fail(one, BROKE)
            return
        one.unsent = one.unsent[count:]
        self._watch(one, selectors.EVENT_READ | (selectors.EVENT_WRITE if one.unsent else 0))

    def _connect(self, one: _Connection) -> None:
        one.state = CONNECTING
        one.reader = Reader()
        one.socket = socket.socket(one.family, socket.SOCK_STREAM)
        one.socket.setblocking(False)
        one.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.watched = 0
        code = one.socket.connect_ex(one.address)
        if code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._watch(one, selectors.EVENT_WRITE)
        else:
            self._fail(one, NOT_CONNECTED)

    # -- waiting ------------------------------------------------------------------------------------------------

    def _wait(self, took: Took) -> None:
        """Read what has come; when nothing has, hand over what has ended, then sleep until something is due."""
        if self._listen(0):
            return
        free = bool(self._idle or self._closed)
        now = now_ns()
        if not free:
            self._free_ns = now
        if self._finished:
            query = self._finished.popleft()
            took(query, self._outcomes[query])
            return
        wake = now + LONGEST_SLEEP_NS
        if self._next < self._total and free:
            wake = min(wake, self._due[self._next] - SPIN_NS)
        if self._oldest < self._next:
            wake = min(wake, self._due[self._oldest] + self._timeout_ns)
        if wake > now:
            self._listen(wake - now)
        if not free:
            self._free_ns = now_ns()

    def _listen(self, longest_ns: int) -> bool:
        """Handle what has come within this time; whether anything has."""
        if longest_ns:
            # The selector's own wait counts in milliseconds.
            select.select([self._selector], [], [], longest_ns / 1e9)
        events = self._selector.select(0)
        for key, _ in events:
            self._ready(key.data)
        return bool(events)

    def _ready(self, one: _Connection) -> None:
        if one.state == CONNECTING:
            if one.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._fail(one, NOT_CONNECTED)
            elif one.query >= 0:
                self._send(one)
            else:
                self._rest(one)
        elif one.unsent:
            self._send(one)
        elif one.state != CLOSED:
            self._read(one)

    def _read(self, one: _Connection) -> None:
        try:
            count = one.socket.recv_into(self._room)
        except BlockingIOError:
            return
        except OSError:
            self._fail(one, BROKE)
            return
        now = now_ns()
        if one.query < 0:
            # A server may close a connection that nobody uses; it has nothing to say on one.
            self._fail(one, BROKE)
            return
        outcome = self._outcomes[one.query]
        if count and not outcome.first_ns:
            outcome.first_ns = now
        try:
            whole = one.reader.feed(self._room[:count]) if count else one.reader.ended()
        except HttpError as error:
            self._fail(one, error.outcome, now)
            return
        if whole:
            self._answered(one, now)
        elif not count:
            self._fail(one, BROKE, now)

    # -- ending -------------------------------------------------------------------------------------------------

    def _answered(self, one: _Connection, now: int) -> None:
        reply = one.reader.take()
        outcome = self._outcomes[one.query]
        outcome.outcome = status_outcome(reply.status)
        if outcome.outcome == ANSWERED:
            outcome.reply = reply
        self._end(one, now)
        if one.reader.keep_alive:
            self._rest(one)
        else:
            self._drop(one)

    def _end(self, one: _Connection, now: int) -> None:
        query, one.query = one.query, -1
        self._outcomes[query].end_ns = now
        self._ended += 1
        self._finished.append(query)

    def _fail(self, one: _Connection, code: int, now: int = 0) -> None:
        if one.query >= 0:
            self._outcomes[one.query].outcome = code
            self._end(one, now or now_ns())
        self._drop(one)

    def _rest(self, one: _Connection) -> None:
        one.state = IDLE
        self._watch(one, selectors.EVENT_READ)
        self._idle.append(one)

    def _drop(self, one: _Connection) -> None:
        if one.state == IDLE:
            self._idle.remove(one)
        self._watch(one, 0)
        one.socket.close()
        one.state, one.unsent = CLOSED, memoryview(b"")
        self._closed.append(one)

    def _expire(self) -> None:
        """Give up what has taken too long: queries end in any order, but their time runs out in order."""
        now = now_ns()
        while self._oldest < self._total and self._due[self._oldest] + self._timeout_ns <= now:
            query = self._oldest
            if not self._outcomes[query].end_ns:
                if query >= self._next:
                    self._next = query + 1
                    self._unsent(query, now)
                else:
                    carrier = next(one for one in self._all if one.query == query)
                    self._fail(carrier, NOT_CONNECTED if carrier.state == CONNECTING else TIMED_OUT, now)
            self._oldest += 1
        while self._oldest < self._next and self._outcomes[self._oldest].end_ns:
            self._oldest += 1

    def _unsent(self, query: int, now: int) -> None:
        outcome = self._outcomes[query]
        outcome.outcome, outcome.end_ns = NOT_SENT, now
        self._ended += 1
        self._finished.append(query)

    def _give_up(self, now: int, until: int) -> None:
        """The run's time is over: what was due and not sent stays so, and what was not yet due is left out."""
        while self._next < self._total and self._due[self._next] <= until:
            self._unsent(self._next, now)
            self._next += 1
        self._total = self._next

    def _watch(self, one: _Connection, events: int) -> None:
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
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise HttpError(NOT_CONNECTED, f"the host {address.host!r} is not known: {error.strerror or error}") from error
    # A name may stand for an address of each family, and the server listens on one.
    for family, kind, protocol, _, place in found if len(found) > 1 else ():
        with socket.socket(family, kind, protocol) as link, contextlib.suppress(OSError):
            link.settimeout(1.0)
            link.connect(place)
            return family, place
    return found[0][0], found[0][4]


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Python looks for garbage later: nothing here makes any, and looking takes longer than a query."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
