"""Columns that one side of a check lacks, or holds another kind of values in, are known before anything is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import SpecError
from evalspec.loading import load
from evalspec.loading.spec import Spec

LEFT: dict[str, Any] = {
    "age": [1, 2, 3], "site": ["n", "s", "n"], "lux": [1.0, 2.0, 3.0], "who": ["a", "b", "c"], "y": ["u", "v", "u"],
}  # fmt: skip
SHIFT = "check: shift, reference: left, current: right, require: [missingness_shift <= 90 pp]"
COPIES = "check: contamination, train: [right], test: left, require: [exact_duplicates == 0]"
LEAKS = "check: leakage, train: [right], test: left, group: who, require: [group_overlap == 0]"
GROUPS = "check: coverage, dataset: left, by: [site], population: right, require: [representation_gap <= 50 pp]"


def loaded(folder: Path, check: str, right: dict[str, Any]) -> Spec:
    pq.write_table(pa.table(LEFT), folder / "left.parquet")
    pq.write_table(pa.table(right), folder / "right.parquet")
    (folder / "s.yaml").write_text(
        "evalspec: 1\nname: s\ndatasets:\n  left: {kind: parquet, path: left.parquet, label: y}\n"
        f"  right: {{kind: parquet, path: right.parquet}}\ndata:\n  - {{{check}}}\n"
    )
    return load(folder / "s.yaml")


def refused(folder: Path, check: str, right: dict[str, Any]) -> str:
    with pytest.raises(SpecError) as caught:
        loaded(folder, check, right)
    (problem,) = caught.value.problems
    return str(problem).replace(f"{folder}/", "")


def without(*names: str) -> dict[str, Any]:
    return {name: values for name, values in LEFT.items() if name not in names}


@pytest.mark.parametrize(
    ("check", "names", "sentence"),
    [
        (SHIFT, ("lux",),
         "s.yaml:7:46: data[0].current: right has no column 'lux', which left has and which are compared; list in "
         "`columns:` the columns that both have, or bring right up to date"),
        (SHIFT, ("lux", "site"),
         "s.yaml:7:46: data[0].current: right has no columns 'site' and 'lux', which left has and which are compared; "
         "list in `columns:` the columns that both have, or bring right up to date"),
        (COPIES, ("age", "site", "lux", "who"),
         "s.yaml:7:36: data[0].train[0]: right has no columns 'age', 'site', 'lux' and 'who', which left has and "
         "which are compared; list in `column:` the columns that both have, or bring right up to date"),
        (LEAKS, ("who",), "s.yaml:7:57: data[0].group: right has no column 'who' (choices: age, site, lux, y)"),
        (GROUPS, ("site",), "s.yaml:7:43: data[0].by[0]: right has no column 'site' (choices: age, lux, who, y)"),
    ],
)  # fmt: skip
def test_a_column_that_one_side_lacks_is_said(
    check: str, names: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    assert refused(tmp_path, check, without(*names)) == sentence


@pytest.mark.parametrize("check", [COPIES, LEAKS])
def test_where_the_rest_is_measured_it_is_told(check: str, tmp_path: Path) -> None:
    told = loaded(tmp_path, check, without("lux")).unverified
    name = check.split()[1].rstrip(",")
    assert f"{name}: right has no column 'lux', so left is compared with it without them" in told


@pytest.mark.parametrize("check", [SHIFT, COPIES, LEAKS, GROUPS])
def test_a_label_may_be_missing_and_one_side_may_have_more(check: str, tmp_path: Path) -> None:
    spec = loaded(tmp_path, check, without("y") | {"more": [1, 2, 3]})
    assert not [line for line in spec.unverified if "has no" in line]


@pytest.mark.parametrize(
    ("check", "column", "place"),
    [(SHIFT, "age", "7:46: data[0].current"), (COPIES, "age", "7:36: data[0].train[0]"),
     (LEAKS, "who", "7:57: data[0].group"), (GROUPS, "site", "7:43: data[0].by[0]")],
)  # fmt: skip
def test_values_of_several_kinds_are_said(check: str, column: str, place: str, tmp_path: Path) -> None:
    other: list[Any] = ["1", "2", "3"] if column == "age" else [1, 2, 3]
    said = refused(tmp_path, check, LEFT | {column: other})
    kinds = ("int64", "string") if column == "age" else ("string", "int64")
    assert said.startswith(f"s.yaml:{place}: column {column!r} holds {kinds[0]} in left and {kinds[1]} in right: ")
    assert "; store both with one type, or list in `" in said


def test_kinds_that_are_compared_and_columns_without_a_type_are_no_mistake(tmp_path: Path) -> None:
    assert loaded(tmp_path, SHIFT, LEFT | {"site": [True, False, True]})
    assert loaded(tmp_path, SHIFT, LEFT | {"age": pa.nulls(3)})
    assert loaded(tmp_path, SHIFT, LEFT | {"age": [1.5, 2.5, 3.5]})
    assert loaded(tmp_path, SHIFT + ", columns: [age]", without("lux", "site"))
    told = loaded(tmp_path, LEAKS, LEFT | {"lux": ["1", "2", "3"]}).unverified
    assert any(line.startswith("leakage: column 'lux' holds double in left and string in right") for line in told)
