"""Where the numbers of reference lines lie: beside the frame, never on marks, ticks or each other."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.evidence.blocks import Curve, Histogram, Reference, Series
from evalspec.report.charts.blocks import block_view
from evalspec.report.charts.curves import ChartView
from evalspec.report.charts.frames import AWAY, DIGIT, FONT, HEIGHT, WIDTH, Axis, Line, Span, numbers
from tests.report import blocks

SVG = "{http://www.w3.org/2000/svg}"
MOVE = re.compile(r"translate\((-?[\d.]+),\s*(-?[\d.]+)\)")
ASCENT, DESCENT = 0.93, 0.24
"""Of the type, in parts of its size: a little more than those of the fonts that the page asks for."""


@dataclass(frozen=True)
class Box:
    """A text on a chart, in pixels from the upper left corner of the frame."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def touches(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


FRAME = Box("the frame", 0.0, 0.0, float(WIDTH), float(HEIGHT))


def boxes(svg: str) -> list[Box]:
    """Every text of a chart; those of the axes and titles included."""
    return list(_boxes(ElementTree.fromstring(svg), (0.0, 0.0), None))


def _boxes(element: ElementTree.Element, at: tuple[float, float], frame: tuple[float, float] | None) -> Iterator[Box]:
    x, y = at
    if found := MOVE.match(element.get("transform", "")):
        x, y = x + float(found[1]), y + float(found[2])
        # The first thing that is moved holds the frame.
        frame = (x, y) if frame is None else frame
    if element.tag == f"{SVG}text":
        assert frame is not None
        text, size = "".join(element.itertext()), float(element.get("font-size", "").removesuffix("px"))
        width = DIGIT / FONT * size * len(text)
        left = x - width * {"middle": 0.5, "end": 1.0}.get(element.get("text-anchor", "start"), 0.0)
        top = y - ASCENT * size
        yield Box(text, left - frame[0], top - frame[1], left + width - frame[0], y + DESCENT * size - frame[1])
    for child in element:
        yield from _boxes(child, (x, y), frame)


def curve(*references: Reference, log: bool = False) -> Curve:
    series = Series(name="median", x=(0.5, 12.0, 30.0), y=(0.2, 3.0, 12.0))
    return Curve(
        title="Latency over time", x_label="due time", y_label="latency", x_unit="s", y_unit="ms", log_y=log,
        series=(series,), references=references,
    )  # fmt: skip


def across(axis: Axis, *values: float) -> tuple[Reference, ...]:
    return tuple(Reference(label=f"latency_p99 <= {value:g} ms", value=value, axis=axis) for value in values)


CROWDED = {
    "two close lines": curve(*across("y", 8.0, 10.0), log=True),
    "two lines at one place": curve(*across("y", 10.0, 10.0)),
    "a line at the top": curve(*across("y", 12.0, 1.0)),
    "a line at the bottom": curve(*across("y", 0.0, 1.0)),
    "nine lines": curve(*across("y", *(1.0 + 0.4 * step for step in range(9)))),
    "both ways": curve(*across("y", 2.0, 2.2, 12.0), *across("x", 0.5, 1.0, 29.0, 30.0)),
    "at the left, under the title": curve(*across("x", 0.5, 0.6)),
    "a histogram": Histogram(
        title="Latency", x_label="latency", x_unit="ms", y_label="queries", edges=(1.0, 2.0, 4.0), counts={"a": (5, 9)},
        references=across("x", 1.0, 1.1, 4.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CROWDED)
def test_no_text_touches_another_or_the_marks(name: str) -> None:
    view = block_view(CROWDED[name])  # type: ignore[arg-type]
    assert isinstance(view, ChartView)
    found = boxes(view.svg)
    assert len(found) > 4
    touching = [(one.text, other.text) for one, other in combinations([*found, FRAME], 2) if one.touches(other)]
    assert touching == []


@pytest.mark.parametrize("name", CROWDED)
def test_every_line_has_its_number_in_the_legend_and_beside_it(name: str) -> None:
    view = block_view(CROWDED[name])  # type: ignore[arg-type]
    assert isinstance(view, ChartView)
    listed = [key.number for key in view.references]
    assert listed == [str(number) for number in range(1, len(listed) + 1)]
    beside = [box for box in boxes(view.svg) if box.top > -40 and (box.left > WIDTH or -20 < box.bottom < 0)]
    drawn = sorted(number for box in beside if re.fullmatch(r"[\d, ]+", box.text) for number in box.text.split(", "))
    assert drawn == sorted(listed)


def test_the_boxes_of_the_tests_would_find_a_fault() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg"><g transform="translate(9,9)">'
        '<text font-size="12px" transform="translate(20,20)">one</text>'
        '<text font-size="12px" text-anchor="end" transform="translate(40,24)">two</text></g></svg>'
    )
    one, two = boxes(svg)
    assert one.touches(two) and one.touches(FRAME)


def test_one_line_needs_no_number() -> None:
    view = block_view(curve(*across("y", 8.0)))
    assert isinstance(view, ChartView)
    assert [(key.name, key.number) for key in view.references] == [("latency_p99 <= 8 ms", "")]
    assert all(box.text != "1" for box in boxes(view.svg))
    assert view.svg.count('stroke-dasharray="3,3"') == 1


def test_a_line_that_can_not_be_drawn_is_said_to_be_missing() -> None:
    view = block_view(curve(*across("y", 0.0, 8.0), log=True))
    assert isinstance(view, ChartView)
    assert [(key.name, key.number) for key in view.references] == [
        ("latency_p99 <= 0 ms (not in the picture)", ""),
        ("latency_p99 <= 8 ms", "2"),
    ]
    assert view.svg.count('stroke-dasharray="3,3"') == 1


@given(
    st.lists(st.floats(0.001, 100.0), min_size=1, max_size=12),
    st.sampled_from(["x", "y"]),
    st.booleans(),
)
def test_numbers_keep_their_distance(values: list[float], axis: Axis, log: bool) -> None:
    lines = [Line(axis, value, number) for number, value in enumerate(values, 1)]
    found = numbers(lines, axis, Span(0.001, 100.0, log))
    size = WIDTH if axis == "x" else HEIGHT
    said = [int(number) for mark in found for number in mark.text.split(", ")]
    assert sorted(said) == list(range(1, len(values) + 1))
    assert all(0.0 <= mark.at <= size for mark in found)
    for one, after in pairwise(found):
        room = (len(one.text) + len(after.text)) / 2 * DIGIT if axis == "x" else FONT * (ASCENT + DESCENT)
        assert after.at - one.at > room


def test_a_number_stands_where_its_line_is() -> None:
    (low, high) = numbers([Line("y", 1.0, 1), Line("y", 10.0, 2)], "y", Span(0.1, 10.0, log=True))
    assert (low.text, low.at) == ("1", pytest.approx(HEIGHT / 2))
    assert (high.text, high.at) == ("2", HEIGHT)
    assert AWAY > 3.0, "the mark of a last point reaches three pixels beyond the frame"


def test_a_vertical_axis_ends_at_a_mark() -> None:
    view = block_view(curve(*across("y", 11.0)))
    assert isinstance(view, ChartView)
    assert "15" in [box.text for box in boxes(view.svg)]


def test_a_series_of_one_point_is_a_dot_in_the_legend() -> None:
    lonely = Series(name="candidate", x=(3.0,), y=(2.0,))
    view = block_view(curve().model_copy(update={"series": (*curve().series, lonely)}))
    assert isinstance(view, ChartView)
    assert [(key.name, key.dot) for key in view.keys] == [("median", False), ("candidate", True)]


def test_every_chart_of_the_example_is_free_of_touching_texts() -> None:
    drawn = [
        view
        for made in (*blocks.latency_blocks(), *blocks.load_blocks(), *blocks.calibration_blocks())
        if isinstance(view := block_view(made), ChartView)
    ]
    assert len(drawn) > 4
    for view in drawn:
        found = [*boxes(view.svg), FRAME]
        assert [(a.text, b.text) for a, b in combinations(found, 2) if a.touches(b)] == [], view.title
