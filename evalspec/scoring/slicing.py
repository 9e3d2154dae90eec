"""Slices of a dataset: named predicates, the values of columns, and crosses of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from evalspec.answers.arrays import plain_values
from evalspec.cells import values_of
from evalspec.errors import InputError, did_you_mean
from evalspec.evidence.words import first_of, plural
from evalspec.scoring.catalogue.metrics import LABEL_WORD
from evalspec.scoring.sliced_metrics import CELLS_MAX

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs

VALUES_MAX = 50


@dataclass(frozen=True, slots=True)
class Cell:
    """A slice.

    Args:
        name: What a requirement calls it: ``dark``, ``digit=3``, ``digit=3 & dark``.
        rows: shape (n,), the numbers of its rows, rising.
        of: Rows of the dataset.
        named: It stands in ``slices:`` (or is a cross of such): it always counts.
        entry: The entry of ``by`` that it comes from.
    """

    name: str
    rows: NDArray[np.intp]
    of: int
    named: bool
    entry: str

    @property
    def n(self) -> int:
        """Rows inside."""
        return len(self.rows)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Mask of its rows, shape (``of``,)."""
        mask = np.zeros(self.of, dtype=np.bool_)
        mask[self.rows] = True
        return mask


@dataclass(frozen=True, slots=True)
class Cells:
    """Slices that a check asked for.

    Args:
        kept: Those that count.
        small: Those enumerated from columns that have too few rows to count.
        missing: Entry of ``by``: rows that belong nowhere, because their column is missing.
        enumerated: How many came from columns.
    """

    kept: tuple[Cell, ...]
    small: tuple[Cell, ...]
    missing: Mapping[str, int]
    enumerated: int

    @property
    def first_small(self) -> str:
        """The first that have too few rows, the smallest first."""
        smallest = sorted(self.small, key=lambda cell: cell.n)
        return first_of([f"{cell.name} ({plural(cell.n, 'row')})" for cell in smallest])


@dataclass(frozen=True, slots=True)
class _Axis:
    """One entry of a cross: the value of each row (-1: none), the values' names, and whether it is a named slice."""

    name: str
    codes: NDArray[np.int64]
    names: tuple[str, ...]
    named: bool
    missing: int


def cells(inputs: Inputs, dataset: str, by: Sequence[Sequence[str]], min_n: int) -> Cells:
    """Cut a dataset into slices.

    Args:
        inputs: What the check is handed.
        dataset: Name of the dataset.
        by: Entries, each the names that are crossed (one: no cross).
        min_n: Rows from which on an enumerated cell counts.

    Raises:
        InputError: A name is neither a slice nor a column, or a column has no values to cut by.
    """
    axes = {name: _axis(inputs, dataset, name) for name in dict.fromkeys(name for names in by for name in names)}
    slices: list[Cell] = []
    missing: dict[str, int] = {}
    for names in by:
        slices += _crossed([axes[name] for name in names], " & ".join(names))
        missing |= {name: axes[name].missing for name in names if axes[name].missing}
    if len(slices) > CELLS_MAX:
        raise _too_many(len(slices), "`by`")
    unique = _unique(slices)
    kept = tuple(cell for cell in unique if cell.named or cell.n >= min_n)
    small = tuple(cell for cell in unique if not cell.named and cell.n < min_n)
    return Cells(kept, small, missing, sum(not cell.named for cell in unique))


def _crossed(axes: Sequence[_Axis], what: str) -> list[Cell]:
    """Every combination, also those without a row: a hole in the data is worth a name."""
    whole = np.logical_and.reduce([axis.codes >= 0 for axis in axes])
    rows = np.flatnonzero(whole)
    if all(axis.named for axis in axes):
        # It counts even where it is empty: then its metric has no value, and nothing passes.
        return [Cell(what, rows, len(whole), named=True, entry=what)]
    empty = next((axis.name for axis in axes if not axis.names), None)
    if empty is not None:
        # Without a value there is nothing to enumerate; as one cell without rows it can't be overlooked.
        return [Cell(f"{what} (no row has a value for {empty!r})", rows, len(whole), named=False, entry=what)]
    sizes = tuple(len(axis.names) for axis in axes)
    if prod(sizes) > CELLS_MAX:
        raise _too_many(prod(sizes), what)
    combination = np.ravel_multi_index(tuple(axis.codes[rows] for axis in axes), sizes)
    # Sixteen bits hold them, and numpy sorts these in one pass.
    in_order = rows[np.argsort(combination.astype(np.uint16), kind="stable")]
    ends = np.cumsum(np.bincount(combination, minlength=prod(sizes)))
    names = (" & ".join(combined) for combined in product(*(axis.names for axis in axes)))
    pieces = np.split(in_order, ends[:-1])
    return [Cell(name, piece, len(whole), named=False, entry=what) for name, piece in zip(names, pieces, strict=True)]


def _unique(slices: Sequence[Cell]) -> list[Cell]:
    """Each cell once: `digit` and `class` may name the same ones.

    Raises:
        InputError: Two that hold other rows have one name.
    """
    unique: dict[str, Cell] = {}
    for cell in slices:
        other = unique.setdefault(cell.name, cell)
        if other is not cell and not np.array_equal(other.rows, cell.rows):
            raise InputError(
                f"two slices are called {cell.name!r}, one of {other.entry!r} and one of {cell.entry!r}",
                remedy="rename a column or a value, or name one of them in `slices:`",
            )
    return list(unique.values())


def _too_many(count: int, what: str) -> InputError:
    return InputError(
        f"{what} gives {count} slices, more than {CELLS_MAX}: one of so many looks bad by luck alone",
        remedy="cross fewer columns, or name the slices that matter in `slices:`",
    )


def _axis(inputs: Inputs, dataset: str, name: str) -> _Axis:
    slices = inputs.slice_names()
    if name in slices:
        mask = inputs.slice_mask(name, dataset)
        return _Axis(name, np.where(mask.inside, 0, -1), (name,), named=True, missing=mask.missing)
    columns = inputs.column_names(dataset)
    column = column_of(inputs, dataset, name)
    if column not in columns:
        raise InputError(
            f"{name!r} is neither a slice of this spec nor a column of dataset {dataset!r}",
            choices=(*slices, *columns),
            remedy=did_you_mean(name, (*slices, *columns)),
        )
    return _column(inputs.table(dataset, [column]).column(0), column, dataset)


def column_of(inputs: Inputs, dataset: str, name: str) -> str:
    """The column that a name stands for: ``class`` is the label, where no column is called so."""
    label = inputs.label(dataset)
    if name == LABEL_WORD and label is not None and name not in inputs.column_names(dataset):
        return label
    return name


def _column(values: pa.ChunkedArray, name: str, dataset: str) -> _Axis:
    import pyarrow as pa
    import pyarrow.compute as pc

    remedy = f"define the ranges that matter in `slices:`, such as `where: {name} < 100`, and list those in `by:`"
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        raise InputError(f"column {name!r} of {dataset!r} holds numbers ({kind}), not groups", remedy=remedy)
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InputError(
            f"column {name!r} of {dataset!r} ({kind}) has no values to cut by", remedy="take another column"
        )
    plain = plain_values(values)
    distinct = pc.drop_null(pc.unique(plain))
    if len(distinct) > VALUES_MAX:
        raise InputError(
            f"column {name!r} of {dataset!r} has {len(distinct)} distinct values, more than {VALUES_MAX}", remedy=remedy
        )
    ordered = distinct.take(pc.array_sort_indices(distinct))
    codes = np.asarray(pc.fill_null(pc.index_in(plain, value_set=ordered), -1).to_numpy(), dtype=np.int64)
    names = tuple(f"{name}={value_text(value)}" for value in values_of(ordered))
    return _Axis(name, codes, names, named=False, missing=int(plain.null_count))


def value_text(value: object) -> str:
    """A value of a column as a part of a slice's name."""
    return str(value).lower() if isinstance(value, bool) else str(value)
