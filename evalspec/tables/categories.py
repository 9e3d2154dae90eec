"""Columns of categories: labels that people gave, matched by value over several columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.answers.arrays import plain_values
from evalspec.answers.classes import label_text
from evalspec.cells import values_of
from evalspec.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Categories:
    """Categories of the cells of some columns.

    Args:
        names: Of the categories: numbers in rising order, else texts in theirs.
        codes: shape (n, columns), category of each cell, -1 where there is none.
        numbers: shape (K,), the numbers that the names are; None where one is none.
    """

    names: tuple[str, ...]
    codes: NDArray[np.int64]
    numbers: NDArray[np.float64] | None


def read_categories(table: pa.Table, columns: Sequence[str], dataset: str) -> Categories:
    """Categories of some columns: 3, 3.0 and "3" are one. Nothing, NaN and blank text are none.

    Args:
        table: The rows.
        columns: Their names.
        dataset: Name of the dataset, for sentences.

    Raises:
        InputError: A column isn't there, or holds what is no category.
    """
    cells_of_columns = [_column(table, name, dataset) for name in columns]
    names = _ordered({text for texts, _ in cells_of_columns for text in texts if text})
    place = {name: index for index, name in enumerate(names)}
    codes = np.full((table.num_rows, len(columns)), -1, dtype=np.int64)
    for index, (texts, cells) in enumerate(cells_of_columns):
        known = np.array([place.get(text, -1) for text in texts], dtype=np.int64)
        there = cells >= 0
        codes[there, index] = known[cells[there]]
    numbers = [_number(name) for name in names]
    whole = [number for number in numbers if number is not None]
    return Categories(names, codes, np.array(whole, dtype=np.float64) if len(whole) == len(names) else None)


def _column(table: pa.Table, name: str, dataset: str) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct values of a column as texts (empty: none), and the place of each cell among them, -1: null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in table.column_names:
        names = table.column_names
        raise InputError(f"dataset {dataset} has no column {name!r}", choices=names, remedy=did_you_mean(name, names))
    values = table.column(name)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InputError(
            f"column {name!r} of {dataset} holds {kind}, not one category a row", remedy="take another column"
        )
    if pa.types.is_null(kind) or not table.num_rows:
        return [], np.full(table.num_rows, -1, dtype=np.int64)
    encoded = pc.dictionary_encode(plain_values(values).combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    cells = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    return [_text(value, name, dataset) for value in values_of(encoded.dictionary)], cells


def _text(value: Any, name: str, dataset: str) -> str:
    if isinstance(value, float) and math.isinf(value):
        raise InputError(
            f"column {name!r} of {dataset} holds {value}, which is not a category", remedy="correct the row"
        )
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return label_text(float(value) if isinstance(value, Decimal) else value)


def _ordered(names: set[str]) -> tuple[str, ...]:
    numbers = {name: _number(name) for name in names}
    if all(number is not None for number in numbers.values()):
        return tuple(sorted(names, key=lambda name: (numbers[name] or 0.0, name)))
    return tuple(sorted(names))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
