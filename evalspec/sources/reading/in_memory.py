"""Tables of what a program holds in memory: frames, tables, dicts of arrays, a pair of inputs and truth."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = (
    "a frame of pandas, a table of pyarrow, an object that exports Arrow, a dict of arrays, a list of dicts, or a "
    "pair (X, y)"
)
INPUT, TRUTH = "X", "y"
"""Columns of a pair whose halves have no names of their own."""


def write_table(value: object, path: Path) -> str | None:
    """Write the rows that a value holds to an Arrow file.

    Args:
        value: What holds rows.
        path: Of the file.

    Returns:
        The column with the truth, where the value says which it is.

    Raises:
        InputError: It holds no rows, or cells that are no column.
    """
    import pyarrow as pa

    label = None
    try:
        if isinstance(value, tuple) and len(value) == 2:
            table, label = _pair(*value)
        else:
            table = _table(value)
        if not table.num_rows:
            raise InputError("it has no rows")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except (pa.ArrowException, TypeError, ValueError, OSError) as error:
        said = str(error.args[0] if error.args else error).strip().splitlines()
        raise InputError(f"its cells can't become columns: {(said or [type(error).__name__])[0][:300]}") from error
    return label


def _table(value: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        # As pandas writes a file: of an index that is meant, the name is kept.
        return pa.Table.from_pandas(value.rename(columns=str))
    if isinstance(value, Mapping):
        columns = {str(name): _column(one, str(name)) for name, one in value.items()}
        _check_lengths(columns)
        return pa.table(columns)
    if hasattr(value, "__arrow_c_stream__"):
        return pa.table(value)
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return pa.Table.from_pylist(value)
    if hasattr(value, "with_format"):
        # A data set of Hugging Face.
        return pa.table(value.with_format("arrow")[:])
    raise InputError(f"an object of type {type(value).__name__} holds no rows", remedy=f"pass {KINDS}")


def _pair(inputs: Any, truth: Any) -> tuple[pa.Table, str]:
    """Inputs and truth as one table, and the name of the truth."""
    name = getattr(truth, "name", None)
    label = name if isinstance(name, str) and name else TRUTH
    table = _table({INPUT: inputs} if _is_array(inputs) else inputs)
    column = _column(truth, label)
    if label in table.column_names:
        raise InputError(f"the inputs already have a column {label!r}", remedy="give the labels a different name")
    if len(column) != table.num_rows:
        raise InputError(f"there are {table.num_rows:,} rows and {len(column):,} labels")
    return table.append_column(label, column), label


def _is_array(value: Any) -> bool:
    return isinstance(value, list) or (hasattr(value, "__array__") and not hasattr(value, "columns"))


def _column(value: Any, name: str) -> pa.Array | pa.ChunkedArray:
    """Values as a column, one a row."""
    import numpy as np
    import pyarrow as pa

    from evalspec.sources.reading.arrays import array_column

    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.Series | pandas.Index):
        return pa.array(value, from_pandas=True)
    if hasattr(value, "detach"):
        # A tensor of torch, wherever it lies.
        value = value.detach().cpu().numpy()
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise InputError(f"{name} is a single value, not one for each row")
    if not hasattr(value, "__array__"):
        return pa.array(list(value))
    array = np.asarray(value)
    if array.ndim == 0:
        raise InputError(f"{name} is a single value, not one for each row")
    return pa.array(array.tolist()) if array.dtype.kind == "O" else array_column(array, name)


def _check_lengths(columns: Mapping[str, Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(f"its columns differ in their number of rows: {told}")
