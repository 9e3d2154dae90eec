"""Requests that are made before they are sent, and queries that are several requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evalspec.language.abilities import QueryOutcome
from evalspec.language.timings import ANSWERED
from evalspec.runtimes.http_client.pool import Outcome
from evalspec.runtimes.http_client.wire import Reply

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HELD_BYTES = 1 << 28
"""Of requests that are kept to be sent again."""


@dataclass(frozen=True, slots=True)
class Query:
    """Requests for some rows: one, or several where the server takes a fixed number of rows.

    Args:
        requests: The bytes of each.
        sizes: Rows of each that are asked about; the rest is padding.
        sent: Rows of each, with the padding.
    """

    requests: tuple[bytes, ...]
    sizes: tuple[int, ...]
    sent: int


NO_QUERY = Query((), (), 0)


class Ahead:
    """Queries that were made once, as many as there is room for.

    Args:
        make: The query about some rows.
        again: A query about the same rows is the same one; otherwise none is kept.
    """

    def __init__(self, make: Callable[[NDArray[np.int64]], Query], *, again: bool = True) -> None:
        self._make = make
        self._again = again
        self._made: dict[bytes, Query] = {}
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """One more is kept."""
        return self._again and self._bytes < HELD_BYTES

    def query(self, rows: NDArray[np.int64]) -> Query:
        """The query about these rows."""
        key = rows.tobytes()
        found = self._made.get(key)
        if found is None:
            found = self._make(rows)
            if self.has_room:
                self._made[key] = found
                self._bytes += sum(len(request) for request in found.requests)
        return found


@dataclass(slots=True)
class _Open:
    """A query of which not all requests have ended."""

    number: int
    query: Query
    ended: dict[int, Outcome] = field(default_factory=dict)


class Parted:
    """Queries as their requests, one after the other, and the outcome of these as the outcome of the queries.

    Args:
        query_of: The k-th query, from 0; None: that was all.
        took: Handed the outcome of each.
    """

    def __init__(self, query_of: Callable[[int], Query | None], took: Callable[[QueryOutcome], None]) -> None:
        self._query_of = query_of
        self._took = took
        self._queries = 0
        self._unsent: deque[tuple[_Open, int]] = deque()
        self._sent: dict[int, tuple[_Open, int]] = {}

    def request_of(self, number: int) -> bytes | None:
        """The next request, under this number; None: that was all."""
        if not self._unsent:
            query = self._query_of(self._queries)
            if query is None:
                return None
            one = _Open(self._queries, query)
            self._unsent.extend((one, part) for part in range(len(query.requests)))
            self._queries += 1
        one, part = self._sent[number] = self._unsent.popleft()
        return one.query.requests[part]

    def took(self, number: int, outcome: Outcome) -> None:
        """A request has ended."""
        one, part = self._sent.pop(number)
        one.ended[part] = outcome
        if len(one.ended) == len(one.query.requests):
            self._took(_done(one))
            for ended in one.ended.values():
                ended.reply = None


def _done(one: _Open) -> QueryOutcome:
    """From the first byte of its first request to the last byte of its last answer; failed where one of them did."""
    ended = [one.ended[part] for part in range(len(one.ended))]
    replies: list[Reply] = [outcome.reply for outcome in ended if outcome.reply is not None]
    return QueryOutcome(
        query=one.number,
        sent_ns=min((outcome.sent_ns for outcome in ended if outcome.sent_ns), default=0),
        first_ns=min((outcome.first_ns for outcome in ended if outcome.first_ns), default=0),
        end_ns=max(outcome.end_ns for outcome in ended),
        outcome=next((outcome.outcome for outcome in ended if outcome.outcome != ANSWERED), ANSWERED),
        outputs=(one.query, tuple(replies)) if len(replies) == len(ended) else None,
    )
