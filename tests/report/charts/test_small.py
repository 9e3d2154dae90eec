"""Many small histograms on one scale each."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from evalspec.evidence.blocks import SmallHistogram, SmallHistograms
from evalspec.report.charts.small import HEIGHT, MOST, WIDTH, small_histograms


def block(count: int, **shares: tuple[float, ...]) -> SmallHistograms:
    item = SmallHistogram(label="<b>age</b>", note="0.12", first="0", last="90", shares=shares)
    return SmallHistograms(title="Every column", items=(item,) * count)


def test_both_datasets_are_drawn_on_one_scale_inside_the_frame() -> None:
    made = small_histograms(block(1, train=(10.0, 80.0, 10.0), test=(40.0, 20.0, 40.0)))
    assert made.keys == ("train", "test") and made.left_out == 0
    root = ElementTree.fromstring(made.items[0].svg)
    paths = [one.get("d", "") for one in root.iter("{http://www.w3.org/2000/svg}path")]
    assert len(paths) == 2 and paths[0].endswith("Z") and not paths[1].endswith("Z")
    tops = []
    for one in paths:
        points = [tuple(map(float, point.split(","))) for point in re.findall(r"[\d.]+,[\d.]+", one)]
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
        tops.append(min(y for _, y in points))
    # 80 % reaches the top, 40 % half of the way.
    assert tops[0] < tops[1] < HEIGHT


def test_what_is_too_much_is_counted_and_what_is_empty_is_drawn_empty() -> None:
    assert small_histograms(block(MOST + 7, train=(1.0,))).left_out == 7
    empty = small_histograms(block(1, train=(0.0, 0.0), test=()))
    assert "path" not in empty.items[0].svg and "&lt;b&gt;" in empty.items[0].svg
