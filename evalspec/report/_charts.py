"""Curves, points and histograms, drawn by altair and vl-convert, then cut down to plain SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalspec.evidence.blocks import Axes, Curve, Histogram, Points, Reference, Series
from evalspec.report._names import quantity, shorten, visible
from evalspec.report._svg import clean_svg

if TYPE_CHECKING:
    import altair as alt

MAX_SERIES = 6
MAX_LINE = 400
MAX_POINTS = 240
MARKED = 30
WIDTH, HEIGHT = 400, 210
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 4), (1, 3))

AXIS: dict[str, Any] = {
    "gridColor": "var(--hair)",
    "domainColor": "var(--rule)",
    "tickColor": "var(--rule)",
    "labelColor": "var(--muted)",
    "titleColor": "var(--muted)",
    "labelFontSize": 11,
    "titleFontSize": 11,
    "titleFontWeight": "normal",
    "labelLimit": 0,
    "titleLimit": 0,
    "tickSize": 4,
    "labelPadding": 4,
    "format": ",.6~g",
}
Y_TITLE: dict[str, Any] = {
    "titleAngle": 0,
    "titleAlign": "left",
    "titleAnchor": "end",
    "titleX": 0,
    "titleY": -12,
    "titleBaseline": "bottom",
}

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of the legend: its number from 1, its name."""

    series: int
    name: str


@dataclass(frozen=True, slots=True)
class ChartView:
    """A drawn chart with its legend. ``svg`` holds only what `clean_svg` lets through."""

    title: str
    caption: str
    svg: str
    keys: tuple[Key, ...]
    references: tuple[str, ...]
    thinned: str
    dots: bool = False
    kind: str = "chart"


@dataclass(frozen=True, slots=True)
class _Frame:
    """Both axes and their scales, shared by all layers."""

    x_scale: alt.Scale
    x_axis: alt.Axis
    y_scale: alt.Scale
    y_axis: alt.Axis

    def x(self, field: str = "x") -> alt.X:
        """The horizontal encoding of a field."""
        import altair as alt

        return alt.X(f"{field}:Q", scale=self.x_scale, axis=self.x_axis)

    def y(self, field: str = "y") -> alt.Y:
        """The vertical encoding of a field."""
        import altair as alt

        return alt.Y(f"{field}:Q", scale=self.y_scale, axis=self.y_axis)


@dataclass(frozen=True, slots=True)
class _Line:
    """A reference line inside a chart."""

    axis: str
    value: float
    label: str


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
        series = [_thin(one, cap) for one in every]
        thinned = _thinned(len(block.series), sum(len(one.x) for one in series), sum(len(one.x) for one in every))
    title = _words(block, series)
    keys = tuple(Key(index + 1, one.name) for index, one in enumerate(series))
    references = tuple(reference.label for reference in block.references)
    svg = _draw(block, series, title) if any(one.x for one in series) else ""
    return ChartView(
        block.title,
        block.caption,
        svg,
        keys if len(keys) > 1 or references else (),
        references,
        thinned,
        isinstance(block, Points),
    )


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
    """What a chart shows, for those who don't see it."""
    kind = {"curve": "line chart", "points": "scatter plot", "histogram": "histogram"}[getattr(block, "block", "curve")]
    parts = [
        f"{block.title}: {kind} of {_axis(block.y_label, block.y_unit)} against {_axis(block.x_label, block.x_unit)}"
    ]
    for one in series:
        if one.x:
            x = f"{quantity(min(one.x), block.x_unit)} to {quantity(max(one.x), block.x_unit)}"
            y = f"{quantity(min(one.y), block.y_unit)} to {quantity(max(one.y), block.y_unit)}"
            parts.append(f"{one.name}: {len(one.x)} points, {block.x_label} {x}, {block.y_label} {y}")
    for reference in block.references:
        at = "" if reference.value is None else f" at {reference.value:g}"
        parts.append(f"reference line {reference.label}{at}")
    return ". ".join(parts)


def _axis(label: str, unit: str) -> str:
    return visible(f"{label} ({unit})" if unit and unit not in ("fraction", "count", "score") else label)


def _draw(block: Curve | Points | Histogram, series: Sequence[Series], title: str) -> str:
    import altair as alt
    import vl_convert

    lines = _reference_lines(block, series)
    frame = _frame(block, series, lines)
    layers: list[alt.Chart] = []
    tips: dict[str, tuple[str, ...]] = {}
    for index, one in enumerate(series):
        for layer in _marks(block, one, index, len(series)):
            layers.append(layer.encode(x=frame.x(), y=frame.y()))
        if isinstance(layers[-1].mark, alt.MarkDef) and layers[-1].mark.type == "point" and len(one.x) <= MARKED:
            tips[f"layer_{len(layers) - 1}_marks"] = _tips(block, one)
    layers.extend(_rules(lines, frame, series))
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, background="transparent")
    chart = chart.properties(padding={"left": 12, "right": 20, "top": 6, "bottom": 8})
    chart = chart.configure(aria=False).configure_view(stroke=None).configure_axis(**AXIS)
    return clean_svg(vl_convert.vegalite_to_svg(chart.to_dict()), title=title, tips=tips)


def _tips(block: Axes, series: Series) -> tuple[str, ...]:
    texts = []
    for x, y in zip(series.x, series.y, strict=True):
        at = f"{block.x_label} {quantity(x, block.x_unit)}"
        texts.append(f"{series.name}: {at}, {block.y_label} {quantity(y, block.y_unit)}")
    return tuple(texts)


def _marks(block: Curve | Points | Histogram, series: Series, index: int, crowd: int) -> list[alt.Chart]:
    """The layers of one series, the one to hover over last."""
    import altair as alt

    rows = [{"x": x, "y": y} for x, y in zip(series.x, series.y, strict=True)]
    colour, dash = f"var(--series-{index + 1})", list(DASHES[index])
    chart = alt.Chart(alt.InlineData(values=rows))
    if isinstance(block, Points):
        return [chart.mark_point(filled=True, shape=SHAPES[index], size=22, opacity=0.6, fill=colour)]
    if isinstance(block, Histogram):
        line = chart.mark_line(interpolate="step-after", stroke=colour, strokeWidth=1.5, strokeDash=dash)
        area = chart.mark_area(interpolate="step-after", fill=colour, fillOpacity=0.16)
        return [line] if block.log_y else [area, line]
    layers: list[alt.Chart] = []
    if series.lower is not None and series.upper is not None:
        band = [
            {"x": x, "y": low, "y2": high} for x, low, high in zip(series.x, series.lower, series.upper, strict=True)
        ]
        layers.append(
            alt.Chart(alt.InlineData(values=band))
            .mark_area(fill=colour, fillOpacity=0.14 if crowd < 4 else 0.07)
            .encode(y2="y2:Q")
        )
    layers.append(chart.mark_line(stroke=colour, strokeWidth=2, strokeDash=dash))
    if len(rows) <= MARKED:
        layers.append(chart.mark_point(filled=True, size=26, opacity=1, fill=colour))
    return layers


def _reference_lines(block: Axes, series: Sequence[Series]) -> list[_Line | Ends]:
    """Lines at a value, and for a diagonal the values that both axes share."""
    found: list[_Line | Ends] = []
    for reference in block.references:
        if reference.axis == "diagonal":
            values = [value for one in series for value in (*one.x, *one.y)]
            if values:
                low = min(values)
                found.append((0.0 if 0 <= low < max(values) / 2 and not block.log_x else low, max(values)))
        elif reference.value is not None and _fits(reference, block):
            found.append(_Line(reference.axis, reference.value, shorten(visible(reference.label), 40)))
    return found


def _fits(reference: Reference, block: Axes) -> bool:
    log = block.log_x if reference.axis == "x" else block.log_y
    return reference.value is not None and (reference.value > 0 or not log)


def _rules(lines: Sequence[_Line | Ends], frame: _Frame, series: Sequence[Series]) -> list[alt.Chart]:
    """The layers of reference lines, each with its label beside it."""
    import altair as alt

    layers: list[alt.Chart] = []
    style: dict[str, Any] = {"stroke": "var(--ink)", "strokeWidth": 1, "strokeDash": [3, 3], "opacity": 0.75}
    middle = sum(_ends([value for one in series for value in one.x])) / 2
    for index, line in enumerate(lines):
        if isinstance(line, tuple):
            ends = alt.InlineData(values=[{"x": end, "y": end} for end in line])
            layers.append(alt.Chart(ends).mark_line(**style).encode(x=frame.x(), y=frame.y()))
            continue
        chart = alt.Chart(alt.InlineData(values=[{"v": line.value}]))
        words: dict[str, Any] = {"text": line.label, "fontSize": 11, "fill": "var(--ink)"}
        if line.axis == "x":
            late = line.value > middle
            words |= {"align": "right" if late else "left", "dx": -4 if late else 4, "y": 8 + 14 * index}
            at: dict[str, Any] = {"x": frame.x("v")}
        else:
            words |= {"align": "right", "dy": -5, "x": WIDTH, "baseline": "bottom"}
            at = {"y": frame.y("v")}
        layers += [chart.mark_rule(**style).encode(**at), chart.mark_text(**words).encode(**at)]
    return layers


def _ends(values: Sequence[float]) -> Ends:
    return (min(values), max(values)) if values else (0.0, 0.0)


def _frame(block: Axes, series: Sequence[Series], lines: Sequence[_Line | Ends]) -> _Frame:
    """Both axes, over everything that is drawn."""
    import altair as alt

    marks = {axis: [line.value for line in lines if isinstance(line, _Line) and line.axis == axis] for axis in "xy"}
    xs = [value for one in series for value in one.x] + marks["x"]
    ys = [value for one in series for value in (*one.y, *(one.lower or ()), *(one.upper or ()))] + marks["y"]
    for line in lines:
        if isinstance(line, tuple):
            xs, ys = [*xs, *line], [*ys, *line]
    square = any(isinstance(line, tuple) for line in lines)
    if isinstance(block, Histogram) or (not square and 0 <= min(ys) < max(ys) / 2):
        ys.append(0.0)
    x_title, y_title = (shorten(_axis(*words), 60) for words in _labels(block))
    x_axis = alt.Axis(title=x_title, grid=False, titlePadding=8, labelFlush=False, **_ticks(xs, block.log_x, 6))
    y_axis = alt.Axis(title=y_title, domain=False, ticks=False, **Y_TITLE, **_ticks(ys, block.log_y, 5))
    y_scale = _scale(ys, block.log_y, nice=not block.log_y)
    return _Frame(_scale(xs, block.log_x, nice=False), x_axis, y_scale, y_axis)


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


def _scale(values: Sequence[float], log: bool, *, nice: bool) -> alt.Scale:
    import altair as alt

    if log:
        positive = [value for value in values if value > 0] or [1.0]
        base, low, high = _base(positive), min(positive), max(positive)
        return alt.Scale(type="log", base=base, domain=[low, high if high > low else low * base], nice=nice, clamp=True)
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return alt.Scale(domain=[low, high], nice=nice, zero=False, clamp=True)
