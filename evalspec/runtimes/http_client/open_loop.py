"""An open loop over many connections: each query is sent at its time, whether or not the ones before were answered.

One thread waits for all connections at once. A query that finds every connection busy waits for one, and its latency
counts that wait. What the client itself adds is its lag: from the moment at which a query could have been sent (its
intended time, or later the moment at which the client, with nothing left to read, last saw every connection busy) to
the moment at which it was. So a slow server makes queries wait, and a client that can't keep up makes lag.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from evalspec.clocks import NEVER_NS, fine_timer, now_ns
from evalspec.language.timings import NOT_SENT
from evalspec.runtimes.http_client.pool import ConnectionPool, Took, no_collections
from evalspec.runtimes.http_client.wire import Address

SPIN_NS = 50_000
"""The last stretch before a query is due is not slept: a timer wakes up so late at times."""


class Client(ConnectionPool):
    """Sends queries to one server, each at its time; as `ConnectionPool`."""

    def __init__(self, address: Address, connections: int, timeout_ns: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(address, connections, timeout_ns, tls)
        self.until_ns = NEVER_NS
        """Send nothing that is due after this; another thread may set it while `run` lasts."""

    def run(self, requests: Sequence[bytes], due_ns: Sequence[int], took: Took) -> bool:
        """Send every request at its time, until `until_ns`; then wait for the answers to those that were sent.

        Args:
            requests: The bytes of each query.
            due_ns: When each is to be sent, rising.
            took: Handed each query that has ended, as soon as there is nothing else to do.

        Returns:
            Whether the time of each of them came.
        """
        self._reset(list(due_ns))
        self._total = len(due_ns)
        with fine_timer(), no_collections():
            while self._ended < self._total:
                now, until = now_ns(), self.until_ns
                self._send_due(requests, min(now, until))
                if now >= until:
                    self._give_up(now, until)
                self._expire()
                self._wait(took, self._due[self._next] - SPIN_NS if self._next < self._total else NEVER_NS)
        while self._finished:
            self._hand_over(took)
        return self._total == len(due_ns)

    def _send_due(self, requests: Sequence[bytes], now: int) -> None:
        """Send what is due, as far as there are connections."""
        while self._next < self._total and self._due[self._next] <= now and self._free:
            query = self._next
            self._next += 1
            self._carry(query, requests[query])

    def _too_late(self, query: int, now: int) -> None:
        if query < self._next:
            super()._too_late(query, now)
        else:
            self._next = query + 1
            self._unsent(query, now)

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
        del self._due[self._total :]
