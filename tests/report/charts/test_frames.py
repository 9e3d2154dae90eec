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
from evalspec.report.charts.frames import (
    AWAY,
    DIGIT,
    FONT,
    HEIGHT,
    NARROWEST,
    TOTAL,
    Axis,
    Line,
    Span,
    numbers,
)
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


PLACE = Box("a place in the frame", 0.0, 0.0, NARROWEST, HEIGHT)


def frame(svg: str) -> Box:
    """What is inside of the axes: as wide and as high as the lines across it."""
    lines = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}line") if one.get("stroke") == "var(--rule)"]
    across = next(one for one in lines if one.get("y1") == one.get("y2"))
    return Box("the frame", 0.0, 0.0, float(across.get("x2", "")) - 0.5, float(across.get("y1", "")) - 0.5)


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
    touching = [
        (one.text, other.text) for one, other in combinations([*found, frame(view.svg)], 2) if one.touches(other)
    ]
    assert touching == []


@pytest.mark.parametrize("name", CROWDED)
def test_every_line_has_its_number_in_the_legend_and_beside_it(name: str) -> None:
    view = block_view(CROWDED[name])  # type: ignore[arg-type]
    assert isinstance(view, ChartView)
    listed = [key.number for key in view.references]
    assert listed == [str(number) for number in range(1, len(listed) + 1)]
    beside = [
        box for box in boxes(view.svg) if box.top > -40 and (box.left > frame(view.svg).right or -20 < box.bottom < 0)
    ]
    drawn = sorted(number for box in beside if re.fullmatch(r"[\d, ]+", box.text) for number in box.text.split(", "))
    assert drawn == sorted(listed)


def test_the_boxes_of_the_tests_would_find_a_fault() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg"><g transform="translate(9,9)">'
        '<text font-size="12px" transform="translate(20,20)">one</text>'
        '<text font-size="12px" text-anchor="end" transform="translate(40,24)">two</text></g></svg>'
    )
    one, two = boxes(svg)
    assert one.touches(two) and one.touches(PLACE)


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
    size = TOTAL if axis == "x" else HEIGHT
    found = numbers(lines, axis, Span(0.001, 100.0, log), size)
    said = [int(number) for mark in found for number in mark.text.split(", ")]
    assert sorted(said) == list(range(1, len(values) + 1))
    assert all(0.0 <= mark.at <= size for mark in found)
    for one, after in pairwise(found):
        room = (len(one.text) + len(after.text)) / 2 * DIGIT if axis == "x" else FONT * (ASCENT + DESCENT)
        assert after.at - one.at > room


def test_a_number_stands_where_its_line_is() -> None:
    (low, high) = numbers([Line("y", 1.0, 1), Line("y", 10.0, 2)], "y", Span(0.1, 10.0, log=True), HEIGHT)
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
        found = [*boxes(view.svg), frame(view.svg)]
        assert [(a.text, b.text) for a, b in combinations(found, 2) if a.touches(b)] == [], view.title


def reliability(*points: tuple[float, float]) -> Curve:
    series = Series(name="uncalibrated", x=tuple(x for x, _ in points), y=tuple(y for _, y in points))
    diagonal = Reference(label="calibrated", axis="diagonal")
    return Curve(
        title="Reliability", x_label="confidence", y_label="accuracy", series=(series,), references=(diagonal,)
    )


@pytest.mark.parametrize("points", [((0.964, 0.97), (0.97, 0.98), (0.982, 0.96)), ((0.1, 0.2), (0.5, 0.4), (0.9, 1.0))])
def test_a_diagonal_of_shares_has_a_square_frame_from_0_to_1(points: tuple[tuple[float, float], ...]) -> None:
    view = block_view(reliability(*points))
    assert isinstance(view, ChartView)
    inside = frame(view.svg)
    assert inside.right == inside.bottom
    assert f'd="M0,{inside.bottom:g}L{inside.right:g},0"' in view.svg
    texts = [box.text for box in boxes(view.svg)]
    assert texts.count("0") == 2 and texts.count("1") == 2


@pytest.mark.parametrize(("count", "lines"), [(1, 1), (2, 1), (3, 2)])
def test_few_points_beside_a_diagonal_are_no_line(count: int, lines: int) -> None:
    view = block_view(reliability(*((0.2 * index, 0.2 * index) for index in range(1, count + 1))))
    assert isinstance(view, ChartView)
    assert (view.svg.count("<path"), view.svg.count("<circle")) == (lines, count)


@pytest.mark.parametrize(
    ("value", "axis", "log", "edge"),
    [(60.0, "y", False, "upper"), (-60.0, "y", False, "lower"), (500.0, "x", False, "right"), (40.0, "y", False, ""),
     (60.0, "y", True, ""), (1e7, "y", True, "upper")],
)  # fmt: skip
def test_a_line_far_off_is_an_arrow_at_the_edge(value: float, axis: Axis, log: bool, edge: str) -> None:
    view = block_view(curve(Reference(label="limit", value=value, axis=axis), log=log))
    assert isinstance(view, ChartView)
    drawn = view.svg.count('stroke-dasharray="3,3"')
    assert drawn == (0 if edge else 1)
    assert f"far beyond the {edge} edge" in view.references[0].name if edge else view.references[0].name == "limit"
    assert ('fill="var(--ink)"' in view.svg.replace("<text", "")) == bool(edge)


def test_lines_that_follow_each_other_have_one_colour() -> None:
    turns = tuple(Series(name=f"process {i}", x=(float(i), i + 0.9), y=(1.0, 2.0)) for i in range(1, 6))
    view = block_view(curve().model_copy(update={"series": turns}))
    assert isinstance(view, ChartView)
    assert [key.name for key in view.keys] == ["process 1 to process 5, one after the other"]
    assert "--series-2" not in view.svg
    crossing = (*turns[:4], turns[4].model_copy(update={"x": (1.5, 2.0)}))
    other = block_view(curve().model_copy(update={"series": crossing}))
    assert isinstance(other, ChartView)
    assert len(other.keys) == 5 and "--series-5" in other.svg


def test_one_row_of_a_logarithmic_histogram_is_seen() -> None:
    block = Histogram(
        title="Confidences", x_label="confidence", y_label="rows", log_y=True, edges=(0.0, 0.5, 1.0),
        counts={"right": (10, 1_000), "wrong": (0, 1)},
    )  # fmt: skip
    view = block_view(block)
    assert isinstance(view, ChartView)
    texts = [box.text for box in boxes(view.svg)]
    assert {"1", "10", "100", "1,000"} <= set(texts)
    inside = frame(view.svg)
    heights = {float(y) for y in re.findall(r"L[\d.]+,([\d.]+)", view.svg)}
    assert any(inside.bottom / 2 < height < inside.bottom - 5 for height in heights)
