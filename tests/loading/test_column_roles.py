"""Roles of columns by what stands in them, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.language.parts import Access
from evalspec.language.registry import discover
from evalspec.loading.column_roles import ColumnRoles, column_roles
from tests.tables.test_entities import visits


def roles(table: pa.Table, folder: Path, label: str = "y") -> ColumnRoles:
    pq.write_table(table, folder / "test.parquet")
    dataset = discover().source("parquet").model_validate({"kind": "parquet", "path": "test.parquet"})
    return column_roles(dataset, Access(folder), label)


def test_roles_need_no_english_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = visits(rng).append_column("y", [rng.choice(["ja", "nein"], 1000)])
    found = roles(table, tmp_path)
    assert (found.key, found.cluster) == ("row_nr", "kunde_nr")
    assert set(found.groups) == {"sex", "region", "decade"}
    assert found.classes == ("ja", "nein")
    assert found.has_categories and found.is_read


def test_an_integer_ward_is_a_group_and_a_case_an_entity(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    case = rng.integers(0, 300, 900)
    table = pa.table({"case_id": case, "x": rng.normal(size=900), "ward": rng.integers(1, 9, 900),
                      "y": rng.normal(size=900)})  # fmt: skip
    found = roles(table, tmp_path)
    assert (found.key, found.cluster, found.groups) == ("", "case_id", ("ward",))
    assert not found.has_categories


def test_of_a_file_that_can_not_be_read_nothing_is_known(tmp_path: Path) -> None:
    dataset = discover().source("parquet").model_validate({"kind": "parquet", "path": "none.parquet"})
    assert column_roles(dataset, Access(tmp_path), "y") == ColumnRoles()
