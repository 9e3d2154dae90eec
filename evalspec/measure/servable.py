"""Rows and model of a measuring loop, and the order in which it serves them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from evalspec.errors import EvalspecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell
    from evalspec.language.abilities import QueryOutcome
    from evalspec.language.inputs import Schedule
    from evalspec.language.streams import StreamedAnswer
    from evalspec.measure.samples import Sink


class Servable(Protocol):
    """Rows in memory and a model that serves them."""

    @property
    def n(self) -> int:
        """Rows."""
        ...

    def take(self, rows: NDArray[np.int64]) -> Any:
        """A query of these rows, shape (k,). Not timed."""
        ...

    def serve(self, query: Any) -> Any:
        """Answer it. Timed. What comes back stays as it is while later queries are served."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has done all of it. Timed."""
        ...

    def answers(self, outputs: Any) -> NDArray[np.float64]:
        """Class index or value of each row, shape (k,). Not timed."""
        ...


@runtime_checkable
class FixedBatch(Protocol):
    """A servable whose model may take one number of rows only; fewer are padded, more are several calls."""

    @property
    def fixed_batch(self) -> int | None:
        """Fixed number of rows in a batch, or None."""
        ...


@runtime_checkable
class Remote(Protocol):
    """A servable that is a client of a server: it sends many queries without waiting for the ones before.

    Its `take` is called once for all rows of the schedule before anything is timed, so that it may keep requests.
    """

    def drive(
        self,
        schedule: Schedule,
        begin: Callable[[], NDArray[np.int64]],
        rows: Sequence[NDArray[np.int64]] | NDArray[np.int64],
        sink: Sink,
        origin_ns: int,
    ) -> bool:
        """Send each query at its time, whether or not the ones before were answered, and keep the outcome of each.

        From ``begin`` on the sink has a row for each query with its item and its intended time; the outcome of the k-th
        goes there by ``sink.record(sink.first + k, ...)``, in any order. One that is not recorded is kept as not sent.

        Args:
            schedule: Its ``timeout_s``, ``connections`` and ``limit_s``.
            begin: Called once, when requests are made and connections are open: lays out the times, and gives them,
                shape (q,), rising: when each query is to be sent, in ns from ``origin_ns``.
            rows: shape (q, batch), rows of each query; where they have sizes of their own, an array for each.
            sink: Takes the outcome of each query; times in ns from ``origin_ns``.
            origin_ns: Where times count from, on `evalspec.clocks.now_ns`.

        Returns:
            Whether all were sent.
        """
        ...

    def facts(self) -> Mapping[str, Cell]:
        """Of what was driven last; a ``generator_lag_...`` stands in place of the loop's own."""
        ...


@runtime_checkable
class Concurrent(Servable, Protocol):
    """A servable that can have several queries under way at a time, as a client of a server can."""

    def keep_busy(
        self,
        connections: int,
        likely: NDArray[np.int64],
        rows_of: Callable[[int], NDArray[np.int64] | None],
        took: Callable[[QueryOutcome], None],
    ) -> None:
        """Send a query over each connection that carries none, until there are no more; wait for what was sent.

        Args:
            connections: So many requests are under way at any time.
            likely: shape (k, batch), rows of queries that may come: to be made ready before.
            rows_of: Rows of the k-th query, from 0, asked for in order when there is room for it; None: that was all.
            took: Handed the outcome of each query, in the order in which they end.

        Raises:
            InputError: As ``took`` raises it.
        """
        ...


@runtime_checkable
class Alters(Protocol):
    """A servable that lives longer than one measurement: it may have been asked for every row before."""

    def altered(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Any | None:
        """A query of these rows with one number of each changed by a hair; None where they hold no numbers.

        Args:
            rows: shape (k,).
            rng: Says which number, and by how much; never the same twice.
        """
        ...


@runtime_checkable
class Streaming(Protocol):
    """A servable whose answers may come piece by piece."""

    @property
    def streams(self) -> bool:
        """They do."""
        ...

    def streamed(self, outputs: Any) -> StreamedAnswer:
        """The pieces of an answer, its tokens and its text. Not timed.

        Raises:
            InputError: It is none.
        """
        ...


def streamed_by(servable: Servable) -> Callable[[Any], StreamedAnswer] | None:
    """The pieces of an answer of a servable, or None: it does not stream."""
    return servable.streamed if isinstance(servable, Streaming) and servable.streams else None


class NewFirst:
    """Pairs of queries: the first is of altered rows, which no exact cache knows, the second of the rows themselves.

    Before each pair the rows themselves are asked for, untimed, so that a cache has them.

    Args:
        servable: Takes and serves, and `Alters`.
        rng: Of the alterations.
    """

    def __init__(self, servable: Servable, rng: np.random.Generator) -> None:
        self._servable = servable
        self._rng = rng
        self._asked = 0
        self.n = servable.n
        self.serve = servable.serve
        self.synchronize = servable.synchronize
        self.answers = servable.answers

    def take(self, rows: NDArray[np.int64]) -> Any:
        """The query: of altered rows where it is the first of a pair. Not timed."""
        query = self._servable.take(rows)
        self._asked += 1
        if self._asked % 2 == 0 or not isinstance(self._servable, Alters):
            return query
        # A failure here is seen when the rows are asked for again.
        with contextlib.suppress(EvalspecError):
            self._servable.serve(query)
            self._servable.synchronize()
        altered = self._servable.altered(rows, self._rng)
        return query if altered is None else altered


class Rotation:
    """Rows in a seeded random order, over and over, so that no query has the same rows as the one before.

    Args:
        n: Rows.
        batch: Rows of a query.
        seed: Of the order.
    """

    def __init__(self, n: int, batch: int, seed: int) -> None:
        self.n = n
        self.batch = batch
        self.seed = seed
        self._order = item_order(n, seed)
        self._step = np.arange(batch)

    def rows(self, query: int) -> NDArray[np.int64]:
        """Rows of a query, counted from 0; shape (batch,)."""
        return self._order[(query * self.batch + self._step) % self.n]

    def of_sizes(self, sizes: NDArray[np.int64], items: NDArray[np.int64] | None = None) -> list[NDArray[np.int64]]:
        """Rows of queries that ask for different numbers of them, each those that follow its first in the order.

        Args:
            sizes: shape (q,), 1 or more.
            items: shape (q,), the first row of each; None: the row after the last of the query before it.

        Returns:
            An array for each query.
        """
        ends = np.cumsum(sizes)
        first = ends - sizes if items is None else self._places()[items]
        within = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        return np.split(self._order[(np.repeat(first, sizes) + within) % self.n], ends[:-1])

    def _places(self) -> NDArray[np.int64]:
        """Where each row stands in the order, shape (n,)."""
        places = np.empty(self.n, dtype=np.int64)
        places[self._order] = np.arange(self.n)
        return places

    def table(self, first: int, queries: int) -> NDArray[np.int64]:
        """Rows of so many queries from this one on; shape (queries, batch)."""
        return np.asarray(self._order[((first + np.arange(queries))[:, None] * self.batch + self._step) % self.n])


def item_order(n: int, seed: int) -> NDArray[np.int64]:
    """The order of rows, shape (n,)."""
    return np.random.default_rng(seed).permutation(n).astype(np.int64)


def rows_of_queries(first: NDArray[np.int64], batch: int, n: int, seed: int) -> NDArray[np.int64]:
    """All rows of each query, from its first row.

    Args:
        first: shape (q,), as in `Samples.items`.
        batch: Rows of a query.
        n: Rows of the dataset.
        seed: Of the schedule that was measured.

    Returns:
        shape (q, batch).
    """
    order = item_order(n, seed)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    return np.asarray(order[(place[first][:, None] + np.arange(batch)) % n])
