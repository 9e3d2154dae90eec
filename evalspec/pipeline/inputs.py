"""Columns that feed each tensor, and a check of what they give against what the model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.arrays import column_array, stacked
from evalspec.errors import InputError, did_you_mean
from evalspec.pipeline.loaded import Tensor

if TYPE_CHECKING:
    import pyarrow as pa

Arrays = dict[str, NDArray[Any]]
Feed = dict[str, str | tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Facts about the dataset that rows come from.

    Args:
        name: Its name in the spec.
        label: Column with the truth, or None.
        key: Column that names a row, or None.
        reserved: Columns named elsewhere (cluster, slices, where): never taken for inputs unless named so.
        subset: The rows are only a part of the dataset (`where`, a draft), so predictions may cover more.
    """

    name: str = "dataset"
    label: str | None = None
    key: str | None = None
    reserved: tuple[str, ...] = ()
    subset: bool = False

    def free(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Columns that are neither label nor named elsewhere."""
        taken = {self.label, self.key, *self.reserved}
        return tuple(name for name in columns if name not in taken)


def resolve_feed(
    stated: Mapping[str, str | tuple[str, ...]],
    takes: Sequence[str],
    columns: Sequence[str],
    facts: DatasetFacts,
    *,
    by_column: bool,
) -> Feed:
    """Tensor: column, or columns in order; never the label.

    Args:
        stated: The spec's ``inputs``.
        takes: Inputs of the model; empty: any.
        columns: Columns of the dataset.
        facts: Which columns are taken.
        by_column: The model's inputs are columns by name.

    Raises:
        InputError: An input without a column, a name that the model has not, a choice that must be stated, or the
            label among the columns.
    """
    feed = _feed(stated, takes, columns, facts, by_column=by_column)
    for tensor, fed in feed.items():
        if facts.label is not None and facts.label in ((fed,) if isinstance(fed, str) else fed):
            raise InputError(
                f"the model's input {tensor!r} reads {facts.label!r}, which is the label of {facts.name}, so the model "
                "would see the answer",
                remedy="remove it from `inputs`, or train the model without it",
            )
    return feed


def _feed(
    stated: Mapping[str, str | tuple[str, ...]],
    takes: Sequence[str],
    columns: Sequence[str],
    facts: DatasetFacts,
    *,
    by_column: bool,
) -> Feed:
    if by_column and len(stated) == 1 and not set(stated) & set(takes):
        return _by_list(next(iter(stated.values())), takes)
    if stated:
        _known(stated, takes)
        return dict(stated)
    free = facts.free(columns)
    if takes and set(takes) <= set(columns):
        return {name: name for name in takes}
    if len(takes) == 1 and len(free) == 1:
        return {takes[0]: free[0]}
    if not takes and free:
        return {name: name for name in free}
    if by_column:
        absent = [name for name in takes if name not in columns]
        raise InputError(
            f"the dataset lacks {len(absent)} of the {len(takes)} columns that the model takes, first {absent[0]!r}",
            choices=free,
            remedy=did_you_mean(absent[0], free),
        )
    raise InputError(
        f"the model takes {_listed(takes)} and the dataset has {len(free)} columns that could be its input: "
        f"{_listed(free)}",
        remedy=f"name them: inputs: {{{takes[0] if takes else 'tensor'}: column}}, or a list of columns to stack",
    )


def _by_list(columns: str | tuple[str, ...], takes: Sequence[str]) -> Feed:
    """Columns listed under one name for a model that knows its columns: by name where they are the same."""
    listed = (columns,) if isinstance(columns, str) else columns
    if len(listed) != len(takes):
        raise InputError(f"the model takes {len(takes)} columns ({_listed(takes)}) and `inputs` lists {len(listed)}")
    if set(listed) == set(takes):
        return {name: name for name in takes}
    return dict(zip(takes, listed, strict=True))


def _known(stated: Mapping[str, Any], takes: Sequence[str]) -> None:
    if not takes:
        return
    for name in stated:
        if name not in takes:
            raise InputError(f"the model has no input {name!r}", choices=takes, remedy=did_you_mean(name, takes))
    missing = [name for name in takes if name not in stated]
    if missing:
        raise InputError(f"`inputs` has nothing for the model's input {missing[0]!r}", remedy="add it to `inputs`")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return shown or "none"


def build(table: pa.Table, feed: Feed, first_row: int = 0) -> Arrays:
    """Arrays of each tensor, before preprocessing.

    Args:
        table: Rows.
        feed: As `resolve_feed`.
        first_row: Index of the table's first row in its dataset, for sentences.

    Returns:
        Tensor: array of shape (n, ...).

    Raises:
        InputError: A column is absent or of no use.
    """
    return {
        tensor: column_array(table, columns, first_row)
        if isinstance(columns, str)
        else stacked(table, columns, first_row)
        for tensor, columns in feed.items()
    }


def check_arrays(arrays: Arrays, takes: Sequence[str], tensors: Mapping[str, Tensor]) -> None:
    """Compare what is about to be fed with what the model states.

    Raises:
        InputError: An input is missing or too many, or of another shape or type; both are named.
    """
    if takes and set(arrays) != set(takes):
        raise InputError(f"preprocessing returns {_listed(tuple(arrays))}, but the model takes {_listed(takes)}")
    for name, tensor in tensors.items():
        array = arrays[name]
        if tensor.shape is not None and not _fits(array.shape, tensor.shape):
            got = _shape((None, *array.shape[1:]))
            raise InputError(
                f"the model's input {name!r} takes shape {_shape(tensor.shape)} but got {got}",
                remedy="change the columns in `inputs`, or add a stage (reshape, layout, resize) to `preprocess`",
            )
        if tensor.dtype is not None and _type(array) != tensor.dtype:
            raise InputError(
                f"the model's input {name!r} takes {_type_word(tensor.dtype)} and got {_type_word(_type(array))}",
                remedy=f"add {{cast: {tensor.dtype}}} to `preprocess`" if tensor.dtype != "str" else None,
            )


def _fits(have: Sequence[int], wanted: Sequence[int | None]) -> bool:
    # The first size is the batch; a fixed one is padded to.
    return len(have) == len(wanted) and all(b is None or a == b for a, b in zip(have[1:], wanted[1:], strict=True))


def _shape(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join(["rows", *("any" if size is None else str(size) for size in shape[1:])]) + "]"


def _type(array: NDArray[Any]) -> str:
    return "str" if array.dtype.kind in "OUT" else str(array.dtype)


def _type_word(name: str) -> str:
    return "text" if name == "str" else name


def take(arrays: Arrays, rows: NDArray[np.int64]) -> Arrays:
    """Take these rows of every tensor."""
    return {name: array[rows] for name, array in arrays.items()}
