from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.evidence.test import Test
from evalspec.report.charts.strips import NARROWEST, WIDER, StripScale, axis_ticks, hold_zone, strip, text_room
from evalspec.report.requirements import requirement_strip

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


def test_a_scale_shows_everything_with_room() -> None:
    scale = StripScale.over((0.0, 10.0, None), pad=0.1)
    assert scale == StripScale(-1.0, 11.0)
    assert scale.at(5.0) == 50.0
    assert scale.at(-100.0) == 0.0
    assert scale.at(100.0) == 100.0


def test_no_values_no_scale() -> None:
    assert StripScale.over((None, None)) is None


@given(st.lists(NUMBERS, min_size=1, max_size=6))
def test_everything_drawn_lies_inside(values: list[float]) -> None:
    scale = StripScale.over(values)
    assert scale is not None
    assert all(0.0 <= scale.at(value) <= 100.0 for value in values)
    ticks = scale.ticks()
    assert len(ticks) <= 12
    assert list(ticks) == sorted(set(ticks))


def test_ticks_are_round() -> None:
    assert StripScale(0.64, 0.81).ticks() == (0.65, 0.7, 0.75, 0.8)


@pytest.mark.parametrize(
    ("op", "zone"), [("<=", (0.0, 25.0)), ("<", (0.0, 25.0)), (">=", (25.0, 75.0)), (">", (25.0, 75.0)), ("==", None)]
)
def test_where_a_requirement_holds(op: str, zone: tuple[float, float] | None) -> None:
    assert hold_zone(StripScale(0.0, 4.0), 1.0, op) == zone  # type: ignore[arg-type]


def test_one_bound_leaves_the_other_end_open() -> None:
    drawn = strip(StripScale(0.0, 10.0), 5.0, 2.0, None)
    assert (drawn.start, drawn.end) == (20.0, 50.0)
    assert not drawn.open_start
    assert drawn.open_end


def made(**fields: object) -> Test:
    shown = {"name": "quality/accuracy", "check": "quality", "sentence": "accuracy >= 95 %", "metric": "accuracy"}
    return Test(**{**shown, "op": ">=", "threshold": 0.95, "unit": "fraction", **fields})  # type: ignore[arg-type]


def test_a_requirement_says_in_words_what_it_draws() -> None:
    drawn = requirement_strip(made(value=0.962, lower=0.946, upper=0.975))
    assert drawn is not None
    assert drawn.title == "accuracy 0.962; 0.946 to 0.975; needs ≥ 0.95"
    assert drawn.start is not None
    assert drawn.end is not None
    assert drawn.dot is not None
    assert drawn.start < drawn.limits[0] < drawn.dot < drawn.end


def test_without_a_value_nothing_is_drawn() -> None:
    assert requirement_strip(made(missing="crashed")) is None


@given(NUMBERS, st.floats(1e-6, 1e9))
def test_marks_of_an_axis_do_not_touch_each_other(low: float, span: float) -> None:
    found = axis_ticks(StripScale(low, low + span), "ms")
    for ticks, width in ((found, WIDER), ([tick for tick in found if not tick.spare], NARROWEST)):
        for one, after in pairwise(ticks):
            assert after.at - one.at >= (text_room(one.text, width) + text_room(after.text, width)) / 2


def test_a_narrow_axis_keeps_every_second_mark() -> None:
    found = axis_ticks(StripScale(0.0, 0.22), "")
    assert [(tick.text, tick.spare) for tick in found] == [
        ("0", False), ("0.05", True), ("0.1", False), ("0.15", True), ("0.2", False),
    ]  # fmt: skip
