"""Facts known of a dataset before it is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evalspec.errors import InputError, Problem, did_you_mean

MOST_COLUMNS = 65_536
"""Each takes some kB while a file is read."""


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a dataset that are known without reading its rows.

    Args:
        rows: Number of rows; None: the format shows it only when it is read.
        columns: Column: arrow type as text, in the file's order.
    """

    rows: int | None
    columns: Mapping[str, str]

    def least_bytes(self, columns: Iterable[str] | None = None) -> int:
        """Bytes that the rows take in memory at least: of texts and lists only where they begin.

        Args:
            columns: That are held; None: all.
        """
        kinds = [kind for name, kind in self.columns.items() if columns is None or name in columns]
        return (self.rows or 0) * sum(_width(kind) for kind in kinds)


_BITS = re.compile(r"(\d+)(?:\(.*\))?$")
_TIMES = re.compile(r"[a-z0-9]+\[(s|ms|us|ns)(, tz=.*)?\]$")
_WIDTHS = {"bool": 0, "null": 0, "halffloat": 2, "float": 4, "double": 8, "date32[day]": 4, "date64[ms]": 8}


def _width(kind: str) -> int:
    """Bytes of a value of an arrow type at least."""
    if kind in _WIDTHS:
        return _WIDTHS[kind]
    if _TIMES.match(kind):
        return 4 if kind.startswith("time32") else 8
    found = _BITS.search(kind) if kind.startswith(("int", "uint", "decimal")) else None
    if found is not None:
        return int(found[1]) // 8
    return 1 if kind.startswith("dictionary") else 4


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


def choose(columns: Sequence[str] | None, there: Sequence[str], what: str) -> list[str]:
    """The columns to read, in the order asked for, each once; None: all.

    Raises:
        InputError: One isn't there (with the choices), or a name stands twice in the file.
    """
    if not there:
        raise InputError(f"{what} has no columns")
    if len(there) > MOST_COLUMNS:
        remedy = "write values that belong together as one column of lists"
        raise InputError(f"{what} has {len(there):,} columns; at most {MOST_COLUMNS:,} are allowed", remedy=remedy)
    twice = [name for name, count in Counter(there).items() if count > 1]
    if twice:
        raise InputError(f"{what} has two columns called {twice[0]!r}", remedy="rename one of them")
    if columns is None:
        return list(there)
    known = frozenset(there)
    for name in columns:
        if name not in known:
            raise InputError(f"{what} has no column {name!r}", choices=there, remedy=did_you_mean(name, there))
    return list(dict.fromkeys(columns))
