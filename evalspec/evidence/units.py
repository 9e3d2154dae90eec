"""The units that quantities are written and printed in.

A unit belongs to a kind of quantity and has a scale to that kind's base unit. Checks compute fractions as numbers
in 0..1; a record holds values in the metric's own unit, so ``near_duplicates`` of 0.005 stands there as 0.5 with
unit ``%``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its kind of quantity and how many base units it is."""

    kind: str
    scale: float


UNITS: dict[str, Unit] = {
    "fraction": Unit("fraction", 1.0),
    "%": Unit("fraction", 0.01),
    "pp": Unit("difference", 0.01),
    "ns": Unit("time", 1e-9),
    "us": Unit("time", 1e-6),
    "ms": Unit("time", 1e-3),
    "s": Unit("time", 1.0),
    "min": Unit("time", 60.0),
    "h": Unit("time", 3600.0),
    "qps": Unit("query rate", 1.0),
    "samples/s": Unit("sample rate", 1.0),
    "tokens/s": Unit("token rate", 1.0),
    "B": Unit("size", 1.0),
    "KiB": Unit("size", 1024.0),
    "MiB": Unit("size", 1024.0**2),
    "GiB": Unit("size", 1024.0**3),
    "kB": Unit("size", 1e3),
    "MB": Unit("size", 1e6),
    "GB": Unit("size", 1e9),
    "x": Unit("ratio", 1.0),
    "mJ": Unit("energy", 1e-3),
    "J": Unit("energy", 1.0),
    "kJ": Unit("energy", 1e3),
    "Wh": Unit("energy", 3600.0),
    "mW": Unit("power", 1e-3),
    "W": Unit("power", 1.0),
    "kW": Unit("power", 1e3),
    "samples/J": Unit("samples by energy", 1.0),
    "C": Unit("temperature", 1.0),
    "GFLOP/s": Unit("operation rate", 1e9),
    "TFLOP/s": Unit("operation rate", 1e12),
    "FLOP/s": Unit("operation rate", 1.0),
    "FLOP/B": Unit("operations by byte", 1.0),
    "USD": Unit("cost", 1.0),
    "USD/h": Unit("price by time", 1.0),
    "samples": Unit("samples", 1.0),
    "steps": Unit("steps", 1.0),
    "rows": Unit("rows", 1.0),
    "days": Unit("age", 1.0),
    "count": Unit("count", 1.0),
    "score": Unit("score", 1.0),
    "label": Unit("label", 1.0),
}
"""Every unit that may stand in a spec. ``count`` and ``score`` are never written: their numbers stand bare."""


def to_unit(value: float, unit: str) -> float:
    """A computed value (fractions as 0..1) in the metric's unit: 0.005 in ``%`` is 0.5."""
    return value / UNITS[unit].scale if unit in ("%", "pp") else value


def from_unit(value: float, unit: str) -> float:
    """The inverse of `to_unit`."""
    return value * UNITS[unit].scale if unit in ("%", "pp") else value


MINUS = "\u2212"
LEAST, MOST = 1e-6, 1e15
"""Of numbers between these all digits are written; beyond, that they are beyond."""
WHOLES = {"fraction": 1.0, "score": 1.0, "%": 100.0}


def format_number(value: float, unit: str = "", decimals: int | None = None) -> str:
    """A number for people: four significant digits, thousands separated, never an exponent.

    A fraction just below 1 (or a percentage just below 100) keeps the digits that tell it from the whole.

    Args:
        value: The number.
        unit: Its unit.
        decimals: As many, zeros at the end among them, but for nothing and the whole; below 0: digits before the
            point that are zero. None: as four significant digits need.
    """
    if value != value or value in (float("inf"), float("-inf")):
        return str(value).replace("-", MINUS)
    if value < 0:
        negative = format_number(-value, unit, decimals)
        word, _, number = negative.rpartition(" ")
        other = {"under": "over ", "over": "under ", "": ""}[word]
        return f"{other}{MINUS}{number}"
    whole = WHOLES.get(unit)
    if decimals is not None and value not in (0.0, whole):
        return f"{round(value, decimals) + 0.0:,.{max(decimals, 0)}f}"
    if value == int(value) and value < MOST:
        return f"{int(value):,}"
    if value < LEAST:
        return f"under {LEAST:.6f}"
    if value >= MOST:
        return f"{value:,.0f}" if value < 1e3 * MOST else f"over {1e3 * MOST:,.0f}"
    magnitude = abs(float(f"{value:.4g}"))
    if magnitude >= 1000:
        return f"{value:,.0f}"
    digits = next((places for limit, places in ((100.0, 1), (10.0, 2), (0.1, 3)) if magnitude >= limit), None)
    if digits is None:
        digits = 4 if magnitude >= 0.01 else 2 - math.floor(math.log10(magnitude))
    if whole is not None and value < whole <= round(value, digits):
        digits = min(15, -math.floor(math.log10(whole - value)))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def decimals_of(text: str) -> int:
    """Digits after the point of a number that is already text."""
    return len(text.partition(".")[2])


def number_of(text: str) -> float:
    """A number that is already text, as `format_number` writes it with its digits."""
    return float(text.replace(",", "").replace(MINUS, "-"))


def format_quantity(value: float, unit: str, decimals: int | None = None) -> str:
    """A value with its unit as it is read aloud: ``4.21 ms``, ``0.962``, ``1.2x``, ``3 rows``.

    Args:
        value: The number.
        unit: Its unit.
        decimals: As of `format_number`.
    """
    number = format_number(value, unit, decimals)
    if unit in ("", "fraction", "score", "count", "label"):
        return number
    if unit == "rows" and value == 1:
        return "1 row"
    if unit == "days" and value == 1:
        return "1 day"
    return f"{number}x" if unit == "x" else f"{number} {unit}"
