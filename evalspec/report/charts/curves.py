"""Curves, points and histograms as plain SVG."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from evalspec.evidence.blocks import Axes, Curve, Histogram, Points, Series
from evalspec.report.charts.frames import (
    ABOVE,
    AWAY,
    CHARACTER,
    FONT,
    TOTAL,
    UNDER_TITLE,
    Ends,
    Frame,
    Line,
    axis_words,
    beyond,
    fits,
    frame_of,
    is_numbered,
    numbers,
    reference_lines,
)
from evalspec.report.charts.svg import Element, Point, Style, add, add_text, as_text, moved, path, picture
from evalspec.report.names import quantity

MAX_SERIES = 6
MAX_LINE = 400
MAX_POINTS = 240
MARKED = 30
MANY_LINES, FEWEST_EACH = 4, 10
"""A series of many lines has so many times the points of one, and each line so many at least."""
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
_ARM = 0.4
CORNERS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((-1, 0), (0, -1), (1, 0), (0, 1)),
    "triangle-up": ((0, -0.87), (-1, 0.87), (1, 0.87)),
    "triangle-down": ((0, 0.87), (-1, -0.87), (1, -0.87)),
    "cross": (
        (-1, -_ARM), (-1, _ARM), (-_ARM, _ARM), (-_ARM, 1), (_ARM, 1), (_ARM, _ARM), (1, _ARM), (1, -_ARM),
        (_ARM, -_ARM), (_ARM, -1), (-_ARM, -1), (-_ARM, -_ARM),
    ),
}  # fmt: skip
"""Of a mark, in parts of half its width."""
POINT, DOT, LONELY = 2.3, 2.5, 3.9
"""Half the width of a mark: of many, on a line, and of one that is all there is."""
FEWEST = 3
"""Points of a line beside a diagonal."""
TURNS = 3
"""Lines that follow each other have one colour from so many on."""
BAND, MANY = ("0.14", "0.07"), 4
"""How much of a band is seen, and of one among so many."""
END = {"low": ("lower edge", "left edge"), "high": ("upper edge", "right edge")}
"""Names of the ends of the vertical and of the horizontal axis."""
MUTED, INK = "var(--muted)", "var(--ink)"
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 4), (1, 3))


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of the legend: its number from 1, its name, whether it is drawn as dots."""

    series: int
    name: str
    dot: bool = False


@dataclass(frozen=True, slots=True)
class LineKey:
    """A reference line in the legend. ``number`` stands beside the line too; empty: there is only this one."""

    name: str
    number: str = ""


@dataclass(frozen=True, slots=True)
class ChartView:
    """A drawn chart with its legend. ``svg`` is a picture of `evalspec.report.charts.svg`."""

    title: str
    caption: str
    svg: str
    keys: tuple[Key, ...]
    references: tuple[LineKey, ...]
    thinned: str
    kind: str = "chart"


def chart_view(block: Curve | Points | Histogram) -> ChartView:
    """Draw a block with two axes. Series past the sixth and points past a cap are left out, and it says so."""
    if isinstance(block, Histogram):
        series = _histogram_series(block)
        thinned = _thinned(len(block.counts), 0, 0)
    else:
        cap = (
            MAX_LINE if isinstance(block, Curve) else max(20, MAX_POINTS // max(1, min(MAX_SERIES, len(block.series))))
        )
        every = [_drawable(one, block) for one in block.series[:MAX_SERIES]]
        series = [_thin_each(one, cap) if one.breaks else _thin(one, cap) for one in every]
        thinned = _thinned(len(block.series), sum(len(one.x) for one in series), sum(len(one.x) for one in every))
    title = _words(block, series)
    dots = isinstance(block, Points)
    keys = tuple(Key(index + 1, one.name, dots or len(one.x) == 1) for index, one in enumerate(series))
    if in_turn(block, series):
        keys = (Key(1, f"{series[0].name} to {series[-1].name}, one after the other"),)
    references = _line_keys(block, series)
    svg = _draw(block, series, title) if any(one.x for one in series) else ""
    return ChartView(
        block.title,
        block.caption,
        svg,
        keys if len(series) > 1 or references else (),
        references,
        thinned,
    )


def _line_keys(block: Axes, series: Sequence[Series]) -> tuple[LineKey, ...]:
    """Entries of reference lines in the legend; one that can't be drawn is said to be missing."""
    found = []
    for number, reference in enumerate(block.references, 1):
        far = beyond(reference, block, series)
        drawn = fits(reference, block) and not far
        name = reference.label
        if far:
            unit = block.x_unit if reference.axis == "x" else block.y_unit
            name = (
                f"{name}: far beyond the {END[far][reference.axis == 'x']}, at {quantity(reference.value or 0.0, unit)}"
            )
        elif not drawn:
            name = f"{name} (not in the picture)"
        numbered = drawn and is_numbered(block) and reference.axis != "diagonal"
        found.append(LineKey(name, str(number) if numbered else ""))
    return tuple(found)


def _thinned(series: int, shown: int, points: int) -> str:
    parts = []
    if series > MAX_SERIES:
        parts.append(f"{MAX_SERIES} of {series} series are drawn")
    if shown < points:
        parts.append(f"{shown:,} of {points:,} points are drawn")
    return "; ".join(parts)


def _drawable(series: Series, block: Axes) -> Series:
    """Without what a logarithmic axis can't show."""
    size = min(len(series.x), len(series.y))
    kept = [i for i in range(size) if (series.x[i] > 0 or not block.log_x) and (series.y[i] > 0 or not block.log_y)]
    return _pick(series, kept)


def _thin(series: Series, cap: int) -> Series:
    """At most ``cap`` points, evenly spread, the first and the last among them."""
    size = len(series.x)
    if size <= cap:
        return series
    return _pick(series, [round(index * (size - 1) / (cap - 1)) for index in range(cap)])


def _thin_each(series: Series, cap: int) -> Series:
    """As `_thin`, of a series of many lines: each keeps its first point and its last."""
    each = max(FEWEST_EACH, MANY_LINES * cap // (len(series.breaks) + 1))
    kept = []
    for start, stop in _lines_of(series):
        size = stop - start
        step = 1.0 if size <= each else (size - 1) / (each - 1)
        kept += [start + round(index * step) for index in range(min(size, each))]
    return _pick(series, kept)


def _lines_of(series: Series) -> list[tuple[int, int]]:
    """First point of each line of a series, and the one after its last."""
    ends = sorted({0, *(one for one in series.breaks if 0 < one < len(series.x)), len(series.x)})
    return list(pairwise(ends))


def _pick(series: Series, kept: Sequence[int]) -> Series:
    def chosen(values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        return None if values is None or len(values) < len(series.x) else tuple(values[i] for i in kept)

    return Series(
        name=series.name,
        x=tuple(series.x[i] for i in kept),
        y=tuple(series.y[i] for i in kept),
        lower=chosen(series.lower),
        upper=chosen(series.upper),
        size=chosen(series.size),
        breaks=tuple(bisect_left(kept, one) for one in series.breaks),
    )


def _histogram_series(block: Histogram) -> list[Series]:
    """Each histogram as the corners of its steps, which a line can draw."""
    found = []
    for name, counts in list(block.counts.items())[:MAX_SERIES]:
        bins = min(len(counts), len(block.edges) - 1)
        x = tuple(block.edges[: bins + 1])
        y = tuple(float(count) for count in counts[:bins])
        found.append(Series(name=name, x=x, y=(*y, y[-1] if y else 0.0)[: len(x)]))
    return found


def _words(block: Axes, series: Sequence[Series]) -> str:
    """Description of a chart, for those who don't see it."""
    kind = {"curve": "line chart", "points": "scatter plot", "histogram": "histogram"}[getattr(block, "block", "curve")]
    y_words, x_words = axis_words(block.y_label, block.y_unit), axis_words(block.x_label, block.x_unit)
    parts = [f"{block.title}: {kind} of {y_words} against {x_words}"]
    for one in series:
        if one.x:
            x = f"{quantity(min(one.x), block.x_unit)} to {quantity(max(one.x), block.x_unit)}"
            y = f"{quantity(min(one.y), block.y_unit)} to {quantity(max(one.y), block.y_unit)}"
            parts.append(f"{one.name}: {len(one.x)} points, {block.x_label} {x}, {block.y_label} {y}")
    for reference in block.references:
        at = "" if reference.value is None else f" at {reference.value:g}"
        parts.append(f"reference line {reference.label}{at}")
    return ". ".join(parts)


def _draw(block: Curve | Points | Histogram, series: Sequence[Series], title: str) -> str:
    lines = reference_lines(block, series)
    frame = frame_of(block, series, lines)
    top, bottom = frame.above + 16.0, 48.0
    root = picture(max(TOTAL, frame.left + frame.width + frame.beside), top + frame.height + bottom, title)
    plot = add(root, "g", {"fill": "none", "transform": moved((frame.left, top))})
    _axes(plot, frame)
    turns = in_turn(block, series)
    for index, one in enumerate(series):
        _marks(plot, frame, block, one, 0 if turns else index, len(series))
    if turns:
        _turns(plot, frame, series)
    _rules(plot, frame, lines, numbered=is_numbered(block))
    for reference in block.references:
        _edge(plot, frame, reference.axis == "x", beyond(reference, block, series))
    return as_text(root)


def in_turn(block: Axes, series: Sequence[Series]) -> bool:
    """Lines that follow each other along x: their place tells them apart, so they need no colours of their own."""
    if not isinstance(block, Curve) or len(series) < TURNS or any(not one.x for one in series):
        return False
    return all(max(one.x) <= min(other.x) for one, other in pairwise(series))


def _turns(plot: Element, frame: Frame, series: Sequence[Series]) -> None:
    """A line between each two, and their names where there is room."""
    starts = [frame.x(min(one.x)) for one in series]
    for start in starts[1:]:
        add(plot, "line", {"x1": start, "x2": start, "y1": 0, "y2": frame.height, "stroke": "var(--rule)"})
    ends = [*starts[1:], frame.width]
    if frame.above == UNDER_TITLE and all(
        CHARACTER * len(one.name) < end - start for one, start, end in zip(series, starts, ends, strict=True)
    ):
        for one, start, end in zip(series, starts, ends, strict=True):
            add_text(plot, one.name, ((start + end) / 2, -4), FONT, MUTED, "middle")


def _edge(plot: Element, frame: Frame, across: bool, end: str) -> None:
    """An arrow at the edge of the frame, towards a line that lies far beyond it."""
    if not end:
        return
    width, height, tip = frame.width, frame.height, 9.0
    if across:
        base, to = (width - tip, width) if end == "high" else (tip, 0.0)
        corners = [(to, height / 2), (base, height / 2 - 5), (base, height / 2 + 5)]
    else:
        base, to = (tip, 0.0) if end == "high" else (height - tip, height)
        corners = [(width / 2, to), (width / 2 - 5, base), (width / 2 + 5, base)]
    add(plot, "path", {"d": path(corners, closed=True), "fill": INK})


def _axes(plot: Element, frame: Frame) -> None:
    """A line across at each number of y, and the axis of x with its marks."""
    for tick in frame.y_ticks:
        y = frame.y(tick.value)
        add(plot, "line", {"x1": 0.5, "x2": frame.width + 0.5, "y1": y + 0.5, "y2": y + 0.5, "stroke": "var(--hair)"})
        add_text(plot, tick.text, (-AWAY, y + 4.5), FONT, MUTED, "end")
    foot = frame.height + 0.5
    add(plot, "line", {"x1": 0.5, "x2": frame.width + 0.5, "y1": foot, "y2": foot, "stroke": "var(--rule)"})
    for tick in frame.x_ticks:
        x = frame.x(tick.value) + 0.5
        add(plot, "line", {"x1": x, "x2": x, "y1": foot, "y2": foot + 4, "stroke": "var(--rule)"})
        if tick.text:
            add_text(plot, tick.text, (x, foot + 19), FONT, MUTED, "middle")
    add_text(plot, frame.x_title, (frame.width / 2, foot + 38), FONT, MUTED, "middle")
    add_text(plot, frame.y_title, (0, -frame.above), FONT, MUTED, "start")


def _rules(plot: Element, frame: Frame, lines: Sequence[Line | Ends], *, numbered: bool) -> None:
    """Reference lines, and their numbers beside the frame."""
    for line in lines:
        if isinstance(line, tuple):
            ends = [frame.place(end, end) for end in line]
        elif line.axis == "x":
            x = frame.x(line.value)
            ends = [(x, 0.0), (x, frame.height)]
        else:
            y = frame.y(line.value)
            ends = [(0.0, y), (frame.width, y)]
        add(plot, "path", {"d": path(ends), "stroke": INK, "stroke-dasharray": "3,3", "opacity": "0.75"})
    if not numbered:
        return
    for mark in numbers(lines, "x", frame.x_span, frame.width):
        add_text(plot, mark.text, (mark.at, -ABOVE - 3), FONT, INK, "middle", "bold")
    for mark in numbers(lines, "y", frame.y_span, frame.height):
        add_text(plot, mark.text, (frame.width + AWAY, frame.height - mark.at + 4), FONT, INK, "start", "bold")


def _tips(block: Axes, series: Series) -> tuple[str, ...]:
    texts = []
    for x, y in zip(series.x, series.y, strict=True):
        at = f"{block.x_label} {quantity(x, block.x_unit)}"
        texts.append(f"{series.name}: {at}, {block.y_label} {quantity(y, block.y_unit)}")
    return tuple(texts)


def _marks(
    plot: Element, frame: Frame, block: Curve | Points | Histogram, series: Series, index: int, crowd: int
) -> None:
    """One series, what is hovered over last."""
    if not series.x:
        return
    group, colour = add(plot, "g", {}), f"var(--series-{index + 1})"
    places = [frame.place(x, y) for x, y in zip(series.x, series.y, strict=True)]
    tips = _tips(block, series) if len(series.x) <= MARKED else ("",) * len(places)
    dashes = {"stroke-dasharray": ",".join(map(str, DASHES[index]))} if index else {}
    line: Style = {"stroke": colour, **dashes}
    if isinstance(block, Points):
        for place, tip in zip(places, tips, strict=True):
            add_shape(group, SHAPES[index], place, POINT, {"fill": colour, "opacity": "0.6"}, tip)
        return
    if isinstance(block, Histogram):
        steps = [corner for (x, y), (after, _) in pairwise(places) for corner in ((x, y), (after, y))]
        floor = frame.y(0.0)
        area = [*steps, (places[-1][0], floor), (places[0][0], floor)]
        add(group, "path", {"d": path(area, closed=True), "fill": colour, "fill-opacity": "0.16"})
        add(group, "path", {"d": path(steps or places), "stroke-width": 1.5, **line})
        return
    if series.lower is not None and series.upper is not None and not _too_few(block, series):
        band = [frame.place(x, y) for x, y in zip(series.x, series.upper, strict=True)]
        band += [frame.place(x, y) for x, y in zip(series.x[::-1], series.lower[::-1], strict=True)]
        add(group, "path", {"d": path(band, closed=True), "fill": colour, "fill-opacity": BAND[crowd >= MANY]})
    if not _too_few(block, series):
        _strokes(group, series, places, line)
    if len(series.x) <= MARKED:
        lonely = len(places) == 1
        shape, size = (SHAPES[index], LONELY) if lonely else ("circle", DOT)
        for place, tip in zip(places, tips, strict=True):
            add_shape(group, shape, place, size, {"fill": colour}, tip)


def _strokes(group: Element, series: Series, places: Sequence[Point], line: Style) -> None:
    """The line of a series, or its many lines."""
    if not series.breaks:
        add(group, "path", {"d": path(places), "stroke-width": 2, **line})
        return
    for start, stop in _lines_of(series):
        add(group, "path", {"d": path(places[start:stop]), "stroke-width": 1.2, "opacity": "0.7", **line})


def _too_few(block: Axes, series: Series) -> bool:
    """Points beside a diagonal that are too few for a line: how far each is from it is all that they show."""
    return len(series.x) < FEWEST and any(one.axis == "diagonal" for one in block.references)


def add_shape(group: Element, shape: str, at: Point, r: float, style: Style, tip: str) -> None:
    """A mark around a place; ``r`` is half its width."""
    if shape == "circle":
        add(group, "circle", {"cx": at[0], "cy": at[1], "r": r, **style}, tip)
        return
    x, y = at
    corners = [(x + r * across, y + r * down) for across, down in CORNERS[shape]]
    add(group, "path", {"d": path(corners, closed=True), **style}, tip)
