"""Columns that stand in the folders of files alone."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.open import open_batches
from evalspec.sources.reading.partitions import partitions_of


def write(folder: Path, *paths: str) -> None:
    for number, path in enumerate(paths):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [number, number]}), file)


def read(folder: Path, path: str = "t", **fields: str) -> list[dict[str, object]]:
    one = Parquet.model_validate({"kind": "parquet", "path": path} | fields)
    table = one.read(Access(folder))
    kinds = {field.name: str(field.type) for field in table.schema}
    assert one.header(Access(folder)).columns == kinds
    assert pa.Table.from_batches(one.batches(Access(folder))).equals(table)
    return table.to_pylist()[::2]


def test_they_are_columns_of_the_table(tmp_path: Path) -> None:
    write(tmp_path, "t/dt=2026-11-01/n=1/a.parquet", "t/dt=2026-11-02/n=-20/a.parquet")
    assert read(tmp_path, partitions="hive") == [
        {"x": 0, "dt": "2026-11-01", "n": 1},
        {"x": 1, "dt": "2026-11-02", "n": -20},
    ]


def test_none_is_lost_without_a_word(tmp_path: Path) -> None:
    write(tmp_path, "t/dt=2026-11-01/a.parquet", "t/dt=2026-11-02/a.parquet")
    with pytest.raises(InputError, match=r"the folders of 't' hold a column that its files don't: 'dt'; say `partitio"):
        read(tmp_path)
    assert read(tmp_path, partitions="none") == [{"x": 0}, {"x": 1}]


def test_a_column_that_the_files_have_too_is_not_lost(tmp_path: Path) -> None:
    write(tmp_path, "t/x=0/a.parquet", "t/x=1/a.parquet")
    assert read(tmp_path) == [{"x": 0}, {"x": 1}]
    with pytest.raises(InputError, match="column 'x' of 't' stands both in its files and in their folders"):
        read(tmp_path, partitions="hive")


def test_codes_and_missing_values_and_letters_that_a_path_can_not_hold(tmp_path: Path) -> None:
    write(
        tmp_path,
        "t/code=01/site=__HIVE_DEFAULT_PARTITION__/a.parquet",
        "t/code=10/site=a%2Fb%20c/a.parquet",
        "t/code=10/site=/a.parquet",
    )
    found = [(row["x"], row["code"], row["site"]) for row in read(tmp_path, partitions="hive")]
    assert found == [(0, "01", None), (2, "10", ""), (1, "10", "a/b c")]


def test_only_whole_numbers_are_numbers() -> None:
    def kind(*values: str) -> str:
        return partitions_of([f"n={one}/a.parquet" for one in values], "hive", ["x"], "t").types["n"]

    assert kind("1", "-2", "0") == "int64"
    assert kind("1", "__HIVE_DEFAULT_PARTITION__") == "int64"
    assert kind("01") == kind("1", "a") == kind("-0") == kind("1.5") == kind("9" * 19) == kind("") == "string"
    assert kind("__HIVE_DEFAULT_PARTITION__") == "string"


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        (("t/dt=1/a.parquet", "t/b.parquet"), "don't have the same columns: 'b.parquet' and 'dt=1/a.parquet'"),
        (("t/a=1/b=2/c.parquet", "t/b=1/a=2/c.parquet"), "don't have the same columns"),
        (("t/plain/a.parquet",), "`partitions: hive` finds no folder such as dt=2026-11-01 in 't'"),
    ],
)
def test_folders_that_do_not_go_together(tmp_path: Path, paths: tuple[str, ...], sentence: str) -> None:
    write(tmp_path, *paths)
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, partitions="hive")


def test_a_glob_has_those_of_its_own_folders(tmp_path: Path) -> None:
    write(tmp_path, "t/year=2026/dt=1/a.parquet", "t/year=2026/dt=2/a.parquet")
    assert read(tmp_path, "t/year=2026/dt=*/a.parquet", partitions="hive") == [{"x": 0, "dt": 1}, {"x": 1, "dt": 2}]


def test_one_file_of_a_partition_has_no_column_that_tells_rows_apart(tmp_path: Path) -> None:
    write(tmp_path, "t/dt=1/a.parquet")
    assert read(tmp_path, "t/dt=1/a.parquet") == read(tmp_path, "t/dt=1") == [{"x": 0}]


def test_where_and_a_label_may_name_them(tmp_path: Path) -> None:
    write(tmp_path, "t/n=1/a.parquet", "t/n=2/a.parquet")
    fields = {"kind": "parquet", "path": "t", "partitions": "hive", "label": "n", "where": "n > 1"}
    one = Parquet.model_validate(fields)
    assert pa.Table.from_batches(open_batches(one, Access(tmp_path), ["x"])).to_pylist() == [{"x": 1, "n": 2}] * 2


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_one_file_under_two_names_does_not_count_twice(tmp_path: Path, link: str) -> None:
    write(tmp_path, "t/a.parquet")
    if link == "symbolic":
        (tmp_path / "t/b.parquet").symlink_to(tmp_path / "t/a.parquet")
    else:
        os.link(tmp_path / "t/a.parquet", tmp_path / "t/b.parquet")
    with pytest.raises(InputError, match=r"'t/a.parquet' and 't/b.parquet' are one file, so its rows would count twic"):
        read(tmp_path)
