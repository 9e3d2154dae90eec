"""Evidence blocks as the templates draw them: strings and geometry, nothing to compute."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.evidence.blocks import (
    AnyBlock,
    Bars,
    Curve,
    Example,
    Examples,
    Histogram,
    Intervals,
    Matrix,
    Points,
    Reference,
    Table,
    Text,
)
from evalspec.evidence.frozen import Cell
from evalspec.evidence.units import format_number
from evalspec.report._charts import ChartView, chart_view
from evalspec.report._names import MAX_UNIT, quantity, shorten
from evalspec.report._requirements import interval_words
from evalspec.report._strips import Scale, Strip, Tick, strip
from evalspec.report._words import DASH

MAX_ROWS = 200
MAX_EXAMPLES = 24
MAX_MATRIX = 40
MAX_TEXT = 2_000
MAX_PICTURE = 64_000
QUIET = frozenset({"fraction", "score", "count", "label", "rows", ""})
DECIMALS = ((1000.0, 0), (100.0, 1), (10.0, 2), (0.1, 3))
WHOLES = frozenset({"", "fraction", "score", "%"})
ROOM = 58
"""Characters in a line of half the page's width; a table with more has the whole width."""
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell: its text, and whether it is a number."""

    text: str
    number: bool = False


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
    def wide(self) -> bool:
        """It needs the whole width of the page."""
        rows = [[cell.text for cell in row] for row in (self.columns, *self.rows)]
        return sum(max(map(len, texts)) + 2 for texts in zip(*rows, strict=True)) > ROOM


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One interval."""

    label: str
    value: str
    interval: str
    n: str
    note: str
    strip: Strip


@dataclass(frozen=True, slots=True)
class ForestView:
    """A forest plot on one scale."""

    title: str
    caption: str
    rows: tuple[ForestRow, ...]
    ticks: tuple[Tick, ...]
    references: tuple[str, ...]
    marks: tuple[Tick, ...]
    left_out: int
    kind: str = "forest"

    @property
    def has_n(self) -> bool:
        """Any row says its n."""
        return any(row.n for row in self.rows)


@dataclass(frozen=True, slots=True)
class BarRow:
    """One bar, from ``start`` over ``width`` percent; ``series`` counts its group from 1."""

    label: str
    group: str
    value: str
    start: float
    width: float
    series: int


@dataclass(frozen=True, slots=True)
class BarsView:
    """Bars on one scale from zero."""

    title: str
    caption: str
    rows: tuple[BarRow, ...]
    limits: tuple[float, ...]
    references: tuple[str, ...]
    left_out: int
    kind: str = "bars"

    @property
    def grouped(self) -> bool:
        """Bars have groups."""
        return any(row.group for row in self.rows)


@dataclass(frozen=True, slots=True)
class MatrixView:
    """A matrix; each cell is its text and its heat from 0 to 9."""

    title: str
    caption: str
    row_label: str
    column_label: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    left_out: int
    kind: str = "matrix"


@dataclass(frozen=True, slots=True)
class ExampleView:
    """One row to look at. ``picture`` is a data URI or empty; ``trouble`` says why there is none."""

    title: str
    fields: tuple[tuple[str, str], ...]
    text: str
    picture: str
    trouble: str


@dataclass(frozen=True, slots=True)
class ExamplesView:
    """Rows to look at, in ones or in pairs."""

    title: str
    caption: str
    groups: tuple[tuple[ExampleView, ...], ...]
    shown: int
    total: int
    pairs: bool
    kind: str = "examples"


@dataclass(frozen=True, slots=True)
class TextView:
    """Paragraphs."""

    title: str
    caption: str
    paragraphs: tuple[str, ...]
    kind: str = "text"


BlockView = TableView | ForestView | BarsView | MatrixView | ExamplesView | TextView | ChartView


def block_view(block: AnyBlock) -> BlockView:
    """What the templates need to draw a block."""
    match block:
        case Table():
            return _table(block)
        case Intervals():
            return forest(block)
        case Bars():
            return _bars(block)
        case Matrix():
            return _matrix(block)
        case Examples():
            return _examples(block)
        case Text():
            paragraphs = tuple(part.strip() for part in block.text.split("\n\n") if part.strip())
            return TextView(block.title, block.caption, paragraphs)
        case Curve() | Points() | Histogram():
            return chart_view(block)


def cell(value: Cell, unit: str = "") -> TableCell:
    """A raw value for people, with its unit."""
    if value is None:
        return TableCell(DASH)
    if isinstance(value, bool):
        return TableCell("yes" if value else "no")
    if isinstance(value, int | float):
        return TableCell(quantity(float(value), unit) if unit else format_number(float(value)), number=True)
    return TableCell(str(value))


def _table(block: Table) -> TableView:
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
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    texts = iter(aligned(numbers, unit))
    made = [TableCell(next(texts)) if cell(value).number else cell(value) for value in values]
    # A column of numbers is set to the right, with the dashes in it; words among them make it a column of words.
    number = bool(numbers) and len(numbers) + sum(value is None for value in values) == len(values)
    return [TableCell(one.text, number) for one in made]


def aligned(values: Sequence[float], unit: str) -> tuple[str, ...]:
    """Numbers of one column with the same number of decimals, where that misleads about none of them.

    None may change by more than 3 % of itself or 0.5 % of the largest, and a share that is not the whole is not
    rounded to it. Where no number of decimals does all that, each number has its own.
    """
    single = tuple(format_number(value, unit) for value in values)
    wanted = max((_decimals(text) for text in single), default=0)
    top = max((abs(value) for value in values), default=0.0)
    usual = next((places for limit, places in DECIMALS if top >= limit), 4)
    for decimals in range(min(wanted, usual), min(wanted, usual + 2) + 1):
        made = tuple(f"{value:,.{decimals}f}" for value in values)
        if all(_faithful(value, text, unit, top) for value, text in zip(values, made, strict=True)):
            return made
    return single


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _faithful(value: float, text: str, unit: str, top: float) -> bool:
    shown = float(text.replace(",", ""))
    whole = 100.0 if unit == "%" else 1.0
    if unit in WHOLES and shown == whole and value != whole:
        return False
    return top < 1e15 and abs(shown - value) <= min(0.03 * abs(value), 0.005 * top)


def with_unit(number: str, unit: str) -> str:
    """A number that is already text, with its unit."""
    return number if unit in QUIET else f"{number}x" if unit == "x" else f"{number} {shorten(unit, MAX_UNIT)}"


def _limits(references: Sequence[Reference]) -> list[Reference]:
    return [reference for reference in references if reference.value is not None]


def _reference_words(references: Sequence[Reference], unit: str) -> tuple[str, ...]:
    return tuple(
        f"{reference.label} ({quantity(reference.value, unit)})"
        for reference in references
        if reference.value is not None
    )


def forest(block: Intervals) -> ForestView:
    """A forest plot; references are lines across all rows, whichever axis they name."""
    shown = block.rows[:MAX_ROWS]
    limits = [reference.value for reference in block.references if reference.value is not None]
    values = [number for row in shown for number in (row.value, row.lower, row.upper)]
    scale = Scale.over([*values, *limits]) or Scale(0.0, 1.0)
    rows = []
    numbers = iter(aligned([row.value for row in shown if row.value is not None], block.unit))
    for row in shown:
        value = "" if row.value is None else with_unit(next(numbers), block.unit)
        interval = interval_words(row.lower, row.upper, block.unit)
        title = "; ".join(part for part in (f"{row.label}: {value or 'no value'}", interval) if part)
        drawn = strip(scale, row.value, row.lower, row.upper, limits=limits, title=title)
        rows.append(ForestRow(row.label, value, interval, "" if row.n is None else f"{row.n:,}", row.note, drawn))
    ticks = tuple(Tick(scale.at(tick), format_number(tick, block.unit)) for tick in scale.ticks())
    references = _reference_words(block.references, block.unit)
    marks = _numbered([scale.at(limit) for limit in limits])
    return ForestView(block.title, block.caption, tuple(rows), ticks, references, marks, len(block.rows) - len(shown))


def _numbered(places: Sequence[float]) -> tuple[Tick, ...]:
    """The numbers of reference lines above them, those of close lines in one; none where one line needs no number."""
    marks: list[Tick] = []
    for number, at in sorted(enumerate(places, 1), key=lambda item: item[1]):
        if marks and at - marks[-1].at < 5:
            marks[-1] = Tick(marks[-1].at, f"{marks[-1].text}, {number}")
        else:
            marks.append(Tick(at, str(number)))
    return tuple(marks) if len(places) > 1 else ()


def _bars(block: Bars) -> BarsView:
    shown = block.bars[:MAX_ROWS]
    limits = _limits(block.references)
    begins = [sum(bar.value for bar in shown[:index]) if block.stacked else 0.0 for index in range(len(shown))]
    ends = [begin + bar.value for begin, bar in zip(begins, shown, strict=True)]
    values = ends + [reference.value for reference in limits]
    scale = Scale.over(values, pad=0.02, zero=True) or Scale(0.0, 1.0)
    groups = {group: index for index, group in enumerate(dict.fromkeys(bar.group for bar in shown))}
    numbers = aligned([bar.value for bar in shown], block.unit)
    rows = tuple(
        BarRow(
            label=bar.label,
            group=bar.group,
            value=with_unit(number, block.unit),
            start=min(scale.at(begin), scale.at(end)),
            width=round(abs(scale.at(end) - scale.at(begin)), 2),
            series=groups[bar.group] % 6 + 1,
        )
        for bar, number, begin, end in zip(shown, numbers, begins, ends, strict=True)
    )
    marks = tuple(scale.at(reference.value) for reference in limits if reference.value is not None)
    references = _reference_words(limits, block.unit)
    return BarsView(block.title, block.caption, rows, marks, references, len(block.bars) - len(shown))


def _matrix(block: Matrix) -> MatrixView:
    columns = block.columns[:MAX_MATRIX]
    values = [row[:MAX_MATRIX] for row in block.values[:MAX_MATRIX]]
    top = max((abs(value) for row in values for value in row), default=0.0)
    rows = tuple(
        (name, tuple((quantity(value, block.unit), _heat(value, top)) for value in row))
        for name, row in zip(block.rows, values, strict=False)
    )
    left_out = max(len(block.columns), len(block.rows)) - max(len(columns), len(rows))
    return MatrixView(block.title, block.caption, block.row_label, block.column_label, columns, rows, left_out)


def _heat(value: float, top: float) -> int:
    # The root lifts small counts, so that confusions are seen beside the diagonal.
    return 0 if top == 0 or value == 0 else max(1, min(9, round(9 * math.sqrt(abs(value) / top))))


def _examples(block: Examples) -> ExamplesView:
    size = 2 if block.pairs else 1
    shown = block.examples[:MAX_EXAMPLES]
    views = [_example(example) for example in shown]
    groups = tuple(tuple(views[start : start + size]) for start in range(0, len(views), size))
    return ExamplesView(block.title, block.caption, groups, len(views), block.total, block.pairs)


def _example(example: Example) -> ExampleView:
    picture, trouble = "", ""
    if example.image is not None:
        trouble = _picture_trouble(example.image)
        picture = "" if trouble else f"data:image/png;base64,{example.image}"
    shown = [(name, shorten(cell(value).text, 200)) for name, value in example.fields.items()]
    fields = tuple((name, value) for name, value in shown if f"{name} {value}" != example.title)
    return ExampleView(example.title, fields, shorten(example.text or "", MAX_TEXT), picture, trouble)


def _picture_trouble(image: str) -> str:
    """Why a picture can't be shown; empty: it can."""
    if len(image) > MAX_PICTURE:
        return "The picture is too large for this page."
    try:
        data = base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        return "The picture is not base64."
    return "" if data.startswith(PNG) else "The picture is not a PNG."
