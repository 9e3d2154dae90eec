"""Columns of every type, wherever they stand: no screen is blind because of one."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from evalspec.planning import Plan
from evalspec.screens.level import look, screen_names
from tests.screens.runs import Rows, evidence, planned, sound

TENSOR = pa.fixed_shape_tensor(pa.uint8(), [4, 4])
# Of a row's number, 0 to 2.
ODD: dict[str, Callable[[list[int]], pa.Array]] = {
    "nothing": lambda rows: pa.nulls(len(rows)),
    "categories": lambda rows: pa.array(["abc"[row] for row in rows]).dictionary_encode(),
    "times": lambda rows: pa.array(rows, pa.timestamp("us")),
    "zoned": lambda rows: pa.array(rows, pa.timestamp("us", "UTC")),
    "nanoseconds": lambda rows: pa.array([row * 1001 for row in rows], pa.timestamp("ns")),
    "far": lambda rows: pa.array([253_402_300_799 + row for row in rows], pa.timestamp("s")),
    "days": lambda rows: pa.array([2**30 + row for row in rows], pa.date32()),
    "hours": lambda rows: pa.array([row + 1 for row in rows], pa.time64("ns")),
    "spans": lambda rows: pa.array([2**60 + row for row in rows], pa.duration("s")),
    "decimals": lambda rows: pa.array([Decimal(row) for row in rows], pa.decimal128(30, 2)),
    "tenths": lambda rows: pa.array([Decimal(row) for row in rows], pa.decimal128(6, 1)),
    "halves": lambda rows: pa.array(np.array(rows, np.float16)),
    "unsigned": lambda rows: pa.array([2**63 + row for row in rows], pa.uint64()),
    "bytes": lambda rows: pa.array([b"\xff%d" % row for row in rows]),
    "lists": lambda rows: pa.array([[row] * row for row in rows], pa.list_(pa.int64())),
    "structs": lambda rows: pa.array([{"a": row} for row in rows]),
    "maps": lambda rows: pa.array([[("a", row)] for row in rows], pa.map_(pa.string(), pa.int64())),
    "tensors": lambda rows: pa.ExtensionArray.from_storage(
        TENSOR, pa.array([[row] * 16 for row in rows], TENSOR.storage_type)
    ),
}


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned(tmp_path_factory.mktemp("spec"))


@pytest.fixture(scope="module")
def rows() -> Rows:
    return sound(np.random.default_rng(3))


def blind(of: Plan, rows: Rows, columns: dict[str, str], datasets: tuple[str, ...]) -> dict[str, str]:
    """Screens that crash over rows with odd columns, and why."""
    told = {}
    for name in screen_names():
        made = evidence(of, rows)
        made.tables = {
            dataset: with_columns(table, columns) if dataset in datasets else table
            for dataset, table in made.tables.items()
        }
        try:
            look(name, made.for_screen(name))
        except Exception as error:  # noqa: BLE001  # what a run takes for a blind screen
            told[name] = f"{type(error).__name__}: {error}"
    return told


def with_columns(table: pa.Table, columns: dict[str, str]) -> pa.Table:
    for name, kind in columns.items():
        cells = ODD[kind]([row % 3 for row in range(table.num_rows)])
        place = table.column_names.index(name) if name in table.column_names else table.num_columns
        table = table.drop_columns([name]) if name in table.column_names else table
        table = table.add_column(place, name, cells)
    return table


@pytest.mark.parametrize("kind", list(ODD))
@pytest.mark.parametrize("name", ["odd_id", pytest.param("patient", marks=pytest.mark.proof)])
def test_an_odd_column(name: str, kind: str, of: Plan, rows: Rows) -> None:
    assert blind(of, rows, {name: kind}, ("train", "test", "traffic")) == {}


@pytest.mark.parametrize("kind", ["nothing", "categories", "tensors"])
def test_an_odd_label(kind: str, of: Plan, rows: Rows) -> None:
    assert blind(of, rows, {"y": kind}, ("train", "test")) == {}


@pytest.mark.parametrize("others", [("times", "zoned"), ("nanoseconds", "far"), ("decimals", "halves")])
def test_a_column_of_two_types(others: tuple[str, str], of: Plan, rows: Rows) -> None:
    assert blind(of, rows, {"x0": others[0]}, ("train",)) == blind(of, rows, {"x0": others[1]}, ("test",)) == {}


@pytest.mark.parametrize("kind", [one for one in ODD if one not in ("nothing", "maps")])
def test_raters_of_any_type_that_agree_are_told(kind: str, of: Plan, rows: Rows) -> None:
    made = evidence(of, rows)
    made.tables = made.tables | {"test": with_columns(made.tables["test"], {"anna": kind, "ben": kind})}
    assert [one.subject for one in look("data/raters", made.for_screen("data/raters")).suspicions] == ["anna and ben"]


@pytest.mark.parametrize("kinds", [("decimals", "tenths"), ("tenths", "halves"), ("zoned", "zoned")])
def test_raters_of_two_types_that_agree_are_told(kinds: tuple[str, str], of: Plan, rows: Rows) -> None:
    made = evidence(of, rows)
    columns = {"anna": kinds[0], "ben": kinds[1]}
    made.tables = made.tables | {"test": with_columns(made.tables["test"], columns)}
    assert [one.subject for one in look("data/raters", made.for_screen("data/raters")).suspicions] == ["anna and ben"]


@pytest.mark.parametrize(
    "kinds", [("times", "zoned"), ("nanoseconds", "far"), ("nothing", "nothing"), ("maps", "maps"), ("lists", "halves")]
)
def test_raters_that_can_not_be_compared_are_not_told(kinds: tuple[str, str], of: Plan, rows: Rows) -> None:
    columns = {"anna": kinds[0], "ben": kinds[1]}
    assert blind(of, rows, columns, ("test",)) == {}
    made = evidence(of, rows)
    made.tables = made.tables | {"test": with_columns(made.tables["test"], columns)}
    assert look("data/raters", made.for_screen("data/raters")).suspicions == ()
