"""A closed loop over many connections: so many requests are always under way, whatever comes of those before."""

from __future__ import annotations

import time
from collections.abc import Callable

from evalspec.clocks import NEVER_NS, fine_timer, now_ns
from evalspec.runtimes.http_client.pool import ConnectionPool, Outcome, Took, no_collections


class Busy(ConnectionPool):
    """Keeps every connection to one server busy: a `ConnectionPool` whose requests time out from when they are sent."""

    _worked_ns = 0
    _ran_ns = 0

    @property
    def busy_share(self) -> float | None:
        """Of the time that all of `run` took: the share in which its thread worked, and did not wait."""
        return self._worked_ns / self._ran_ns if self._ran_ns else None

    @property
    def connections(self) -> int:
        """Number of connections that are kept busy."""
        return len(self._all)

    def run(self, request_of: Callable[[int], bytes | None], took: Took) -> None:
        """Send a request over each connection that has none, until there are no more; then wait for the answers.

        Args:
            request_of: The bytes of the k-th request, from 0; asked for in order, when a connection is free to carry
                it. None: that was all.
            took: Handed each that has ended.
        """
        self._reset([])
        began, worked = now_ns(), time.thread_time_ns()
        try:
            with fine_timer(), no_collections():
                self._all_of(request_of, took)
        finally:
            # What is left where `took` had enough of it.
            self._drop_carriers()
        self._worked_ns += time.thread_time_ns() - worked
        self._ran_ns += now_ns() - began

    def _all_of(self, request_of: Callable[[int], bytes | None], took: Took) -> None:
        more = True
        while more or self._ended < self._next:
            # A server that is gone fails each at once, and who takes them may have had enough of it.
            for _ in self._all:
                more = more and (not self._free or self._one_more(request_of))
            while self._finished:
                self._hand_over(took)
            self._expire()
            if self._ended < self._next:
                self._wait(took, NEVER_NS)
        while self._finished:
            self._hand_over(took)

    def _one_more(self, request_of: Callable[[int], bytes | None]) -> bool:
        request = request_of(self._next)
        if request is None:
            return False
        query = self._next
        self._due.append(now_ns())
        self._outcomes.append(Outcome())
        self._next += 1
        self._carry(query, request)
        return True
