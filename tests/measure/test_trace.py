"""Recorded arrivals: replayed as they were, and every value that can't be is named with its row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.errors import InputError
from evalspec.measure.trace import trace


def test_a_trace_is_replayed_as_it_was_or_faster() -> None:
    found = trace([100.0, 100.5, 102.0], items=[7, 3, 7], sizes=[1, 20, 3])
    assert found.times_ns.tolist() == [0, 500_000_000, 2_000_000_000]
    assert found.items is not None and found.items.tolist() == [7, 3, 7]
    assert found.sizes is not None and found.sizes.tolist() == [1, 20, 3]
    assert found.rate_qps == 1.0
    assert trace([100.0, 100.5, 102.0], speed_up=2.0).times_ns.tolist() == [0, 250_000_000, 1_000_000_000]


def test_a_trace_of_points_in_time_and_of_ties() -> None:
    points = np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:01", "2026-01-01T00:00:01"], dtype="datetime64[ms]")
    assert trace(points).times_ns.tolist() == [0, 1_000_000_000, 1_000_000_001]
    # Points in time may lie before 1970.
    before = np.array(["1960-01-01T00:00:00", "1960-01-01T00:00:01"], dtype="datetime64[s]")
    assert trace(before).times_ns.tolist() == [0, 1_000_000_000]


def test_whole_numbers_may_be_written_as_floats() -> None:
    found = trace([0.0, 1.0], items=[3.0, 4.0], sizes=[1.0, 2.0], rows=5)
    assert found.items is not None and found.items.dtype == np.int64 and found.items.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"times": []}, "it holds 0 queries, which gives no rate; record 2 or more"),
        ({"times": [3.0]}, "it holds 1 query, which gives no rate"),
        ({"times": [2.0, 2.0, 2.0]}, "all 3 times are 2.0, which gives no rate; record times finer"),
        (
            {"times": [0.0, 2.0, 1.5]},
            "row 2 (counted from 0) has the time 1.5, before 2.0 of the row above it; sort the trace by time",
        ),
        ({"times": [-1.0, 2.0]}, "row 0 (counted from 0) has the time -1; count seconds from 0"),
        ({"times": [0.0, math.nan]}, "row 1 (counted from 0) has no time; leave it out, or fill it in"),
        ({"times": [0.0, math.inf]}, "row 1 (counted from 0) has no time"),
        ({"times": np.array(["2026-01-01", "NaT"], dtype="datetime64[s]")}, "row 1 (counted from 0) has no time"),
        (
            {"times": np.array(["2026-01-02", "2026-01-01"], dtype="datetime64[s]")},
            "row 1 (counted from 0) has the time 2026-01-01T00:00:00, before 2026-01-02T00:00:00",
        ),
        ({"times": [0.0, 1.0], "items": [1]}, "there are 2 times and 1 entries of `item`"),
        (
            {"times": [0.0, 1.0], "items": [1, 5], "rows": 5},
            "row 1 (counted from 0) asks for the row 5; write a whole number from 0 to 4",
        ),
        (
            {"times": [0.0, 1.0], "items": [-1, 5]},
            "row 0 (counted from 0) asks for the row -1; write a whole number from 0 on",
        ),
        ({"times": [0.0, 1.0], "items": [1, 1.5]}, "row 1 (counted from 0) asks for the row 1.5"),
        ({"times": [0.0, 1.0], "items": [math.nan, 1]}, "row 0 (counted from 0) asks for no row; fill it in"),
        ({"times": [0.0, 1.0], "sizes": [1, 0]}, "row 1 (counted from 0) has the size 0; write a whole number from 1"),
        ({"times": [0.0, 1.0], "sizes": [1, 70_000]}, "has the size 70,000; write a whole number from 1 to 65,536"),
        ({"times": [0.0, 1.0], "sizes": [1, math.nan]}, "row 1 (counted from 0) has no size"),
        ({"times": [0.0, 1.0], "speed_up": 0.0}, "the speed_up is 0; it must be over 0"),
    ],
)
def test_traces_that_are_none(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        trace(**arguments)
    assert said in str(caught.value)


@given(
    st.lists(st.floats(0, 1e4, allow_subnormal=False), min_size=1, max_size=50),
    st.floats(0.01, 100),
)
def test_replayed_times_always_rise(times: list[float], speed_up: float) -> None:
    made = trace(np.sort([*times, 2e4]), speed_up=speed_up).times_ns
    assert made[0] == 0 and (np.diff(made) > 0).all()
