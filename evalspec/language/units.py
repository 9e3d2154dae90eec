"""Quantities as they are written (``5 ms``, ``0.5 %``) and field types that read them.

A field's name in Python carries the unit, its key in the spec does not::

    duration_s: Duration = Field(60.0, alias="duration", description="How long to load the system.")
    rates_qps: tuple[QueryRate, ...] = Field((), alias="rates", description="Offered rates.")

The spec then says ``duration: 60 s`` and ``rates: [100 qps, 500 qps]``; a bare number is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from evalspec.errors import Problem, SpecError, did_you_mean
from evalspec.evidence.units import UNITS, format_quantity

NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
_QUANTITY = re.compile(rf"(?P<number>{NUMBER})(?P<space>\s*)(?P<unit>\S.*)?", re.ASCII)
SMALLEST, LARGEST = 1e-100, 1e100
"""Sizes that a number of a spec may have, beside 0: the square of either is still a number."""
_UNWRITTEN = ("fraction", "count", "score", "label")
"""Units whose numbers stand bare."""


def check_size(number: float, text: str) -> None:
    """Refuse a number that can't be computed with: its square is none, or it is infinite or NaN.

    Args:
        number: As it was read.
        text: As it was written.

    Raises:
        SpecError: It is too large or too small.
    """
    shown = text[:40]
    if not abs(number) <= LARGEST:
        remedy = f"{LARGEST:g} is the most" if abs(number) < math.inf else None
        raise SpecError(Problem(f"{shown} is too large for a number", remedy=remedy))
    if (number == 0 and re.search("[1-9]", re.split("[eE]", text)[0])) or 0 < abs(number) < SMALLEST:
        raise SpecError(Problem(f"{shown} is too small for a number", remedy=f"write 0, or {SMALLEST:g} or more"))


def units_like(unit: str) -> tuple[str, ...]:
    """The units that convert to ``unit`` and may be written."""
    if unit not in UNITS:
        return (unit,)
    kind = UNITS[unit].kind
    return tuple(name for name, other in UNITS.items() if other.kind == kind and name not in _UNWRITTEN)


def convert(value: float, unit: str, to: str) -> float:
    """A value in another unit of the same kind.

    Raises:
        SpecError: The units are of different kinds, or unknown.
    """
    if unit == to:
        return value
    if unit not in UNITS or unit not in units_like(to):
        choices = units_like(to)
        known = unit in UNITS
        raise SpecError(
            Problem(
                f"unit {unit!r} is not valid here" if known else f"unknown unit {unit!r}",
                choices=choices,
                remedy=None if known else did_you_mean(unit, choices),
            )
        )
    # Fifteen digits, so that 99.9 % is the 0.999 that was meant and not 0.9990000000000001.
    return float(f"{value * UNITS[unit].scale / UNITS[to].scale:.15g}")


def split_quantity(text: str) -> tuple[float, str | None]:
    """A number and its unit, or None where none stands.

    Raises:
        SpecError: It is no number with a unit, or the space between them is missing.
    """
    text = " ".join(text.split())
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise SpecError(Problem(f"{text!r} is not a number", remedy="write a number and its unit, such as 5 ms"))
    unit = match["unit"]
    number = float(match["number"])
    check_size(number, repr(match["number"]))
    if unit is not None and not match["space"] and unit != "x":
        raise SpecError(
            Problem(f"{text!r} has no space between number and unit", remedy=f"write {match['number']} {unit}")
        )
    return number, unit


def base_unit(kind: str) -> str:
    """The unit that others of a kind of quantity are scaled to: ``s`` for ``time``, ``B`` for ``size``."""
    return next(name for name, unit in UNITS.items() if unit.kind == kind and unit.scale == 1)


def parse_quantity(value: object, unit: str) -> float:
    """A quantity as it stands in a field, in ``unit`` (``%`` becomes a number in 0..1 where unit is ``fraction``).

    Args:
        value: Text such as ``60 s``; only 0 may stand bare.
        unit: The unit of the result, a key of ``evalspec.evidence.units.UNITS``, or a kind of quantity (``time``,
            ``size``) for its base unit.

    Raises:
        SpecError: No number, no unit, or a unit of another kind.
    """
    unit = unit if unit in UNITS else base_unit(unit)
    choices = units_like(unit)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        message = f"{value!r} is not a quantity"
        raise SpecError(Problem(message, remedy=f"write a number and its unit, such as 1 {choices[0]}"))
    number, written = split_quantity(value) if isinstance(value, str) else (float(value), None)
    if written is not None:
        return convert(number, written, unit)
    if number == 0:
        return 0.0
    raise SpecError(Problem(f"{value} has no unit", choices=choices, remedy=bare_remedy(number, unit)))


def bare_remedy(number: float, unit: str) -> str:
    """Remedy for a bare number, with what it may have meant: ``0.5 % or 50 %?``."""
    if unit in ("fraction", "%"):
        return f"{number:g} % or {number * 100:g} %?" if abs(number) <= 1 else f"write {number:g} %"
    choices = units_like(unit)
    return f"write {number:g} {unit if unit in choices else choices[0]}"


def custom_error(problem: Problem) -> PydanticCustomError:
    """The problem as an error that pydantic collects with its place; the loader turns it back."""
    context = {"message": problem.message, "choices": problem.choices, "remedy": problem.remedy}
    return PydanticCustomError("evalspec", "{message}", context)


@dataclass(frozen=True, slots=True)
class WrittenIn:
    """Marks a type of field whose numbers are written with a unit.

    Args:
        unit: Of the number in Python.
    """

    unit: str

    def written(self, value: float) -> str:
        """A number of the field as it is written in a spec."""
        shown, scale = ("%", 100.0) if self.unit == "fraction" else (self.unit, 1.0)
        return format_quantity(value * scale, shown)


def _reader(unit: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            return parse_quantity(value, unit)
        except SpecError as error:
            raise custom_error(error.problems[0]) from error

    return read


def _writer(unit: str) -> PlainSerializer:
    shown, scale = ("%", 100.0) if unit == "fraction" else (unit, 1.0)
    return PlainSerializer(lambda value: f"{value * scale:.12g} {shown}", return_type=str, when_used="json")


def _schema(unit: str, example: float) -> WithJsonSchema:
    choices = units_like(unit)
    pattern = rf"^({NUMBER} ({'|'.join(re.escape(choice) for choice in choices)})|0)$"
    shown = "%" if unit == "fraction" else unit
    return WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": pattern}, {"const": 0}], "examples": [format_quantity(example, shown)]}
    )


Duration = Annotated[float, BeforeValidator(_reader("s")), _writer("s"), _schema("s", 60), WrittenIn("s")]
"""Seconds; the field's name ends in ``_s``."""
Milliseconds = Annotated[float, BeforeValidator(_reader("ms")), _writer("ms"), _schema("ms", 5), WrittenIn("ms")]
"""Milliseconds; the field's name ends in ``_ms``."""
QueryRate = Annotated[float, BeforeValidator(_reader("qps")), _writer("qps"), _schema("qps", 100), WrittenIn("qps")]
"""Queries a second; the field's name ends in ``_qps``."""
Size = Annotated[float, BeforeValidator(_reader("MiB")), _writer("MiB"), _schema("MiB", 64), WrittenIn("MiB")]
"""Mebibytes; the field's name ends in ``_mib``."""
Share = Annotated[
    float, BeforeValidator(_reader("fraction")), _writer("fraction"), _schema("fraction", 0.5), WrittenIn("fraction")
]
"""A number in 0..1 written in percent: ``0.5 %``."""
HourlyPrice = Annotated[
    float, BeforeValidator(_reader("USD/h")), _writer("USD/h"), _schema("USD/h", 3.06), WrittenIn("USD/h")
]
"""US dollars an hour; the field's name ends in ``_usd_h``."""
PercentagePoints = Annotated[float, BeforeValidator(_reader("pp")), _writer("pp"), _schema("pp", 5), WrittenIn("pp")]
"""A difference of fractions in percentage points; the field's name ends in ``_pp``."""
