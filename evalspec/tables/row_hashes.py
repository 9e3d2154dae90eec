"""Digests of the rows of a batch by several sets of columns, without hashing a column twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from evalspec.sources.reading.rows import hash_values
from evalspec.stats.sets.hashing import Words, mix


class RowHashes:
    """Digests of the rows of a batch, equal to those of `row_digests`.

    Args:
        batch: n rows.
        shared: Columns that are asked for more than once.
    """

    def __init__(self, batch: pa.RecordBatch, shared: Collection[str] = ()) -> None:
        self.batch = batch
        self._shared = shared
        self._known: dict[str, Words] = {}

    def values(self, name: str) -> Words:
        """Of the values of a column, shape (2, n).

        Raises:
            InputError: Its type has no digest.
        """
        if name in self._known:
            return self._known[name]
        hashed = hash_values(self.batch.column(name), name)
        if name in self._shared:
            self._known[name] = hashed
        return hashed

    def rows(self, names: Sequence[str]) -> Words:
        """Of the rows by at least one column, shape (2, n).

        Raises:
            InputError: The type of one has no digest.
        """
        total = self.values(names[0]).copy()
        for name in names[1:]:
            total += self.values(name)
        return mix(total)
