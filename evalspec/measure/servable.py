"""What a measuring loop is handed, and the order in which it serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Servable(Protocol):
    """Rows in memory and a model that serves them."""

    @property
    def n(self) -> int:
        """Rows."""
        ...

    def take(self, rows: NDArray[np.int64]) -> Any:
        """A query of these rows. Not timed."""
        ...

    def serve(self, query: Any) -> Any:
        """Answer it. Timed."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has done all of it. Timed."""
        ...

    def answers(self, outputs: Any) -> NDArray[np.float64]:
        """Class index or value of each row, shape (batch,). Not timed."""
        ...


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
        self._order = item_order(n, seed)
        self._step = np.arange(batch)

    def rows(self, query: int) -> NDArray[np.int64]:
        """Rows of a query, counted from 0; shape (batch,)."""
        return self._order[(query * self.batch + self._step) % self.n]


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
