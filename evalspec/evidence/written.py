"""Numbers in the unit that a requirement is written in: who wrote 95 % reads 98.6 %, and not 0.986."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalspec.evidence.blocks import (
    AnyBlock,
    Bars,
    Curve,
    Histogram,
    Intervals,
    Matrix,
    Points,
    Reference,
    Series,
    Table,
)
from evalspec.evidence.frozen import is_number
from evalspec.evidence.names import metric_of
from evalspec.evidence.units import UNITS

if TYPE_CHECKING:
    from evalspec.evidence.record import CheckRecord
    from evalspec.evidence.test import PartTest, Test


def in_unit(value: float, unit: str, to: str) -> float:
    """A value in another unit of the same kind."""
    if unit == to:
        return value
    # Fifteen digits, so that 0.07 is 7 % and not 7.000000000000001 %.
    return float(f"{value * UNITS[unit].scale / UNITS[to].scale:.15g}")


def shown_unit(unit: str, written: str) -> str:
    """The unit of a sentence, where it has one that numbers in ``unit`` can be turned into; else that unit."""
    own, other = UNITS.get(unit), UNITS.get(written)
    return written if own is not None and other is not None and own.kind == other.kind else unit


def _written(test: Test) -> str:
    """Unit that the requirement is written in."""
    return shown_unit(test.unit, test.written_unit)


def as_written(test: Test) -> Test:
    """The test with all its numbers in the unit that it is written in. Nothing is decided from these."""
    unit = _written(test)
    own = _beside(test)
    parts = test.part_unit or test.unit
    if (unit, own) == (test.unit, test.metric_unit):
        return test

    def shown(value: float | None) -> float | None:
        return None if value is None else in_unit(value, test.unit, unit)

    def beside(value: float | None) -> float | None:
        return None if value is None else in_unit(value, test.metric_unit, own)

    def of_part(part: PartTest) -> PartTest:
        if test.part_unit is not None or parts == unit:
            return part
        changes = {name: shown(getattr(part, name)) for name in ("value", "lower", "upper", "baseline")}
        return part.model_copy(update=changes)

    return test.model_copy(
        update={
            "unit": unit,
            "metric_unit": own,
            "threshold": in_unit(test.threshold, test.unit, unit),
            "value": shown(test.value),
            "lower": shown(test.lower),
            "upper": shown(test.upper),
            "candidate": beside(test.candidate),
            "baseline": beside(test.baseline),
            "parts": tuple(of_part(part) for part in test.parts),
        }
    )


def _beside(test: Test) -> str:
    """Unit of the two values of a comparison: percent where their difference is in points."""
    if test.against is None:
        return _written(test) if test.metric_unit == test.unit else test.metric_unit
    if test.unit == "pp" and test.metric_unit == "fraction":
        return "%"
    return _written(test) if test.metric_unit == test.unit else test.metric_unit


def written_units(check: CheckRecord) -> dict[str, str]:
    """Unit of a check's numbers: the one that all its requirements on such numbers are written in."""
    written: dict[str, set[str]] = {}
    for test in check.tests:
        if test.against is None:
            written.setdefault(test.unit, set()).add(_written(test))
        elif test.unit == "pp" or test.metric_unit == test.unit:
            written.setdefault(test.metric_unit, set()).add(_beside(test))
    return {unit: other for unit, (other, *more) in ((unit, sorted(one)) for unit, one in written.items()) if not more}


def unit_of(check: CheckRecord, name: str) -> str:
    """Unit that a number of a check is shown in: that of the requirements on its metric, else of all of the check."""
    unit = check.units.get(name, "")
    own = {
        _written(test)
        for test in check.tests
        if test.against is None and test.metric == metric_of(name) and test.unit == unit
    }
    return own.pop() if len(own) == 1 else written_units(check).get(unit, unit)


def block_as_written(block: AnyBlock, units: Mapping[str, str]) -> AnyBlock:
    """A block whose numbers are in other units, as far as its units are named.

    Args:
        block: Of a check.
        units: Unit: the one to show its numbers in.
    """
    match block:
        case Table():
            return _table(block, units)
        case Curve() | Points():
            return _axes(block, units)
        case Histogram():
            return _histogram(block, units)
        case Intervals() | Bars() | Matrix():
            return _one_axis(block, units)
        case _:
            return block


def _table(block: Table, units: Mapping[str, str]) -> Table:
    to = [units.get(column.unit, column.unit) for column in block.columns]
    if all(column.unit == unit for column, unit in zip(block.columns, to, strict=True)):
        return block
    columns = tuple(column.model_copy(update={"unit": unit}) for column, unit in zip(block.columns, to, strict=True))
    rows = tuple(
        tuple(
            in_unit(cell, block.columns[index].unit, to[index]) if index < len(to) and is_number(cell) else cell
            for index, cell in enumerate(row)
        )
        for row in block.rows
    )
    return block.model_copy(update={"columns": columns, "rows": rows})


def _axes(block: Curve | Points, units: Mapping[str, str]) -> Curve | Points:
    x, y = (units.get(unit, unit) for unit in (block.x_unit, block.y_unit))
    if (x, y) == (block.x_unit, block.y_unit):
        return block

    def scaled(values: tuple[float, ...] | None, unit: str, to: str) -> tuple[float, ...] | None:
        return None if values is None else tuple(in_unit(value, unit, to) for value in values)

    def series(one: Series) -> Series:
        changes = {name: scaled(getattr(one, name), block.y_unit, y) for name in ("y", "lower", "upper")}
        return one.model_copy(update={"x": scaled(one.x, block.x_unit, x), **changes})

    return block.model_copy(
        update={
            "x_unit": x,
            "y_unit": y,
            "series": tuple(series(one) for one in block.series),
            "references": tuple(
                _reference(one, *((block.x_unit, x) if one.axis == "x" else (block.y_unit, y)))
                for one in block.references
            ),
        }
    )


def _histogram(block: Histogram, units: Mapping[str, str]) -> Histogram:
    to = units.get(block.x_unit, block.x_unit)
    if to == block.x_unit:
        return block
    references = tuple(_reference(one, block.x_unit, to) if one.axis == "x" else one for one in block.references)
    edges = tuple(in_unit(edge, block.x_unit, to) for edge in block.edges)
    return block.model_copy(update={"x_unit": to, "edges": edges, "references": references})


def _one_axis(block: Intervals | Bars | Matrix, units: Mapping[str, str]) -> Intervals | Bars | Matrix:
    unit, to = block.unit, units.get(block.unit, block.unit)
    if to == unit:
        return block

    def shown(value: float | None) -> float | None:
        return None if value is None else in_unit(value, unit, to)

    if isinstance(block, Matrix):
        values = tuple(tuple(in_unit(value, unit, to) for value in row) for row in block.values)
        return block.model_copy(update={"unit": to, "values": values})
    references = tuple(_reference(one, unit, to) for one in block.references)
    if isinstance(block, Bars):
        bars = tuple(bar.model_copy(update={"value": shown(bar.value)}) for bar in block.bars)
        return block.model_copy(update={"unit": to, "bars": bars, "references": references})
    rows = tuple(
        row.model_copy(update={name: shown(getattr(row, name)) for name in ("value", "lower", "upper")})
        for row in block.rows
    )
    return block.model_copy(update={"unit": to, "rows": rows, "references": references})


def _reference(reference: Reference, unit: str, to: str) -> Reference:
    if reference.value is None:
        return reference
    return reference.model_copy(update={"value": in_unit(reference.value, unit, to)})
