"""Digits of a measured number: those that its interval can tell apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.evidence.digits import decimals_for
from evalspec.evidence.test import Test
from evalspec.evidence.units import format_quantity, number_of


def test_of(value: float, lower: float | None, upper: float | None, threshold: float, unit: str) -> Test:
    return Test(
        name="q/m", check="q", sentence="m", metric="m", op=">=", threshold=threshold, unit=unit, value=value,
        lower=lower, upper=upper,
    )  # fmt: skip


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "lower", "upper", "threshold", "unit", "shown"),
    [
        (98.6047, 97.71, 99.23, 95.0, "%", ("98.6 %", "97.7 %", "99.2 %")),
        (19562.58, 17021.4, 22483.0, 100.0, "samples/s", ("19,600 samples/s", "17,000 samples/s", "22,500 samples/s")),
        (5.428, None, 5.501, 500.0, "ms", ("5.43 ms", "5.50 ms")),
        (0.961, 0.946, 0.975, 0.95, "fraction", ("0.961", "0.946", "0.975")),
        # A bound that is below the threshold is not shown as on it.
        (97.0, 94.97, 98.6, 95.0, "%", ("97.00 %", "94.97 %", "98.60 %")),
        # What is not the whole is not shown as the whole, and what is not nothing not as nothing.
        (99.97, 97.0, 99.999, 95.0, "%", ("99.970 %", "97.000 %", "99.999 %")),
        (0.04, 0.001, 5.2, 8.0, "%", ("0.040 %", "0.001 %", "5.200 %")),
        # A ratio that is not one is not shown as one.
        (1.000146, 1.000074, 1.000217, 1.02, "x", ("1.0001x", "1.0001x", "1.0002x")),
        # A bound far off takes no digits from one that is near.
        (0.1301, 0.1033, 4.309, 20.0, "ms", ("0.130 ms", "0.103 ms", "4.309 ms")),
        (-1.234, -2.72, -0.4, -2.0, "pp", ("−1.2 pp", "−2.7 pp", "−0.4 pp")),
    ],
)
def test_numbers_of_a_requirement_have_the_digits_that_they_carry(
    value: float, lower: float | None, upper: float | None, threshold: float, unit: str, shown: tuple[str, ...]
) -> None:
    test = test_of(value, lower, upper, threshold, unit)
    numbers = [one for one in (value, lower, upper) if one is not None]
    assert tuple(format_quantity(one, unit, decimals_for(test)) for one in numbers) == shown


NUMBERS = st.floats(-1e6, 1e6).map(lambda one: round(one, 9))


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_no_number_crosses_its_threshold(value: float, one: float, other: float, threshold: float) -> None:
    lower, value, upper = sorted((value, one, other))
    test = test_of(value, lower, upper, threshold, "ms")
    decimals = decimals_for(test)
    assert (decimals is None) == (lower == upper)
    for number in (lower, value, upper):
        shown = number_of(format_quantity(number, "", decimals)) if decimals is not None else number
        assert (shown > threshold) == (number > threshold) and (shown < threshold) == (number < threshold)


def test_facts_and_what_has_no_interval_have_their_own() -> None:
    assert decimals_for(test_of(3.0, None, None, 5.0, "rows")) is None
    assert decimals_for(test_of(3.0, 3.0, 3.0, 5.0, "rows")) is None
    assert decimals_for(test_of(3.0, 1.0, 5.0, 5.0, "rows").model_copy(update={"exact": True})) is None
