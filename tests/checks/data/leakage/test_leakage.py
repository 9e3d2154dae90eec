"""`leakage`: what test rows share with training, and columns that tell the label."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.checks.data.leakage.spec import Leakage
from evalspec.errors import InputError
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.remedies import RemoveRows
from evalspec.language.parts import CheckResult
from tests.checks.data.visits import changed, hospital, visits
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs


def run(
    folder: Path, train: dict[str, Any], test: dict[str, Any], label: str | None = None, **fields: Any
) -> CheckResult:
    """Two sets given by their columns."""
    tables = {"train": pa.table(train), "test": pa.table(test)}
    inputs = FakeInputs(folder, tables=tables, labels=dict.fromkeys(tables, label) if label else {})
    given = {"check": "leakage", "train": ["train"], "test": "test", "report_only": True}
    return Leakage.model_validate(given | fields).run(inputs)


def fact(result: CheckResult, metric: str) -> Fact:
    found = result.estimates[metric]
    assert isinstance(found, Measured)
    assert isinstance(found.estimate, Fact)
    return found.estimate


def withheld(result: CheckResult, metric: str) -> str:
    found = result.estimates[metric]
    assert isinstance(found, Measured)
    return found.withhold or ""


def score(result: CheckResult, column: str) -> Estimate:
    found = result.estimates["target_leakage"]
    assert isinstance(found, Parts)
    one = found.parts[column]
    assert isinstance(one, Estimate)
    return one


FLAWS = {
    "patients": "group_overlap == 0",
    "order": "time_overlap == 0",
    "mixed": "index_overlap == 0",
    "labels": "conflicting_labels == 0",
    "code": "target_leakage <= 0.9",
}


@pytest.mark.parametrize("flaw", ["", *FLAWS])
def test_each_flaw_is_found_and_no_other(flaw: str, tmp_path: Path) -> None:
    inputs, check = hospital(tmp_path, flaw)
    result = check.run(inputs)
    found = {one.sentence: outcome(result, one) for one in check.requirements}
    expected = {sentence: "FAIL" if FLAWS.get(flaw) == sentence else "PASS" for sentence in found}
    assert found == expected


def test_counts_are_those_that_were_planted_and_pairs_are_written(tmp_path: Path) -> None:
    inputs, check = hospital(tmp_path, "patients")
    result = check.run(inputs)
    assert fact(result, "group_overlap") == Fact(5.0, 600, "counted: rows of test whose 'patient' occurs in train")
    written = pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()
    assert written == [
        {"metric": "group_overlap", "test_row": row, "other_set": "train", "other_row": 21} for row in range(5)
    ]
    remedy = next(one for one in result.remedies if one.metrics == ("group_overlap",))
    assert isinstance(remedy, RemoveRows)
    assert (remedy.dataset, remedy.rows, remedy.total) == ("test", (0, 1, 2, 3, 4), 5)
    assert remedy.file == result.evidence[0][0]
    assert fact(result, "group_overlap").first == "row 0 (row 21 of train), row 1 (row 21 of train) and 3 more"
    examples = next(block for block in result.blocks if isinstance(block, Examples))
    assert (examples.total, examples.pairs) == (5, True)
    assert [one.fields["patient"] for one in examples.examples[:2]] == ["P7", "P7"]
    inputs, check = hospital(tmp_path, "labels")
    result = check.run(inputs)
    assert fact(result, "conflicting_labels").value == 7
    rows = pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()
    assert [(row["test_row"], row["other_row"]) for row in rows] == [(row, 20 + row) for row in range(7)]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (pa.array([1, 2], pa.int8()), pa.array([1.0, 5.0, None])),
        (pa.array([decimal.Decimal("1.00"), None]), pa.array([1, 7, None])),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "c", None])),
        (
            pa.array([datetime.date(2026, 1, 1)] * 2),
            pa.array([datetime.date(2026, 1, 1), datetime.date(2026, 2, 1), None]),
        ),
    ],
)
def test_ids_are_equal_by_value(train: pa.Array, test: pa.Array, tmp_path: Path) -> None:
    result = run(tmp_path, {"who": train}, {"who": test}, group="who")
    found = fact(result, "group_overlap")
    assert (found.value, found.n) == (1.0, 2)
    assert "1 row of test" in withheld(result, "group_overlap")


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ([1, 2], ["1", "2"]),
        ([True, False], [1, 0]),
        (pa.array([0, 1], pa.timestamp("us")), pa.array([0, 1], pa.timestamp("us", "UTC"))),
        (pa.array([0, 1], pa.timestamp("us")), pa.array([0, 1], pa.date32())),
        ([b"1", b"2"], ["1", "2"]),
    ],
)
def test_ids_that_are_never_equal_are_refused(train: Any, test: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="such values are never equal; give both the same type"):
        run(tmp_path, {"who": train}, {"who": test}, group="who")


def test_lists_name_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names nothing"):
        run(tmp_path, {"who": [[1], [2]]}, {"who": [[1], [2]]}, group="who")


def test_a_time_far_away_hides_no_entity(tmp_path: Path) -> None:
    times = pa.array([1_700_000_000, 1_700_000_001, 253_402_300_799], pa.timestamp("s"))
    result = run(tmp_path, {"who": times}, {"who": times[:2].cast(pa.timestamp("us"))}, group="who")
    assert fact(result, "group_overlap").value == 2


def test_missing_ids_keep_it_from_being_shown(tmp_path: Path) -> None:
    result = run(tmp_path, {"who": ["a", None, "b"]}, {"who": ["c", None]}, group="who")
    assert fact(result, "group_overlap") == Fact(0.0, 1, "counted: rows of test whose 'who' occurs in train")
    assert withheld(result, "group_overlap") == (
        "1 row of test and 1 row of train have no 'who', so whether theirs is new is not known; "
        "leave such rows out with `where: who is not None`, or fill them in"
    )
    # Missing is nobody: two rows without an id are not of one patient.
    none = run(
        tmp_path, {"who": pa.array([None, None], pa.string())}, {"who": pa.array([None], pa.string())}, group="who"
    )
    assert none.missing["group_overlap"] == "no row of test has a 'who'"
    blank = run(tmp_path, {"who": ["a"]}, {"who": ["", " "]}, group="who")
    assert blank.missing["group_overlap"] == "no row of test has a 'who'"
    assert "1 row of test" in withheld(run(tmp_path, {"who": ["a"]}, {"who": ["", "b"]}, group="who"), "group_overlap")


def test_an_entity_may_have_several_columns(tmp_path: Path) -> None:
    train = {"site": ["n", "n", "s"], "number": [1, 2, 1], "x": [1.0, 2.0, 3.0]}
    test = {"site": ["s", "n", "s", None], "number": [2, 2, 1, 1], "x": [4.0, 5.0, 6.0, 7.0]}
    result = run(tmp_path, train, test, group=["site", "number"])
    assert fact(result, "group_overlap") == Fact(2.0, 3, "counted: rows of test whose 'site & number' occurs in train")
    assert "no 'site' or no 'number'" in withheld(result, "group_overlap")
    rows = pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()
    assert [(row["test_row"], row["other_row"]) for row in rows] == [(1, 1), (2, 2)]


def test_ids_that_differ_in_case_only_are_told(tmp_path: Path) -> None:
    result = run(tmp_path, {"who": ["P1", "P2"]}, {"who": ["p1 ", "P2", "P3"]}, group="who")
    assert fact(result, "group_overlap").value == 1
    assert "Of test, 1 row more would share a 'who' but for case or white space." in result.notes


def days(*numbers: int | None, unit: str = "us", zone: str | None = None) -> pa.Array:
    """Days of 2026 from the first of January on, as times of this unit."""
    dates = [None if n is None else datetime.date(2026, 1, 1) + datetime.timedelta(days=n) for n in numbers]
    found = pa.array(dates, pa.date32()).cast(pa.timestamp(unit))
    return found if zone is None else found.cast(pa.timestamp(unit, zone))


@pytest.mark.parametrize(
    ("train", "test", "overlap"),
    [
        (days(0, 5, 3), days(6, 7), 0),
        (days(0, 5, 3), days(5, 6, 4), 2),
        (days(0, 5, unit="ns"), days(5, 6, unit="s"), 1),
        (days(0, 5, zone="UTC"), days(5, 6, zone="Asia/Tokyo"), 1),
        (days(0, 5).cast(pa.date32()), days(5, 6), 1),
        (pa.array([0, 5]), pa.array([5.0, 5.5, 4.0]), 2),
        (pa.array([2**60, 2**60 + 1]), pa.array([2**60 + 2, 2**60 + 1]), 1),
        (pa.array([-(2**61)], pa.timestamp("us")), days(1, unit="ns"), 0),
    ],
)
def test_times_are_compared_as_instants(train: pa.Array, test: pa.Array, overlap: int, tmp_path: Path) -> None:
    result = run(tmp_path, {"at": train}, {"at": test}, time="at")
    assert fact(result, "time_overlap").value == overlap


@pytest.mark.parametrize(
    ("train", "test", "what"),
    [
        (["2026-01-01"], ["2026-02-01"], r"text \('2026-02-01'\), which has no order of time; store it as a date"),
        (["2026-01-01"], ["2026-02-01", "soon"], r"text \('soon'\), which has no order of time"),
        (days(0), days(1, zone="UTC"), "has a time zone in test and none in train: which is later is unknown"),
        (days(0), pa.array([5]), "they have no common order"),
        ([True], [False], "bool, which has no order of time"),
        (pa.array([5], pa.time64("us")), pa.array([6], pa.time64("us")), "has no order of time"),
    ],
)
def test_what_has_no_order_is_refused(train: Any, test: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=what):
        run(tmp_path, {"at": train}, {"at": test}, time="at")


def test_the_last_row_counts_over_all_training_sets(tmp_path: Path) -> None:
    tables = {
        "old": pa.table({"at": days(0, 2)}),
        "new": pa.table({"at": days(9, 1)}),
        "test": pa.table({"at": days(8, 10)}),
    }
    check = Leakage.model_validate(
        {"check": "leakage", "train": ["old", "new"], "test": "test", "time": "at", "report_only": True}
    )
    result = check.run(FakeInputs(tmp_path, tables=tables))
    assert fact(result, "time_overlap").value == 1
    written = pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()
    assert written == [{"metric": "time_overlap", "test_row": 0, "other_set": "new", "other_row": 0}]


def test_with_entities_each_has_its_own_last_row(tmp_path: Path) -> None:
    train = {"who": ["a", "a", "b"], "at": days(1, 9, 3)}
    test = {"who": ["a", "a", "b", "b", "c"], "at": days(5, 10, 3, 4, 0)}
    result = run(tmp_path, train, test, group="who", time="at")
    # a on day 5 and b on day 3; c is new, and its day comes before all training all the same.
    assert fact(result, "entity_time_overlap").value == 2
    assert fact(result, "time_overlap").value == 4
    rows = [row for row in pq.read_table(tmp_path / result.evidence[0][0]).to_pylist() if row["metric"].startswith("e")]
    assert [(row["test_row"], row["other_row"]) for row in rows] == [(0, 1), (2, 2)]


def test_entities_and_times_that_are_missing(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {"who": ["a"], "at": days(1)},
        {"who": ["b", None, "c"], "at": days(2, 3, None)},
        group="who",
        time="at",
    )
    assert withheld(result, "entity_time_overlap") == (
        "2 rows of test have no 'who' or no 'at', so whose or when they were is not known; "
        "leave such rows out with `where: who is not None and at is not None`, or fill them in"
    )


def test_rows_from_before_a_cutoff(tmp_path: Path) -> None:
    tables = {"test": pa.table({"at": days(0, 30, 31, None)})}
    check = {
        "check": "leakage",
        "test": "test",
        "time": "at",
        "after": "2026-01-31",
        "require": ["rows_before_cutoff == 0"],
    }
    result = Leakage.model_validate(check).run(FakeInputs(tmp_path, tables=tables))
    # The 31st of January is not later than itself.
    assert fact(result, "rows_before_cutoff") == Fact(
        2.0, 3, "counted: rows of test that are not later than 2026-01-31"
    )
    assert withheld(result, "rows_before_cutoff") == "in 1 row of test 'at' is missing"
    for column, count in ((days(31, zone="UTC"), 0), (days(30).cast(pa.date32()), 1)):
        tables = {"test": pa.table({"at": column})}
        assert (
            fact(Leakage.model_validate(check).run(FakeInputs(tmp_path, tables=tables)), "rows_before_cutoff").value
            == count
        )
    with pytest.raises(InputError, match="is a day"):
        Leakage.model_validate(check).run(FakeInputs(tmp_path, tables={"test": pa.table({"at": [1, 2]})}))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("after", ["9999-12-31", "2300-01-01"])
def test_a_cutoff_after_all_rows(unit: str, after: str, tmp_path: Path) -> None:
    for column in (days(0, 30, None, unit=unit), days(0, 30, None, unit=unit, zone="Europe/Berlin")):
        result = run(tmp_path, {"at": column}, {"at": column}, time="at", after=after)
        assert fact(result, "rows_before_cutoff").value == 2


def test_rows_between_training_rows(tmp_path: Path) -> None:
    def count(train: list[Any], test: list[Any]) -> float:
        return fact(run(tmp_path, {"i": train}, {"i": test}, index="i"), "index_overlap").value

    assert count([1, 2, 3], [4, 5, 6]) == 0
    assert count([1, 2, 5, 6], [3, 4]) == 0
    assert count([1, 3, 5], [2, 4, 6]) == 2
    assert count([1, 3, 5], [3, 8]) == 1
    # A place that holds rows of both counts as one of training, from either side.
    assert count([1, 3], [1, 2]) == count([-1, -3], [-1, -2]) == 2
    # Every place by its own count, against a loop over the sorted rows.
    lines = np.random.default_rng(1).permutation(300)
    train, test = set(lines[:200].tolist()), sorted(lines[200:].tolist())
    plain = sum(line - 1 in train and line + 1 in train for line in test)
    assert count(sorted(train), test) == plain
    result = run(tmp_path, {"i": sorted(train)}, {"i": test}, index="i")
    # 100 x 200 x 199 / (300 x 299) = 44.4.
    assert "a split at random would give about 44" in fact(result, "index_overlap").method
    assert abs(plain - 44.4) < 15


def test_equal_rows_with_other_labels(tmp_path: Path) -> None:
    train = {"x": [1, 2, 3, 4], "t": ["a", "b", "c", None], "y": ["u", "u", "v", "u"]}
    test = {
        "x": [1.0, 2, 3, 9, 9, 4, None],
        "t": ["a", "b", "c", "z", "z", "", None],
        "y": ["v", "u", "v", "u", "v", "v", "u"],
    }
    result = run(tmp_path, train, test, label="y")
    # Row 0 against training, rows 3 and 4 against each other; missing is not "".
    assert fact(result, "conflicting_labels") == Fact(
        3.0, 6, "counted: rows of test equal to another row in 2 columns, with another label"
    )
    rows = pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()
    assert [(row["test_row"], row["other_set"], row["other_row"]) for row in rows] == [
        (0, "train", 0), (3, "test", 4), (4, "test", 3),
    ]  # fmt: skip


def test_ids_and_times_do_not_make_rows_unequal(tmp_path: Path) -> None:
    columns = {"who": ["a", "b"], "at": days(0, 1), "x": [1, 1], "y": ["u", "v"]}
    later = {"who": ["c", "d"], "at": days(5, 6), "x": [1, 2], "y": ["u", "v"]}
    result = run(tmp_path, columns, later, label="y", group="who", time="at")
    assert fact(result, "conflicting_labels").value == 1
    result = run(tmp_path, columns, later, label="y", columns=["who", "x"])
    assert fact(result, "conflicting_labels").value == 0


def test_columns_that_can_not_be_compared_leave_the_rest(tmp_path: Path) -> None:
    odd = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    rows = {"who": ["a", "b"], "odd": odd, "y": ["u", "v"]}
    result = run(tmp_path, rows, rows, label="y", group="who")
    assert "which can't be compared" in result.missing["conflicting_labels"]
    assert fact(result, "group_overlap").value == 2


def test_labels_of_other_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'label' is string in train and int64"):
        run(tmp_path, {"x": [1, 2], "y": ["0", "1"]}, {"x": [1, 2], "y": [0, 1]}, label="y")


def columns_of(n: int, seed: int, kind: str) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n) if kind == "classes" else rng.gamma(2.0, 10.0, n)
    level = y == 2 if kind == "classes" else y > 20
    hour = pa.array(
        (np.datetime64("2026-01-01") + np.where(level, 700, 0) + rng.integers(0, 600, n)).astype("datetime64[us]")
    )
    return {
        "noise": rng.normal(size=n),
        "copy": pa.array(np.where(level, 5.0, rng.normal(size=n)), mask=rng.random(n) < 0.01),
        "word": pa.array(np.where(level, "paid", "open"), pa.string()),
        "filled": pa.array(rng.normal(size=n), mask=~level),
        "when": hour,
        "name": pa.array([f"n{one}" for one in rng.integers(0, 10**9, n)], pa.string()),
        "pixels": pa.FixedSizeListArray.from_arrays(rng.normal(size=n * 4), 4),
        "empty": pa.array([None] * n, pa.float64()),
        "same": np.ones(n),
        "y": y if kind == "values" else pa.array([f"c{one}" for one in y]),
    }


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_columns_that_tell_the_label(kind: str, tmp_path: Path) -> None:
    result = run(tmp_path, columns_of(1500, 1, kind), columns_of(1000, 2, kind), label="y")
    found = result.estimates["target_leakage"]
    assert isinstance(found, Parts)
    assert list(found.parts) == ["noise", "copy", "word", "filled", "when", "name", "empty", "same"]
    # What tells one class only, or values over 20, tells enough.
    for column in ("copy", "word", "filled", "when"):
        lower = score(result, column).bound(0.95, "lower")
        assert lower is not None and lower > (0.9 if kind == "classes" else 0.7), column
    for column in ("noise", "name", "empty", "same"):
        upper = score(result, column).bound(0.95, "upper")
        assert upper is not None and upper < 0.2, column
    assert "fixed_size_list<item: double>[4] is not judged by itself" in result.missing["target_leakage(pixels)"]
    table = next(block for block in result.blocks if isinstance(block, Table) and "column" in block.title)
    assert table.rows[0][4] == ("c2" if kind == "classes" else table.rows[0][4])


def test_without_labelled_training_rows_one_half_of_the_test_set_is_judged(tmp_path: Path) -> None:
    test = columns_of(2000, 2, "classes")
    inputs = FakeInputs(tmp_path, tables={"test": pa.table(test)}, labels={"test": "y"})
    check = Leakage.model_validate({"check": "leakage", "test": "test", "require": ["target_leakage <= 0.9"]})
    result = check.run(inputs)
    assert 950 < score(result, "word").n < 1050
    assert outcome(result, the(check, "target_leakage <= 0.9")) == "FAIL"


def test_rows_of_a_cluster_are_not_divided_and_count_less(tmp_path: Path) -> None:
    columns = columns_of(400, 2, "classes")
    table = pa.concat_tables([pa.table(columns)] * 5)
    clusters = np.tile(np.arange(400), 5)
    inputs = FakeInputs(tmp_path, tables={"test": table}, labels={"test": "y"}, cluster_of={"test": clusters})
    check = Leakage.model_validate(
        {"check": "leakage", "test": "test", "columns": ["noise", "same"], "report_only": True}
    )
    # Copies on both sides would let noise tell the label.
    assert (score(check.run(inputs), "noise").value or 0.0) < 0.4
    upper = score(check.run(inputs), "same").bound(0.95, "upper")
    assert upper is not None and upper > 0.02


@pytest.mark.parametrize(
    ("y", "why"),
    [
        (["u"] * 100, "there is one class only"),
        ([[1]] * 100, "neither a class nor a value"),
        (pa.array([0] * 100, pa.timestamp("us")), "neither a class nor a value"),
    ],
)
def test_labels_that_nothing_could_tell(y: Any, why: str, tmp_path: Path) -> None:
    rows = {"x": np.arange(100.0), "y": y}
    result = run(tmp_path, rows, {**rows, "x": np.arange(100.0) + 0.5}, label="y")
    assert why in result.missing["target_leakage"]


def test_test_rows_of_one_class_are_told_no_label(tmp_path: Path) -> None:
    rows = {"x": np.arange(100.0), "y": ["u", "v"] * 50}
    result = run(tmp_path, rows, {"x": np.arange(60.0) + 0.5, "y": ["v"] * 60}, label="y")
    assert result.missing["target_leakage"] == "the rows that are judged hold one class only (v)"


def test_rare_classes_are_left_out_and_named(tmp_path: Path) -> None:
    y = ["a"] * 150 + ["b"] * 140 + ["c"] * 5
    rows = {"x": np.arange(295.0), "y": y}
    result = run(tmp_path, rows, {**rows, "x": np.arange(295.0) + 0.5}, label="y")
    assert any("not compared with the rarest class, of 5 rows" in note for note in result.notes)
    found = result.estimates["target_leakage"]
    assert isinstance(found, Measured) and "5 of 295 rows that are judged" in (found.withhold or "")
    assert isinstance(found.estimate, Parts)
    one = found.estimate.parts["x"]
    assert isinstance(one, Estimate) and one.value == pytest.approx(1.0, abs=0.05)


def test_rare_classes_are_judged_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = np.array(["a"] * 462 + ["b"] * 462 + [f"c{one}" for one in range(4)] * 19)
    rows = {"x": np.where(np.char.startswith(y, "c"), 5.0, rng.normal(size=1000)), "y": y}
    sides = {name: pa.table(rows) for name in ("train", "test")}
    inputs = FakeInputs(tmp_path, tables=sides, labels=dict.fromkeys(sides, "y"))
    check = Leakage.model_validate(
        {"check": "leakage", "train": ["train"], "test": "test", "require": ["target_leakage <= 0.8"]}
    )
    assert outcome(check.run(inputs), check.requirements[0]) == "FAIL"


@pytest.mark.parametrize("columns", [["odd", "x"], []])
def test_a_column_that_is_not_judged_keeps_it_from_being_shown(columns: list[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 600)
    rows = pa.table({"x": rng.normal(size=600), "odd": pa.array([[one] for one in y]), "y": y})
    sides = {"train": rows if columns else rows.drop_columns(["odd"]), "test": rows}
    check = Leakage.model_validate(
        {"check": "leakage", "train": ["train"], "test": "test", "columns": columns,
         "require": ["target_leakage <= 0.5", "target_leakage(x) <= 0.5"]}
    )  # fmt: skip
    result = check.run(FakeInputs(tmp_path, tables=sides, labels=dict.fromkeys(sides, "y")))
    assert [outcome(result, one) for one in check.requirements] == ["MISSING", "PASS"]


def test_fields_that_a_metric_needs() -> None:
    check = Leakage.model_validate({"check": "leakage", "test": "test", "require": ["target_leakage <= 0.9"]})
    told = {
        "group_overlap": "`train:` and `group:`",
        "time_overlap": "`train:` and `time:`",
        "entity_time_overlap": "`train:` and `group:` and `time:`",
        "rows_before_cutoff": "`after:` and `time:`",
        "index_overlap": "`train:` and `index:`",
    }
    for metric, fields in told.items():
        asked = Leakage.model_validate({"check": "leakage", "test": "test", "require": [f"{metric} == 0"]})
        assert asked.check_requirement(asked.requirements[0], {}) == f"{metric} needs {fields}"
    assert check.check_requirement(check.requirements[0], {}) is None
    none = Leakage.model_validate({"check": "leakage", "test": "test", "require": ["target_leakage <= 0"]})
    assert "allow a little" in str(none.check_requirement(none.requirements[0], {}))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"train": ["test"]}, "named among its own training sets"),
        ({"train": ["a", "a"]}, "is listed twice in `train`"),
        ({"after": "soon"}, "'soon' is not a day"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Leakage.model_validate({"check": "leakage", "test": "test", "require": ["group_overlap == 0"]} | fields)


def test_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"dataset test has no column 'who' \(choices: x\)"):
        run(tmp_path, {"who": [1]}, {"x": [1]}, group="who")


def test_columns_that_training_lacks_are_told(tmp_path: Path) -> None:
    result = run(tmp_path, {"x": [1.0, 2.0], "y": ["u", "v"]}, {"x": [3.0], "z": [1], "y": ["u"]}, label="y")
    assert "Not checked, since a training set lacks them: z." in result.notes


def test_unlabelled_training_is_not_compared(tmp_path: Path) -> None:
    tables = {"train": pa.table({"x": [1, 2]}), "test": pa.table({"x": [1, 1], "y": ["u", "v"]})}
    check = Leakage.model_validate({"check": "leakage", "train": ["train"], "test": "test", "report_only": True})
    result = check.run(FakeInputs(tmp_path, tables=tables, labels={"test": "y"}))
    assert fact(result, "conflicting_labels").value == 2
    assert "Labels are not compared with those of train: there are none." in result.notes


def test_visits_of_zoned_times_are_told_apart(tmp_path: Path) -> None:
    """The cases above with times of another zone: nothing changes."""
    table = visits(30, 0, "2026-01-01", 1)
    zoned = changed(table, visited=table["visited"].cast(pa.timestamp("us", "Europe/Berlin")))
    later = visits(30, 10, "2026-02-01", 2)
    later = changed(later, visited=later["visited"].cast(pa.timestamp("us", "UTC")))
    inputs = FakeInputs(tmp_path, tables={"train": zoned, "test": later})
    check = {"check": "leakage", "train": ["train"], "test": "test", "time": "visited", "report_only": True}
    assert fact(Leakage.model_validate(check).run(inputs), "time_overlap").value == 0


def test_a_column_that_names_rows_hides_no_conflict(tmp_path: Path) -> None:
    def rows(first: int, label: int) -> dict[str, Any]:
        return {"id": np.arange(first, first + 60), "x": np.arange(60) + 0.5, "y": np.full(60, label)}

    result = run(tmp_path, rows(0, 0), rows(500, 1), label="y")
    assert fact(result, "conflicting_labels").value == 60
    assert any("taken for a name of the row" in note for note in result.notes)
    named = run(tmp_path, rows(0, 0), rows(500, 1), label="y", columns=["id", "x"])
    assert fact(named, "conflicting_labels").value == 0


@pytest.mark.proof
@pytest.mark.parametrize("flaw", FLAWS)
def test_rows_some_at_a_time_give_what_all_of_them_do(flaw: str, tmp_path: Path) -> None:
    def found(batch_rows: int) -> tuple[Any, ...]:
        inputs, check = hospital(tmp_path, flaw, rows=200)
        inputs.batch_rows = batch_rows
        # A second training set, in which some entities and times come again, and some are missing.
        again = inputs.tables["train"].slice(200, 300)
        inputs.tables["late"] = changed(again, patient=[None, *again["patient"].to_pylist()[1:]])  # type: ignore[index]
        inputs.labels = {**inputs.labels, "late": "ill"}
        result = check.model_copy(update={"train": ("late", "train")}).run(inputs)
        counts = {one.name: withheld(result, one.name) for one in check.metrics if one.name.endswith("overlap")}
        rows = pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()
        return counts, {name: fact(result, name) for name in counts}, result.notes, result.blocks, rows

    assert found(13) == found(65_536)


def test_only_what_is_judged_is_read_of_training(tmp_path: Path) -> None:
    asked: list[tuple[str, tuple[str, ...] | None]] = []

    class Watching(FakeInputs):
        def table(self, dataset: str, columns: Any = None) -> pa.Table:
            raise AssertionError("no set is held whole")

        def batches(self, dataset: str, columns: Any = None) -> Any:
            asked.append((dataset, None if columns is None else tuple(columns)))
            return super().batches(dataset, columns)

    inputs, check = hospital(tmp_path)
    wide = {name: changed(table, scan=[[1.0, 2.0]] * table.num_rows) for name, table in inputs.tables.items()}
    check.run(Watching(tmp_path, tables=wide, labels=inputs.labels))
    placing, judged = ("patient", "visited", "line"), ("age", "site", "code")
    assert asked == [
        ("test", None), ("train", None),
        ("test", (*placing, *judged, "ill")),
        ("test", (*judged, "scan", "ill")),
        ("train", (*placing, *judged, "scan", "ill")),
        ("train", (*placing, *judged, "ill")),
    ]  # fmt: skip
