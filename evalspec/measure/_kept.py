"""Answers of a seeded random part of the queries, made after they were timed."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import EvalspecError, InputError
from evalspec.measure.samples import ANSWERED, FAILED, Sink
from evalspec.measure.servable import Servable

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT_ROWS = 1024
"""Rows whose answers are kept of a block: enough to show that they are those of the quality run."""
TAG = 0x6B657074


class Kept:
    """What came back of some queries, each query as likely as any other, until there is time to read it.

    Every query has a random number (`keys`); those with the smallest are held, as many as make 1,024 rows, so how
    many queries there will be need not be known.

    Args:
        seed: Of the schedule.
        block: Index of the block.
        rows: To hold.
    """

    def __init__(self, seed: int, block: int, rows: int = KEPT_ROWS) -> None:
        self.below = 1.0
        """Only a query whose key is smaller is worth holding."""
        self._rng = np.random.default_rng([TAG, seed, block])
        self._wanted = rows
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

    def answer(self, servable: Servable, sink: Sink) -> None:
        """Read what was held and write the answers beside the times.

        Raises:
            InputError: None of it is an answer.
        """
        failures = 0
        for _, query, rows, outputs in sorted(self._held, key=lambda held: held[1]):
            queries = range(query, query + rows // sink.batch)
            try:
                answers = servable.answers(outputs).reshape(len(queries), sink.batch)
            except EvalspecError as error:
                failures += 1
                for one in queries:
                    sink.amend(one, outcome=getattr(error, "outcome", FAILED), answers=None)
                if failures == len(self._held):
                    raise InputError(f"all of {failures} queries failed; the last one: {error}") from error
            else:
                _write(sink, query, answers)
        self._held.clear()


def _write(sink: Sink, first: int, answers: NDArray[np.float64]) -> None:
    rows = sink.rows(first, first + len(answers))
    rows["answers"] = np.where((rows["outcome"] == ANSWERED)[:, None], answers, np.nan)
