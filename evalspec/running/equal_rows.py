"""Equal rows of the datasets that a check scores: they say as much as one, whatever their ids."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.words import plural, verb
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.sources.reading.copies import Copies

MOST_ROWS = 5_000_000
"""Rows of the largest dataset that is looked through, which takes memory for every row."""
MOST_BYTES = 1 << 30
"""Largest size of files to look through that don't say how many rows they hold."""
MOST_PICTURES = 20_000
"""Rows of the largest dataset to look through that doesn't fit into memory, and is read and hashed in batches."""


def columns_read(parts: SpecParts) -> tuple[str, ...]:
    """Columns that the candidate is said to read; empty where this is not known."""
    candidate = parts.models.get("candidate")
    named = () if candidate is None else candidate.inputs.values()
    return tuple(dict.fromkeys(name for one in named for name in ([one] if isinstance(one, str) else one)))


class RepeatWatch:
    """Watcher for a dataset in which many rows may be copies, in the pass that makes its digest.

    A column of fractional numbers that tells rows apart rules copies out, and most tables have one. Where the candidate
    is said to read certain columns, it must be one of them: in all others copies may differ.
    """

    def __init__(self, name: str, parts: SpecParts) -> None:
        """``name`` is that of the dataset."""
        self._part, self._stated = parts.datasets[name], columns_read(parts)
        self._column: str | None = None
        self._values: list[NDArray[np.float64]] = []
        self._rows = 0

    def column(self, schema: pa.Schema) -> str | None:
        """The column that tells rows apart, which alone is looked at; None: there is none."""
        if self._column is None and not self._rows:
            self._column = self._chosen(schema)
        return self._column

    def update(self, rows: int, values: pa.Array | None) -> None:
        """Take in more rows: how many, and their values of `column`."""
        self._rows += rows
        if values is not None and self._rows <= MOST_ROWS:
            self._values.append(np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64))

    def end(self) -> bool:
        """True where many rows may be copies, so that it is worth while to look at all columns."""
        from evalspec.sources.reading.copies import FEW

        if self._rows > MOST_ROWS:
            return False
        if self._column is None:
            return self._rows > 1
        return self._rows - len(np.unique(np.concatenate(self._values))) >= max(2.0, FEW * self._rows)

    def _chosen(self, schema: pa.Schema) -> str | None:
        import pyarrow as pa

        read = [name for name in self._stated if name in schema.names]
        names = read if len(read) == len(self._stated) and read else schema.names
        floating = (name for name in names if pa.types.is_floating(schema.field(name).type))
        return next((name for name in floating if name not in (self._part.key, self._part.cluster)), None)


class EqualRows:
    """Copies in datasets, looked for once in each, when a check asks for its clusters."""

    def __init__(self, parts: SpecParts, tables: Tables, repeating: Collection[str]) -> None:
        """``repeating``: datasets of which many rows may be copies; no other is looked through."""
        self._parts, self._tables, self._repeating = parts, tables, repeating
        self._stated = columns_read(parts)
        self._found: dict[str, Copies | None] = {}

    def clusters(self, dataset: str, own: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Groups of rows: by what the dataset says that they share, and by being equal.

        Args:
            dataset: Name.
            own: shape (n,), of its ``cluster:``, or None.
        """
        copies = self.of(dataset)
        if copies is None or (own is not None and len(own) != copies.n):
            return own
        from evalspec.sources.reading.copies import joined_groups

        return copies.groups if own is None else joined_groups(own, copies.groups)

    def of(self, dataset: str) -> Copies | None:
        """Copies among a dataset's rows; None where none were found that matter."""
        if dataset not in self._found:
            try:
                self._found[dataset] = self._look(dataset)
            except (InputError, OSError):
                # What can't be read or compared is told of where it is needed.
                self._found[dataset] = None
        return self._found[dataset]

    def lines(self) -> list[str]:
        """Lines about the datasets that were asked for and in which many rows are equal."""
        what = "what the model reads and the label" if self._stated else "all that is neither a key nor a name"
        copies = [(name, one) for name, one in self._found.items() if one is not None]
        return [
            f"of {plural(one.n, 'row')} of {name} only {one.different:,} {verb(one.different, 'differs', 'differ')}: "
            f"rows that are equal in {what} count as one"
            for name, one in copies
        ]

    def _look(self, dataset: str) -> Copies | None:
        from evalspec.sources.reading.copies import find_copies, finest_first

        if dataset not in self._repeating:
            return None
        part = self._parts.datasets[dataset]
        header = part.header(self._parts.access)
        most = MOST_ROWS if part.rows_fit else MOST_PICTURES
        if header.rows is None and sum(one.stat().st_size for one in part.files(self._parts.access)) > MOST_BYTES:
            return None
        if header.rows is not None and header.rows > most:
            return None
        names = [name for name in self._counting(dataset) if name in self._tables.names(dataset)]
        read = self._values if part.rows_fit else self._digests
        return find_copies(lambda name: read(dataset, name), finest_first(header.columns, names))

    def _counting(self, dataset: str) -> tuple[str, ...]:
        """Columns in which copies are equal."""
        from evalspec.tables.row_names import row_names

        part, names = self._parts.datasets[dataset], self._tables.names(dataset)
        if self._stated and all(name in names for name in self._stated):
            return (*self._stated, *((part.label,) if part.label else ()))
        if not part.rows_fit:
            return tuple(name for name in names if name not in (part.key, part.cluster, "path", "file"))
        named = tuple(name for name in names if name not in (part.key, part.cluster))
        table = self._tables.having(dataset, named)
        called = row_names([table], named, (), [table.num_rows])
        return tuple(name for name in named if name not in called)

    def _values(self, dataset: str, name: str) -> pa.ChunkedArray:
        return self._tables.column(dataset, name).column(name)

    def _digests(self, dataset: str, name: str) -> pa.ChunkedArray:
        """Digests of values that don't fit in memory: 16 bytes each."""
        import pyarrow as pa

        from evalspec.sources.reading.rows import row_digests

        kind = pa.binary(16)
        batches = self._tables.batches(dataset, [name])
        made = [pa.Table.from_batches([batch]).select([name]) for batch in batches]
        return pa.chunked_array(
            [pa.array([row.tobytes() for row in row_digests(one)], kind) for one in made], type=kind
        )
