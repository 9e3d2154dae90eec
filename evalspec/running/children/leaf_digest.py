"""The digest of a dataset whose leaves are looked at by several processes."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from evalspec.language.states import State, Value, packed
from evalspec.sources.reading.rows import TableDigest


class LeafDigest:
    """The digest of rows that go by; a `Summary`. A leaf is as long as some portions of a digest."""

    exact: ClassVar[bool] = False
    most_bytes: ClassVar[int] = 2**24

    def __init__(self) -> None:
        self.digest = TableDigest()

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows."""
        self.digest.update(pa.Table.from_batches([batch]))

    def merge(self, later: LeafDigest) -> None:
        """Take over the rows that come after."""
        self.digest.merge(later.digest)

    def state(self) -> pa.Table:
        """One row."""
        digest = self.digest
        schema = None if digest.schema is None else digest.schema.serialize().to_pybytes()
        fields: dict[str, Value] = {"schema": schema, "rows": digest.rows, "portions": digest.portions()}
        return packed("digest", 1, fields)

    @classmethod
    def restored(cls, state: pa.Table) -> LeafDigest:
        """The digest with this state."""
        fields, found = State.of(state, "digest", 1), cls()
        told = fields.scalar("schema")
        schema = None if told is None else pa.ipc.read_schema(pa.py_buffer(told))
        found.digest = TableDigest.of_portions(schema, fields.scalar("rows"), fields.texts("portions"))
        return found
