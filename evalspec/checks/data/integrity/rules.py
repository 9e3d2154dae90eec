"""Rules of one column, held against its cells batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.cells import values_of
from evalspec.errors import InputError
from evalspec.evidence.frozen import is_number
from evalspec.evidence.words import plural
from evalspec.language.parts import BATCH_ROWS
from evalspec.language.states import State, Value, under
from evalspec.moments import NoMoment, held_against
from evalspec.tables.columns import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.integrity.spec import Bound, ColumnRule, Kind

    Mask = NDArray[np.bool_]

MOST_KEPT = 10_000
"""Cells of each rule that are written down."""
LETTERS = 200
_READS_AS: dict[str, str] = {
    "integer": r"^\s*[+-]?\d+\s*$",
    "number": r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$",
    "bool": r"(?i)^\s*(true|false)\s*$",
    "time": (
        r"^\s*(\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?"
        r"|\d{2}:\d{2}(:\d{2})?)\s*$"
    ),
}


@dataclass
class Broken:
    """Cells that break a rule.

    Args:
        rule: In words.
        count: How many.
        rows: Numbers of the first of them; none where it is the column as a whole.
        values: What stands there.
        place: Of the rule among those of its column.
    """

    rule: str
    count: int = 0
    rows: list[int] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    place: int = 0

    @property
    def said(self) -> str:
        """The rule, and how many cells break it."""
        return f"{self.rule} ({plural(self.count, 'cell')})" if self.rows else self.rule

    @property
    def order(self) -> tuple[int, int]:
        """Rules of a column are told by the batch of rows that breaks them first, then by their places."""
        return (self.rows[0] // BATCH_ROWS if self.rows else 0), self.place

    def merge(self, later: Broken) -> None:
        """Take over cells of the rows that come after."""
        if not later.rows:
            return
        room = MOST_KEPT - len(self.rows)
        self.count += later.count
        self.rows += later.rows[:room]
        self.values += later.values[:room]


@dataclass
class Facts:
    """Counts of one column.

    Args:
        type: Of its cells.
        rows: Cells.
        missing: Without a value: null or NaN.
        infinite: Infinite numbers.
        low: Smallest value, of times their count in their unit; None: there is none, or its type has no order.
        high: Largest value, likewise.
        kind: Type of these two.
    """

    type: str
    rows: int = 0
    missing: int = 0
    infinite: int = 0
    low: Any = None
    high: Any = None
    kind: pa.DataType | None = None

    def update(self, array: pa.Array, missing: Mask) -> None:
        """More cells."""
        self.rows += len(array)
        self.missing += int(np.count_nonzero(missing))
        kind = array.type
        if pa.types.is_floating(kind):
            self.infinite += int(pc.sum(pc.is_inf(array)).as_py() or 0)
        ordered = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (ordered or _is_counted(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)):
            return
        present = array.filter(pa.array(~missing)) if missing.any() else array
        if not len(present):
            return
        ends = pc.min_max(present)
        # Python has no objects for years beyond 9999, and none for nanoseconds.
        if _is_counted(kind):
            self._widen(ends["min"].value, ends["max"].value, kind)
        else:
            self._widen(ends["min"].as_py(), ends["max"].as_py(), kind)

    def _widen(self, low: Any, high: Any, kind: pa.DataType | None) -> None:
        self.kind = kind
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def merge(self, later: Facts) -> None:
        """Take over those of cells that come after."""
        self.rows += later.rows
        self.missing += later.missing
        self.infinite += later.infinite
        if later.low is not None:
            self._widen(later.low, later.high, later.kind)

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        return {
            "type": self.type, "rows": self.rows, "missing": self.missing, "infinite": self.infinite,
            "ends": self._ends,
        }  # fmt: skip

    @classmethod
    def of_fields(cls, fields: State) -> Facts:
        """The counts of which these are the fields."""
        ends = fields.values("ends")
        facts = cls(*(fields.scalar(name) for name in ("type", "rows", "missing", "infinite")))
        facts.kind = None if ends.null_count else ends.type
        facts.low, facts.high = (ends.view(_counted_as(ends.type)) if _is_counted(ends.type) else ends).to_pylist()
        return facts

    @property
    def _ends(self) -> pa.Array:
        """Smallest and largest value, or two nulls."""
        if self.kind is not None and _is_counted(self.kind):
            return pa.array([self.low, self.high], _counted_as(self.kind)).view(self.kind)
        return pa.array([self.low, self.high], self.kind)

    @property
    def ends(self) -> tuple[Any, Any]:
        """Smallest and largest value to be shown, None where there is none."""
        low, high = values_of(self._ends)
        return low, high

    @property
    def constant(self) -> bool:
        """All cells that have a value have the same."""
        return self.low is not None and self.low == self.high


def _is_counted(kind: pa.DataType) -> bool:
    """Times that have an order: whole numbers of a unit."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def _counted_as(kind: pa.DataType) -> pa.DataType:
    """Type of these numbers."""
    return pa.int64() if kind.bit_width == 64 else pa.int32()


class ColumnState:
    """A column with its rule while rows go by.

    Args:
        name: Its name.
        facts: Counts of its cells.
        rule: What must hold; None: nothing.
        broken: Rule, in words: the cells that break it.
    """

    def __init__(self, name: str, facts: Facts, rule: ColumnRule | None = None) -> None:
        self.name = name
        self.facts = facts
        self.broken: dict[str, Broken] = {}
        self._rule = rule

    def update(self, array: pa.Array, offset: int) -> None:
        """More cells.

        Args:
            array: The cells.
            offset: Number of the first one's row.

        Raises:
            InputError: A rule can't be read.
        """
        array = plain(array)
        missing = np.asarray(pc.is_null(array, nan_is_null=pa.types.is_floating(array.type)))
        self.facts.update(array, missing)
        if self._rule is None or pa.types.is_null(array.type):
            if self._rule is not None and not self._rule.nullable:
                self._cells(Broken("not nullable"), missing, array, offset)
            return
        for place, (rule, mask) in enumerate(_broken(self.name, array, missing, self._rule)):
            if mask is None:
                self.broken.setdefault(rule, Broken(rule, 1, place=place))
            else:
                self._cells(Broken(rule, place=place), mask, array, offset)

    def _cells(self, broken: Broken, mask: Mask, array: pa.Array, offset: int) -> None:
        count = int(np.count_nonzero(mask))
        if not count:
            return
        found = self.broken.setdefault(broken.rule, broken)
        found.count += count
        rows = np.flatnonzero(mask)[: MOST_KEPT - len(found.rows)]
        found.rows += [int(row) + offset for row in rows]
        found.values += [shown(value) for value in values_of(array.take(pa.array(rows)))]

    def merge(self, later: ColumnState) -> None:
        """Take over what another one has seen, of cells that come after."""
        self.facts.merge(later.facts)
        for rule, theirs in later.broken.items():
            mine = self.broken.setdefault(rule, theirs)
            if mine is not theirs:
                mine.merge(theirs)

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        broken = list(self.broken.values())
        fields: dict[str, Value] = {
            "name": self.name,
            "broken": [one.rule for one in broken],
            "counts": np.array([one.count for one in broken], np.int64),
            "places": np.array([one.place for one in broken], np.int64),
            "kept": np.array([len(one.rows) for one in broken], np.int64),
            "cells": np.array([row for one in broken for row in one.rows], np.int64),
            "values": [value for one in broken for value in one.values],
        }
        return fields | under("facts", self.facts.fields())

    @classmethod
    def of_fields(cls, fields: State) -> ColumnState:
        """The column of which these are the fields."""
        state, start = cls(fields.scalar("name"), Facts.of_fields(fields.at("facts"))), 0
        cells, values = fields.numbers("cells").tolist(), fields.texts("values")
        numbers = [fields.numbers(name).tolist() for name in ("counts", "places", "kept")]
        for rule, count, place, kept in zip(fields.texts("broken"), *numbers, strict=True):
            end = start + kept
            state.broken[rule] = Broken(rule, count, cells[start:end], values[start:end], place)
            start = end
        return state


def shown(value: object) -> str:
    """A cell as text, cut to 200 letters."""
    text = "missing" if value is None else value if isinstance(value, str) else str(value)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 3]}..."


Found = tuple[str, "Mask | None"]
"""A rule in words, and the cells that break it; None: the column as a whole does."""


def _broken(name: str, array: pa.Array, missing: Mask, rule: ColumnRule) -> Iterator[Found]:
    if not rule.nullable:
        yield "not nullable", missing
    if rule.type is not None:
        yield from _type(array, missing, rule.type)
    for what, limit in (("min", rule.min), ("max", rule.max)):
        if limit is not None:
            yield _range(name, array, what, limit)
    if rule.values:
        yield "values", _outside(array, rule.values) & ~missing
    if rule.pattern is not None:
        yield _pattern(name, array, missing, rule.pattern)


def _type(array: pa.Array, missing: Mask, asked: Kind) -> Iterator[Found]:
    kind, types = array.type, pa.types
    whole = types.is_integer(kind)
    number = whole or types.is_floating(kind) or types.is_decimal(kind)
    fits = {
        "integer": number, "number": number, "bool": types.is_boolean(kind), "time": types.is_temporal(kind),
        "text": types.is_string(kind) or types.is_large_string(kind),
        "list": types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind),
    }  # fmt: skip
    if fits[asked]:
        if asked == "integer" and not whole:
            values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
            with np.errstate(invalid="ignore"):
                yield "integer", (np.floor(values) != values) & ~missing
        return
    yield f"the column is {kind}, not {asked}", None
    if fits["text"] and asked in _READS_AS:
        reads = pc.match_substring_regex(array, _READS_AS[asked]).fill_null(True)
        yield asked, ~np.asarray(reads)


def _range(name: str, array: pa.Array, what: str, limit: Bound) -> Found:
    kind, rule = array.type, f"{what} {limit}"
    if isinstance(limit, str):
        if not pa.types.is_temporal(kind):
            return f"{rule}: the column is {kind}", None
        return rule, _before_or_after(name, array, what, limit)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return f"{rule}: the column is {kind}", None
    if pa.types.is_integer(kind) and math.isfinite(limit):
        return rule, _beyond(array, what, limit)
    array, bound = array.cast(pa.float64(), safe=False), pa.scalar(float(limit))
    compare = pc.less if what == "min" else pc.greater
    return rule, np.asarray(compare(array, bound).fill_null(False))


def _before_or_after(name: str, array: pa.Array, what: str, limit: str) -> Mask:
    """Times before ``min`` or after ``max``."""
    try:
        return np.asarray(held_against(array, "<" if what == "min" else ">", limit).fill_null(False))
    except NoMoment as error:
        of_a_day = pa.types.is_time(array.type)
        remedy = "2026-01-31, or 2026-01-31T12:00:00Z where times have a zone"
        raise InputError(
            f"{what} {limit!r} of column {name!r} is not a {array.type}",
            remedy=f"write {'12:30:00' if of_a_day else remedy}",
        ) from error


def _beyond(array: pa.Array, what: str, limit: float) -> Mask:
    """Whole numbers below ``min`` or above ``max``, compared as such: floats are not exact beyond 2^53."""
    whole = math.ceil(limit) if what == "min" else math.floor(limit)
    low, high = _span(array.type)
    if low <= whole <= high:
        compare = pc.less if what == "min" else pc.greater
        return np.asarray(compare(array, pa.scalar(whole, array.type)).fill_null(False))
    every = (whole > high) if what == "min" else (whole < low)
    return np.asarray(array.is_valid()) & every


def _span(kind: pa.DataType) -> tuple[int, int]:
    """Smallest and largest whole number of a type."""
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def _outside(array: pa.Array, values: tuple[str | int | float | bool, ...]) -> Mask:
    """Cells that are none of the values: numbers by value, all else as text."""
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = [one for one in values if is_number(one)]
        if pa.types.is_integer(kind):
            low, high = _span(kind)
            fit = [int(one) for one in numbers if math.isfinite(one) and one == int(one) and low <= one <= high]
            return ~np.asarray(pc.is_in(array, pa.array(fit, kind)))
        known = [float(one) for one in numbers]
        return ~np.asarray(pc.is_in(array.cast(pa.float64(), safe=False), pa.array(known, pa.float64())))
    if pa.types.is_boolean(kind):
        bools = [one for one in values if isinstance(one, bool)]
        return ~np.asarray(pc.is_in(array, pa.array(bools, pa.bool_())))
    if pa.types.is_nested(kind):
        return np.ones(len(array), dtype=np.bool_)
    texts = pa.array([str(one) for one in values], pa.string())
    return ~np.asarray(pc.is_in(array.cast(pa.string()), texts))


def _pattern(name: str, array: pa.Array, missing: Mask, pattern: str) -> Found:
    if not pa.types.is_string(array.type):
        return f"pattern: the column is {array.type}", None
    try:
        fits = pc.match_substring_regex(array, rf"^(?:{pattern})$")
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"pattern {pattern!r} of column {name!r} is not a regular expression: {reason}",
            remedy="write one in RE2's syntax, which has no look-around and no back-references",
        ) from error
    return "pattern", ~np.asarray(fits.fill_null(False)) & ~missing
