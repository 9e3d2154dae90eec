"""Columns as `shift` compares them: numbers, categories, and summaries of lists and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXT_SHARE = 0.5
TEXT_LEAST = 50


@dataclass(frozen=True)
class Side:
    """One column of one dataset, without its missing cells.

    Args:
        values: shape (k,), numbers or texts.
        rows: shape (k,), rows they stand in.
        missing: shape (n,), rows in which the cell is missing.
    """

    values: NDArray[np.float64] | NDArray[np.str_]
    rows: NDArray[np.int64]
    missing: NDArray[np.bool_]


@dataclass(frozen=True)
class Compared:
    """A column of both datasets.

    Args:
        name: Its name, with ``:mean``, ``:sd`` or ``:length`` where it is a summary.
        source: The column that it comes from.
        kind: Numbers or categories.
        reference: One side.
        current: The other.
    """

    name: str
    source: str
    kind: Literal["number", "category"]
    reference: Side
    current: Side


def compare_columns(reference: pa.Table, current: pa.Table, names: Sequence[str]) -> tuple[list[Compared], list[str]]:
    """The columns as they can be compared.

    Args:
        reference: Rows of one side.
        current: Rows of the other.
        names: Columns of both.

    Returns:
        Columns, and sentences about those that can't be compared.

    Raises:
        InputError: A column is on one side only, or of another type there.
    """
    found: list[Compared] = []
    skipped: list[str] = []
    for name in names:
        first, second = _column(reference, name, "reference"), _column(current, name, "current")
        kinds = _kind(first, second)
        if kinds is None:
            raise InputError(f"column {name!r} is {first.type} in the reference and {second.type} in the current data")
        if kinds == "other":
            skipped.append(f"Column {name!r} ({first.type}) is not compared: it is no number, category, text or list.")
            continue
        found.extend(_compared(name, kinds, first, second))
    return found, skipped


def _column(table: pa.Table, name: str, side: str) -> pa.Array:
    if name not in table.column_names:
        columns = tuple(table.column_names)
        raise InputError(
            f"the {side} data have no column {name!r}", choices=columns, remedy=did_you_mean(name, columns)
        )
    array = table.column(name).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


Kind = Literal["number", "category", "list", "other"]


def _kind(first: pa.Array, second: pa.Array) -> Kind | None:
    """What both sides are, or None where they differ; a side of missing cells alone is what the other is."""
    kinds = {_one_kind(array.type) for array in (first, second) if not pa.types.is_null(array.type)}
    if not kinds:
        return "category"
    return kinds.pop() if len(kinds) == 1 else None


def _one_kind(kind: pa.DataType) -> Kind:
    types = pa.types
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "category"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_temporal(kind):
        return "number"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list" if _one_kind(kind.value_type) in ("number", "list") else "other"
    return "other"


def _compared(name: str, kind: Kind, first: pa.Array, second: pa.Array) -> Iterator[Compared]:
    if kind == "list":
        summaries = _summaries(first), _summaries(second)
        for index, what in enumerate(("mean", "sd")):
            yield Compared(f"{name}:{what}", name, "number", *(_numbers(side[index]) for side in summaries))
    elif kind == "number":
        yield Compared(name, name, "number", _numbers(_floats(first)), _numbers(_floats(second)))
    elif _is_text(first, second):
        lengths = (_floats(pc.utf8_length(array.cast(pa.string()))) for array in (first, second))
        yield Compared(f"{name}:length", name, "number", *(_numbers(side) for side in lengths))
    else:
        yield Compared(name, name, "category", _categories(first), _categories(second))


def _is_text(first: pa.Array, second: pa.Array) -> bool:
    """Most cells of a side are unlike all others there, so they name no categories."""
    if pa.types.is_boolean(first.type) or pa.types.is_boolean(second.type):
        return False
    filled = [array.cast(pa.string()).drop_null() for array in (first, second)]
    return any(pc.count_distinct(array).as_py() > max(TEXT_LEAST, TEXT_SHARE * len(array)) for array in filled)


def _floats(array: pa.Array) -> NDArray[np.float64]:
    """Numbers, shape (n,), NaN where missing."""
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_temporal(array.type):
        array = _instants(array)
    values: NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _instants(array: pa.Array) -> pa.Array:
    """Dates and times as whole numbers of their own unit."""
    width = array.type.bit_width
    return array.view(pa.int32() if width == 32 else pa.int64())


def _numbers(values: NDArray[np.float64]) -> Side:
    present = np.isfinite(values)
    return Side(values[present], np.flatnonzero(present), ~present)


def _categories(array: pa.Array) -> Side:
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    values = array.drop_null().cast(pa.string()).to_numpy(zero_copy_only=False).astype(np.str_)
    return Side(values, np.flatnonzero(~missing), missing)


def _summaries(array: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each row's numbers, NaN where it has none; nested lists are flattened."""
    n = len(array)
    owner = np.arange(n)
    while not pa.types.is_null(array.type) and _one_kind(array.type) == "list":
        owner = owner[pc.list_parent_indices(array).to_numpy(zero_copy_only=False)]
        array = pc.list_flatten(array)
    values = _floats(array)
    owner = owner[: len(values)]
    present = np.isfinite(values)
    values, owner = values[present], owner[present]
    count = np.bincount(owner, minlength=n).astype(np.float64)
    count[count == 0] = np.nan
    mean = np.bincount(owner, weights=values, minlength=n) / count
    squares = np.bincount(owner, weights=(values - mean[owner]) ** 2, minlength=n)
    return mean, np.sqrt(squares / count)
