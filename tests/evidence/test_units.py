from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.evidence.units import UNITS, format_number, format_quantity, number_of


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.962, "fraction", "0.962"),
        (1, "days", "1 day"),
        (180, "days", "180 days"),
        (0.95, "fraction", "0.95"),
        (1.0, "fraction", "1"),
        (0.9996, "fraction", "0.9996"),
        (0.99999996, "fraction", "0.99999996"),
        (99.9999, "%", "99.9999 %"),
        (0.5, "%", "0.5 %"),
        (4.2134, "ms", "4.213 ms"),
        (12.345, "ms", "12.35 ms"),
        (123.456, "ms", "123.5 ms"),
        (999.96, "ms", "1,000 ms"),
        (0.00042, "s", "0.00042 s"),
        (0.0000000012345, "s", "under 0.000001 s"),
        (-0.0000000012345, "pp", "over −0.000001 pp"),
        (1.2, "x", "1.2x"),
        (-0.31, "pp", "−0.31 pp"),
        (-0.0, "pp", "0 pp"),
        (26412.3, "samples/s", "26,412 samples/s"),
        (1, "rows", "1 row"),
        (31, "rows", "31 rows"),
        (12.5, "count", "12.5"),
        (3, "", "3"),
        (1e16, "B", "10,000,000,000,000,000 B"),
    ],
)
def test_quantities_read_well(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


@given(st.floats(-1e300, 1e300), st.sampled_from(sorted(UNITS)))
def test_what_is_printed_is_near_what_is_meant(value: float, unit: str) -> None:
    text = format_number(value, unit)
    assert "e" not in text.replace("under", "").replace("over", "") and "-" not in text
    if text.startswith(("under", "over")):
        assert not 1e-6 <= abs(value) < 1e18
        return
    # Four significant digits, or a hundredth where the magnitude is below one.
    assert math.isclose(number_of(text), value, rel_tol=5.1e-3)


@given(st.floats(0.0, 1.0, exclude_max=True, exclude_min=True))
def test_a_fraction_that_is_neither_nothing_nor_all_is_not_printed_as_either(value: float) -> None:
    if value < 1.0 - 1e-15:
        assert format_number(value, "fraction") not in ("0", "1")
