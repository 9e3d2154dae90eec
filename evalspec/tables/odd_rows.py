"""Rows of a table that are unlike most: rare categories, missing cells, extreme lengths and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CATEGORIES = 100
EACH = 2
"""Rows of a kind: of a category that is rare, with a cell that is missing."""


def odd_rows(table: pa.Table, names: Sequence[str], count: int) -> NDArray[np.int64]:
    """So many rows, the odd ones first and others evenly spread: shape (k,), rising, k <= count.

    Args:
        table: Rows.
        names: Columns that make a row odd.
        count: At most.
    """
    turns = [list(_of_column(table.column(name))) for name in names if name in table.column_names]
    chosen: dict[int, None] = {}
    # In turns, so that no column with many odd rows leaves none to the others; half of the rows are as they come.
    for place in range(max(map(len, turns), default=0)):
        for one in turns:
            if place < len(one) and len(chosen) < count // 2:
                chosen[one[place]] = None
    rest = np.linspace(0, table.num_rows - 1, max(0, count - len(chosen))).astype(np.int64) if table.num_rows else ()
    return np.unique([*chosen, *rest]).astype(np.int64)


def _of_column(column: pa.ChunkedArray) -> Iterator[int]:
    """Its odd rows, the oddest first."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    missing = np.flatnonzero(np.asarray(pc.is_null(column, nan_is_null=pa.types.is_floating(kind)).to_numpy()))
    yield from missing[:EACH].tolist()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = column.cast(pa.large_string())
        yield from _categories(texts)
        yield from _ends(np.asarray(pc.fill_null(pc.utf8_length(texts), 0).to_numpy(), np.float64))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _ends(np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(), np.float64))
    elif pa.types.is_floating(kind) or pa.types.is_integer(kind):
        cells = np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy(), np.float64)
        if np.isfinite(cells).any():
            yield from (int(np.nanargmin(cells)), int(np.nanargmax(cells)))


def _categories(texts: pa.ChunkedArray) -> Iterator[int]:
    """Rows of every category, the rarest first; none of a column in which most values differ."""
    counts = pc.value_counts(texts).to_pylist()
    if len(counts) > MOST_CATEGORIES:
        return
    for one in sorted(counts, key=lambda one: int(one["counts"])):
        if one["values"] is not None:
            index = pc.index(texts, one["values"]).as_py()
            yield int(index)


def _ends(sizes: NDArray[np.float64]) -> Iterator[int]:
    """The shortest and the longest."""
    if len(sizes) and np.ptp(sizes) > 0:
        yield from (int(sizes.argmax()), int(sizes.argmin()))
