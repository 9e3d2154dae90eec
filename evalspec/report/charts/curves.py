"""Curves, points and histograms, drawn by altair and vl-convert, then cut down to plain SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.evidence.blocks import Axes, Curve, Histogram, Points, Series
from evalspec.report.charts.frames import (
    AXIS,
    HEIGHT,
    WIDTH,
    axis_words,
    fits,
    frame_of,
    is_numbered,
    reference_lines,
    rules,
)
from evalspec.report.charts.svg import clean_svg
from evalspec.report.names import quantity

if TYPE_CHECKING:
    import altair as alt

MAX_SERIES = 6
MAX_LINE = 400
MAX_POINTS = 240
MARKED = 30
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
FONT = "Liberation Sans"
"""Comes with vl-convert. What a machine has beside it would give labels, and so the picture, another width."""
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
    """A drawn chart with its legend. ``svg`` holds only what `clean_svg` lets through."""

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
        series = [_thin(one, cap) for one in every]
        thinned = _thinned(len(block.series), sum(len(one.x) for one in series), sum(len(one.x) for one in every))
    title = _words(block, series)
    dots = isinstance(block, Points)
    keys = tuple(Key(index + 1, one.name, dots or len(one.x) == 1) for index, one in enumerate(series))
    references = _line_keys(block)
    svg = _draw(block, series, title) if any(one.x for one in series) else ""
    return ChartView(
        block.title,
        block.caption,
        svg,
        keys if len(keys) > 1 or references else (),
        references,
        thinned,
    )


def _line_keys(block: Axes) -> tuple[LineKey, ...]:
    """What the legend says of reference lines; one that can't be drawn is said to be missing."""
    found = []
    for number, reference in enumerate(block.references, 1):
        drawn = fits(reference, block)
        name = reference.label if drawn else f"{reference.label} (not in the picture)"
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
    import altair as alt
    import vl_convert

    lines = reference_lines(block, series)
    frame = frame_of(block, series, lines)
    layers: list[alt.Chart] = []
    tips: dict[str, tuple[str, ...]] = {}
    # By name: altair copies and checks what stands in a layer several times over, point by point.
    rows: dict[str, list[dict[str, float]]] = {}
    for index, one in enumerate(series):
        rows |= _rows(one, index)
        for layer in _marks(block, one, index, len(series)):
            layers.append(layer.encode(x=frame.x(), y=frame.y()))
        if isinstance(layers[-1].mark, alt.MarkDef) and layers[-1].mark.type == "point" and len(one.x) <= MARKED:
            tips[f"layer_{len(layers) - 1}_marks"] = _tips(block, one)
    layers.extend(rules(lines, frame, numbered=is_numbered(block)))
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, background="transparent")
    chart = chart.properties(padding={"left": 12, "right": 20, "top": 6, "bottom": 8})
    chart = chart.configure(aria=False, font=FONT).configure_view(stroke=None).configure_axis(**AXIS)
    drawn = chart.to_dict()
    drawn["datasets"] = {**drawn.get("datasets", {}), **rows}
    return clean_svg(vl_convert.vegalite_to_svg(drawn), title=title, tips=tips)


def _rows(series: Series, index: int) -> dict[str, list[dict[str, float]]]:
    """The points of a series by the names that `_marks` has for them."""
    found = {f"series_{index}": [{"x": x, "y": y} for x, y in zip(series.x, series.y, strict=True)]}
    if series.lower is not None and series.upper is not None:
        band = zip(series.x, series.lower, series.upper, strict=True)
        found[f"band_{index}"] = [{"x": x, "y": low, "y2": high} for x, low, high in band]
    return found


def _tips(block: Axes, series: Series) -> tuple[str, ...]:
    texts = []
    for x, y in zip(series.x, series.y, strict=True):
        at = f"{block.x_label} {quantity(x, block.x_unit)}"
        texts.append(f"{series.name}: {at}, {block.y_label} {quantity(y, block.y_unit)}")
    return tuple(texts)


def _marks(block: Curve | Points | Histogram, series: Series, index: int, crowd: int) -> list[alt.Chart]:
    """The layers of one series, the one to hover over last."""
    import altair as alt

    colour, dash = f"var(--series-{index + 1})", list(DASHES[index])
    chart = alt.Chart(alt.NamedData(f"series_{index}"))
    if isinstance(block, Points):
        return [chart.mark_point(filled=True, shape=SHAPES[index], size=22, opacity=0.6, fill=colour)]
    if isinstance(block, Histogram):
        line = chart.mark_line(interpolate="step-after", stroke=colour, strokeWidth=1.5, strokeDash=dash)
        area = chart.mark_area(interpolate="step-after", fill=colour, fillOpacity=0.16)
        return [line] if block.log_y else [area, line]
    layers: list[alt.Chart] = []
    if series.lower is not None and series.upper is not None:
        layers.append(
            alt.Chart(alt.NamedData(f"band_{index}"))
            .mark_area(fill=colour, fillOpacity=0.14 if crowd < 4 else 0.07)
            .encode(y2="y2:Q")
        )
    layers.append(chart.mark_line(stroke=colour, strokeWidth=2, strokeDash=dash))
    if len(series.x) <= MARKED:
        size = 26 if len(series.x) > 1 else 60
        shape = "circle" if len(series.x) > 1 else SHAPES[index]
        layers.append(chart.mark_point(filled=True, size=size, shape=shape, opacity=1, fill=colour))
    return layers
