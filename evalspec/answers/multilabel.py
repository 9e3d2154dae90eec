"""Rows with any number of classes: what a model says, and what is true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.classes import class_indices
from evalspec.answers.numbers import matrix, shares, sigmoid
from evalspec.answers.ragged import flattened, listed_column
from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.parts import OutputName

    Members = NDArray[np.bool_]

THRESHOLD = 0.5
"""A row is said to have a class from this probability on, where the model gives no labels."""


def said_members(
    named: Mapping[OutputName, NDArray[Any]],
    kinds: Mapping[OutputName, str],
    classes: Sequence[str],
    labels: Sequence[str],
    first_row: int,
) -> tuple[NDArray[np.float64] | None, Members]:
    """Probabilities, shape (n, C), or None where the model gives none; and its classes, shape (n, C).

    Args:
        named: Kind of output: array, rows first.
        kinds: Kind of output: the model's name for it.
        classes: Label of each index.
        labels: Labels that the model itself uses, in the order of ``classes``.
        first_row: Index of the first row in its dataset, for sentences.

    Raises:
        InputError: Another width than the classes, no probabilities, a label that no class has.
    """
    probabilities = None
    if "logits" in named:
        scores = matrix(named["logits"], kinds["logits"], len(classes), first_row, one_for_two=False)
        probabilities = sigmoid(scores)
    elif "probabilities" in named:
        name = kinds["probabilities"]
        scores = matrix(named["probabilities"], name, len(classes), first_row, one_for_two=False)
        probabilities = shares(scores, name, first_row)
    if "label" in named:
        return probabilities, _named(named["label"], kinds["label"], labels, first_row)
    assert probabilities is not None
    return probabilities, probabilities >= THRESHOLD


def _named(array: NDArray[Any], name: str, labels: Sequence[str], first_row: int) -> Members:
    what = f"the label output {name!r}"
    if array.dtype == bool:
        if array.ndim != 2 or array.shape[1] != len(labels):
            raise InputError(f"{what} has shape {list(array.shape)} and there are {len(labels)} classes")
        return array
    return _members(*flattened(array, what, first_row), labels, what)


def true_members(table: pa.Table, label: str, classes: Sequence[str]) -> Members:
    """The label column of lists of labels, shape (n, C); an empty list is a row without any class.

    Raises:
        InputError: No such column, no lists, a missing label, a label that no class has.
    """
    what = f"the label column {label!r}"
    return _members(*listed_column(table, label, what), classes, what)


def _members(counts: NDArray[np.int64], values: NDArray[Any], labels: Sequence[str], what: str) -> Members:
    members = np.zeros((len(counts), len(labels)), dtype=np.bool_)
    if values.ndim != 1:
        raise InputError(f"{what} holds lists of shape {list(values.shape[1:])} per row, not lists of labels")
    if len(values):
        members[np.repeat(np.arange(len(counts)), counts), class_indices(values, labels, what)] = True
    return members
