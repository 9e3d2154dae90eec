"""Times held against moments that are written as text: the same in every unit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from evalspec.moments import Comparison, NoMoment, begin_of_day, compared, held_against

UNITS = ("s", "ms", "us", "ns")
A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
CLOCKS = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", UNITS)
def test_a_moment_beyond_nanoseconds_is_one_in_every_unit(unit: str, zone: str | None) -> None:
    column = pa.array([0, -5, None, 10**9], pa.timestamp(unit, zone))
    expected: dict[tuple[Comparison, str], list[bool | None]] = {
        ("<", "9999-12-31"): [True, True, None, True],
        ("==", "9999-12-31"): [False, False, None, False],
        ("!=", "2300-01-01 12:00:00"): [True, True, None, True],
        (">=", " 2300-01-01 "): [False, False, None, False],
        (">", "0001-01-01"): [True, True, None, True],
        ("<=", "1970-01-01"): [True, True, None, False],
    }
    for (word, text), inside in expected.items():
        assert held_against(column, word, text, utc=True).to_pylist() == inside, (word, text)


@pytest.mark.parametrize("kind", CLOCKS, ids=str)
def test_times_of_a_day(kind: pa.DataType) -> None:
    whole = pa.array([second * A_SECOND[kind.unit] for second in (3599, 3600, 3601)] + [None], pa.int64())
    column = whole.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    assert held_against(column, ">=", "01:00:00").to_pylist() == [False, True, True, None]
    assert held_against(column, "==", "01:00").to_pylist() == [False, True, False, None]
    assert held_against(column, "<", "00:59:59.000000001").to_pylist() == [True, False, False, None]


@pytest.mark.parametrize("kind", [*(pa.timestamp(unit, "UTC") for unit in UNITS), pa.date32(), pa.date64()], ids=str)
def test_the_day_after_the_last_one(kind: pa.DataType) -> None:
    column = pa.array([0, None], pa.int32()).cast(pa.date32()).cast(pa.timestamp("s")).cast(kind)
    assert compared(column, "<", begin_of_day(2_932_897, kind)).to_pylist() == [True, None]
    assert compared(column, "<", begin_of_day(0, kind)).to_pylist() == [False, None]
    assert compared(column, "<", begin_of_day(1, kind)).to_pylist() == [True, None]


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("12:30", pa.timestamp("ns"), r"'12:30' as a scalar of type timestamp\[ns\]"),
        ("2026-01-01", pa.time64("ns"), "Invalid isoformat string: '2026-01-01'"),
        ("12:30Z", pa.time64("us"), "'12:30Z' has a zone, and times of a day have none"),
        ("2300-01-01", pa.timestamp("ns", "UTC"), "expected a zone offset"),
        ("1", pa.duration("s"), "Unsupported cast from string to duration"),
    ],
)
def test_what_is_no_moment_of_a_column(text: str, kind: pa.DataType, why: str) -> None:
    with pytest.raises(NoMoment, match=why):
        held_against(pa.nulls(1, kind), "<", text)
