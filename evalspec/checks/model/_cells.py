"""Slices of a dataset: named predicates, the values of columns, and crosses of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.model._catalogue import LABEL_WORD
from evalspec.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs

VALUES_MAX = 50
CELLS_MAX = 500


@dataclass(frozen=True, slots=True)
class Cell:
    """A slice.

    Args:
        name: What a requirement calls it: ``dark``, ``digit=3``, ``digit=3 & dark``.
        inside: shape (n,), its rows.
        named: It stands in ``slices:`` (or is a cross of such): it always counts.
    """

    name: str
    inside: NDArray[np.bool_]
    named: bool

    @property
    def n(self) -> int:
        """Rows inside."""
        return int(np.count_nonzero(self.inside))


@dataclass(frozen=True, slots=True)
class Cells:
    """All slices that a check asked for.

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


@dataclass(frozen=True, slots=True)
class _Axis:
    """One entry of a cross: the value of each row (-1: none), the values' names, and whether it is a named slice."""

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
    found: list[Cell] = []
    missing: dict[str, int] = {}
    for names in by:
        found += _crossed([axes[name] for name in names], " & ".join(names))
        missing |= {name: axes[name].missing for name in names if axes[name].missing}
    if len(found) > CELLS_MAX:
        raise _too_many(len(found), "`by`")
    unique = list({cell.name: cell for cell in found}.values())
    kept = tuple(cell for cell in unique if cell.named or cell.n >= min_n)
    small = tuple(cell for cell in unique if not cell.named and cell.n < min_n)
    return Cells(kept, small, missing, sum(not cell.named for cell in unique))


def _crossed(axes: Sequence[_Axis], what: str) -> list[Cell]:
    """Every combination, also those without a row: a hole in the data is worth a name."""
    whole = np.logical_and.reduce([axis.codes >= 0 for axis in axes])
    if all(axis.named for axis in axes):
        # It counts even where it is empty: then its metric has no value, and nothing passes.
        return [Cell(what, whole, named=True)]
    sizes = tuple(len(axis.names) for axis in axes)
    if prod(sizes) > CELLS_MAX:
        raise _too_many(prod(sizes), what)
    combination = np.full(len(whole), -1)
    combination[whole] = np.ravel_multi_index(tuple(axis.codes[whole] for axis in axes), sizes)
    names = (" & ".join(combined) for combined in product(*(axis.names for axis in axes)))
    return [Cell(name, combination == index, named=False) for index, name in enumerate(names)]


def _too_many(count: int, what: str) -> InputError:
    return InputError(
        f"{what} gives {count} slices, more than {CELLS_MAX}: one of so many looks bad by luck alone",
        remedy="cross fewer columns, or name the slices that matter in `slices:`",
    )


def _axis(inputs: Inputs, dataset: str, name: str) -> _Axis:
    slices = inputs.slice_names()
    if name in slices:
        mask = inputs.slice_mask(name, dataset)
        return _Axis(np.where(mask.inside, 0, -1), (name,), named=True, missing=mask.missing)
    columns = inputs.table(dataset).column_names
    label = inputs.label(dataset)
    column = label if name == LABEL_WORD and name not in columns and label is not None else name
    if column not in columns:
        raise InputError(
            f"{name!r} is neither a slice of this spec nor a column of dataset {dataset!r}",
            choices=(*slices, *columns),
            remedy=did_you_mean(name, (*slices, *columns)),
        )
    return _column(inputs.table(dataset, [column]).column(0), column, dataset)


def _column(values: pa.ChunkedArray, name: str, dataset: str) -> _Axis:
    import pyarrow as pa
    import pyarrow.compute as pc

    remedy = f"name the ranges that matter in `slices:`, such as `where: {name} < 100`, and list those in `by:`"
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        raise InputError(f"column {name!r} of {dataset!r} holds numbers ({kind}), not groups", remedy=remedy)
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InputError(
            f"column {name!r} of {dataset!r} ({kind}) has no values to cut by", remedy="take another column"
        )
    plain = values.cast(kind.value_type) if pa.types.is_dictionary(kind) else values
    distinct = pc.drop_null(pc.unique(plain))
    if len(distinct) > VALUES_MAX:
        raise InputError(
            f"column {name!r} of {dataset!r} has {len(distinct)} distinct values, more than {VALUES_MAX}", remedy=remedy
        )
    ordered = sorted(distinct.to_pylist())
    codes = pc.index_in(plain, value_set=pa.array(ordered, type=plain.type))
    codes = np.asarray(pc.fill_null(codes, -1).to_numpy(), dtype=np.int64)
    names = tuple(f"{name}={_text(value)}" for value in ordered)
    return _Axis(codes, names, named=False, missing=int(plain.null_count))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
