"""Columns as `shift` compares them: numbers, categories, and what lists, pictures, texts and dates look like."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.errors import InputError, did_you_mean
from evalspec.moments import PER_SECOND
from evalspec.tables import derived

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
class ColumnPair:
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


@dataclass(frozen=True, eq=False)
class View:
    """View of a column's cells: as they are, or by a number or category derived from each.

    Args:
        suffix: What stands behind the column's name (``:mean``); empty: the cells themselves.
        kind: Numbers or categories.
        cells: shape (n,), numbers, NaN where there is none; or n strings.
        missing: Cells without a value; of numbers, all other NaN are not numbers.
    """

    suffix: str
    kind: Literal["number", "category"]
    cells: NDArray[np.float64] | pa.Array
    missing: int


WEEKDAY, LENGTH = ":weekday", ":length"


def views(array: pa.Array) -> Iterator[View]:
    """Views of the cells of a column; of texts the strings alone, their lengths come from these.

    Args:
        array: Cells of one column, all or some.
    """
    if derived.picture_shape(array.type) is not None:
        yield from (_number_view(f":{name}", cells) for name, cells in derived.of_pictures(array).items())
        return
    array = plain(array)
    kind = _one_kind(array.type)
    if kind == "number":
        yield _number_view("", array)
        yield from (_category_view(f":{name}", cells) for name, cells in derived.of_times(array).items())
    elif kind == "category":
        yield _category_view("", array)
    elif kind == "list":
        for suffix, values in zip((":mean", ":sd"), _summaries(array), strict=True):
            yield View(suffix, "number", values, int(np.count_nonzero(np.isnan(values))))
        yield from (_number_view(f":{name}", cells) for name, cells in derived.of_lists(array).items())


def _number_view(suffix: str, array: pa.Array) -> View:
    return View(suffix, "number", _floats(array), array.null_count)


def _category_view(suffix: str, array: pa.Array) -> View:
    return View(suffix, "category", array.cast(pa.string()), array.null_count)


def plain(array: pa.Array) -> pa.Array:
    """Without what is only another way to store it: extension types, dictionaries."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def compare_columns(
    reference: pa.Table, current: pa.Table, names: Sequence[str], chosen: Collection[str] | None = None
) -> tuple[list[ColumnPair], list[str]]:
    """The columns as they can be compared, row by row.

    Args:
        reference: Rows of one side.
        current: Rows of the other.
        names: Columns of both.
        chosen: Names of the views that are wanted; None: what these rows alone suggest.

    Returns:
        Columns, and sentences about those that can't be compared.

    Raises:
        InputError: A column is on one side only, or of another type there.
    """
    pairs: list[ColumnPair] = []
    skipped: list[str] = []
    for name in names:
        first, second = _column(reference, name, "reference"), _column(current, name, "current")
        kind = common_kind(name, first.type, second.type)
        if kind == "other":
            skipped.append(not_compared(name, first.type))
            continue
        both = [_sides(name, array, kind) for array in (first, second)]
        wanted = _suggested(name, kind, both) if chosen is None else chosen
        for shown in dict.fromkeys([*both[0], *both[1]]):
            if shown in wanted:
                what, sides = _matched(shown, both, (len(first), len(second)))
                pairs.append(ColumnPair(shown, name, what, *sides))
    return pairs, skipped


def not_compared(name: str, kind: pa.DataType) -> str:
    """Reason why a column is left out."""
    return f"Column {name!r} ({kind}) is not compared: it is not a number, category, text or list."


Found = dict[str, tuple[Literal["number", "category"], "NDArray[np.float64] | pa.Array"]]
"""Cells of each view: numbers, NaN where there is none; or strings."""


def _sides(name: str, array: pa.Array, kind: Kind) -> Found:
    """Views of all cells; of a column without a type those of the other side are empty."""
    columns: Found = {}
    for view in views(array):
        if view.kind == "number":
            columns[name + view.suffix] = "number", view.cells
        else:
            columns[name + view.suffix] = "category", view.cells
            if not view.suffix and not pa.types.is_boolean(array.type):
                columns[name + LENGTH] = "number", _floats(pc.utf8_length(view.cells))
    if not columns and kind == "category":
        columns[name] = "category", pa.nulls(len(array), pa.string())
    return columns


def _nothing(kind: Literal["number", "category"], n: int) -> Side:
    values = np.zeros(0) if kind == "number" else np.zeros(0, dtype=np.str_)
    return Side(values, np.zeros(0, np.int64), np.ones(n, np.bool_))


def _matched(
    shown: str, both: list[Found], sizes: tuple[int, int]
) -> tuple[Literal["number", "category"], tuple[Side, Side]]:
    what = next(side[shown][0] for side in both if shown in side)
    # Texts that are compared by their lengths never become an array, which would be as wide as the longest in each row.
    first, second = (
        _side(side[shown][1]) if shown in side else _nothing(what, n) for side, n in zip(both, sizes, strict=True)
    )
    return what, (first, second)


def _side(cells: NDArray[np.float64] | pa.Array) -> Side:
    return _numbers(cells) if isinstance(cells, np.ndarray) else _categories(cells)


def _suggested(name: str, kind: Kind, both: list[Found]) -> set[str]:
    """Categories or lengths of texts; no weekdays."""
    wanted = {shown for side in both for shown in side} - {name + LENGTH, name + WEEKDAY}
    known = [side[name][1] for side in both if name + LENGTH in side]
    texts = [cells for cells in known if not isinstance(cells, np.ndarray)]
    says = next((cells for cells in texts if len(cells) > cells.null_count), None)
    if (
        kind == "category"
        and says is not None
        and is_text(len(set(says.drop_null().to_pylist())), len(says) - says.null_count)
    ):
        wanted = {name + LENGTH}
    return wanted


def is_text(distinct: int, n: int) -> bool:
    """Most cells are unlike all others, so they name no categories.

    Args:
        distinct: Different values.
        n: Cells with a value.
    """
    return distinct > max(TEXT_LEAST, TEXT_SHARE * n)


def _column(table: pa.Table, name: str, side: str) -> pa.Array:
    if name not in table.column_names:
        columns = tuple(table.column_names)
        raise InputError(
            f"the {side} data have no column {name!r}", choices=columns, remedy=did_you_mean(name, columns)
        )
    array = table.column(name).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return array


Kind = Literal["number", "category", "list", "other"]


def common_kind(name: str, first: pa.DataType, second: pa.DataType) -> Kind:
    """Kind of values that both sides of a column hold; a side without any value takes the other's.

    Args:
        name: The column's.
        first: Its type in the reference.
        second: Its type in the current data.

    Raises:
        InputError: They differ.
    """
    stored = [_stored(kind) for kind in (first, second) if not pa.types.is_null(kind)]
    if len({(_one_kind(kind), _clock(kind)) for kind in stored}) > 1:
        raise InputError(f"column {name!r} is {first} in the reference and {second} in the current data")
    return _one_kind(stored[0]) if stored else "category"


def _clock(kind: pa.DataType) -> str:
    """Origin that times are counted from, which is never compared with another; empty: they are no times."""
    if pa.types.is_timestamp(kind):
        return "instants in a zone" if kind.tz else "instants"
    if pa.types.is_date(kind):
        return "instants"
    return "day" if pa.types.is_time(kind) else "span" if pa.types.is_duration(kind) else ""


def _stored(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _one_kind(kind: pa.DataType) -> Kind:
    types = pa.types
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "category"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_temporal(kind):
        return "number"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list" if _one_kind(kind.value_type) in ("number", "list") else "other"
    return "other"


def _floats(array: pa.Array) -> NDArray[np.float64]:
    """Numbers, shape (n,), NaN where missing."""
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_temporal(array.type):
        return _seconds(array)
    values: NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _seconds(array: pa.Array) -> NDArray[np.float64]:
    """Times in seconds, whatever unit they are stored in, shape (n,), NaN where missing."""
    kind = array.type
    whole = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    values: NDArray[np.float64] = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if pa.types.is_date(kind):
        return values * 86_400.0 if kind.bit_width == 32 else values / 1e3
    return values / PER_SECOND[kind.unit]


def _numbers(values: NDArray[np.float64]) -> Side:
    present = np.isfinite(values)
    return Side(values[present], np.flatnonzero(present), ~present)


def _categories(array: pa.Array) -> Side:
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    values = array.drop_null().to_numpy(zero_copy_only=False).astype(np.str_)
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
