"""`coverage`: groups are counted, what is declared and not there is a finding, shares are held against deployment."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from evalspec.checks.data.coverage.representation import Represented, _estimate
from evalspec.checks.data.coverage.spec import Coverage
from evalspec.checks.data.coverage.tally import Values
from evalspec.errors import InputError
from evalspec.evidence.blocks import Matrix, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.language.parts import CheckResult, NeedRows, SpecNames
from evalspec.stats.shares.proportion import Proportion
from tests.checks.data.visits import crossing
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs

ROWS = {
    "lux": [5.0, 500.0, 7.0, None, 300.0, 20.0, 800.0, 900.0],
    "site": ["north", "north", "south", "south", "north", None, "north", "north"],
    "y": ["a", "b", "a", "a", "a", "a", "b", "a"],
}
NIGHT = {"name": "night", "where": "lux < 10"}


def run(folder: Path, rows: dict[str, Any] | pa.Table, label: str | None = "y", **fields: Any) -> CheckResult:
    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    inputs = FakeInputs(folder, tables={"test": table}, labels={"test": label} if label else {})
    given = {"check": "coverage", "dataset": "test", "report_only": True}
    return Coverage.model_validate(given | fields).run(inputs)


def fact(result: CheckResult, metric: str, part: str | None = None) -> Fact:
    found: Any = result.estimates[metric]
    if part is not None:
        assert isinstance(found, Parts)
        found = found.parts[part]
    found = found.estimate if isinstance(found, Measured) else found
    assert isinstance(found, Fact)
    return found


def groups(result: CheckResult) -> dict[str, float]:
    measured = result.estimates["smallest_slice"]
    found = measured.estimate if isinstance(measured, Measured) else measured
    assert isinstance(found, Parts)
    return {name: float(one.value) for name, one in found.parts.items() if isinstance(one, Fact)}


def test_groups_are_counted(tmp_path: Path) -> None:
    result = run(tmp_path, ROWS, conditions=[NIGHT], by=["site"], min_n=2)
    assert fact(result, "slices_too_small").first == "y=b & site=south (0 of 2 rows)"
    assert groups(result) == {
        "night": 2, "y=a": 6, "y=b": 2, "site=north": 5, "site=south": 2, "y=a & site=north": 3,
        "y=a & site=south": 2, "y=b & site=north": 2, "y=b & site=south": 0,
    }  # fmt: skip
    assert fact(result, "slices_too_small") == Fact(1.0, 8, "counted over the whole file: y=b & site=south")
    assert fact(result, "missing_conditions").value == 0
    assert fact(result, "class_imbalance") == Fact(3.0, 8, "counted over the whole file: a against b")
    assert result.notes == ["Always answering 'a' is right in 75 % of test."]
    matrix = next(block for block in result.blocks if isinstance(block, Matrix))
    assert (matrix.rows, matrix.columns, matrix.values) == (("a", "b"), ("north", "south"), ((3.0, 2.0), (2.0, 0.0)))
    rows = {row["group"]: row for row in pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()}
    assert (rows["night"]["not_known"], rows["site=north"]["not_known"], rows["night"]["needed"]) == (1, 1, 2)
    assert "y=b & site=south" not in groups(run(tmp_path, ROWS, by=["site"], joint=False))


def test_what_a_group_needs() -> None:
    base = {"check": "coverage", "dataset": "test", "conditions": ["dark", NIGHT | {"min_n": 7}], "report_only": True}
    plain, wide = Coverage.model_validate(base), Coverage.model_validate(base | {"width": "5 pp"})
    dark, night = plain.declared
    assert [plain.needed(one, 0.95) for one in (None, dark, night)] == [100, 100, 7]
    # (1.6449 / (2 x 0.05))^2 = 270.6.
    assert [wide.needed(one, 0.95) for one in (None, night)] == [271, 7]
    assert wide.needed(None, 0.99) == 542


def test_rows_that_a_requirement_on_a_condition_needs() -> None:
    given = {"check": "coverage", "dataset": "test", "report_only": True}
    shown = Coverage.model_validate(given | {"conditions": [NIGHT | {"at_least": "88 %", "expected": "92 %"}]})
    n = shown.needed(shown.declared[0], 0.95)
    # Of n rows so many must be right for a lower bound of 88 %; at 92 % that happens in four of five cases.
    fewest = next(k for k in range(n + 1) if binom.sf(k - 1, n, 0.88) <= 0.05)
    assert n == 391
    assert binom.sf(fewest - 1, n, 0.92) >= 0.8


@pytest.mark.parametrize(
    ("rows", "where", "why"),
    [
        (ROWS, "lux < 1", "no row of test; of 1 row it can't be said"),
        (ROWS, "weather == 'rain'", "test has no column 'weather'"),
        (ROWS | {"lux": [None] * 8}, "lux < 10", "nothing in test says so: 'lux' is missing in every row"),
        (ROWS | {"lux": [float("nan")] * 8}, "lux < 10", "nothing in test says so: 'lux' is missing in every row"),
        (ROWS, "site == 'east'", "no row of test; of 1 row it can't be said"),
    ],
)
def test_a_condition_that_nothing_shows_is_a_finding(
    rows: dict[str, Any], where: str, why: str, tmp_path: Path
) -> None:
    result = run(tmp_path, rows, conditions=[{"name": "dark", "where": where}])
    assert fact(result, "missing_conditions") == Fact(1.0, 8, "counted over the whole file: dark")
    assert groups(result)["dark"] == 0
    assert fact(result, "slices_too_small").method.startswith("counted over the whole file: dark")
    table = next(block for block in result.blocks if isinstance(block, Table) and "Not covered by" in block.title)
    assert table.rows == (("dark", why),)
    # Nobody requires that none is missing, so it stands with the verdict.
    assert result.weakens == [f"test has no rows for dark: {why}"]
    required = run(
        tmp_path, rows, conditions=[{"name": "dark", "where": where}], report_only=False,
        require=["missing_conditions == 0"],
    )  # fmt: skip
    assert required.weakens == []


def test_slices_of_the_spec_are_conditions_too(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, tables={"test": pa.table(ROWS)}, wheres={"dark": "lux < 25"})
    check = Coverage.model_validate(
        {"check": "coverage", "dataset": "test", "conditions": ["dark"], "report_only": True}
    )
    assert groups(check.run(inputs)) == {"dark": 3.0}
    names = SpecNames(("candidate",), ("test",), ("dim",))
    assert "condition 'dark' has no `where:` and is not a slice of this spec (choices: dim)" in str(
        check.check_names(names)
    )


def test_a_slice_whose_column_is_not_there_is_a_finding(tmp_path: Path) -> None:
    check = Coverage.model_validate(
        {"check": "coverage", "dataset": "test", "conditions": ["dark"], "report_only": True}
    )
    result = check.run(FakeInputs(tmp_path, tables={"test": pa.table(ROWS)}, wheres={"dark": "luxx < 10"}))
    assert fact(result, "missing_conditions").value == 1


def test_a_condition_that_can_not_be_held_against_its_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="column 'site' holds string"):
        run(tmp_path, ROWS, conditions=[{"name": "dark", "where": "site < 3"}])


def test_declared_shares_are_held_against_those_of_the_file(tmp_path: Path) -> None:
    site = ["north"] * 70 + ["south"] * 25 + ["east"] * 5
    population = {"site": {"north": "60 %", "south": "30 %", "west": "10 %"}}
    result = run(tmp_path, {"site": site, "lux": np.arange(100.0)}, None, population=population,
                 conditions=[NIGHT | {"share": "40 %"}])  # fmt: skip
    gaps = {name: round(fact(result, "representation_gap", name).value, 12) for name in (
        "site=north", "site=south", "site=west", "site=(other)", "night")}  # fmt: skip
    assert gaps == {"site=north": 0.1, "site=south": 0.05, "site=west": 0.1, "site=(other)": 0.05, "night": 0.3}
    # A declared value without a row is missing, as a condition is.
    assert fact(result, "missing_conditions").method == "counted over the whole file: site=west"


def test_rows_that_are_not_known_count_against_a_declared_share(tmp_path: Path) -> None:
    site = ["north"] * 50 + ["south"] * 40 + [None] * 10
    result = run(tmp_path, {"site": site}, None, population={"site": {"north": "50 %", "south": "50 %"}})
    # North is 50 to 60 of 100, south 40 to 50.
    assert fact(result, "representation_gap", "site=north").value == pytest.approx(0.1)
    assert fact(result, "representation_gap", "site=south").value == pytest.approx(0.1)
    assert "10 of which it can't be said count against it" in fact(result, "representation_gap", "site=south").method


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ({"lux": [1.0, 2.0]}, "test has no column 'site'"),
        ({"site": pa.array([None, None], pa.string())}, "'site' is missing in every row of test"),
    ],
)
def test_a_declared_column_without_values_is_a_finding(rows: dict[str, Any], why: str, tmp_path: Path) -> None:
    result = run(tmp_path, rows, None, population={"site": {"north": "50 %"}})
    assert fact(result, "missing_conditions") == Fact(1.0, 2, "counted over the whole file: site")
    assert result.missing["representation_gap(site=north)"] == why
    assert result.missing["representation_gap"] == why


def test_a_condition_of_which_nothing_is_known_has_no_share(tmp_path: Path) -> None:
    result = run(tmp_path, {"x": [1.0, 2.0]}, None, conditions=[NIGHT | {"share": "30 %"}])
    assert result.missing["representation_gap(night)"] == "test has no column 'lux'"


def test_values_are_matched_as_they_are_written(tmp_path: Path) -> None:
    rows = {"digit": [0, 1, 1, 0], "day": [True, False, True, True]}
    population = {"digit": {0: "50 %", 1: "50 %"}, "day": {True: "75 %", False: "25 %"}}
    result = run(tmp_path, rows, None, population=population)
    found = result.estimates["representation_gap"]
    assert isinstance(found, Parts)
    assert {name: one.value for name, one in found.parts.items() if isinstance(one, Fact)} == {
        "digit=0": 0.0, "digit=1": 0.0, "day=true": 0.0, "day=false": 0.0,
    }  # fmt: skip


def test_values_that_are_equal_are_one_group_however_they_are_stored(tmp_path: Path) -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array([1.0, float("nan"), 2.0]))
    price = pa.array([Decimal("1.5"), None, Decimal("2.5"), Decimal("1.5")], pa.decimal128(5, 2))
    for column, counts, missing in (
        (pa.array([0.0, -0.0, 1.0, float("nan")]), {0.0: 2, 1.0: 1}, 1),
        (coded, {1.0: 1, 2.0: 1}, 2),
        (price, {Decimal("1.5"): 2, Decimal("2.5"): 1}, 1),
    ):
        values = Values(keep=True)
        values.update(column)
        found, rows, _ = values.sorted()
        assert dict(zip(found.to_pylist(), rows.tolist(), strict=True)) == counts
        assert values.missing == missing


def test_a_sampled_population_has_an_interval(tmp_path: Path) -> None:
    inputs, check = crossing(tmp_path)
    result = check.run(inputs)
    found = result.estimates["representation_gap"]
    assert isinstance(found, Parts)
    assert list(found.parts) == ["site=north", "site=south", "night"]
    north = found.parts["site=north"]
    assert isinstance(north, Estimate) and north.value is not None
    here = np.mean(np.array(inputs.tables["test"]["site"].to_pylist()) == "north")
    there = Proportion.of_counts(sum(one == "north" for one in inputs.tables["traffic"]["site"].to_pylist()), 3000)
    lower, upper = there.bound(0.95, "lower"), there.bound(0.95, "upper")
    assert lower is not None and upper is not None
    assert north.bound(0.95, "upper") == pytest.approx(max(upper - here, here - lower))
    assert outcome(result, the(check, "representation_gap <= 5 pp")) == "PASS"
    inputs, check = crossing(tmp_path, dark=0.5)
    assert outcome(check.run(inputs), the(check, "representation_gap <= 5 pp")) == "FAIL"


@pytest.mark.parametrize(("truth", "here"), [(0.35, 60), (0.25, 60), (0.02, 0), (0.3, 75)])
def test_the_gap_errs_as_seldom_as_it_says(truth: float, here: int) -> None:
    """Every outcome of 250 rows of a population, weighed by its chance, beside a test set of 200 rows."""
    chance = binom.pmf(np.arange(251), 250, truth)
    apart = abs(here / 200 - truth)
    kept = Represented()
    for count in range(251):
        _estimate(kept, str(count), (here, 200, 0), (Proportion.of_counts(count, 250),), "test")
    for side, level in (("upper", 0.05), ("lower", 0.05), ("upper", 0.002), ("lower", 0.002)):
        p = [part.p_value(apart, "upper" if side == "upper" else "lower") for part in kept.parts.values()
             if isinstance(part, Estimate)]  # fmt: skip
        found = np.array([1.0 if one is None else one for one in p])
        # Evidence that it is closer (further) than it is.
        assert chance[found <= level].sum() <= level + 1e-12


def test_a_population_with_rows_that_are_not_known(tmp_path: Path) -> None:
    test = pa.table({"site": ["north", "south"] * 100, "lux": [5.0, 50.0] * 100})
    traffic = pa.table({"site": ["north", "south", None] * 100, "lux": [5.0, None, 50.0] * 100})
    inputs = FakeInputs(tmp_path, tables={"test": test, "traffic": traffic})
    check = Coverage.model_validate(
        {"check": "coverage", "dataset": "test", "conditions": [NIGHT], "by": ["site"], "population": "traffic",
         "report_only": True}
    )  # fmt: skip
    result = check.run(inputs)
    assert result.notes == [
        "Of traffic, 100 rows without 'site' count on the side that is worse.",
        "Of traffic, 100 rows that may be night count on the side that is worse.",
    ]
    found = result.estimates["representation_gap"]
    assert isinstance(found, Parts)
    # Half of 200 rows, and a third to two thirds of 300.
    values = {name: one.value for name, one in found.parts.items() if isinstance(one, Estimate)}
    assert values == pytest.approx({"site=north": 1 / 6, "site=south": 1 / 6, "night": 1 / 6})


def test_a_label_in_by_has_shares_in_the_population(tmp_path: Path) -> None:
    tables = {
        "test": pa.table({"site": ["n", "s"] * 500, "y": ["a"] * 900 + ["b"] * 100}),
        "traffic": pa.table({"site": ["n", "s"] * 500, "y": ["a"] * 500 + ["b"] * 500}),
    }
    inputs = FakeInputs(tmp_path, tables=tables, labels={"test": "y"})
    check = Coverage.model_validate(
        {"check": "coverage", "dataset": "test", "by": ["y", "site"], "population": "traffic",
         "require": ["representation_gap <= 10 pp"]}
    )  # fmt: skip
    result = check.run(inputs)
    assert outcome(result, the(check, "representation_gap <= 10 pp")) == "FAIL"
    assert "y=a & y=a" not in groups(result) and "y=a & site=n" in groups(result)


@pytest.mark.parametrize("by", [["site"], []])
def test_a_declared_value_without_a_row_is_a_group_of_no_rows(by: list[str], tmp_path: Path) -> None:
    found = groups(run(tmp_path, {"site": ["n"] * 500}, None, by=by, population={"site": {"n": "60 %", "s": "40 %"}}))
    assert found["site=s"] == 0 and found.get("site=n", 500) == 500


def test_rows_of_a_cluster_say_less_of_a_population(tmp_path: Path) -> None:
    test, traffic = ({"site": ["north", "south"] * 100} for _ in range(2))
    inputs = FakeInputs(tmp_path, tables={"test": pa.table(test), "traffic": pa.table(traffic)})
    check = Coverage.model_validate(
        {"check": "coverage", "dataset": "test", "by": ["site"], "population": "traffic", "report_only": True}
    )
    alone = check.run(inputs).estimates["representation_gap"]
    inputs.cluster_of = {"traffic": np.arange(200) % 20}
    together = check.run(inputs).estimates["representation_gap"]
    assert isinstance(alone, Parts) and isinstance(together, Parts)
    first, second = alone.parts["site=north"], together.parts["site=north"]
    assert isinstance(first, Estimate) and isinstance(second, Estimate)
    narrow, wide = first.bound(0.95, "upper"), second.bound(0.95, "upper")
    assert narrow is not None and wide is not None and wide > 1.5 * narrow


@pytest.mark.parametrize(
    ("y", "why"),
    [
        (np.arange(50.0), "holds 50 distinct numbers, which are values"),
        (["a"] * 50, "there is one class only"),
        ([f"answer {one}" for one in range(150)], "holds 150 distinct texts in 150 rows, which are not classes"),
        (np.full(50, np.nan), "is missing in every row"),
        ([[1]] * 50, "which is not a class"),
    ],
)
def test_labels_without_classes_have_no_balance(y: Any, why: str, tmp_path: Path) -> None:
    result = run(tmp_path, {"y": y})
    assert why in result.missing["class_imbalance"]
    assert run(tmp_path, {"x": [1]}, None).missing["class_imbalance"] == "test names no label"


def test_where_whole_numbers_make_no_classes_no_count_of_groups_passes(tmp_path: Path) -> None:
    def withheld(found: CheckResult) -> list[str | None]:
        measured = [found.estimates[name] for name in ("smallest_slice", "slices_too_small")]
        return [one.withhold for one in measured if isinstance(one, Measured)]

    rows = {"y": list(range(100)) * 2, "site": ["n", "s"] * 100}
    said = "no group is a class: the label holds 100 distinct numbers, which are values; store classes as text, or say"
    assert [str(one)[: len(said)] for one in withheld(run(tmp_path, rows, by=["site"]))] == [said, said]
    # Prices are values, whatever the spec says of them, and few numbers are classes.
    for labels in ([one / 8 for one in rows["y"]], [one % 9 for one in rows["y"]]):
        assert withheld(run(tmp_path, rows | {"y": labels}, by=["site"])) == [None, None]
    stated = FakeInputs(tmp_path, {"test": pa.table(rows)}, {"test": "y"}, {"test": "min"})
    given = {"check": "coverage", "dataset": "test", "by": ["site"], "report_only": True}
    assert withheld(Coverage.model_validate(given).run(stated)) == [None, None]


def test_columns_whose_values_are_no_groups_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds double, not groups; name the ranges"):
        run(tmp_path, ROWS, by=["lux"])
    with pytest.raises(InputError, match="300 distinct values, more than 200"):
        run(tmp_path, {"who": np.arange(300)}, None, by=["who"])
    many = {"y": [f"c{one}" for one in range(60)] * 2, "who": list(range(60)) * 2}
    with pytest.raises(InputError, match="3,720 groups with those of 'who', more than 3,000; say `joint: false`"):
        run(tmp_path, many, by=["who"])
    assert len(groups(run(tmp_path, many, by=["who"], joint=False))) == 120
    with pytest.raises(InputError, match="no column 'sight'"):
        run(tmp_path, ROWS, by=["sight"])


def test_a_group_that_is_never_recorded_is_a_finding(tmp_path: Path) -> None:
    result = run(tmp_path, ROWS | {"site": pa.array([None] * 8, pa.string())}, by=["site"])
    assert fact(result, "missing_conditions").method == "counted over the whole file: site"
    assert groups(result)["site"] == 0


def test_two_groups_of_one_name_are_refused(tmp_path: Path) -> None:
    # `by:` the label is the classes once more, and they are counted once.
    assert list(groups(run(tmp_path, ROWS, by=["y"]))) == ["y=a", "y=b"]
    with pytest.raises(InputError, match="two groups of test are called 'a=1 & b=2'"):
        run(tmp_path, {"a": ["1", "1 & b=2"], "b": ["2", "2"]}, "a", by=["b"])


def test_class_and_group_that_go_together(tmp_path: Path) -> None:
    rows = {"site": ["n"] * 50 + ["s"] * 50, "day": ["m", "t"] * 50, "one": ["x"] * 100, "y": ["a"] * 50 + ["b"] * 50}
    result = run(tmp_path, rows, by=["site", "day", "one"])
    assert fact(result, "class_association", "site").value == pytest.approx(1.0)
    assert fact(result, "class_association", "day").value == 0.0
    assert result.missing["class_association(one)"] == "'one' has one value only"


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"conditions": [NIGHT, NIGHT]}, "'night' is listed twice in `conditions`"),
        ({"by": ["a", "a"]}, "'a' is listed twice in `by`"),
        ({"min_n": 5, "width": "5 pp"}, "both say how many rows"),
        ({"population": "test", "by": ["a"]}, "would be its own population"),
        ({"population": "traffic"}, "nothing is compared with the population"),
        ({"population": "traffic", "conditions": [NIGHT | {"share": "3 %"}]}, "the share of 'night' is declared"),
        ({"population": {"site": {"n": "70 %", "s": "40 %"}}}, "add up to 110 %"),
        ({"population": {"site": {"n": "110 %"}}}, "not between 0 % and 100 %"),
        ({"population": {"site": {}}}, "has no value"),
        ({"conditions": [{"name": "night", "where": "lux <"}]}, "is not understood"),
        ({"conditions": [NIGHT | {"at_least": "88 %"}]}, "go together"),
        ({"conditions": [NIGHT | {"at_least": "88 %", "expected": "80 %"}]}, "never shown to be at least that"),
        ({"conditions": [NIGHT | {"at_least": "88 %", "expected": "92 %", "min_n": 5}]}, "both say how many rows"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Coverage.model_validate(
            {"check": "coverage", "dataset": "test", "require": ["missing_conditions == 0"]} | fields
        )


@pytest.mark.parametrize(
    ("sentence", "fields", "what"),
    [
        ("missing_conditions == 0", {}, "needs `conditions:`"),
        ("class_association <= 0.3", {}, "needs `by:`"),
        ("representation_gap <= 5 pp", {"conditions": [NIGHT]}, "needs `population:`"),
        ("smallest_slice >= 500 rows", {"conditions": [NIGHT]}, "test has 400 rows in all"),
    ],
)
def test_what_can_never_pass_is_said(sentence: str, fields: dict[str, Any], what: str) -> None:
    check = Coverage.model_validate({"check": "coverage", "dataset": "test", "require": [sentence]} | fields)
    assert what in str(check.check_requirement(check.requirements[0], {"test": 400}))


def test_what_is_read() -> None:
    given = {"check": "coverage", "dataset": "test", "by": ["site"], "conditions": [NIGHT], "population": "traffic"}
    check = Coverage.model_validate(given | {"require": ["class_imbalance <= 10x"]})
    # The column of a condition need not be there: that it isn't is what is found.
    assert check.needs() == (NeedRows("test", ("site",), label=True), NeedRows("traffic", ("site",)))


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="test has no rows to count"):
        run(tmp_path, pa.table(ROWS).slice(0, 0), by=["site"])


@pytest.mark.parametrize("clustered", [False, True])
def test_rows_some_at_a_time_give_what_all_of_them_do(clustered: bool, tmp_path: Path) -> None:
    def found(batch_rows: int) -> tuple[Any, ...]:
        inputs, check = crossing(tmp_path, rows=400)
        inputs.batch_rows = batch_rows
        # Values that come late, numbers and cells without one.
        rng = np.random.default_rng(8)
        for name in inputs.tables:
            table = inputs.tables[name].set_column(0, "lux", pa.array(rng.random(400) * 30, mask=rng.random(400) < 0.1))
            late = pa.array(np.arange(400) // 90, mask=np.arange(400) % 7 == 3)
            inputs.tables[name] = table.append_column("wave", late)  # type: ignore[index]
        inputs.cluster_of = {"traffic": rng.integers(0, 50, 400)} if clustered else {}
        result = check.model_copy(update={"by": ("site", "wave")}).run(inputs)
        gaps: Any = result.estimates["representation_gap"]
        bounds = {name: (one.value, one.n, one.bound(0.95, "upper")) for name, one in gaps.parts.items()}
        return groups(result), bounds, result.blocks, pq.read_table(tmp_path / result.evidence[0][0]).to_pylist()

    assert found(7) == found(65_536)


def test_no_more_values_are_held_than_groups_could_be(tmp_path: Path) -> None:
    many = [f"answer {one}" for one in range(10_500)]
    result = run(tmp_path, {"y": many * 2, "who": many * 2})
    assert "holds more than 10,000 distinct texts in 21,000 rows" in result.missing["class_imbalance"]
    with pytest.raises(InputError, match="more than 10,000 distinct values, more than 200"):
        run(tmp_path, {"y": many, "who": many}, by=["who"])
