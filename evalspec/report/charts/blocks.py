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
from evalspec.report.charts.curves import ChartView, chart_view
from evalspec.report.charts.strips import Strip, StripScale, Tick, axis_ticks, strip, text_room
from evalspec.report.charts.tables import MAX_ROWS, TableView, aligned, cell, table_view, with_unit
from evalspec.report.names import quantity, shorten
from evalspec.report.requirements import interval_words

MAX_EXAMPLES = 24
MAX_MATRIX = 40
MAX_TEXT = 2_000
MAX_PICTURE = 64_000
PNG = b"\x89PNG\r\n\x1a\n"


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
    """One bar, from ``start`` over ``width`` percent; ``series`` counts its group from 1.

    ``opens`` is the group that begins with it; empty: it goes on, or there are none.
    """

    label: str
    group: str
    value: str
    start: float
    width: float
    series: int
    opens: str = ""


@dataclass(frozen=True, slots=True)
class BarsView:
    """Bars on one scale from zero."""

    title: str
    caption: str
    rows: tuple[BarRow, ...]
    limits: tuple[float, ...]
    references: tuple[str, ...]
    marks: tuple[Tick, ...]
    left_out: int
    kind: str = "bars"


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
    """View of a block for the templates."""
    match block:
        case Table():
            return table_view(block)
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
    scale = StripScale.over([*values, *limits]) or StripScale(0.0, 1.0)
    rows = []
    numbers = iter(aligned([row.value for row in shown if row.value is not None], block.unit))
    for row in shown:
        value = "" if row.value is None else with_unit(next(numbers), block.unit)
        interval = interval_words(row.lower, row.upper, block.unit)
        title = "; ".join(part for part in (f"{row.label}: {value or 'no value'}", interval) if part)
        drawn = strip(scale, row.value, row.lower, row.upper, limits=limits, title=title)
        rows.append(ForestRow(row.label, value, interval, "" if row.n is None else f"{row.n:,}", row.note, drawn))
    ticks = axis_ticks(scale, block.unit)
    references = _reference_words(block.references, block.unit)
    marks = _numbered([scale.at(limit) for limit in limits])
    return ForestView(block.title, block.caption, tuple(rows), ticks, references, marks, len(block.rows) - len(shown))


def _numbered(places: Sequence[float]) -> tuple[Tick, ...]:
    """The numbers of reference lines above them, those of close lines in one; none where one line needs no number."""
    groups: list[list[tuple[float, int]]] = []
    for number, at in sorted(enumerate(places, 1), key=lambda item: item[1]):
        groups.append([(at, number)])
        while len(groups) > 1 and _mark(groups[-1]).at - _mark(groups[-2]).at < _between(groups[-2], groups[-1]):
            last = groups.pop()
            groups[-1] += last
    return tuple(_mark(group) for group in groups) if len(places) > 1 else ()


def _mark(group: Sequence[tuple[float, int]]) -> Tick:
    middle = sum(at for at, _ in group) / len(group)
    return Tick(round(middle, 2), ", ".join(str(number) for number in sorted(number for _, number in group)))


def _between(one: Sequence[tuple[float, int]], other: Sequence[tuple[float, int]]) -> float:
    """How far two texts must be from each other, in percent of the narrowest strip."""
    return (text_room(_mark(one).text) + text_room(_mark(other).text)) / 2


def _bars(block: Bars) -> BarsView:
    shown = block.bars[:MAX_ROWS]
    limits = _limits(block.references)
    begins = [sum(bar.value for bar in shown[:index]) if block.stacked else 0.0 for index in range(len(shown))]
    ends = [begin + bar.value for begin, bar in zip(begins, shown, strict=True)]
    values = ends + [reference.value for reference in limits]
    scale = StripScale.over(values, pad=0.02, zero=True) or StripScale(0.0, 1.0)
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
            opens=bar.group if bar.group != before else "",
        )
        for bar, before, number, begin, end in zip(
            shown, ["", *(bar.group for bar in shown)], numbers, begins, ends, strict=False
        )
    )
    lines = tuple(scale.at(reference.value) for reference in limits if reference.value is not None)
    references = _reference_words(limits, block.unit)
    left_out = len(block.bars) - len(shown)
    return BarsView(block.title, block.caption, rows, lines, references, _numbered(lines), left_out)


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
    told = {name: value for name, value in example.fields.items() if f"{name} {value}" != example.title}
    fields = tuple((name, shorten(cell(value).text, 200)) for name, value in told.items())
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
