"""Arrays, columns of pyarrow and files of them, without pandas.

pyarrow's own conversions, and its reader of datasets, import pandas first: that takes longer than a small model loads,
in memory that would count as the model's. Where code of others runs, pandas can't be hidden from pyarrow
(`evalspec.imports.arrow_without_pandas`), so what every worker does with a model's rows and answers goes these ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def column_of(values: NDArray[Any]) -> pa.Array:
    """Numbers or booleans, none of them missing, as a column.

    Args:
        values: shape (n,); all else is what pyarrow makes of it.
    """
    import numpy as np
    import pyarrow as pa

    if type(values) is not np.ndarray or values.ndim != 1 or values.dtype.kind not in "biuf":
        return pa.array(values)
    if values.dtype == np.bool_:
        buffer = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, buffer])
    whole = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return pa.Array.from_buffers(pa.from_numpy_dtype(whole.dtype), len(whole), [None, pa.py_buffer(whole)])


def column_of_texts(values: Sequence[str | None]) -> pa.Array:
    """Texts as a column of large strings; None: one is missing.

    Raises:
        UnicodeEncodeError: One has half a character.
        pyarrow.ArrowException: One is no text.
    """
    import numpy as np
    import pyarrow as pa

    if not all(one is None or isinstance(one, str) for one in values):
        return pa.array(values, pa.large_string())
    data = [b"" if one is None else one.encode() for one in values]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    there = np.array([one is not None for one in values], dtype=np.bool_)
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(
        pa.large_string(), len(data), [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
    )


def array_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Numbers or booleans as an array, which may be read-only.

    Args:
        column: n cells, none of them missing.

    Returns:
        shape (n,), of the column's own type.
    """
    import numpy as np
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return array_of(column.cast(pa.uint8())).view(np.bool_)
    whole: NDArray[Any] = np.from_dlpack(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return whole


def read_parquet(file: Path | BinaryIO) -> pa.Table:
    """All rows of one file.

    Raises:
        OSError, pyarrow.ArrowException: It can't be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        try:
            return opened.read()
        except pa.ArrowNotImplementedError:
            # Some lists, of dictionaries or of very long texts, do not go into one piece.
            return pa.concat_tables([opened.read_row_group(group) for group in range(opened.num_row_groups)])
