"""Evidence blocks as the templates draw them: strings and geometry, nothing to compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.evidence.blocks import (
    AnyBlock,
    Bar,
    Bars,
    Curve,
    Examples,
    Histogram,
    Intervals,
    Matrix,
    Points,
    Reference,
    SmallHistograms,
    Table,
    Text,
)
from evalspec.report.charts.curves import ChartView, chart_view
from evalspec.report.charts.examples import ExamplesView, examples_view
from evalspec.report.charts.frames import far_from
from evalspec.report.charts.small import SmallHistogramsView, small_histograms
from evalspec.report.charts.strips import Strip, StripScale, Tick, axis_ticks, strip, text_room
from evalspec.report.charts.tables import MAX_ROWS, TableView, aligned, table_view, with_unit
from evalspec.report.names import quantity
from evalspec.report.requirements import interval_words

MAX_MATRIX = 40
HALF = 500.0
"""Pixels of a little more than half of the page's width."""
PIXELS, NARROWEST_CELL = 7.0, 32.0
"""Width of a character and of a cell of a matrix."""
DENSE_MATRIX = 13
"""Classes of a matrix in small type."""
LONG_HEAD = 3
"""Characters of the head of a column that stands upright."""
MOST_BESIDE = 3
"""Bars of one row."""


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
    """A forest plot on one scale. ``references`` are those that are drawn, ``beyond`` those that lie far off it."""

    title: str
    caption: str
    rows: tuple[ForestRow, ...]
    ticks: tuple[Tick, ...]
    references: tuple[str, ...]
    beyond: tuple[str, ...]
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
    beyond: tuple[str, ...]
    marks: tuple[Tick, ...]
    left_out: int
    kind: str = "bars"


@dataclass(frozen=True, slots=True)
class BesideRow:
    """One group whose bars lie below each other, in the order of the legend."""

    group: str
    bars: tuple[BarRow, ...]

    @property
    def values(self) -> str:
        """All of its values."""
        return " / ".join(bar.value for bar in self.bars)


@dataclass(frozen=True, slots=True)
class BesideView:
    """Groups of bars that all hold the same: a row for each group, a colour for each of these."""

    title: str
    caption: str
    keys: tuple[str, ...]
    rows: tuple[BesideRow, ...]
    limits: tuple[float, ...]
    references: tuple[str, ...]
    beyond: tuple[str, ...]
    marks: tuple[Tick, ...]
    left_out: int
    kind: str = "beside"


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

    @property
    def wide(self) -> bool:
        """True if it needs more than half of the page's width."""
        return self._width > HALF

    @property
    def dense(self) -> bool:
        """True if it needs small type."""
        return len(self.columns) >= DENSE_MATRIX

    @property
    def upright(self) -> bool:
        """True if the heads of its columns stand upright, so that all columns fit."""
        return self._width_of(self.columns) > HALF and any(len(column) > LONG_HEAD for column in self.columns)

    @property
    def _width(self) -> float:
        return self._width_of(() if self.upright else self.columns)

    def _width_of(self, heads: Sequence[str]) -> float:
        """Width in pixels, about, with these heads of its columns."""
        corner = max(len(name) for name in (self.row_label, *(name for name, _ in self.rows)))
        cells = (
            max((len(cells[index][0]) for _, cells in self.rows if index < len(cells)), default=1)
            for index in range(len(self.columns))
        )
        across = sum(max(PIXELS * size + 12, NARROWEST_CELL) for size in cells)
        wider = sum(max(0.0, PIXELS * len(head) + 12 - NARROWEST_CELL) for head in heads)
        return PIXELS * corner + 20 + across + wider


@dataclass(frozen=True, slots=True)
class TextView:
    """Paragraphs."""

    title: str
    caption: str
    paragraphs: tuple[str, ...]
    kind: str = "text"


BlockView = (
    TableView
    | ForestView
    | BarsView
    | BesideView
    | MatrixView
    | ExamplesView
    | SmallHistogramsView
    | TextView
    | ChartView
)


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
            return examples_view(block)
        case SmallHistograms():
            return small_histograms(block)
        case Text():
            paragraphs = tuple(part.strip() for part in block.text.split("\n\n") if part.strip())
            return TextView(block.title, block.caption, paragraphs)
        case Curve() | Points() | Histogram():
            return chart_view(block)


@dataclass(frozen=True, slots=True)
class _Limits:
    """Reference lines: those that are drawn, with their words, and words for those that lie far off."""

    values: tuple[float, ...]
    words: tuple[str, ...]
    beyond: tuple[str, ...]


def _limits(references: Sequence[Reference], values: Sequence[float | None], unit: str) -> _Limits:
    """Reference lines beside what is drawn; one so far off that nothing else would be seen is told and not drawn."""
    drawn = [value for value in values if value is not None]
    found, words, beyond = [], [], []
    for reference in references:
        if reference.value is None:
            continue
        shown = quantity(reference.value, unit)
        label = reference.label if reference.says_value else f"{reference.label} ({shown})"
        side = far_from(reference.value, drawn)
        if side:
            beyond.append(f"{label}, far beyond the {'left' if side == 'low' else 'right'} edge")
        else:
            found.append(reference.value)
            words.append(label)
    return _Limits(tuple(found), tuple(words), tuple(beyond))


def forest(block: Intervals) -> ForestView:
    """A forest plot; references are lines across all rows, whichever axis they name."""
    shown = block.rows[:MAX_ROWS]
    values = [number for row in shown for number in (row.value, row.lower, row.upper)]
    limits = _limits(block.references, values, block.unit)
    scale = StripScale.over([*values, *limits.values]) or StripScale(0.0, 1.0)
    rows = []
    numbers = iter(aligned([row.value for row in shown if row.value is not None], block.unit))
    for row in shown:
        value = "" if row.value is None else with_unit(next(numbers), block.unit)
        interval = interval_words(row.lower, row.upper, block.unit)
        title = "; ".join(part for part in (f"{row.label}: {value or 'no value'}", interval) if part)
        drawn = strip(scale, row.value, row.lower, row.upper, limits=limits.values, title=title)
        rows.append(ForestRow(row.label, value, interval, "" if row.n is None else f"{row.n:,}", row.note, drawn))
    return ForestView(
        title=block.title,
        caption=block.caption,
        rows=tuple(rows),
        ticks=axis_ticks(scale, block.unit),
        references=limits.words,
        beyond=limits.beyond,
        marks=_numbered([scale.at(limit) for limit in limits.values]),
        left_out=len(block.rows) - len(shown),
    )


def _numbered(places: Sequence[float]) -> tuple[Tick, ...]:
    """The numbers of reference lines above them, those of close lines in one as they lie; none of a single line."""
    groups: list[list[tuple[float, int]]] = []
    for number, at in sorted(enumerate(places, 1), key=lambda item: item[1]):
        groups.append([(at, number)])
        while len(groups) > 1 and _mark(groups[-1]).at - _mark(groups[-2]).at < _between(groups[-2], groups[-1]):
            last = groups.pop()
            groups[-1] += last
    return tuple(_mark(group) for group in groups) if len(places) > 1 else ()


def _mark(group: Sequence[tuple[float, int]]) -> Tick:
    middle = sum(at for at, _ in group) / len(group)
    return Tick(round(middle, 2), ", ".join(str(number) for _, number in group))


def _between(one: Sequence[tuple[float, int]], other: Sequence[tuple[float, int]]) -> float:
    """How far two texts must be from each other, in percent of the narrowest strip."""
    return (text_room(_mark(one).text) + text_room(_mark(other).text)) / 2


def _bars(block: Bars) -> BarsView | BesideView:
    shown = block.bars[:MAX_ROWS]
    begins = [sum(bar.value for bar in shown[:index]) if block.stacked else 0.0 for index in range(len(shown))]
    ends = [begin + bar.value for begin, bar in zip(begins, shown, strict=True)]
    limits = _limits(block.references, [0.0, *ends], block.unit)
    scale = StripScale.over([*ends, *limits.values], pad=0.02, zero=True) or StripScale(0.0, 1.0)
    keys = _same_in_each_group(shown) if not block.stacked and len(shown) == len(block.bars) else ()
    series = list(keys) or list(dict.fromkeys(bar.group for bar in shown))
    numbers = aligned([bar.value for bar in shown], block.unit)
    rows = tuple(
        BarRow(
            label=bar.label,
            group=bar.group,
            value=with_unit(number, block.unit),
            start=min(scale.at(begin), scale.at(end)),
            width=round(abs(scale.at(end) - scale.at(begin)), 2),
            series=series.index(bar.label if keys else bar.group) % 6 + 1,
            opens=bar.group if bar.group != before else "",
        )
        for bar, before, number, begin, end in zip(
            shown, ["", *(bar.group for bar in shown)], numbers, begins, ends, strict=False
        )
    )
    lines = tuple(scale.at(value) for value in limits.values)
    left_out = len(block.bars) - len(shown)
    marks = _numbered(lines)
    if keys:
        size = len(keys)
        groups = (rows[start : start + size] for start in range(0, len(rows), size))
        return BesideView(
            block.title, block.caption, keys, tuple(BesideRow(group[0].group, group) for group in groups),
            lines, limits.words, limits.beyond, marks, left_out,
        )  # fmt: skip
    return BarsView(block.title, block.caption, rows, lines, limits.words, limits.beyond, marks, left_out)


def _same_in_each_group(bars: Sequence[Bar]) -> tuple[str, ...]:
    """Labels that each of several groups has, in the same order; none where the groups differ."""
    groups: dict[str, list[str]] = {}
    for bar in bars:
        groups.setdefault(bar.group, []).append(bar.label)
    labels = list(groups.values())
    alike = len(labels) > 1 and 1 < len(labels[0]) <= MOST_BESIDE and all(one == labels[0] for one in labels)
    in_order = [bar.group for bar in bars] == [group for group, names in groups.items() for _ in names]
    return tuple(labels[0]) if alike and in_order else ()


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
