"""Columns of two datasets side by side, each as its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from evalspec.checks.data.shift.summaries import ColumnSummary, TableSummary, TextSummary
from evalspec.stats.drift.columns import MOST_CATEGORIES, CategoryCounts, Numbers
from evalspec.tables import derived
from evalspec.tables.columns import LENGTH, WEEKDAY, common_kind, is_text, not_compared


@dataclass(frozen=True, eq=False)
class RawColumnPair:
    """A column of both datasets, all rows of it.

    Args:
        name: Its name, with ``:mean``, ``:length`` and the like where it is something made from it.
        source: The column that it comes from.
        kind: Numbers or categories.
        reference: One side.
        current: The other.
    """

    name: str
    source: str
    kind: Literal["number", "category"]
    reference: Numbers | CategoryCounts
    current: Numbers | CategoryCounts


@dataclass(frozen=True, eq=False)
class Paired:
    """The columns of both datasets.

    Args:
        pairs: As they can be compared.
        unreadable: Column that can't be: why.
        uncounted: Column whose categories can't be compared: why.
        notes: Sentences about those that are not compared as they are.
    """

    pairs: list[RawColumnPair] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    uncounted: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def pair_columns(first: TableSummary, second: TableSummary, names: Sequence[str]) -> Paired:
    """The columns as they can be compared.

    Whether strings are categories is for the reference to say: were it for the current data as well, those with the
    most new categories would not be looked at as such.

    Args:
        first: The reference.
        second: The current data.
        names: Columns of both.

    Raises:
        InputError: A column is of another type on the other side.
    """
    found = Paired()
    for name in names:
        both = first.columns[name], second.columns[name]
        kind = common_kind(name, both[0].type, both[1].type)
        if kind == "other":
            found.unreadable[name] = not_compared(name, both[pa.types.is_null(both[0].type)].type)
            continue
        suffixes = list(dict.fromkeys([*both[0].views, *both[1].views])) or [""]
        for suffix in suffixes:
            sample = next((side.views[suffix] for side in both if suffix in side.views), TextSummary())
            if isinstance(sample, Numbers):
                numbers = [_numbers(side, suffix) for side in both]
                if suffix == f":{derived.SIZE}" and _one_value(numbers):
                    continue
                found.pairs.append(RawColumnPair(name + suffix, name, "number", numbers[0], numbers[1]))
            elif suffix != WEEKDAY or _weeks(both):
                found.pairs.append(_texts(name, suffix, both, found))
    return found


def _texts(name: str, suffix: str, both: tuple[ColumnSummary, ColumnSummary], found: Paired) -> RawColumnPair:
    """As categories, or by their lengths where they are too many."""
    texts = [_strings(side, suffix) for side in both]
    categories = [one.categories for one in texts]
    never = suffix or any(pa.types.is_boolean(side.type) for side in both)
    over = any(one.overflown for one in categories)
    says = categories[0] if categories[0].n else categories[1]
    many = says.overflown or is_text(len(says.counts), says.n)
    if never or not (over or many):
        return RawColumnPair(name + suffix, name, "category", categories[0], categories[1])
    if not many:
        found.uncounted[name] = f"the current data have over {MOST_CATEGORIES:,} different values, too many to count"
    if over:
        found.notes.append(
            f"Column {name!r} has over {MOST_CATEGORIES:,} different values, so it is compared by their lengths."
        )
    lengths = [one.lengths() for one in texts]
    return RawColumnPair(name + LENGTH, name, "number", lengths[0], lengths[1])


def _one_value(both: Sequence[Numbers]) -> bool:
    """All are of one size, so there is nothing to compare."""
    return len({value for side in both if side.n for value in (side.low, side.high)}) <= 1


def _numbers(side: ColumnSummary, suffix: str) -> Numbers:
    there = side.views.get(suffix)
    if isinstance(there, Numbers):
        return there
    found = Numbers()
    found.missing = side.rows
    return found


def _strings(side: ColumnSummary, suffix: str) -> TextSummary:
    there = side.views.get(suffix)
    if isinstance(there, TextSummary):
        return there
    found = TextSummary()
    found.categories.missing = side.rows
    return found


def _weeks(both: tuple[ColumnSummary, ColumnSummary]) -> bool:
    days = [side.views[""] for side in both if "" in side.views]
    seen = [one for one in days if isinstance(one, Numbers) and one.n]
    # Summaries of times are in seconds.
    ends = min((one.low for one in seen), default=0.0), max((one.high for one in seen), default=0.0)
    return bool(seen) and derived.has_weeks(*ends, pa.timestamp("s"))
