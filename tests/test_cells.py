"""Cells as people read them, the same with and without pandas; times in nanoseconds in every part of a spec."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import evalspec
from evalspec.cells import value_of, values_of

NS = 1_700_000_000_123_456_789
WHOLE = 1_700_000_000_123_456_000
MOMENT = datetime.fromisoformat("2023-11-14 22:13:20.123456")
KINDS: list[tuple[pa.DataType, list[int], list[Any]]] = [
    (pa.timestamp("ns"), [WHOLE, NS, -1], [
        MOMENT, "2023-11-14 22:13:20.123456789", "1969-12-31 23:59:59.999999999",
    ]),
    (pa.timestamp("ns", "UTC"), [WHOLE, NS], [
        MOMENT.replace(tzinfo=UTC), "2023-11-14 22:13:20.123456789Z",
    ]),
    (pa.duration("ns"), [86_400 * 10**9, 1_500, -1], [timedelta(1), "0:00:00.000001500", "-1 day, 23:59:59.999999999"]),
    (pa.time64("ns"), [1_000, 1_001], [time(microsecond=1), "00:00:00.000001001"]),
    (pa.timestamp("us"), [1], [datetime.fromisoformat("1970-01-01 00:00:00.000001")]),
    (pa.int64(), [NS], [NS]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "counts", "values"), KINDS, ids=lambda one: str(one) if isinstance(one, pa.DataType) else ""
)
def test_values(kind: pa.DataType, counts: list[int], values: list[Any]) -> None:
    cells = pa.array([*counts, None], kind)
    for form in (cells, pa.chunked_array([cells[:1], cells[1:]]), cells.dictionary_encode()):
        assert values_of(form) == [*values, None]
        assert [value_of(cell) for cell in form] == [*values, None]


def test_values_inside_of_others_lose_what_python_can_not_hold() -> None:
    cells = pa.array([[NS], None], pa.list_(pa.timestamp("ns")))
    assert values_of(cells) == [[MOMENT], None]
    cells = pa.array([{"a": NS}], pa.struct([("a", pa.timestamp("ns"))]))
    assert values_of(cells) == [{"a": MOMENT}]


YEAR_10000 = 253_402_300_800
FAR: list[tuple[pa.Array, list[Any]]] = [
    (pa.array([YEAR_10000, 0, None], pa.timestamp("s")), ["10000-01-01 00:00:00", datetime.fromisoformat("1970-01-01"),
                                                          None]),
    (pa.array([YEAR_10000 * 10**6 - 10**6], pa.timestamp("us", "+01:00")), ["10000-01-01 00:59:59.000000+0100"]),
    (pa.array([2**62], pa.timestamp("us")), ["<value out of range: 4611686018427387904>"]),
    (pa.array([2_932_897, 1], pa.date32()), ["10000-01-01", date(1970, 1, 2)]),
    (pa.array([2_932_897 * 86_400_000], pa.int64()).view(pa.date64()), ["10000-01-01"]),
    (pa.array([2**60, 1], pa.duration("s")), ["1152921504606846976 s", timedelta(seconds=1)]),
    (pa.array([[2_932_897], None], pa.list_(pa.date32())), [["10000-01-01"], None]),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "values"), FAR, ids=lambda one: str(one.type) if isinstance(one, pa.Array) else "")
def test_times_that_python_has_no_object_for_are_texts(cells: pa.Array, values: list[Any]) -> None:
    assert values_of(cells) == values
    assert [value_of(cell) for cell in cells] == values


TIMES = pa.array([NS, None, WHOLE], pa.timestamp("ns"))
NESTED: list[tuple[pa.Array, list[Any]]] = [
    (pa.RunEndEncodedArray.from_arrays([1, 2, 4], TIMES), ["2023-11-14 22:13:20.123456789", None, MOMENT, MOMENT]),
    (pa.array([[("a", NS)], None, []], pa.map_(pa.string(), pa.timestamp("ns"))), [[("a", MOMENT)], None, []]),
    (pa.array([[NS], None, []], pa.list_view(pa.timestamp("ns"))), [[MOMENT], None, []]),
    (pa.array([[NS, None], None], pa.list_(pa.timestamp("ns"), 2)), [[MOMENT, None], None]),
    (pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), TIMES.dictionary_encode()), [[MOMENT, None], [MOMENT]]),
    (pa.StructArray.from_arrays([TIMES.dictionary_encode(), pa.array([[NS]] * 3, pa.large_list(pa.timestamp("ns")))],
                                ["a", "b"], mask=pa.array([False, False, True])),
     [{"a": MOMENT, "b": [MOMENT]}, {"a": None, "b": [MOMENT]}, None]),
    (pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [TIMES, pa.array(["x", "y", "z"])]),
     [MOMENT, "y", MOMENT]),
    (pa.UnionArray.from_dense(pa.array([0, 1, 0], pa.int8()), pa.array([1, 0, 0], pa.int32()),
                              [TIMES, pa.array(["y"])]),
     [None, "y", MOMENT]),
    (pa.ExtensionArray.from_storage(pa.opaque(pa.timestamp("ns"), "moment", "nobody"), TIMES),
     ["2023-11-14 22:13:20.123456789", None, MOMENT]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "values"), NESTED, ids=lambda one: str(one.type) if isinstance(one, pa.Array) else ""
)
def test_every_type_is_read_from_what_it_stores(cells: pa.Array, values: list[Any]) -> None:
    assert values_of(cells) == values
    assert values_of(cells.slice(1)) == values[1:]
    assert values_of(pa.chunked_array([cells.slice(0, 1), cells.slice(1)])) == values
    assert [value_of(cell) for cell in cells] == values


HIDDEN = """
import json, sys
from evalspec.imports import arrow_without_pandas
if sys.argv[1] == "hidden":
    arrow_without_pandas()
import pyarrow as pa
from evalspec.cells import values_of
for unit in (pa.timestamp("ns"), pa.duration("ns"), pa.timestamp("ns", "Europe/Berlin")):
    cells = pa.array([1_000, 1_001, 86_400 * 10**9], unit)
    print([str(one) for one in values_of(cells)])
    print([str(one) for one in values_of(pa.array([[("a", 1_001)]], pa.map_(pa.string(), unit)))])
    print([str(one) for one in values_of(pa.StructArray.from_arrays([cells.dictionary_encode()], ["a"]))])
    print([str(one) for one in values_of(pa.RunEndEncodedArray.from_arrays([1, 2, 3], cells))])
assert ("pandas" in sys.modules) is False or sys.argv[1] != "hidden"
"""


def test_they_are_the_same_without_pandas() -> None:
    said = {
        how: subprocess.run([sys.executable, "-c", HIDDEN, how], check=True, capture_output=True, text=True).stdout
        for how in ("hidden", "plain")
    }
    assert said["hidden"] == said["plain"] and "00:00:00.000001001" in said["plain"]


SPEC = """
evalspec: 1
name: nanoseconds
models:
  candidate: {kind: predictions, files: {test: answers.parquet}, outputs: {label: answer}, classes: ["no", "yes"]}
datasets:
  train: {kind: parquet, path: train.parquet, key: id, label: y}
  test: {kind: parquet, path: test.parquet, key: id, label: y}
slices:
  - {name: late, where: "t > '2023-11-14 22:13:20.5'"}
model:
  - {check: quality, dataset: test, require: [accuracy >= 1 %]}
  - {check: slices, dataset: test, by: [day, late], require: [worst_accuracy >= 1 %, slices_too_small == 0]}
data:
  - check: integrity
    dataset: test
    table_schema: {t: {min: "2023-11-14 22:13:21"}, day: {nullable: false}}
    require: [duplicate_rows <= 9 rows, schema_violations <= 1000]
  - {check: integrity, id: whole, dataset: train, require: [duplicate_rows <= 9 rows]}
  - {check: coverage, dataset: test, by: [day, y, z], require: [slices_too_small <= 1000]}
  - {check: shift, reference: train, current: test, require: [drifted_columns <= 90 %, c2st_auc <= 0.9]}
  - {check: contamination, train: [train], test: test, require: [exact_duplicates <= 9 rows]}
  - {check: leakage, train: [train], test: test, time: t, require: [time_overlap <= 399 rows, target_leakage <= 0.999]}
  - {check: saturation, dataset: test, predictions: candidate, day: t, require: [headroom >= -99 pp]}
"""


def rows(seed: int, n: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    t = NS + np.arange(n) * 5_000_001
    return pa.table({
        "id": t + 13 * seed, "t": pa.array(t, pa.timestamp("ns")),
        "day": pa.array(rng.integers(0, 2, n) * 86_400 * 10**9 + 7, pa.duration("ns")), "x": rng.normal(size=n),
        "z": pa.array(np.array([NS, NS + 10**9])[rng.integers(0, 2, n)], pa.timestamp("ns")),
        "y": rng.choice(["no", "yes"], n),
    })  # fmt: skip


@pytest.mark.proof
@pytest.mark.processes
@pytest.mark.parametrize("engine", [None, "local:2"])
def test_nanoseconds_are_values_like_others_in_every_check(engine: str | None, tmp_path: Path) -> None:
    test = rows(2)
    test = pa.concat_tables([test, test.slice(0, 2)])
    test = test.set_column(0, "id", pa.array(range(len(test))))
    pq.write_table(rows(1), tmp_path / "train.parquet")
    pq.write_table(test, tmp_path / "test.parquet")
    pq.write_table(test.select(["id", "y"]).rename_columns(["id", "answer"]), tmp_path / "answers.parquet")
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    command = [sys.executable, "-m", "evalspec", "run", "evalspec.yaml", "--output", "out", "--json"]
    done = subprocess.run(
        [*command, *(["--engine", engine] if engine else [])], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (tmp_path / "out").is_dir(), done.stderr + done.stdout
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert {one["id"]: one["reason"] for one in record["checks"] if one["status"] != "measured"} == {}
    assert "pandas" not in done.stderr


def test_a_csv_with_nine_decimals_is_read(tmp_path: Path) -> None:
    pa.csv.write_csv(pa.table({"t": pa.array(["2024-01-01 00:00:00.300000900", "2024-01-01 00:00:01.1"]), "x": [1, 2]}),
                     tmp_path / "rows.csv")  # fmt: skip
    made = evalspec.run(
        {"evalspec": 1, "name": "csv", "datasets": {"test": {"kind": "csv", "path": str(tmp_path / "rows.csv")}},
         "data": [{"check": "integrity", "dataset": "test", "require": ["duplicate_rows == 0 rows"]}]},
        allow=evalspec.Allow(outside=True), output=tmp_path / "out",
    )  # fmt: skip
    assert [one.status for one in made.record.checks] == ["measured"]
