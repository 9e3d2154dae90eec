"""Digests of rows by several sets of columns are those of the rows alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.sources.reading.rows import row_digests
from evalspec.tables.row_hashes import RowHashes


def test_shared_columns_give_the_same_digests() -> None:
    columns = {"a": [1, 2, None], "b": ["x", "", None], "c": pa.array([[1.0], None, []])}
    batch = pa.RecordBatch.from_pydict(columns)
    hashes = RowHashes(batch, {"a", "c"})
    for names in (["a"], ["a", "b", "c"], ["c", "a"], ["a", "b", "c"]):
        assert np.array_equal(hashes.rows(names).T, row_digests(pa.Table.from_batches([batch]), names))
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    with pytest.raises(InputError, match=r"'u' is of type .* which can't be compared"):
        RowHashes(pa.RecordBatch.from_arrays([union], names=["u"])).rows(["u"])
