from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from evalspec.evidence.blocks import Axes, Curve, Histogram, Points, Reference, Series
from evalspec.report.charts.blocks import block_view
from evalspec.report.charts.curves import MAX_LINE, MAX_SERIES, ChartView
from evalspec.report.charts.svg import ATTRIBUTES, SHAPES
from tests.report import blocks, hostile

SVG = "{http://www.w3.org/2000/svg}"


def drawn(block: Axes) -> tuple[ChartView, ElementTree.Element]:
    view = block_view(block)  # type: ignore[arg-type]
    assert isinstance(view, ChartView)
    return view, ElementTree.fromstring(view.svg)


def curve(*series: Series, **fields: object) -> Curve:
    return Curve(title="Chart", x_label="x", y_label="y", series=series, **fields)  # type: ignore[arg-type]


def line(points: int, name: str = "a") -> Series:
    return Series(name=name, x=tuple(map(float, range(points))), y=tuple(float(point % 7) for point in range(points)))


@pytest.mark.parametrize(
    "block", [block for block in (*blocks.latency_blocks(), *blocks.shift_blocks()) if isinstance(block, Axes)]
)
def test_a_chart_is_one_titled_picture_of_shapes(block: Axes) -> None:
    view, root = drawn(block)
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert str(root[0].text).startswith(block.title)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= SHAPES | {"title"}
    names = {name for element in root.iter() for name in element.attrib}
    assert names <= ATTRIBUTES | {"class", "role"}
    # Every colour is the page's, so that it follows light and dark.
    colours = {element.get(name) for element in root.iter() for name in ("fill", "stroke")} - {None, "none"}
    assert all(re.fullmatch(r"var\(--[a-z0-9-]+\)", str(colour)) for colour in colours)
    assert len(view.svg) < 60_000


def test_title_tells_what_is_seen() -> None:
    view, root = drawn(blocks.calibration_blocks()[0])  # type: ignore[arg-type]
    title = str(root[0].text)
    assert "Reliability: line chart of Accuracy against Confidence" in title
    assert "as it is: 10 points, Confidence 0.52 to 0.999" in title
    assert "reference line perfectly calibrated" in title
    assert [key.name for key in view.keys] == ["as it is", "after temperature 1.31"]
    assert "as it is: Confidence 0.52, Accuracy" in " ".join(str(tip.text) for tip in root.iter(f"{SVG}title"))


def test_too_many_points_and_series_are_thinned_and_said() -> None:
    view, _ = drawn(curve(line(5_000), *(line(5, f"s{index}") for index in range(9))))
    assert f"{MAX_SERIES} of 10 series are drawn" in view.thinned
    assert f"{MAX_LINE + 25:,} of 5,025 points are drawn" in view.thinned
    assert len(view.svg) < 60_000


def test_many_points_stay_small() -> None:
    cloud = Series(name="a", x=tuple(map(float, range(20_000))), y=(1.0,) * 20_000)
    view, _ = drawn(Points(title="Cloud", x_label="x", y_label="y", series=(cloud, cloud)))
    assert "240 of 40,000 points are drawn" in view.thinned
    assert len(view.svg) < 60_000


@pytest.mark.parametrize(
    "block",
    [
        curve(Series(name="one", x=(1.0,), y=(1.0,))),
        curve(Series(name="flat", x=(1.0, 2.0), y=(3.0, 3.0))),
        curve(Series(name="zero", x=(0.0, 1.0), y=(0.0, 1.0)), log_x=True, log_y=True),
        curve(Series(name="huge", x=(0.0, 1e300), y=(-1e300, 1e300))),
        curve(Series(name="negative", x=(-2.0, -1.0), y=(-5.0, -1.0)), references=(Reference(label="r", value=-3.0),)),
        Histogram(title="h", x_label="x", y_label="n", edges=(0.0, 1.0), counts={"a": (0,)}),
        Histogram(title="h", x_label="x", y_label="n", edges=(1.0, 2.0, 3.0), counts={"a": (5, 1)}, log_y=True),
    ],
)
def test_strange_series_are_drawn(block: Axes) -> None:
    view, root = drawn(block)
    assert "NaN" not in view.svg
    assert list(root.iter(f"{SVG}path")) != []


@pytest.mark.parametrize(
    "block",
    [
        curve(),
        curve(Series(name="none", x=(), y=())),
        curve(Series(name="negative", x=(-1.0,), y=(1.0,)), log_x=True),
        Histogram(title="h", x_label="x", y_label="n", edges=(), counts={}),
    ],
)
def test_nothing_to_draw_draws_nothing(block: Axes) -> None:
    view = block_view(block)  # type: ignore[arg-type]
    assert isinstance(view, ChartView)
    assert view.svg == ""


@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_hostile_labels_stay_text(attack: str) -> None:
    block = Curve(
        title=attack,
        x_label=attack,
        y_label=attack,
        series=(Series(name=attack, x=(1.0, 2.0), y=(1.0, 2.0)),),
        references=(Reference(label=attack, value=1.5), Reference(label=attack, value=1.5, axis="x")),
    )
    _, root = drawn(block)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= SHAPES | {"title"}
    assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)


def test_a_series_of_many_lines_is_drawn_line_by_line() -> None:
    one, lines = line(60), 12
    many = Series(
        name="reached: 12 runs", x=one.x * lines, y=one.y * lines, breaks=tuple(60 * n for n in range(1, lines))
    )
    view, root = drawn(curve(many, line(5, "other")))
    paths = [element.get("d", "") for element in root.iter(f"{SVG}path") if element.get("stroke-width") == "1.2"]
    assert len(paths) == lines
    assert len(set(paths)) == 1
    assert [key.name for key in view.keys] == ["reached: 12 runs", "other"]
    assert view.thinned == ""
    thick = Series(
        name="a", x=line(900).x * lines, y=line(900).y * lines, breaks=tuple(900 * n for n in range(1, lines))
    )
    view, root = drawn(curve(thick))
    assert view.thinned == f"{4 * MAX_LINE // lines * lines:,} of {900 * lines:,} points are drawn"
    paths = [element.get("d", "") for element in root.iter(f"{SVG}path") if element.get("stroke-width") == "1.2"]
    assert len(set(paths)) == 1


@pytest.mark.parametrize("breaks", [(0,), (3, 3), (99,), (1, 2, 3, 4, 5, 6)])
def test_lines_may_be_of_any_length(breaks: tuple[int, ...]) -> None:
    drawn(curve(Series(name="a", x=line(7).x, y=line(7).y, breaks=breaks)))
    assert drawn(curve(Series(name="a", x=(0.0, *line(7).x), y=(0.0, *line(7).y), breaks=breaks), log_x=True))
