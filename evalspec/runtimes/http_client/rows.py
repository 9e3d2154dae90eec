"""Rows as requests to a server: what the measuring loops are handed for a served model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evalspec.clocks import now_ns
from evalspec.errors import EvalspecError, NotRunError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import plural
from evalspec.language.abilities import QueryOutcome, ServerTiming
from evalspec.language.timings import ANSWERED, NOT_FINITE, NOT_UNDERSTOOD, OTHER_SHAPE
from evalspec.pipeline.cache_busting import altered, ranges
from evalspec.pipeline.inputs import Arrays, take
from evalspec.pipeline.serve import Served, ServedRows
from evalspec.runtimes.http_client.closed_loop import Busy
from evalspec.runtimes.http_client.oip import JSON_LENGTH
from evalspec.runtimes.http_client.open_loop import Client
from evalspec.runtimes.http_client.pool import Outcome
from evalspec.runtimes.http_client.prepared import NO_QUERY, Ahead, Parted, Query
from evalspec.runtimes.http_client.server_timing import told, with_decoding
from evalspec.runtimes.http_client.wire import HttpError, Reply

if TYPE_CHECKING:
    from evalspec.language.inputs import Schedule
    from evalspec.language.streams import StreamedAnswer
    from evalspec.runtimes.http_client.server import Server

HELD_BYTES = 1 << 28
"""Answers that wait to be read until a run is over; beyond it they are read as soon as nothing is to be done."""
AT_ONCE = 1024
OPEN_S = 5.0
SALT_BYTES = 6
READ_HEADERS = (JSON_LENGTH.lower().encode(), b"content-type")


class SampleSink(Protocol):
    """Where samples go: as much of `evalspec.measure.samples.Sink` as is needed here."""

    @property
    def first(self) -> int:
        """Number of the first query that was planned last."""
        ...

    def record(
        self, query: int, *, sent_ns: int, end_ns: int, first_ns: int = 0, outcome: int = ANSWERED,
        answers: NDArray[np.float64] | None = None,
    ) -> None:  # fmt: skip
        """Record the outcome of a planned query."""
        ...

    def amend(self, query: int, *, outcome: int, answers: NDArray[np.float64] | None) -> None:
        """Amend the outcome of a query by what was found out after it was measured."""
        ...

    def stream(self, query: int, answer: StreamedAnswer, origin_ns: int) -> None:
        """Keep the pieces of a streamed answer."""
        ...


Replies = tuple[Query, tuple[Reply, ...]]


class RemoteRows(ServedRows):
    """Rows in memory and a server that answers about them.

    Args:
        served: The model.
        arrays: Tensor: shape (n, ...), before preprocessing.
        loaded: The server.
    """

    def __init__(self, served: Served, arrays: Arrays, loaded: Server) -> None:
        super().__init__(served, arrays)
        self.loaded = loaded
        salted = loaded.model.protocol == "openai" and loaded.model.prefix == "salted"
        self._hidden = loaded.model.hidden
        self._facts: dict[str, Cell] = {}
        self._ahead = Ahead(self.take, again=not salted)
        self._busy: Busy | None = None
        self._ranges: dict[str, tuple[float, float]] | None = None
        self._salted = salted
        self.prompted = loaded.model.protocol == "openai"
        """Asked with a text, which a word of its own makes another one."""
        self.streams = self.prompted and not loaded.scores_options
        """As `evalspec.measure.servable.Streaming`."""
        self.waits = "server"

    def take(self, rows: NDArray[np.int64]) -> Query:
        """The requests about these rows, preprocessed and written out. Not timed.

        They are made anew each time: a pause before a query that is asked for again must not be a shorter one.
        """
        return self.written(self.raw(rows))

    def written(self, raw: Arrays) -> Query:
        """As `evalspec.language.abilities.Writes`: preprocessed and written out."""
        return self._query(self.served.ready(raw))

    def altered(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Query | None:
        """As `evalspec.measure.servable.Alters`: rows that the server has never been asked about. Not timed."""
        ready = self.served.ready(self.raw(rows))
        if self.prompted:
            return self._query(ready, salt=True)
        if self._ranges is None:
            self._ranges = ranges(self.served.ready(self.raw(np.arange(min(self.n, AT_ONCE)))))
        changed = altered(ready, self._ranges, rng)
        return None if changed is None else self._query(changed)

    def _query(self, ready: Arrays, *, salt: bool = False) -> Query:
        count = len(next(iter(ready.values())))
        fixed = self.loaded.fixed_batch or count
        requests, sizes = [], []
        for first in range(0, count, fixed):
            # The last row again is a likely input, which zeros might not be.
            index = np.minimum(np.arange(first, first + fixed), count - 1)
            word = f"[{token_hex(SALT_BYTES)}] " if salt or self._salted else ""
            requests.append(self.loaded.request(take(ready, index), word))
            sizes.append(min(fixed, count - first))
        return Query(tuple(requests), tuple(sizes), fixed)

    def serve(self, query: Query) -> Replies:
        """Ask, one request after the other, over one connection that is kept. Timed.

        Raises:
            HttpError: There is no answer, or one without success.
        """
        return query, tuple(self.loaded.ask(request) for request in query.requests)

    def streamed(self, outputs: Replies) -> StreamedAnswer:
        """As `evalspec.measure.servable.Streaming`."""
        return self.loaded.streamed(outputs[1][0])

    def answers(self, outputs: Replies) -> NDArray[np.float64]:
        """Class index or value of each row, shape (k,). Not timed.

        Raises:
            InputError: The replies hold none.
        """
        return super().answers(self._decoded(*outputs))

    def steps(self) -> list[tuple[str, Callable[[Any], Any]]]:
        """Steps of a client of a server, and the wait for it."""
        pipeline = self.served.pipeline
        own: list[tuple[str, Callable[[Any], Any]]] = list(zip(pipeline.names, pipeline.steps, strict=True))
        return [*own, ("serialize", self._serialized), (self.waits, self.serve), ("parse", self.answers)]

    def _serialized(self, ready: Arrays) -> Query:
        self.served.check(ready)
        return self._query(ready)

    def told(self, outputs: Replies) -> ServerTiming:
        """As `evalspec.language.abilities.Tells`; of a stream also how long its pieces took."""
        if not self.streams:
            return told(outputs[1], self._hidden)
        return with_decoding(told(outputs[1], self._hidden), outputs[1], self.loaded.streamed)

    def counted(self) -> ServerTiming | None:
        """As `evalspec.language.abilities.Tells`."""
        return self.loaded.counted()

    def facts(self) -> Mapping[str, Cell]:
        """Of what was driven last: lag of the client, queries that waited for a connection, connections lost."""
        return self._facts or {"connections_opened_again": max(0, self.loaded.connection.opened - 1)}

    def drive(
        self,
        schedule: Schedule,
        begin: Callable[[], NDArray[np.int64]],
        rows: Sequence[NDArray[np.int64]] | NDArray[np.int64],
        sink: SampleSink,
        origin_ns: int,
    ) -> bool:
        """As `evalspec.measure.servable.Remote`: an open loop over ``schedule.connections`` connections.

        Requests are made before. While it runs only times are taken; answers are read afterwards.

        Raises:
            NotRunError: A query would be several requests.
        """
        queries = self._all_queries(rows)
        if any(len(query.requests) != 1 for query in queries):
            takes = plural(self.loaded.fixed_batch or 1, "row")
            raise NotRunError(f"the server takes {takes} per request; use that many per query")
        client = Client(
            self.loaded.model.address, schedule.connections, int(schedule.timeout_s * 1e9), self.loaded.trusted
        )
        client.keeping = self.loaded.connection.keeping
        try:
            opened = client.open(OPEN_S)
            times_ns = begin()
            held = _Held(self, queries, sink, origin_ns)
            # What is still being answered then gets its time too, before the process's own is over.
            client.until_ns = now_ns() + int(max(0.0, schedule.measuring_s - schedule.timeout_s) * 1e9)
            due = (times_ns + origin_ns).tolist()
            complete = client.run([query.requests[0] for query in queries], due, held.took)
        finally:
            client.close()
        held.read_all()
        self._facts = _facts(held.outcomes, times_ns + origin_ns) | {
            "connections": schedule.connections,
            "connections_open_at_start": opened,
            "connections_opened_again": client.reconnected,
        }
        return complete

    def _all_queries(self, rows: Sequence[NDArray[np.int64]] | NDArray[np.int64]) -> list[Query]:
        if self._salted:
            return [self.take(one) for one in rows]
        made: dict[bytes, Query] = {}
        for one in rows:
            made.setdefault(one.tobytes(), NO_QUERY)
        for key in made:
            made[key] = self.take(np.frombuffer(key, dtype=np.int64))
        return [made[one.tobytes()] for one in rows]

    def keep_busy(
        self,
        connections: int,
        likely: NDArray[np.int64],
        rows_of: Callable[[int], NDArray[np.int64] | None],
        took: Callable[[QueryOutcome], None],
    ) -> None:
        """As `evalspec.measure.servable.Concurrent`; where a query is several requests, each counts as one under way.

        Connections stay open for the next time. Requests are made before, as far as there is room for them.

        Raises:
            HttpError: The server's name is not known.
            InputError: As ``took`` raises it.
        """
        for rows in likely:
            if not self._ahead.has_room:
                break
            self._ahead.query(rows)
        client = self._pool(connections)
        opened = client.open(OPEN_S)
        parted = Parted(lambda query: None if (rows := rows_of(query)) is None else self._ahead.query(rows), took)
        client.run(parted.request_of, parted.took)
        self._facts = {
            "connections": connections,
            "connections_open_at_start": opened,
            "connections_opened_again": client.reconnected,
            "client_busy_share": client.busy_share,
        }

    def _pool(self, connections: int) -> Busy:
        if self._busy is None or self._busy.connections != connections:
            model = self.loaded.model
            self._busy = Busy(model.address, connections, int(model.timeout_s * 1e9), self.loaded.trusted)
            self._busy.keeping = self.loaded.connection.keeping
            self.loaded.pools.append(self._busy)
        return self._busy

    def decode_each(self, pairs: Sequence[Replies]) -> Iterator[NDArray[np.float64] | HttpError]:
        """Answers of many queries, or what is wrong with each.

        Args:
            pairs: Queries with their replies.
        """
        outputs: list[dict[str, NDArray[Any]] | HttpError] = []
        for query, replies in pairs:
            try:
                outputs.append(self._decoded(query, replies))
            except HttpError as error:
                outputs.append(error)
        good = [one for one in outputs if not isinstance(one, HttpError)]
        together = self._mapped(good)
        for one in outputs:
            yield one if isinstance(one, HttpError) else next(together)

    def _mapped(self, good: list[dict[str, NDArray[Any]]]) -> Iterator[NDArray[np.float64] | HttpError]:
        """Answers of each, made of all at once where they are alike."""
        shapes = {tuple((name, array.shape[1:]) for name, array in one.items()) for one in good}
        if len(shapes) == 1:
            try:
                whole = {name: np.concatenate([one[name] for one in good]) for name in good[0]}
                found = super().answers(whole)
            except EvalspecError:
                pass
            else:
                sizes = [len(next(iter(one.values()))) for one in good]
                yield from np.split(found, np.cumsum(sizes)[:-1])
                return
        for one in good:
            try:
                yield super().answers(one)
            except EvalspecError as error:
                yield HttpError(OTHER_SHAPE, str(error))

    def _decoded(self, query: Query, replies: tuple[Reply, ...]) -> dict[str, NDArray[Any]]:
        pieces = []
        for reply, size in zip(replies, query.sizes, strict=True):
            outputs = self.loaded.decoded(reply, query.sent)
            if missing := self.served.output_names - outputs.keys():
                raise HttpError(NOT_UNDERSTOOD, f"the server's answer has no output {min(missing)!r}")
            for name, array in outputs.items():
                if array.ndim == 0 or len(array) != query.sent:
                    raise HttpError(OTHER_SHAPE, f"the server gave {array.shape} as {name!r} for {query.sent} rows")
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise HttpError(NOT_FINITE, f"the output {name!r} holds a number that is not finite")
            pieces.append({name: array[:size] for name, array in outputs.items()})
            if pieces[0].keys() != pieces[-1].keys():
                raise HttpError(OTHER_SHAPE, "the server's answers to the parts of a query have different outputs")
        if len(pieces) == 1:
            return pieces[0]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


class _Held:
    """Queries while they are driven: times go to the sink, answers wait."""

    def __init__(self, rows: RemoteRows, queries: list[Query], sink: SampleSink, origin_ns: int) -> None:
        self._rows = rows
        self._queries = queries
        self._sink = sink
        self._origin_ns = origin_ns
        self._first = sink.first
        self._waiting: list[tuple[int, Reply]] = []
        self._bytes = 0
        self.outcomes: list[Outcome] = [Outcome() for _ in queries]

    def took(self, index: int, outcome: Outcome) -> None:
        """One query has ended."""
        origin = self._origin_ns
        end = outcome.end_ns - origin
        self._sink.record(
            self._first + index,
            sent_ns=outcome.sent_ns - origin if outcome.sent_ns else end,
            first_ns=outcome.first_ns - origin if outcome.first_ns else 0,
            end_ns=end,
            outcome=outcome.outcome,
        )
        self.outcomes[index] = outcome
        reply, outcome.reply = outcome.reply, None
        if reply is None:
            return
        headers = {name: reply.headers[name] for name in READ_HEADERS if name in reply.headers}
        self._waiting.append((index, replace(reply, headers=headers)))
        self._bytes += len(reply.body)
        if self._bytes > HELD_BYTES:
            self.read_all()

    def read_all(self) -> None:
        """Read the answers that wait."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for first in range(0, len(waiting), AT_ONCE):
            part = waiting[first : first + AT_ONCE]
            pairs = [(self._queries[index], (reply,)) for index, reply in part]
            for (index, _), found in zip(part, self._rows.decode_each(pairs), strict=True):
                if isinstance(found, HttpError):
                    self._sink.amend(self._first + index, outcome=found.outcome, answers=None)
                else:
                    self._sink.amend(self._first + index, outcome=ANSWERED, answers=found)
            if self._rows.streams:
                self._read_streams(part)

    def _read_streams(self, part: list[tuple[int, Reply]]) -> None:
        for index, reply in part:
            # One that is none has been amended.
            with contextlib.suppress(HttpError):
                streamed = self._rows.loaded.streamed(reply)
                self._sink.stream(self._first + index, streamed, self._origin_ns)


def _facts(outcomes: Sequence[Outcome], due_ns: NDArray[np.int64]) -> dict[str, Cell]:
    """Lag of the client, and how long queries waited for a connection, in ms."""
    sent = np.array([one.sent_ns for one in outcomes], dtype=np.int64)
    was_sent = sent > 0
    if not was_sent.any():
        return {"generator_lag_p99_ms": None, "waited_for_connection_share": None}
    lag = np.array([one.lag_ns for one in outcomes], dtype=np.float64)[was_sent] / 1e6
    waited = np.maximum(0.0, (sent - due_ns)[was_sent] / 1e6 - lag)
    return {
        "generator_lag_p50_ms": _quantile(lag, 0.5),
        "generator_lag_p99_ms": _quantile(lag, 0.99),
        "generator_lag_max_ms": float(lag.max()),
        "waited_for_connection_share": float((waited > 1.0).mean()),
        "waited_for_connection_p99_ms": _quantile(waited, 0.99),
    }


def _quantile(values: NDArray[np.float64], p: float) -> float:
    return float(np.quantile(values, p, method="inverted_cdf"))
