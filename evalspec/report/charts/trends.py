"""Geometry of a trend: one slot a run, horizontal places in percent of the width, vertical ones in pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from evalspec.evidence.units import format_number
from evalspec.evidence.written import shown_unit
from evalspec.lineage.history import HistoryPlace, Point, Trend
from evalspec.report.charts.strips import CHARACTER, StripScale
from evalspec.report.names import quantity
from evalspec.report.requirements import interval_words
from evalspec.report.trend_lines import needs, value_words
from evalspec.report.words import Badge, badge

TOP, PLOT, LANE = 16.0, 120.0, 22.0
"""Pixels: room for the signs of breaks, for the values, and for what has no value."""
NUMBERED = 10
"""Runs whose numbers fit below a narrow chart."""
REACH = 6.0
"""A threshold further from the values than so many times their range is told and not drawn: nothing would be seen."""
LEAST = 0.02
"""The range of values that hardly differ, as a share of their size."""


@dataclass(frozen=True, slots=True)
class TrendMark:
    """A requirement in one run. ``y`` is the middle of its mark; ``low`` and ``high`` are the ends of its interval."""

    x: float
    y: float
    badge: Badge
    title: str
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False


@dataclass(frozen=True, slots=True)
class TrendLine:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Zone:
    """Where the requirement held."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class AxisText:
    """A text of an axis; a ``spare`` one is left out where there is little room."""

    at: float
    text: str
    spare: bool = False


@dataclass(frozen=True, slots=True)
class TrendChart:
    """A drawn trend.

    ``breaks`` are where vertical lines stand, before a value that is not comparable with the last; ``outside`` are
    thresholds that have no place on its scale.
    """

    title: str
    height: float
    plot_end: float
    axis_width: float
    ticks: tuple[AxisText, ...]
    numbers: tuple[AxisText, ...]
    zones: tuple[Zone, ...]
    limits: tuple[TrendLine, ...]
    lines: tuple[TrendLine, ...]
    breaks: tuple[float, ...]
    marks: tuple[TrendMark, ...]
    outside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Turns runs and values into places."""

    runs: int
    scale: StripScale | None

    def x(self, index: int) -> float:
        return round(100 * (index + 0.5) / self.runs, 3)

    def edge(self, index: int) -> float:
        return round(100 * index / self.runs, 3)

    def holds(self, value: float) -> bool:
        return self.scale is not None and self.scale.low <= value <= self.scale.high

    def y(self, value: float) -> float:
        share = 50.0 if self.scale is None else self.scale.at(value)
        return round(TOP + PLOT * (1 - share / 100), 2)


def trend_chart(trend: Trend) -> TrendChart:
    """Draw a trend. Values in another unit than the newest have no place on its scale and stand with those without."""
    unit = shown_unit(trend.last.unit, trend.last.written_unit)
    places = tuple(_place_in(place, trend.last.unit, unit) for place in trend.places)
    drawn = [place.point if _fits(place.point, unit) else None for place in places]
    asked = [place.point if place.point is not None and place.point.unit == unit else None for place in places]
    values = [value for value in _values(drawn) if value is not None]
    near = [point.threshold for point in asked if point is not None and _is_near(point.threshold, values)]
    scale = StripScale.over((*values, *near), pad=0.08)
    frame = _Frame(len(places), scale)
    # A count that was never below zero has no place there, whatever room the scale leaves.
    least = min((*values, *near), default=0.0)
    shown = [tick for tick in (scale.ticks(4) if scale else ()) if tick >= min(0.0, least)]
    # The unit stands once, at the top.
    texts = [quantity(tick, unit) if tick == max(shown) else format_number(tick, unit) for tick in shown]
    ticks = tuple(AxisText(frame.y(tick), text) for tick, text in zip(shown, texts, strict=True))
    return TrendChart(
        title=_title(trend),
        height=TOP + PLOT + LANE,
        plot_end=TOP + PLOT,
        axis_width=round(max((len(tick.text) for tick in ticks), default=1) * CHARACTER + 8, 1),
        ticks=ticks,
        numbers=_numbers(len(places)),
        zones=tuple(_zones(asked, frame)),
        limits=tuple(_limits(asked, frame)),
        lines=tuple(_lines(drawn, places, frame)),
        breaks=tuple(frame.edge(index) for index, place in enumerate(places) if place.breaks),
        marks=tuple(_marks(drawn, places, frame)),
        outside=tuple(_outside(asked, frame)),
    )


def _place_in(place: HistoryPlace, unit: str, to: str) -> HistoryPlace:
    """The place with its numbers in another unit; those that are not in the first one stay."""
    fits = place.point is not None and place.point.unit == unit
    return replace(place, point=place.point.converted(to)) if place.point is not None and fits else place


def _fits(point: Point | None, unit: str) -> bool:
    return point is not None and point.sound and point.unit == unit


def _values(drawn: Iterable[Point | None]) -> Iterator[float | None]:
    for point in drawn:
        if point is not None:
            yield from (point.value, point.lower, point.upper)


def _is_near(threshold: float, values: Sequence[float]) -> bool:
    if not values:
        return True
    low, high = min(values), max(values)
    reach = REACH * max(high - low, LEAST * max(abs(low), abs(high)))
    return low - reach <= threshold <= high + reach


def _outside(asked: Sequence[Point | None], frame: _Frame) -> Iterator[str]:
    for first, end, point in _spans(asked):
        if not frame.holds(point.threshold):
            runs = f"Run {first + 1}" if end == first + 1 else f"Runs {first + 1} to {end}"
            yield f"{runs}: the threshold ({needs(point)}) is too far from the values to be drawn."


def _numbers(runs: int) -> tuple[AxisText, ...]:
    every = -(-runs // NUMBERED)
    return tuple(
        AxisText(round(100 * (index + 0.5) / runs, 3), str(index + 1), spare=(runs - 1 - index) % every != 0)
        for index in range(runs)
    )


def _spans(asked: Sequence[Point | None]) -> Iterator[tuple[int, int, Point]]:
    """Runs one after the other that asked the same: the first, the one after the last, and what they asked."""
    for _, group in groupby(
        enumerate(asked), key=lambda item: None if item[1] is None else (item[1].op, item[1].threshold)
    ):
        items = list(group)
        point = items[0][1]
        if point is not None:
            yield items[0][0], items[-1][0] + 1, point


def _zones(asked: Sequence[Point | None], frame: _Frame) -> Iterator[Zone]:
    for first, end, point in _spans(asked):
        x, width, y = frame.edge(first), round(frame.edge(end) - frame.edge(first), 3), frame.y(point.threshold)
        if point.op[0] == "<":
            yield Zone(x, y, width, round(TOP + PLOT - y, 2))
        elif point.op[0] == ">":
            yield Zone(x, TOP, width, round(y - TOP, 2))


def _limits(asked: Sequence[Point | None], frame: _Frame) -> Iterator[TrendLine]:
    """The threshold of each run, joined by a step where it moved from one run to the next."""
    before: tuple[int, float] | None = None
    for first, end, point in _spans(asked):
        if not frame.holds(point.threshold):
            before = None
            continue
        y = frame.y(point.threshold)
        if before is not None and before[0] == first and before[1] != y:
            yield TrendLine(frame.edge(first), before[1], frame.edge(first), y)
        yield TrendLine(frame.edge(first), y, frame.edge(end), y)
        before = end, y


def _lines(drawn: Sequence[Point | None], places: Sequence[HistoryPlace], frame: _Frame) -> Iterator[TrendLine]:
    """From each value to the next, unless they can't be compared or a run between them has none."""
    for index in range(1, len(drawn)):
        one, other = drawn[index - 1], drawn[index]
        if one is not None and other is not None and not places[index].breaks:
            assert one.value is not None and other.value is not None
            yield TrendLine(frame.x(index - 1), frame.y(one.value), frame.x(index), frame.y(other.value))


def _marks(drawn: Sequence[Point | None], places: Sequence[HistoryPlace], frame: _Frame) -> Iterator[TrendMark]:
    for index, (point, place) in enumerate(zip(drawn, places, strict=True)):
        if place.point is None:
            continue
        shown = badge(place.point.status, "waived" if place.point.waived else "", blocking=place.point.blocking)
        title = _mark_title(index, place.point, shown)
        if point is None or point.value is None:
            yield TrendMark(frame.x(index), TOP + PLOT + LANE / 2, shown, title)
            continue
        ends = [end for end in (point.lower, point.value, point.upper) if end is not None]
        yield TrendMark(
            x=frame.x(index),
            y=frame.y(point.value),
            badge=shown,
            title=title,
            low=frame.y(min(ends)) if len(ends) > 1 else None,
            high=frame.y(max(ends)) if len(ends) > 1 else None,
            open_low=point.lower is None,
            open_high=point.upper is None,
        )


def _mark_title(index: int, point: Point, shown: Badge) -> str:
    shown_point = point.as_written
    interval = interval_words(shown_point.lower, shown_point.upper, shown_point.unit) if point.sound else ""
    said = ", ".join(part for part in (value_words(point), interval, needs(point)) if part)
    return f"Run {index + 1}: {shown}; {said}"


def _title(trend: Trend) -> str:
    """Description of the chart, for those who don't see it."""
    values = [place.point for place in trend.places if place.point is not None and place.point.sound]
    gaps = sum(place.point is not None and not place.point.sound for place in trend.places)
    breaks = sum(bool(place.breaks) for place in trend.places)
    parts = [f"{trend.name} over {len(trend.places)} runs"]
    if values and values[0].value is not None and values[-1].value is not None:
        first, last = values[0], values[-1]
        parts.append(f"{len(values)} values, from {value_words(first)} to {value_words(last)}")
    parts += [f"{gaps} without a value"] if gaps else []
    parts += [f"{breaks} not comparable with the one before"] if breaks else []
    return "; ".join((*parts, f"last {trend.last.status.replace('_', ' ')}, {needs(trend.last)}"))
