"""The axes of a chart, its reference lines, and their numbers: beside the frame, where nothing else is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evalspec.evidence.blocks import Axes, Histogram, Reference, Series
from evalspec.evidence.visible import visible
from evalspec.report.names import shorten

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 360, 200
FONT = 12
DIGIT = 7.4
"""The most that a character of a number takes in width, in pixels at this size of type."""
LINE = 15.0
"""Room that a line of type takes in height."""
AWAY, ABOVE = 6, 9
"""Between the frame and a number to the right of it, or above it: the highest mark of y reaches above the frame."""
LONGEST = int(WIDTH / DIGIT)
"""Characters of an axis' title: no longer than the axis."""
TICKS = 5
"""Of a vertical axis, about."""

AXIS: dict[str, Any] = {
    "gridColor": "var(--hair)",
    "domainColor": "var(--rule)",
    "tickColor": "var(--rule)",
    "labelColor": "var(--muted)",
    "titleColor": "var(--muted)",
    "labelFontSize": FONT,
    "titleFontSize": FONT,
    "titleFontWeight": "normal",
    "labelLimit": 0,
    "titleLimit": 0,
    "tickSize": 4,
    "labelPadding": 6,
    "format": ",.6~g",
}
Y_TITLE: dict[str, Any] = {
    "titleAngle": 0,
    "titleAlign": "left",
    "titleAnchor": "end",
    "titleX": 0,
    "titleBaseline": "bottom",
}

Ends = tuple[float, float]
Axis = Literal["x", "y"]


@dataclass(frozen=True, slots=True)
class Line:
    """A reference line inside a chart; ``number`` is that of its label in the legend, from 1."""

    axis: Axis
    value: float
    number: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Numbers of reference lines beside the frame: the text, and where its middle is, in pixels from the low end."""

    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Span:
    """What an axis covers."""

    low: float
    high: float
    log: bool

    def at(self, value: float, size: float) -> float:
        """Where a value lies on an axis of this size, in pixels from its low end, kept within it."""
        low, high, here = (
            (math.log(v) if v > 0 else -math.inf) if self.log else v for v in (self.low, self.high, value)
        )
        share = (here - low) / (high - low) if high > low else 0.5
        return size * min(1.0, max(0.0, share))


@dataclass(frozen=True, slots=True)
class Frame:
    """Both axes and their scales, shared by all layers."""

    x_span: Span
    x_axis: alt.Axis
    y_span: Span
    y_axis: alt.Axis

    def x(self, field: str = "x") -> alt.X:
        """The horizontal encoding of a field."""
        import altair as alt

        return alt.X(f"{field}:Q", scale=_scale(self.x_span), axis=self.x_axis)

    def y(self, field: str = "y") -> alt.Y:
        """The vertical encoding of a field."""
        import altair as alt

        return alt.Y(f"{field}:Q", scale=_scale(self.y_span), axis=self.y_axis)


def reference_lines(block: Axes, series: Sequence[Series]) -> list[Line | Ends]:
    """Lines at a value, and for a diagonal the values that both axes share."""
    found: list[Line | Ends] = []
    for number, reference in enumerate(block.references, 1):
        if reference.axis == "diagonal":
            values = [value for one in series for value in (*one.x, *one.y)]
            if values:
                low = min(values)
                found.append((0.0 if 0 <= low < max(values) / 2 and not block.log_x else low, max(values)))
        elif reference.value is not None and fits(reference, block):
            found.append(Line(reference.axis, reference.value, number))
    return found


def fits(reference: Reference, block: Axes) -> bool:
    """A line can be drawn: a logarithmic axis has no place for zero and less."""
    log = block.log_x if reference.axis == "x" else block.log_y
    return reference.axis == "diagonal" or (reference.value is not None and (reference.value > 0 or not log))


def is_numbered(block: Axes) -> bool:
    """Its reference lines have numbers: one line alone needs none to be known from the legend."""
    return len(block.references) > 1


def numbers(lines: Sequence[Line | Ends], axis: Axis, span: Span) -> tuple[Mark, ...]:
    """The numbers of the lines across an axis; those of lines that lie too close for two stand together.

    They lie beside the frame, above a line across x and to the right of one across y: no marks and ticks are there.
    """
    size, room = (WIDTH, _width) if axis == "x" else (HEIGHT, _height)
    own = sorted(
        (span.at(line.value, size), line.number) for line in lines if isinstance(line, Line) and line.axis == axis
    )
    groups: list[list[tuple[float, int]]] = []
    for one in own:
        groups.append([one])
        while len(groups) > 1 and _close(groups[-2], groups[-1], room):
            last = groups.pop()
            groups[-1] += last
    return tuple(Mark(_text(group), _middle(group)) for group in groups)


Group = Sequence[tuple[float, int]]


def _close(one: Group, other: Group, room: Callable[[Group], float]) -> bool:
    return _middle(other) - _middle(one) < (room(one) + room(other)) / 2


def _middle(group: Group) -> float:
    return sum(at for at, _ in group) / len(group)


def _text(group: Group) -> str:
    return ", ".join(str(number) for number in sorted(number for _, number in group))


def _width(group: Group) -> float:
    return DIGIT * len(_text(group)) + 4


def _height(group: Group) -> float:
    return LINE


def rules(lines: Sequence[Line | Ends], frame: Frame, *, numbered: bool) -> list[alt.Chart]:
    """The layers of reference lines, and of their numbers."""
    import altair as alt

    layers: list[alt.Chart] = []
    style: dict[str, Any] = {"stroke": "var(--ink)", "strokeWidth": 1, "strokeDash": [3, 3], "opacity": 0.75}
    for line in lines:
        if isinstance(line, tuple):
            ends = alt.InlineData(values=[{"x": end, "y": end} for end in line])
            layers.append(alt.Chart(ends).mark_line(**style).encode(x=frame.x(), y=frame.y()))
            continue
        at: dict[str, Any] = {"x": frame.x("v")} if line.axis == "x" else {"y": frame.y("v")}
        layers.append(alt.Chart(alt.InlineData(values=[{"v": line.value}])).mark_rule(**style).encode(**at))
    if not numbered:
        return layers
    words: dict[str, Any] = {"fontSize": FONT, "fill": "var(--ink)", "fontWeight": "bold"}
    places: list[dict[str, Any]] = [
        {"text": mark.text, "x": mark.at, "y": -ABOVE, "align": "center", "baseline": "bottom"}
        for mark in numbers(lines, "x", frame.x_span)
    ]
    places += [
        {"text": mark.text, "x": WIDTH + AWAY, "y": HEIGHT - mark.at, "align": "left", "baseline": "middle"}
        for mark in numbers(lines, "y", frame.y_span)
    ]
    return [*layers, *(alt.Chart(alt.InlineData(values=[{}])).mark_text(**words, **place) for place in places)]


def frame_of(block: Axes, series: Sequence[Series], lines: Sequence[Line | Ends]) -> Frame:
    """Both axes, over everything that is drawn."""
    import altair as alt

    marks = {axis: [line.value for line in lines if isinstance(line, Line) and line.axis == axis] for axis in "xy"}
    xs = [value for one in series for value in one.x] + marks["x"]
    ys = [value for one in series for value in (*one.y, *(one.lower or ()), *(one.upper or ()))] + marks["y"]
    for line in lines:
        if isinstance(line, tuple):
            xs, ys = [*xs, *line], [*ys, *line]
    square = any(isinstance(line, tuple) for line in lines)
    if isinstance(block, Histogram) or (not square and 0 <= min(ys) < max(ys) / 2):
        ys.append(0.0)
    x_title, y_title = (shorten(axis_words(*words), LONGEST) for words in _labels(block))
    # The title of y stands above the numbers of lines across x.
    above = ABOVE + LINE + 3 if marks["x"] and is_numbered(block) else 12
    x_axis = alt.Axis(title=x_title, grid=False, titlePadding=8, labelFlush=False, **_ticks(xs, block.log_x, 6))
    y_axis = alt.Axis(
        title=y_title, domain=False, ticks=False, titleY=-above, **Y_TITLE, **_ticks(ys, block.log_y, TICKS)
    )
    return Frame(_span(xs, block.log_x, nice=False), x_axis, _span(ys, block.log_y, nice=True), y_axis)


def axis_words(label: str, unit: str) -> str:
    """What an axis is called, with its unit."""
    return visible(f"{label} ({unit})" if unit and unit not in ("fraction", "count", "score") else label)


def _labels(block: Axes) -> tuple[tuple[str, str], tuple[str, str]]:
    return (block.x_label, block.x_unit), (block.y_label, block.y_unit)


def _ticks(values: Sequence[float], log: bool, count: int) -> dict[str, Any]:
    """Where an axis has its marks: whole powers on a logarithmic one, which would draw all between them too."""
    positive = [value for value in values if value > 0]
    if not log or not positive:
        return {"tickCount": count}
    base = _base(positive)
    first, last = math.ceil(math.log(min(positive), base) - 1e-9), math.floor(math.log(max(positive), base) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / 9))
    powers = [float(base) ** power for power in range(first, last + 1, step)]
    return {"values": powers} if len(powers) > 1 else {"tickCount": count}


def _base(positive: Sequence[float]) -> int:
    return 2 if all(math.log2(value).is_integer() for value in positive) else 10


def _span(values: Sequence[float], log: bool, *, nice: bool) -> Span:
    """What an axis covers: all values, on a linear one to the next mark where it may be ``nice``."""
    if log:
        positive = [value for value in values if value > 0] or [1.0]
        low, high = min(positive), max(positive)
        return Span(low, high if high > low else low * _base(positive), log=True)
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = _step((high - low) / TICKS)
    if nice and step:
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return Span(low, high, log=False)


def _step(raw: float) -> float | None:
    """The round number that is nearest to a distance between marks; None where there is none."""
    if not 0 < raw < math.inf:
        return None
    power = 10.0 ** math.floor(math.log10(raw))
    rest = raw / power
    found = power * (10 if rest >= math.sqrt(50) else 5 if rest >= math.sqrt(10) else 2 if rest >= math.sqrt(2) else 1)
    return found if 0 < found < math.inf else None


def _scale(span: Span) -> alt.Scale:
    import altair as alt

    if span.log:
        base = _base([span.low, span.high])
        return alt.Scale(type="log", base=base, domain=[span.low, span.high], nice=False, clamp=True)
    return alt.Scale(domain=[span.low, span.high], nice=False, zero=False, clamp=True)
