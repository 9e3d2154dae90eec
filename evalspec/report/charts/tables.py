"""Tables as the templates draw them, and numbers that stand below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.evidence.blocks import Table
from evalspec.evidence.frozen import Cell, is_number
from evalspec.evidence.units import MINUS, decimals_of, format_number, number_of
from evalspec.report.names import MAX_UNIT, quantity, shorten
from evalspec.report.words import DASH

MAX_ROWS = 200
QUIET = frozenset({"fraction", "score", "count", "label", "rows", ""})
DECIMALS = ((1000.0, 0), (100.0, 1), (10.0, 2), (0.1, 3))
WHOLES = frozenset({"", "fraction", "score", "%"})
ROOM = 58
"""Characters in a line of half the page's width; a table with more has the whole width."""
WHOLE = 20
"""Characters of a cell that is never broken."""
LONG = 16
"""Rows of a table that stays on one page."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell: its text, and whether it is a number."""

    text: str
    number: bool = False

    @property
    def whole(self) -> bool:
        """Short enough to stay on one line."""
        return self.number or len(self.text) <= WHOLE


@dataclass(frozen=True, slots=True)
class TableView:
    """A table; a column of numbers is set to the right."""

    title: str
    caption: str
    columns: tuple[TableCell, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    left_out: int
    kind: str = "table"

    @property
    def long(self) -> bool:
        """True if it may go over from one page to the next."""
        return len(self.rows) > LONG

    @property
    def wide(self) -> bool:
        """True if it needs the whole width of the page."""
        rows = [[cell.text for cell in row] for row in (self.columns, *self.rows)]
        return sum(max(map(len, texts)) + 2 for texts in zip(*rows, strict=True)) > ROOM


def cell(value: Cell, unit: str = "") -> TableCell:
    """A raw value for people, with its unit."""
    if value is None:
        return TableCell(DASH)
    if isinstance(value, bool):
        return TableCell("yes" if value else "no")
    if isinstance(value, int | float):
        return TableCell(quantity(float(value), unit) if unit else format_number(float(value)), number=True)
    return TableCell(str(value))


def table_view(block: Table) -> TableView:
    """A table as the templates draw it, its first rows only."""
    shown = block.rows[:MAX_ROWS]
    made = [
        _column([row[index] if index < len(row) else None for row in shown], column.unit)
        for index, column in enumerate(block.columns)
    ]
    columns = tuple(
        TableCell(
            column.name if column.unit in QUIET else f"{column.name} ({column.unit})", any(one.number for one in cells)
        )
        for column, cells in zip(block.columns, made, strict=True)
    )
    rows = tuple(zip(*made, strict=True)) if made else ()
    return TableView(block.title, block.caption, columns, rows, len(block.rows) - len(shown))


def _column(values: Sequence[Cell], unit: str) -> list[TableCell]:
    """The cells of a column; the header has the unit."""
    numbers = [float(value) for value in values if is_number(value)]
    texts = iter(aligned(numbers, unit))
    made = [TableCell(next(texts)) if cell(value).number else cell(value) for value in values]
    # A column of numbers is set to the right, with the dashes in it; words among them make it a column of words.
    plain = bool(numbers) or (bool(values) and bool(unit))
    number = plain and len(numbers) + sum(value is None for value in values) == len(values)
    return [TableCell(one.text, number) for one in made]


def aligned(values: Sequence[float], unit: str) -> tuple[str, ...]:
    """Numbers of one column with the same number of decimals, where that misleads about none of them.

    None may change by more than 3 % of itself or 0.5 % of the largest, and a share that is not the whole is not
    rounded to it. Where no number of decimals does all that, each number has its own.
    """
    single = tuple(format_number(value, unit) for value in values)
    wanted = max((decimals_of(text) for text in single), default=0)
    top = max((abs(value) for value in values), default=0.0)
    usual = next((places for limit, places in DECIMALS if top >= limit), 4)
    for decimals in range(min(wanted, usual), min(wanted, usual + 2) + 1):
        made = tuple(f"{value:z,.{decimals}f}".replace("-", MINUS) for value in values)
        if all(_faithful(value, text, unit, top) for value, text in zip(values, made, strict=True)):
            return made
    return single


def _faithful(value: float, text: str, unit: str, top: float) -> bool:
    shown = number_of(text)
    whole = 100.0 if unit == "%" else 1.0
    if unit in WHOLES and shown == whole and value != whole:
        return False
    return top < 1e15 and abs(shown - value) <= min(0.03 * abs(value), 0.005 * top)


def with_unit(number: str, unit: str) -> str:
    """A number that is already text, with its unit."""
    return number if unit in QUIET else f"{number}x" if unit == "x" else f"{number} {shorten(unit, MAX_UNIT)}"
