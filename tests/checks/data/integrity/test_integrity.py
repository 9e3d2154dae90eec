"""`integrity`: each rule finds the cells that break it; odd columns give a right figure or a sentence."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from evalspec.checks.data.integrity.rules import Facts
from evalspec.checks.data.integrity.spec import Integrity
from evalspec.errors import InputError
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import Fact, Measured, Parts
from evalspec.language.parts import CheckResult, SpecNames
from evalspec.language.requirement import Requirement
from evalspec.language.states import State, packed
from tests.fakes import FakeInputs


def run(table: pa.Table, folder: Path, batch_rows: int = 65_536, **fields: object) -> CheckResult:
    inputs = FakeInputs(folder, tables={"test": table}, batch_rows=batch_rows)
    return Integrity.model_validate({"check": "integrity", "dataset": "test", **fields}).run(inputs)


def fact(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    assert isinstance(found, Fact)
    return found.value


def rules(result: CheckResult) -> dict[tuple[str, str], int]:
    """(column, rule): cells that break it."""
    table = next((one for one in result.blocks if isinstance(one, Table) and one.title == "Broken rules"), None)
    return {} if table is None else {(str(row[0]), str(row[1])): int(str(row[2])) for row in table.rows}


def patients(n: int = 1000) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "id": [f"P{i:05d}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "weight": rng.normal(75, 9, n),
            "site": rng.choice(["north", "south"], n),
            "seen": pa.array([datetime.date(2026, 1, 1) + datetime.timedelta(days=int(i % 300)) for i in range(n)]),
        }
    )


SCHEMA = {
    "id": {"type": "text", "pattern": r"P\d{5}", "unique": True, "nullable": False},
    "age": {"type": "integer", "min": 0, "max": 120},
    "weight": {"type": "number", "min": 2, "max": 300, "nullable": False},
    "site": {"values": ["north", "south"]},
    "seen": {"type": "time", "min": "2026-01-01", "max": "2026-12-31"},
}


@pytest.mark.parametrize("batch_rows", [65_536, 64])
def test_each_rule_finds_its_cells(tmp_path: Path, batch_rows: int) -> None:
    clean = run(patients(), tmp_path, batch_rows, table_schema=SCHEMA)
    assert fact(clean, "schema_violations") == 0 and fact(clean, "duplicate_rows") == 0 and rules(clean) == {}
    rows = patients().to_pylist()
    rows[3]["id"], rows[700]["id"], rows[701]["id"] = "X", None, "P00001"
    rows[5]["age"], rows[900]["age"] = 121, -1
    rows[7]["weight"], rows[8]["weight"], rows[9]["weight"] = float("nan"), float("inf"), None
    rows[11]["site"], rows[12]["site"] = "North", None
    rows[13]["seen"] = datetime.date(2025, 12, 31)
    result = run(pa.Table.from_pylist(rows), tmp_path, batch_rows, table_schema=SCHEMA)
    assert rules(result) == {
        ("id", "pattern"): 1, ("id", "not nullable"): 1, ("id", "unique"): 1, ("age", "max 120"): 1,
        ("age", "min 0"): 1,
        ("weight", "not nullable"): 2, ("weight", "max 300"): 1, ("site", "values"): 1, ("seen", "min 2026-01-01"): 1,
    }  # fmt: skip
    assert fact(result, "schema_violations") == 10
    rates = result.estimates["missing_rate"]
    assert isinstance(rates, Parts) and isinstance(rates.whole, Fact)
    assert {name: one.value for name, one in rates.parts.items() if isinstance(one, Fact)} == {
        "id": 0.001, "age": 0, "weight": 0.002, "site": 0.001, "seen": 0,
    }  # fmt: skip
    assert rates.whole.value == 0.002
    written = pq.read_table(tmp_path / "violations-integrity.parquet").to_pylist()
    assert {"row": 900, "column": "age", "rule": "min 0", "value": "-1"} in written and len(written) == 11
    pair = next(one for one in result.blocks if isinstance(one, Examples) and one.title == "Rows with one id")
    assert [example.title for example in pair.examples] == ["row 1", "row 701"]


def test_duplicates_are_counted_beyond_the_first(tmp_path: Path) -> None:
    table = pa.concat_tables([patients(300), patients(300).slice(10, 3), patients(300).slice(10, 1)])
    result = run(table, tmp_path, 64)
    assert fact(result, "duplicate_rows") == 4
    assert "no rule" in result.missing["schema_violations"]
    shown = next(one for one in result.blocks if isinstance(one, Examples))
    assert [one.title for one in shown.examples] == ["row 10", "row 300", "row 11", "row 301", "row 12", "row 302"]
    assert fact(run(table, tmp_path, duplicates_by=["site"]), "duplicate_rows") == 302


DAY_10000 = 2_932_897
SHOWN: list[tuple[pa.Array, tuple[object, object]]] = [
    (pa.array([253_402_300_799, 0, None], pa.timestamp("s", "+01:00")), (
        datetime.datetime.fromisoformat("1970-01-01 01:00+01:00"), "10000-01-01 00:59:59+0100",
    )),
    (pa.array([DAY_10000, -719_163], pa.date32()), ("0000-12-31", "10000-01-01")),
    (pa.array([DAY_10000 * 86_400_000, 0], pa.int64()).view(pa.date64()), (datetime.date(1970, 1, 1), "10000-01-01")),
    (pa.array([3, 2**62], pa.timestamp("us")), (
        datetime.datetime.fromisoformat("1970-01-01 00:00:00.000003"), "<value out of range: 4611686018427387904>",
    )),
    (pa.array([1, 3], pa.time32("s")), (datetime.time(0, 0, 1), datetime.time(0, 0, 3))),
    (pa.array([1, 2**60], pa.duration("s")), (None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "ends"), SHOWN, ids=lambda one: str(one.type) if isinstance(one, pa.Array) else "")
def test_ends_of_times_that_python_has_no_object_for(cells: pa.Array, ends: tuple[object, object]) -> None:
    facts = []
    for part in (cells.slice(0, 1), cells.slice(1)):
        facts.append(Facts(str(cells.type)))
        facts[-1].update(part, np.asarray(part.is_null()))
    first, second = (Facts.of_fields(State.of(packed("facts", 1, one.fields()), "facts", 1)) for one in facts)
    first.merge(second)
    assert first.ends == ends


def test_rules_hold_in_years_that_python_does_not_have(tmp_path: Path) -> None:
    far = pa.array([0, 253_402_300_799 * 10**6], pa.int64()).cast(pa.timestamp("us", "+01:00"))
    result = run(pa.table({"t": far}), tmp_path, table_schema={"t": {"min": "1971-01-01T00:00:00Z"}})
    assert rules(result) == {("t", "min 1971-01-01T00:00:00Z"): 1}


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_bounds_of_times_are_the_same_in_every_unit(unit: str, tmp_path: Path) -> None:
    second = {"us": 10**6, "ns": 10**9}[unit]
    table = pa.table({
        "t": pa.array([0, second, None], pa.timestamp(unit)),
        "tod": pa.array([3_600 * second, 5_401 * second, None], pa.time64(unit)),
    })  # fmt: skip
    schema = {"t": {"min": "1970-01-01 00:00:01", "max": "2300-01-01"}, "tod": {"min": "00:30", "max": "01:30:00"}}
    assert rules(run(table, tmp_path, table_schema=schema)) == {
        ("t", "min 1970-01-01 00:00:01"): 1, ("tod", "max 01:30:00"): 1,
    }  # fmt: skip
    assert rules(run(table, tmp_path, table_schema={"t": {"min": "2300-01-01"}})) == {("t", "min 2300-01-01"): 2}
    with pytest.raises(InputError, match=r"min '2026-01-31' of column 'tod' is not a time64\[\w+\]; write 12:30:00"):
        run(table, tmp_path, table_schema={"tod": {"min": "2026-01-31"}})


def test_a_time_far_away_hides_no_repeat(tmp_path: Path) -> None:
    times = [1_700_000_000_000_000, 1_700_000_001_000_000, 1_700_000_000_000_000, 253_402_300_799_000_000]
    table = pa.table({"t": pa.array(times, pa.timestamp("us")), "x": [1, 1, 1, 1]})
    schema = {"t": {"unique": True}}
    result = run(
        table, tmp_path, batch_rows=2, table_schema=schema, require=["duplicate_rows == 0", "schema_violations == 0"]
    )
    assert fact(result, "duplicate_rows") == 1
    assert rules(result) == {("t", "unique"): 1}


def test_a_key_hides_no_copies(tmp_path: Path) -> None:
    n = 400
    table = pa.table({"id": np.arange(n), "x": np.arange(n) % 200 / 7, "y": ["a", "b"] * 200})

    def of(keys: dict[str, str], **fields: object) -> CheckResult:
        inputs = FakeInputs(tmp_path, tables={"test": table}, keys=keys)
        return Integrity.model_validate({"check": "integrity", "dataset": "test", **fields}).run(inputs)

    told = of({"test": "id"})
    assert fact(told, "duplicate_rows") == 200
    assert told.conditions["duplicate_rows"] == "all columns but the key 'id'"
    # Records from before had all columns, and say nothing of it.
    for other in (of({}), of({"test": "id"}, duplicates_by=["id", "x"])):
        assert fact(other, "duplicate_rows") == 0
        assert "duplicate_rows" not in other.conditions
    table = table.select(["id"])
    assert fact(of({"test": "id"}), "duplicate_rows") == 0


def test_splits_are_not_mixed(tmp_path: Path) -> None:
    table = patients(400).append_column("split", [["train"] * 300 + ["test"] * 100])
    clean = run(table, tmp_path, split="split", duplicates_by=["id", "age"])
    assert fact(clean, "schema_violations") == 0 and "Splits in 'split': train, test." in clean.notes
    leaked = table.slice(0, 2).set_column(5, "split", [["test"] * 2])
    result = run(pa.concat_tables([table, leaked]), tmp_path, 64, split="split")
    assert rules(result) == {("split", "rows in several splits"): 4}
    within = run(pa.concat_tables([table, table.slice(0, 2)]), tmp_path, split="split")
    assert fact(within, "schema_violations") == 0 and fact(within, "duplicate_rows") == 2


def test_a_column_that_names_rows_hides_no_row_in_two_splits(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(60), "x": ["same"] * 60, "split": ["train", "test"] * 30})
    assert rules(run(table, tmp_path, split="split", duplicates_by=["x"])) == {("split", "rows in several splits"): 60}
    found = run(table, tmp_path, 16, split="split").estimates["schema_violations"]
    assert isinstance(found, Measured) and "'id' has another value in every row" in (found.withhold or "")
    alone = run(table.drop_columns(["x"]), tmp_path, split="split")
    assert fact(alone, "schema_violations") == 0
    with pytest.raises(InputError, match="no column beside 'split'"):
        run(table, tmp_path, split="split", duplicates_by=["split"])


def test_whole_numbers_are_held_as_such(tmp_path: Path) -> None:
    big = 2**53
    table = pa.table({"a": [big, big + 1, None], "u": pa.array([2**64 - 1, 0, 5], pa.uint64())})
    schema = {"a": {"max": big, "min": -0.5, "values": [big]}, "u": {"min": -5, "max": 2**64}}
    assert rules(run(table, tmp_path, table_schema=schema)) == {("a", f"max {big}"): 1, ("a", "values"): 1}
    other = {"a": {"max": -(2**70)}, "u": {"min": 4.5}}
    assert rules(run(table, tmp_path, table_schema=other)) == {("a", f"max {-(2**70)}"): 2, ("u", "min 4.5"): 1}


class _Shards(FakeInputs):
    """A dataset of two files of one name."""

    def files(self, dataset: str) -> tuple[Path, ...]:
        return tuple(self.evidence / folder / "part-0" for folder in ("a", "b"))


def test_every_file_needs_a_digest_once_one_is_stated(tmp_path: Path) -> None:
    parts = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part-0").write_text(folder)
        parts.append({"contentUrl": f"data/{folder}/part-0", "sha256": hashlib.sha256(folder.encode()).hexdigest()})

    def held(distribution: list[dict[str, str]]) -> CheckResult:
        (tmp_path / "card.json").write_text(json.dumps({"distribution": distribution}))
        inputs = _Shards(tmp_path, tables={"test": patients(20)})
        fields = {"check": "integrity", "dataset": "test", "croissant": "card.json"}
        return Integrity.model_validate(fields).run(inputs)

    assert fact(held(parts), "schema_violations") == 0
    assert rules(held(parts[:1])) == {("file", "the Croissant file has no sha256 of b/part-0"): 1}
    assert "no rule" in held([]).missing["schema_violations"]


def test_columns_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    table = pa.table({"n": ["1", "2.5", "x", None], "w": [1.0, 2.5, None, float("inf")], "t": [1, 2, 3, 4]})
    schema = {
        "n": {"type": "integer", "max": 9},
        "w": {"type": "integer"},
        "t": {"type": "text", "pattern": "a"},
        "gone": {},
    }
    result = run(table, tmp_path, 2, table_schema=schema, only=True)
    broken = result.estimates["schema_violations"]
    assert isinstance(broken, Fact)
    assert broken.first == "'n': integer (2 cells), 'gone': the column is not there and 5 more"
    assert rules(result) == {
        ("n", "the column is string, not integer"): 1, ("n", "integer"): 2, ("w", "integer"): 1,
        ("t", "the column is int64, not text"): 1, ("t", "pattern: the column is int64"): 1,
        ("n", "max 9: the column is string"): 1, ("gone", "the column is not there"): 1,
    }  # fmt: skip
    extra = run(table, tmp_path, table_schema={"n": {}}, only=True)
    assert rules(extra) == {(name, "the schema does not name the column"): 1 for name in ("w", "t")}


def test_odd_columns(tmp_path: Path) -> None:
    """Constant, empty, NaN-only, decimals, zones, nested, dictionaries, huge cells: counted, and nothing is dropped."""
    n = 100
    zone = pa.timestamp("us", "Europe/Berlin")
    stamps = [datetime.datetime(2026, 3, 29, 0, tzinfo=datetime.UTC) + datetime.timedelta(hours=i) for i in range(n)]
    table = pa.table(
        {
            "same": [3] * n, "empty": pa.nulls(n), "void": pa.nulls(n, pa.string()), "nan": np.full(n, np.nan),
            "price": pa.array([decimal.Decimal(i) / 4 for i in range(n)], pa.decimal128(9, 2)),
            "when": pa.array(stamps, zone), "list": [[i, None] for i in range(n)],
            "odd": [[1.0] * (i % 3) for i in range(n)],
            "nest": [{"a": i, "b": {"c": str(i)}} for i in range(n)],
            "code": pa.array(["x", "y"] * 50).dictionary_encode(),
            "huge": ["z" * (200_000 if i == 3 else 1) for i in range(n)], "raw": [b"\xff\xfe"] * n,
        }
    )  # fmt: skip
    schema = {
        "price": {"type": "number", "min": 0, "max": 20, "values": [0.25, 0.5, 24.75]},
        "nan": {"type": "number", "min": 0},
        "when": {"type": "time", "min": "2026-03-29T01:30:00+01:00"}, "list": {"type": "list"},
        "code": {"values": ["x"]},
        "huge": {"pattern": "z"}, "empty": {"type": "integer", "nullable": False}, "nest": {"values": [1]},
    }  # fmt: skip
    result = run(table, tmp_path, 7, table_schema=schema)
    assert rules(result) == {
        ("price", "max 20"): 19, ("price", "values"): 97, ("when", "min 2026-03-29T01:30:00+01:00"): 1,
        ("code", "values"): 50, ("huge", "pattern"): 1, ("empty", "not nullable"): n, ("nest", "values"): n,
    }  # fmt: skip
    assert fact(result, "duplicate_rows") == 0
    assert {f"Column {name!r} has no value in any row." for name in ("empty", "void", "nan")} <= set(result.notes)
    assert "Column 'same' is constant: 3." in result.notes
    rates = result.estimates["missing_rate"]
    assert isinstance(rates, Parts) and isinstance(rates.parts["nan"], Fact) and rates.parts["nan"].value == 1.0
    assert all(len(row["value"]) <= 200 for row in pq.read_table(tmp_path / "violations-integrity.parquet").to_pylist())


def test_what_can_not_be_applied_is_one_sentence(tmp_path: Path) -> None:
    table = patients(60)
    with pytest.raises(InputError, match=r"min '12:30' of column 'seen' is not a date32\[day\]; write 2026-01-31"):
        run(table, tmp_path, table_schema={"seen": {"min": "12:30"}})
    with pytest.raises(
        InputError, match=r"pattern '\(\?<=a\)b' of column 'id' is not a regular expression.*no look-around"
    ):
        run(table, tmp_path, table_schema={"id": {"pattern": "(?<=a)b"}})
    with pytest.raises(InputError, match="test has no rows"):
        run(table.slice(0, 0), tmp_path)
    with pytest.raises(ValidationError, match="is not a sha256"):
        Integrity.model_validate({"dataset": "test", "digest": {"a.csv": "abc"}})
    with pytest.raises(ValidationError, match="200 characters"):
        Integrity.model_validate({"dataset": "test", "table_schema": {"a": {"pattern": "x" * 201}}})
    union = pa.UnionArray.from_dense(
        pa.array([0] * 3, pa.int8()), pa.array([0, 1, 2], pa.int32()), [pa.array([1, 2, 3])]
    )
    result = run(pa.table({"u": union, "x": [1, 1, 1]}), tmp_path)
    assert "which can't be compared" in result.missing["duplicate_rows"]
    assert fact(run(pa.table({"u": union, "x": [1, 1, 1]}), tmp_path, duplicates_by=["x"]), "duplicate_rows") == 2


def test_of_one_split_no_row_stands_in_two(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 1, 2], "part": ["train"] * 3})
    found = run(table, tmp_path, split="part").estimates["schema_violations"]
    assert isinstance(found, Measured)
    assert found.withhold == "'part' names one split only (train), so no row could be in two"
    both = pa.table({"x": [1, 1, 2], "part": ["train", "test", "test"]})
    assert fact(run(both, tmp_path, split="part"), "schema_violations") == 2


def test_names(tmp_path: Path) -> None:
    check = Integrity.model_validate({"dataset": "test", "record_set": "rows"})
    assert "there is none" in str(check.check_names(SpecNames(models=(), datasets=("test",), slices=())))
    none = Requirement("schema_violations == 0", "schema_violations", None, "==", 0.0, "count")
    assert "needs rules for the rows" in str(check.check_requirement(none, {"test": None}))


CARD = {
    "@context": {"@vocab": "https://schema.org/", "cr": "http://mlcommons.org/croissant/"},
    "@type": "sc:Dataset",
    "conformsTo": "http://mlcommons.org/croissant/1.1",
    "distribution": [
        {"@type": "cr:FileObject", "@id": "file", "name": "file", "contentUrl": "data/test.parquet", "sha256": ""}
    ],
    "recordSet": [
        {
            "@type": "cr:RecordSet", "@id": "rows",
            "field": [
                {"@id": "rows/id", "dataType": "sc:Text",
                 "source": {"fileObject": {"@id": "file"}, "extract": {"column": "id"}}},
                {"@id": "rows/age", "dataType": ["sc:Integer", "wd:Q185836"]},
                {"@id": "rows/weight", "dataType": "cr:Float64"},
                {"@id": "rows/site", "dataType": "sc:Text"},
                {"@id": "rows/seen", "dataType": "sc:Date"},
                {"@id": "rows/photo", "dataType": "sc:ImageObject"},
            ],
        }
    ],
}  # fmt: skip


def test_a_croissant_file_gives_types_and_digests(tmp_path: Path) -> None:
    table = patients(200).append_column("photo", pa.array([b"x"] * 200))
    pq.write_table(table, tmp_path / "test.parquet")
    digest = hashlib.sha256((tmp_path / "test.parquet").read_bytes()).hexdigest()
    card = json.loads(json.dumps(CARD))
    card["distribution"][0]["sha256"] = digest
    (tmp_path / "card.json").write_text(json.dumps(card))
    fields: dict[str, Any] = {"croissant": "card.json", "digest": {"test.parquet": f"sha256:{digest}"}}
    clean = run(table, tmp_path, **fields, table_schema={"age": {"max": 100}})
    assert fact(clean, "schema_violations") == 0
    assert clean.notes.count("File 'test.parquet' has the sha256 that is stated.") == 2
    assert "Column 'photo' is sc:ImageObject in the Croissant file: not held." in clean.notes
    texts = table.set_column(1, "age", pa.array(["a"] + ["1"] * 199)).drop_columns(["site"])
    changed = run(texts, tmp_path, **fields)
    assert rules(changed) == {
        ("age", "the column is string, not integer"): 1, ("age", "integer"): 1, ("site", "the column is not there"): 1,
    }  # fmt: skip
    with (tmp_path / "test.parquet").open("ab") as stream:
        stream.write(b"x")
    other = run(table, tmp_path, **fields)
    assert fact(other, "schema_violations") == 2 and {column for column, _ in rules(other)} == {"file"}
    for content, words in (("{", "not JSON"), ("[1]", "neither recordSet nor distribution")):
        (tmp_path / "card.json").write_text(content)
        with pytest.raises(InputError, match=words):
            run(table, tmp_path, croissant="card.json")
    card["recordSet"].append({"@id": "other", "field": []})
    (tmp_path / "card.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match=r"several record sets .choices: rows, other.; name one"):
        run(table, tmp_path, croissant="card.json")
    assert fact(run(table, tmp_path, croissant="card.json", record_set="rows"), "schema_violations") == 1
