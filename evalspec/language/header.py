"""What is known of a dataset before it is read."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from evalspec.errors import Problem, did_you_mean


@dataclass(frozen=True, slots=True)
class Header:
    """What can be known of a dataset without reading its rows.

    Args:
        rows: Number of rows, or None where the format doesn't say before it is read.
        columns: Column: arrow type as text, in the file's order.
    """

    rows: int | None
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with a part of the spec, given the columns of a dataset.

    Args:
        path: Where it stands inside its entry.
        problem: What is wrong.
    """

    path: tuple[str | int, ...]
    problem: Problem


def misspelt(column: str, dataset: str, columns: Mapping[str, str], named: Container[str] = ()) -> Problem | None:
    """That a column is not there and another one is called nearly so; None: it is there, or nothing is like it.

    Args:
        column: As the spec has it.
        dataset: Its name.
        columns: Those of the dataset.
        named: What the spec names beside it: a column among them was not meant by another name.
    """
    remedy = None if column in columns else did_you_mean(column, [one for one in columns if one not in named])
    if remedy is None:
        return None
    return Problem(f"{dataset} has no column {column!r}", choices=tuple(columns), remedy=remedy)
