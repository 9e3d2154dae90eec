"""Lists of another length in each row, as one array of all of them and how many each row has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.arrays import column, plain_array
from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    Counts = NDArray[np.int64]


def flattened(array: NDArray[Any], what: str, first_row: int = 0) -> tuple[Counts, NDArray[Any]]:
    """Elements of lists, one row's after the other's.

    Args:
        array: shape (n, K, ...), or (n,) objects, each a list or an array.
        what: Whose they are, for sentences.
        first_row: Index of the first row in its dataset, for sentences.

    Returns:
        How many each row has, shape (n,), and all of them, shape (sum, ...).

    Raises:
        InputError: A row has no list, or rows hold things of several shapes.
    """
    if array.dtype != object or array.ndim > 1:
        if array.ndim < 2:
            raise InputError(f"{what} has shape {list(array.shape)}, not a list in each row")
        return np.full(len(array), array.shape[1]), array.reshape(-1, *array.shape[2:])
    pieces = []
    for row, value in enumerate(array.tolist()):
        try:
            piece = np.asarray(value)
        except ValueError as error:
            raise InputError(f"{what} holds lists of several lengths in row {first_row + row}") from error
        if value is None or piece.ndim == 0:
            raise InputError(f"{what} has no list in row {first_row + row} (counted from 0)")
        pieces.append(piece)
    counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
    filled = [piece for piece in pieces if len(piece)]
    if len({piece.shape[1:] for piece in filled}) > 1:
        raise InputError(f"{what} holds values of several shapes")
    return counts, np.concatenate(filled) if filled else np.empty(0)


def listed_column(table: pa.Table, name: str, what: str) -> tuple[Counts, NDArray[Any]]:
    """The same of a column of lists.

    Raises:
        InputError: No such column, no lists, a row without one.
    """
    return listed(column(table, name), what)


def listed(values: pa.ChunkedArray, what: str) -> tuple[Counts, NDArray[Any]]:
    """The same of a column of lists that is at hand."""
    counts, flat = unlisted(values, what)
    if not len(flat):
        return counts, np.empty(0)
    return counts, plain_array(flat, what)


def unlisted(values: pa.ChunkedArray, what: str) -> tuple[Counts, pa.ChunkedArray]:
    """Number of elements of each row, and those that its lists hold, as arrow has them.

    Raises:
        InputError: No lists, or a row without one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], type=kind.storage_type)
        kind = values.type
    if not is_listed(kind):
        raise InputError(f"{what} holds {kind}, not a list in each row")
    if values.null_count:
        row = int(np.argmax(np.asarray(values.is_null())))
        raise InputError(
            f"{what} has no list in row {row} (counted from 0)", remedy="write an empty list for a row without any"
        )
    counts = np.asarray(pc.list_value_length(values), dtype=np.int64)
    flat = pa.chunked_array([chunk.flatten() for chunk in values.chunks], type=kind.value_type)
    return counts, flat


def is_listed(kind: pa.DataType) -> bool:
    """A type of lists."""
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def output_column(table: pa.Table, name: str) -> NDArray[Any]:
    """A column of answers: lists may be of several lengths, and pictures are bytes.

    Returns:
        shape (n, ...); (n,) objects where each row's is of another length, or bytes.

    Raises:
        InputError: No such column, or one that holds no answers.
    """
    import pyarrow.types as types

    values = column(table, name)
    if types.is_binary(values.type) or types.is_large_binary(values.type) or types.is_struct(values.type):
        return _objects(values.to_pylist())
    if not is_listed(values.type) or not _of_several_lengths(values):
        return plain_array(values, name)
    counts, flat = listed(values, f"the column {name!r}")
    return _objects(np.split(flat, np.cumsum(counts)[:-1]))


def _of_several_lengths(values: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    return values.null_count > 0 or len(pc.unique(pc.list_value_length(values))) > 1


def _objects(rows: list[Any]) -> NDArray[np.object_]:
    objects = np.empty(len(rows), dtype=object)
    for index, row in enumerate(rows):
        objects[index] = row
    return objects
