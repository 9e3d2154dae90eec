"""Answers of a seeded random part of the queries, made after they were timed."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import EvalspecError, InputError
from evalspec.language.timings import ANSWERED, FAILED
from evalspec.measure.samples import Sink
from evalspec.measure.servable import Servable, streamed_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT_ROWS = 1024
"""Rows whose answers are kept of a block: enough to show that they are those of the quality run."""
TAG = 0x6B657074


EVERY_ROW = 1 << 62
"""To hold of a server that streams: tokens are counted in what it answered."""


def rows_to_hold(servable: Servable) -> int:
    """Rows whose answers are kept of a measurement without pauses."""
    return KEPT_ROWS if streamed_by(servable) is None else EVERY_ROW


class AnswerSample:
    """Sample of answers, each query as likely as any other, kept until there is time to read them.

    Every query has a random number (`keys`); those with the smallest are held, as many as make 1,024 rows, so how
    many queries there will be need not be known.

    Args:
        seed: Of the schedule.
        block: Index of the block.
        rows: To hold.
        sizes: shape (q,), rows of each query that is planned; None: as many as the sink has room for.
        batch: With ``sizes``: answers of each query that the sink has room for.
    """

    def __init__(
        self, seed: int, block: int, rows: int = KEPT_ROWS, sizes: NDArray[np.int64] | None = None, batch: int = 1
    ) -> None:
        self.below = 1.0
        """Only a query whose key is smaller is worth holding."""
        self._rng = np.random.default_rng([TAG, seed, block])
        self._sizes = sizes
        self._wanted = rows
        if sizes is not None:
            # Large queries would push out the others, and most of their rows have no room in the sink.
            self._wanted = math.ceil(rows * sizes.sum() / np.minimum(sizes, batch).sum())
        self._rows = 0
        self._held: list[tuple[float, int, int, Any]] = []

    def keys(self, queries: int) -> memoryview[float]:
        """Random numbers in 0..1 for the next queries."""
        return self._rng.random(queries).view(np.uint8).data.cast("d")

    def hold(self, key: float, query: int, rows: int, outputs: Any) -> float:
        """Hold what came back of a query, or of several together.

        Args:
            key: Its random number, under `below`.
            query: Number of the (first) query.
            rows: Rows that came back.
            outputs: As the servable gave them.

        Returns:
            `below` from now on.
        """
        heapq.heappush(self._held, (-key, query, rows, outputs))
        self._rows += rows
        while self._rows - self._held[0][2] >= self._wanted:
            self._rows -= heapq.heappop(self._held)[2]
        if self._rows >= self._wanted:
            self.below = -self._held[0][0]
        return self.below

    def answer(self, servable: Servable, sink: Sink, origin_ns: int) -> None:
        """Read what was held and write the answers beside the times.

        Args:
            servable: What gave them.
            sink: Takes them.
            origin_ns: Where times count from.

        Raises:
            InputError: None of it is an answer.
        """
        failures, streamed = 0, streamed_by(servable)
        for _, query, rows, outputs in sorted(self._held, key=lambda held: held[1]):
            queries = self._queries(query, rows, sink)
            try:
                answers = self._answers(servable.answers(outputs), queries, sink)
            except EvalspecError as error:
                failures += 1
                for one in queries:
                    sink.amend(one, outcome=getattr(error, "outcome", FAILED), answers=None)
                if failures == len(self._held):
                    raise InputError(f"all of {failures} queries failed; the last one: {error}") from error
                continue
            _write(sink, query, answers)
            if streamed is not None:
                sink.stream(query, streamed(outputs), origin_ns)
        self._held.clear()

    def _queries(self, first: int, rows: int, sink: Sink) -> range:
        """The queries whose rows came back together."""
        if self._sizes is None:
            return range(first, first + rows // sink.batch)
        ends = np.cumsum(self._sizes[first - sink.first :])
        return range(first, first + int(np.searchsorted(ends, rows)) + 1)

    def _answers(self, found: NDArray[np.float64], queries: range, sink: Sink) -> NDArray[np.float64]:
        """As many answers of each query as there is room for, shape (queries, batch); NaN where it has fewer rows."""
        if self._sizes is None:
            return found.reshape(len(queries), sink.batch)
        sizes = self._sizes[queries.start - sink.first : queries.stop - sink.first]
        kept = np.full((len(queries), sink.batch), np.nan)
        for row, own in zip(kept, np.split(found, np.cumsum(sizes)[:-1]), strict=True):
            row[: len(own)] = own[: sink.batch]
        return kept


def _write(sink: Sink, first: int, answers: NDArray[np.float64]) -> None:
    rows = sink.rows(first, first + len(answers))
    rows["answers"] = np.where((rows["outcome"] == ANSWERED)[:, None], answers, np.nan)
