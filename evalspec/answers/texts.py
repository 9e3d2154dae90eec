"""Texts: what a model writes, and what it should have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    Texts = NDArray[np.object_]

MOST_TOKENS = 2**53
"""From here on a float64, as which files may hold a count, is no exact whole number."""


def said_texts(array: NDArray[Any], name: str, first_row: int) -> Texts:
    """Texts of an output, shape (n,), str objects.

    Args:
        array: One text a row, as str or UTF-8 bytes.
        name: Of the output.
        first_row: Index of the first row in its dataset, for sentences.

    Raises:
        InputError: Several a row, no text, or bytes that are none.
    """
    flat = array.reshape(len(array), -1)
    if flat.shape[1] != 1:
        raise InputError(f"the text output {name!r} has shape {list(array.shape)}, not one text per row")
    if array.dtype.kind not in "OUST":
        raise InputError(f"the output {name!r} holds {array.dtype}, not text")
    texts = np.empty(len(array), dtype=object)
    for index, value in enumerate(flat[:, 0].tolist()):
        texts[index] = _text(value, f"the output {name!r}", first_row + index)
    return texts


def said_reasons(array: NDArray[Any], name: str, first_row: int) -> Texts:
    """Why each text ends, shape (n,), str objects: ``stop``, ``length`` or what else a server says.

    Args:
        array: One text a row, as str or UTF-8 bytes.
        name: Of the output.
        first_row: Index of the first row in its dataset, for sentences.

    Raises:
        InputError: Several a row, no text, or an empty one.
    """
    what = f"the finish_reason output {name!r}"
    flat = _one_a_row(array, what)
    reasons = np.empty(len(flat), dtype=object)
    for index, value in enumerate(flat.tolist()):
        reason = value.decode(errors="replace") if isinstance(value, bytes) else value
        if not isinstance(reason, str) or not reason.strip():
            row = first_row + index
            raise InputError(f"{what} holds {reason!r} in row {row} (counted from 0), not a text such as 'stop'")
        reasons[index] = reason.strip()
    return reasons


def said_tokens(array: NDArray[Any], name: str, first_row: int) -> NDArray[np.int64] | None:
    """Tokens of each text, shape (n,); None where an object None says of a text that nobody counted them.

    Args:
        array: One whole number a row.
        name: Of the output.
        first_row: Index of the first row in its dataset, for sentences.

    Raises:
        InputError: Several a row, or anything but whole numbers from 0 on.
    """
    what = f"the tokens output {name!r}"
    flat = _one_a_row(array, what)
    if flat.dtype.kind == "O" and all(one is None or type(one) is int for one in flat.tolist()):
        if None in flat.tolist():
            return None
        flat = flat.astype(np.int64)
    if flat.dtype.kind not in "iuf":
        raise InputError(f"{what} holds {flat.dtype}, not a number of tokens for each text")
    numbers = flat.astype(np.float64)
    wrong = ~(np.isfinite(numbers) & (numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < MOST_TOKENS))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{what} is {numbers[row]:g} in row {first_row + row} (counted from 0), not a count of 0 or more"
        )
    return numbers.astype(np.int64)


def _one_a_row(array: NDArray[Any], what: str) -> NDArray[Any]:
    flat = array.reshape(len(array), -1)
    if flat.shape[1] != 1:
        raise InputError(f"{what} has shape {list(array.shape)}, not one value per row")
    return flat[:, 0]


def _text(value: Any, what: str, row: int) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{what} is not UTF-8 in row {row} (counted from 0)") from error
    if value is None:
        raise InputError(
            f"{what} has no text in row {row} (counted from 0)", remedy="write an empty text for an empty answer"
        )
    if not isinstance(value, str):
        raise InputError(f"{what} holds {type(value).__name__} in row {row} (counted from 0), not text")
    return value


def true_texts(table: pa.Table, label: str) -> Texts:
    """The label column of texts: a str, or a tuple of str where the column has lists of references; shape (n,).

    Raises:
        InputError: No such column, another type, a row without a reference.
    """
    import pyarrow.types as types

    from evalspec.answers.arrays import column

    values = column(table, label)
    kind = values.type
    what = f"the label column {label!r}"
    listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    inner = kind.value_type if listed else kind
    if types.is_dictionary(inner):
        inner = inner.value_type
    if not (types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner)):
        raise InputError(
            f"{what} holds {kind} but the model gives text", remedy="label: a column of texts, or of lists of texts"
        )
    texts = np.empty(len(values), dtype=object)
    for row, value in enumerate(values.to_pylist()):
        if not listed:
            texts[row] = _text(value, what, row)
        elif not value:
            raise InputError(f"{what} has no reference in row {row} (counted from 0)", remedy="drop it with `where:`")
        else:
            texts[row] = tuple(_text(one, what, row) for one in value)
    return texts
