"""The axes of a chart, its reference lines, and their numbers: beside the frame, where nothing else is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from evalspec.evidence.blocks import Axes, Histogram, Reference, Series
from evalspec.evidence.units import LEAST, MINUS, MOST
from evalspec.evidence.visible import visible
from evalspec.report.names import shorten

TOTAL, HEIGHT = 430.0, 190.0
"""Width of every picture, so that type is of one size in all of them; height of what is inside of the axes."""
SQUARE = 250.0
"""Both sides of a frame with a diagonal."""
NARROWEST = 160.0
"""Width that is left to the frame, whatever is next to it."""
FONT = 12
DIGIT = 7.4
"""The most that a character of a number takes in width, in pixels at this size of type."""
LINE = 15.0
"""Room that a line of type takes in height."""
AWAY, ABOVE = 6, 9
"""Between the frame and a number to the right of it, or above it: the highest mark of y reaches above the frame."""
UNDER_TITLE = 19.0
"""Between the frame and the title of y, where no numbers of lines stand between them."""
LONGEST = 46
"""Characters of an axis' title: no longer than the axis."""
FAR = 3.0
"""A line that lies further from all values than so many times their range is told at the edge and not drawn."""
TICKS = 5
"""Of a vertical axis, about."""

CHARACTER = 6.7
"""What a character of a number takes in width, about."""
TICKS_ACROSS = 6
"""Of a horizontal axis, about."""
MOST_POWERS = 9
"""Marks of a logarithmic axis."""
LEAST_COUNT = 0.5
"""Low end of a logarithmic axis of counts."""

Ends = tuple[float, float]
Point = tuple[float, float]
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
    """Range that an axis covers."""

    low: float
    high: float
    log: bool

    def at(self, value: float, size: float) -> float:
        """Where a value lies on an axis of this size, in pixels from its low end, kept within it."""
        low, high, here = (_scaled(one, self.log) for one in (self.low, self.high, value))
        share = (here - low) / (high - low) if 0 < high - low < math.inf else 0.5
        return size * min(1.0, max(0.0, share))


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A mark of an axis: its value, and its text; empty where texts would touch each other."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Frame:
    """Both axes, shared by all that is drawn.

    Args:
        x_span: What the horizontal axis covers.
        y_span: What the vertical one covers.
        x_ticks: Marks of the horizontal axis.
        y_ticks: Marks of the vertical one.
        x_title: What the horizontal axis is called.
        y_title: What the vertical one is called.
        width: Of what is inside of the axes.
        height: Likewise.
        above: Room between the frame and the title of y, which stands above numbers of lines across x.
        beside: Room to the right of the frame, for half the last number of x and the numbers of lines across y.
    """

    x_span: Span
    y_span: Span
    x_ticks: tuple[AxisMark, ...]
    y_ticks: tuple[AxisMark, ...]
    x_title: str
    y_title: str
    width: float
    height: float
    above: float
    beside: float

    def x(self, value: float) -> float:
        """Where a value lies, in pixels from the left end of the frame, kept within it."""
        return self.x_span.at(value, self.width)

    def y(self, value: float) -> float:
        """Where a value lies, in pixels from the upper end of the frame, kept within it."""
        return self.height - self.y_span.at(value, self.height)

    def place(self, x: float, y: float) -> Point:
        """Where values lie, in pixels from the upper left corner of the frame, kept within it."""
        return self.x(x), self.y(y)

    @property
    def left(self) -> float:
        """Room to the left of the frame, for the numbers of y."""
        return _left(self.y_ticks)


def _left(ticks: Sequence[AxisMark]) -> float:
    return 12.0 + AWAY + CHARACTER * max((len(tick.text) for tick in ticks), default=1)


def _scaled(value: float, log: bool) -> float:
    """A value as it lies along an axis."""
    if not log:
        return value
    return math.log(value) if value > 0 else -math.inf


def reference_lines(block: Axes, series: Sequence[Series]) -> list[Line | Ends]:
    """Lines at a value, and for a diagonal the values that both axes share: all of 0 to 1 where these are shares."""
    found: list[Line | Ends] = []
    for number, reference in enumerate(block.references, 1):
        if reference.axis == "diagonal":
            values = _both_axes(series)
            if values:
                low, high = min(values), max(values)
                shares = low >= 0.0 and high <= 1.0 and not block.log_x
                found.append((0.0, 1.0) if shares else (low, high))
        elif reference.value is not None and fits(reference, block) and not beyond(reference, block, series):
            found.append(Line(reference.axis, reference.value, number))
    return found


def _both_axes(series: Sequence[Series]) -> list[float]:
    return [value for one in series for value in (*one.x, *one.y, *(one.lower or ()), *(one.upper or ()))]


def fits(reference: Reference, block: Axes) -> bool:
    """A line can be drawn: a logarithmic axis has no place for zero and less."""
    log = block.log_x if reference.axis == "x" else block.log_y
    return reference.axis == "diagonal" or (reference.value is not None and (reference.value > 0 or not log))


def beyond(reference: Reference, block: Axes, series: Sequence[Series]) -> Literal["", "low", "high"]:
    """End of its axis that a line lies far beyond, so that nothing else would be seen; empty: it does not."""
    if reference.value is None or reference.axis == "diagonal" or not fits(reference, block):
        return ""
    x, log = reference.axis == "x", block.log_x if reference.axis == "x" else block.log_y
    values = [value for one in series for value in (one.x if x else (*one.y, *(one.lower or ()), *(one.upper or ())))]
    if isinstance(block, Histogram) and not x:
        values.append(0.0)
    return far_from(reference.value, values, log=log)


def far_from(value: float, values: Sequence[float], *, log: bool = False) -> Literal["", "low", "high"]:
    """Side of values on which another one lies far beyond them; empty: it does not, or they have no range."""
    scaled = [_scaled(one, log) for one in values if one > 0 or not log]
    here = _scaled(value, log)
    if not scaled or not max(scaled) > min(scaled):
        return ""
    low, high = min(scaled), max(scaled)
    reach = FAR * (high - low)
    return "low" if here < low - reach else "high" if here > high + reach else ""


def is_numbered(block: Axes) -> bool:
    """Its reference lines have numbers: one line alone needs none to be known from the legend."""
    return len(block.references) > 1


def numbers(lines: Sequence[Line | Ends], axis: Axis, span: Span, size: float) -> tuple[Mark, ...]:
    """The numbers of the lines across an axis; those of lines that lie too close for two stand together, as they lie.

    They lie beside the frame, above a line across x and to the right of one across y: no marks and ticks are there.
    """
    room = _width if axis == "x" else _height
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
    return ", ".join(str(number) for _, number in group)


def _width(group: Group) -> float:
    return DIGIT * len(_text(group)) + 4


def _height(group: Group) -> float:
    return LINE


def frame_of(block: Axes, series: Sequence[Series], lines: Sequence[Line | Ends]) -> Frame:
    """Both axes, over everything that is drawn."""
    xs, ys, square = _extent(block, series, lines)
    x_title, y_title = (shorten(axis_words(*words), LONGEST) for words in _labels(block))
    x_span, y_span = _span(xs, block.log_x, nice=False), _span(ys, block.log_y, nice=True)
    y_ticks, all_ticks = _ticks(ys, y_span, TICKS), _ticks(xs, x_span, TICKS_ACROSS)
    height = SQUARE if square else HEIGHT
    beside = _beside(lines, all_ticks, y_span, height, numbered=is_numbered(block))
    width = SQUARE if square else max(NARROWEST, TOTAL - _left(y_ticks) - beside)
    across = any(isinstance(line, Line) and line.axis == "x" for line in lines)
    return Frame(
        x_span, y_span, _apart(all_ticks, x_span, width), y_ticks, x_title, y_title, width, height,
        above=ABOVE + LINE + 6 if across and is_numbered(block) else UNDER_TITLE, beside=beside,
    )  # fmt: skip


def _extent(
    block: Axes, series: Sequence[Series], lines: Sequence[Line | Ends]
) -> tuple[list[float], list[float], bool]:
    """Values along both axes, and whether these are one and the same, so that the frame is a square."""
    marks = {axis: [line.value for line in lines if isinstance(line, Line) and line.axis == axis] for axis in "xy"}
    xs = [value for one in series for value in one.x] + marks["x"]
    ys = [value for one in series for value in (*one.y, *(one.lower or ()), *(one.upper or ()))] + marks["y"]
    ends = [value for line in lines if isinstance(line, tuple) for value in line]
    if ends:
        both = [*xs, *ys, *ends]
        return both, both, not (block.log_x or block.log_y)
    if isinstance(block, Histogram):
        # A cell with one row must differ from an empty one.
        ys.append(LEAST_COUNT if block.log_y else 0.0)
    elif 0 <= min(ys) < max(ys) / 2:
        ys.append(0.0)
    return xs, ys, False


def _beside(
    lines: Sequence[Line | Ends], x_ticks: Sequence[AxisMark], y_span: Span, height: float, *, numbered: bool
) -> float:
    """Room to the right of the frame."""
    halves = [len(tick.text) / 2 for tick in x_ticks]
    across = [AWAY + DIGIT * len(mark.text) for mark in numbers(lines, "y", y_span, height)] if numbered else []
    if numbered:
        halves.append(sum(1.5 for line in lines if isinstance(line, Line) and line.axis == "x"))
    return max([20.0, *across, *(4.0 + DIGIT * half for half in halves)])


def axis_words(label: str, unit: str) -> str:
    """Title of an axis, with its unit."""
    return visible(f"{label} ({unit})" if unit and unit not in ("fraction", "count", "score") else label)


def _labels(block: Axes) -> tuple[tuple[str, str], tuple[str, str]]:
    return (block.x_label, block.x_unit), (block.y_label, block.y_unit)


def _ticks(values: Sequence[float], span: Span, count: int) -> tuple[AxisMark, ...]:
    """Where an axis has its marks: round values, whole powers on a logarithmic axis that spans two of them or more."""
    places = _powers([value for value in values if value > 0]) if span.log else []
    if len(places) < 2:
        step = _step((span.high - span.low) / count)
        first, last = (math.ceil(span.low / step - 1e-9), math.floor(span.high / step + 1e-9)) if step else (0, -1)
        places = [index * (step or 0.0) for index in range(first, last + 1)]
    return tuple(AxisMark(value, _number(value)) for value in places)


def _powers(positive: Sequence[float]) -> list[float]:
    if not positive:
        return []
    base = _base(positive)
    first, last = math.ceil(math.log(min(positive), base) - 1e-9), math.floor(math.log(max(positive), base) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / MOST_POWERS))
    return [float(base) ** power for power in range(first, last + 1, step)]


def _apart(ticks: tuple[AxisMark, ...], span: Span, width: float) -> tuple[AxisMark, ...]:
    """Marks along a horizontal axis, without the texts of every second one, or more, where they would touch."""
    for every in range(1, len(ticks) + 1):
        kept = ticks[::every]
        far = (span.at(b.value, width) - span.at(a.value, width) for a, b in pairwise(kept))
        rooms = (DIGIT * (len(a.text) + len(b.text)) / 2 + 4 for a, b in pairwise(kept))
        if all(distance >= room for distance, room in zip(far, rooms, strict=True)):
            return tuple(one if index % every == 0 else AxisMark(one.value, "") for index, one in enumerate(ticks))
    return ticks


def _number(value: float) -> str:
    """Up to six digits that are not zero."""
    if value == 0 or not LEAST / 1e6 <= abs(value) < 1e3 * MOST:
        return f"{value:.3g}".replace("-", MINUS)
    places = max(0, 5 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)


def _base(positive: Sequence[float]) -> int:
    return 2 if all(math.log2(value).is_integer() for value in positive) else 10


def _span(values: Sequence[float], log: bool, *, nice: bool) -> Span:
    """Range of an axis: all values, on a linear one to the next mark where it may be ``nice``."""
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
