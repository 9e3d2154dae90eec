"""What the columns and files of a dataset tell of a check, before anything is read: each with its place and remedy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import SpecError
from evalspec.loading import load

HEAD = """\
evalspec: 1
name: visits
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
  train: {kind: parquet, path: train.parquet, label: y}
"""
COLUMNS = "(choices: age, amount, site, day, y)"
ZEROS = 64 * "0"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = 60
    table = pa.table(
        {
            "age": range(rows), "amount": [0.5] * rows, "site": ["n", "s"] * (rows // 2),
            "day": ["2026-01-31"] * rows, "y": ["a", "b"] * (rows // 2),
        }
    )  # fmt: skip
    pq.write_table(table, "test.parquet")
    pq.write_table(table.drop_columns(["amount"]), "train.parquet")
    return tmp_path


def said(text: str) -> list[str]:
    """The sentences with which a spec is refused, without what stands before the path; nothing: it is right."""
    Path("s.yaml").write_text(text if text.startswith("evalspec") else HEAD + text)
    try:
        load("s.yaml")
    except SpecError as error:
        return [str(problem).partition(": ")[2] for problem in error.problems]
    return []


def integrity(fields: str, require: str = "schema_violations == 0") -> str:
    return f"data:\n  - {{check: integrity, dataset: test, {fields}, require: [{require}]}}\n"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("table_schema: {agee: {min: 0}}",
         f"data[0].table_schema.agee: test has no column 'agee' {COLUMNS}; did you mean 'age'?"),
        ("table_schema: {age: {min: 5, max: 3}}",
         "data[0].table_schema.age: `min: 5` is above `max: 3`: no value fits; swap them"),
        ("table_schema: {age: {min: 5, max: '2026-01-01'}}",
         "data[0].table_schema.age: `min: 5` and `max: 2026-01-01` are not of one kind; write both as numbers"),
        ("table_schema: {age: {min: soon}}",
         "data[0].table_schema.age: `min: soon` is neither a number nor a time; write such as 2026-01-31"),
        ("table_schema: {site: {min: 0}}",
         "data[0].table_schema.site.min: column 'site' holds string, of which `min` says nothing; say `type: number` "
         "beside it if it should hold that, or remove it"),
        ("table_schema: {age: {type: text, max: 3}}",
         "data[0].table_schema.age: `max` does not apply to `type: text`; remove one of the two"),
        ("table_schema: {age: {values: [young, old]}}",
         "data[0].table_schema.age.values: column 'age' holds int64, of which none of `values` is one; write them as "
         "they are"),
        ("table_schema: {site: {pattern: '('}}",
         "data[0].table_schema.site.pattern: '(' is not a regular expression: Invalid regular expression: missing ): "
         "^(?:()$; write one in RE2's syntax, which has no look-around and no back-references"),
        (f"digest: {{tset.parquet: '{ZEROS}'}}",
         "data[0].digest.tset.parquet: there is no file or folder 'tset.parquet' in FOLDER; did you mean "
         "'test.parquet'?"),
        (f"digest: {{.: '{ZEROS}'}}", "data[0].digest..: '.' is a folder; name a file in it"),
        ("croissant: card.json", "data[0].croissant: there is no file or folder 'card.json' in FOLDER"),
    ],
)  # fmt: skip
def test_rules_that_can_not_be_held_are_said(fields: str, sentence: str, folder: Path) -> None:
    assert [one.replace(str(folder), "FOLDER") for one in said(integrity(fields))] == [sentence]


def test_a_column_beside_one_that_is_called_nearly_so_is_no_mistake() -> None:
    assert said(integrity("table_schema: {age: {min: 0}, ages: {min: 0}}")) == []
    conditions = "conditions: [{name: old, where: age > 8}, {name: aged, where: ages > 8}]"
    check = f"check: coverage, dataset: test, {conditions}, require: [missing_conditions == 0]"
    assert said(f"data:\n  - {{{check}}}\n") == []


def test_what_integrity_is_there_to_find_is_no_mistake() -> None:
    assert said(integrity("table_schema: {weight: {min: 0}, site: {type: number, min: 0}}")) == []


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        ("check: contamination, train: [train], test: test, column: y, require: [exact_duplicates == 0]",
         "data[0].column: 'y' is the label of test, and a copy is one whatever its label says; name the columns that "
         "the model reads"),
        ("check: contamination, train: [train], test: test, require: [exact_duplicates <= 60 rows]",
         "data[0].require[0]: 'exact_duplicates <= 60 rows' can never fail: test has 60 rows in all; require less, or "
         "remove the sentence"),
        ("check: leakage, train: [train], test: test, time: day, require: [time_overlap == 0]",
         "data[0].time: column 'day' of test and train holds text, which has no order of time; store it as a date, a "
         "timestamp or a number; a csv reads it as one with `types: {day: time}`"),
        ("check: leakage, test: test, columns: [age, y], require: [target_leakage <= 0.9]",
         "data[0].columns[1]: 'y' is the label of test, and tells itself; leave it out"),
        ("check: leakage, test: test, columns: [age], require: [target_leakage(site) <= 0.9]",
         "data[0].require[0]: this can never pass: 'site' is not among the checked columns; add it to `columns:`"),
        ("check: shift, reference: test, current: train, columns: [age], tolerance: 0.4, require: [shift(site) <= 0.4]",
         "data[0].require[0]: this can never pass: 'site' is not among the columns that are compared; add it to "
         "`columns:`"),
        ("check: coverage, dataset: test, by: [amount], require: [slices_too_small == 0]",
         "data[0].by[0]: column 'amount' of test holds numbers (double), not groups; define the ranges that matter in "
         "`slices:`, such as `where: amount < 100`, or store codes as whole numbers"),
        ("check: labels, dataset: test, audited: site, features: [y], require: [label_error_rate <= 20 %]",
         "data[0].features[0]: 'y' is the label of test, so the classifier would see the answer; leave it out"),
        ("check: coverage, dataset: test, conditions: [{name: old, where: aeg > 8}], require: [missing_conditions == "
         "0]", f"data[0].conditions[0].where: test has no column 'aeg' {COLUMNS}; did you mean 'age'?"),
        ("check: coverage, dataset: test, conditions: [{name: old, where: age > '8'}], require: [missing_conditions "
         "== 0]",
         "data[0].conditions[0].where: column 'age' holds int64, and '8' is not a number; write 8 without quotes"),
        ("check: coverage, dataset: test, population: {siet: {n: 50 %}}, require: [representation_gap <= 5 pp]",
         f"data[0].population.siet: test has no column 'siet' {COLUMNS}; did you mean 'site'?"),
        ("check: coverage, dataset: test, by: [site], require: [missing_conditions <= 1]",
         "data[0].require[0]: 'missing_conditions <= 1' can never fail: 1 is declared; require less, or remove the "
         "sentence"),
        ("check: coverage, dataset: test, require: [class_imbalance <= 59x]",
         "data[0].require[0]: 'class_imbalance <= 59x' can never fail: test has 60 rows in all; require less, or "
         "remove the sentence"),
        ("check: shift, reference: test, current: train, columns: [age], require: [shift(age) <= 1.5]",
         "data[0].require[0]: 'shift(age) <= 1.5' can never fail: a distance is never above 1; require less, or "
         "remove the sentence"),
    ],
)  # fmt: skip
def test_what_columns_tell_of_a_check_is_said(check: str, sentence: str) -> None:
    assert said(f"data:\n  - {{{check}}}\n") == [sentence]


def test_a_distance_in_standard_deviations_may_be_above_1() -> None:
    check = "check: shift, reference: test, current: train, columns: [age], distance: wasserstein"
    assert said(f"data:\n  - {{{check}, require: [shift(age) <= 1.5]}}\n") == []


def test_a_slice_is_held_against_the_dataset_that_it_is_cut_from() -> None:
    text = "slices: [{name: dear, where: amount > 3}]\n" + (
        "data:\n  - {check: labels, dataset: train, audited: site, by: [dear], require: [label_error_rate <= 20 %]}\n"
    )
    assert said(text) == [
        "data[0].by[0]: the slice 'dear' can't be taken from train: unknown column 'amount' in where (choices: age, "
        "site, day, y)"
    ]
    assert said(text.replace("dataset: train", "dataset: test")) == []


def test_a_column_of_another_type_is_nearer_than_one_that_is_not_there() -> None:
    text = "slices: [{name: dear, where: amount > '3'}]\n" + integrity("table_schema: {age: {min: 0}}")
    (sentence,) = said(text)
    assert sentence == "slices[0].where: column 'amount' holds double, and '3' is not a number; write 3 without quotes"


@pytest.mark.parametrize(
    ("check", "place"),
    [
        ("check: shift, reference: test, current: again, columns: [age], tolerance: 0.4, require: [drifted_columns <= "
         "10 %]", "data[0].current"),
        ("check: coverage, dataset: test, by: [site], population: again, require: [representation_gap <= 5 pp]",
         "data[0].population"),
    ],
)  # fmt: skip
def test_rows_are_not_held_against_themselves(check: str, place: str) -> None:
    again = "  again: {kind: parquet, path: ./test.parquet}\n"
    assert said(f"{HEAD}{again}data:\n  - {{{check}}}\n") == [
        f"{place}: test and again are the same rows of the same files, so the check could find nothing; name other "
        "files, or split them with `where:`"
    ]
    assert said(f"{HEAD}{again.replace('}', ', where: age > 3}')}data:\n  - {{{check}}}\n") == []


@pytest.mark.parametrize(("mark", "written"), [(";", '";"'), ("\t", '"\\t"')])
def test_a_csv_file_with_another_delimiter_is_told_it(mark: str, written: str) -> None:
    Path("test.csv").write_text(f"age{mark}y\n" + 30 * f"3{mark}a\n")
    text = HEAD.replace("kind: parquet, path: test.parquet", "kind: csv, path: test.csv")
    (sentence,) = said(text + integrity("table_schema: {age: {min: 0}}"))
    column = repr(f"age{mark}y")
    assert sentence == (
        f"datasets.test.path: it has one column, called {column}; say `delimiter: {written}`, the character between "
        "its cells"
    )
    there = text.replace("path: test.csv", f"path: test.csv, delimiter: {written}")
    assert said(there + integrity("table_schema: {age: {min: 0}}")) == []
