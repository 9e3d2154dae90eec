"""Facts known of a dataset before it is read."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from evalspec.errors import Problem, did_you_mean


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a dataset that are known without reading its rows.

    Args:
        rows: Number of rows; None: the format shows it only when it is read.
        columns: Column: arrow type as text, in the file's order.
    """

    rows: int | None
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Fault of a part of the spec, given the columns of a dataset.

    Args:
        path: Where it stands inside its entry.
        problem: What is wrong.
    """

    path: tuple[str | int, ...]
    problem: Problem


@dataclass(frozen=True, slots=True)
class Matched:
    """Columns of one dataset that a check looks for in others.

    Args:
        of: The dataset whose columns they are.
        others: The datasets that it is held against.
        columns: Those that the spec names; empty: those that the candidate reads, or all but label, key and cluster.
        aside: Columns that are never among the latter.
        every: Each of them must be in all others; else those that one lacks are left out.
        field: Where the columns would be named.
        alike: Kinds of values, as `column_family` has them, that are compared with each other.
        goes_on: It measures the rest where values are of several kinds, so that is told and no mistake.
    """

    of: str
    others: tuple[str, ...]
    columns: tuple[str, ...] = ()
    aside: frozenset[str] = frozenset()
    every: bool = False
    field: str = "columns"
    alike: frozenset[str] = frozenset()
    goes_on: bool = False


def misspelt(column: str, dataset: str, columns: Mapping[str, str], named: Container[str] = ()) -> Problem | None:
    """Problem of a column that is not there while one of nearly that name is; None: it is there, or none is like it."""
    remedy = None if column in columns else did_you_mean(column, [one for one in columns if one not in named])
    if remedy is None:
        return None
    return Problem(f"{dataset} has no column {column!r}", choices=tuple(columns), remedy=remedy)
