from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from evalspec.errors import SpecError
from evalspec.evidence.units import UNITS
from evalspec.language.units import Duration, QueryRate, Share, convert, parse_quantity, split_quantity, units_like


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("5 ms", "ms", 5),
        ("5 ms", "s", 0.005),
        ("2 min", "s", 120),
        ("1.5 h", "s", 5400),
        ("1e3 us", "ms", 1),
        ("0", "s", 0),
        (0, "s", 0),
        ("1 GiB", "MiB", 1024),
        ("100 qps", "qps", 100),
        ("0.5 %", "fraction", 0.005),
        ("95 %", "fraction", 0.95),
        ("  7   ms ", "ms", 7),
        ("30 s", "time", 30),
        ("1 KiB", "size", 1024),
    ],
)
def test_quantities_convert(text: object, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit", "sentence"),
    [
        (5, "ms", "5 has no unit (choices: ns, us, ms, s, min, h); write 5 ms"),
        ("5", "s", "5 has no unit (choices: ns, us, ms, s, min, h); write 5 s"),
        ("5ms", "ms", "'5ms' has no space between number and unit; write 5 ms"),
        ("5 msec", "ms", "unknown unit 'msec' (choices: ns, us, ms, s, min, h); did you mean 'ms'?"),
        ("5 MiB", "ms", "unit 'MiB' is not valid here (choices: ns, us, ms, s, min, h)"),
        ("five ms", "ms", "'five ms' is not a number; write a number and its unit, such as 5 ms"),
        (0.5, "fraction", "0.5 has no unit (choices: %); 0.5 % or 50 %?"),
        (True, "s", "True is not a quantity; write a number and its unit, such as 1 ns"),
        (None, "s", "None is not a quantity; write a number and its unit, such as 1 ns"),
        ("1e999 s", "s", "'1e999' is too large for a number"),
        ("nan s", "s", "'nan s' is not a number; write a number and its unit, such as 5 ms"),
    ],
)
def test_what_is_no_quantity_is_refused(text: object, unit: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_quantity(text, unit)
    assert str(caught.value) == sentence


def test_percent_is_exact() -> None:
    # 95 * 0.01 is 0.9500000000000001 in binary: a threshold must be the number that was written.
    assert [convert(value, "%", "fraction") for value in (95, 99.9, 0.7)] == [0.95, 0.999, 0.007]


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        number, _ = split_quantity(text)
    except SpecError:
        return
    assert number == number


@given(
    st.floats(1e-6, 1e6),
    st.sampled_from([(a, b) for a in UNITS for b in units_like(a) if a in units_like(a)]),
)
def test_conversion_goes_both_ways(value: float, units: tuple[str, str]) -> None:
    there, back = units
    assert convert(convert(value, there, back), back, there) == pytest.approx(value)


class Fields(BaseModel):
    duration_s: Duration = Field(60.0, alias="duration", gt=0)
    rates_qps: tuple[QueryRate, ...] = Field((), alias="rates")
    share: Share = 0.005


def test_fields_read_their_unit() -> None:
    fields = Fields.model_validate({"duration": "2 min", "rates": ["100 qps", "500 qps"], "share": "1 %"})
    assert (fields.duration_s, fields.rates_qps, fields.share) == (120.0, (100.0, 500.0), 0.01)


def test_fields_write_what_they_read() -> None:
    fields = Fields.model_validate({"duration": "2 min", "rates": ["100 qps"]})
    written = fields.model_dump(mode="json", by_alias=True)
    assert written == {"duration": "120 s", "rates": ["100 qps"], "share": "0.5 %"}
    assert Fields.model_validate(written) == fields


def test_fields_refuse_bare_numbers_and_keep_their_limits() -> None:
    with pytest.raises(ValidationError, match="60 has no unit"):
        Fields.model_validate({"duration": 60})
    with pytest.raises(ValidationError, match="greater than 0"):
        Fields.model_validate({"duration": "-1 s"})
