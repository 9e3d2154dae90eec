"""Rows that a program holds: as columns, or a sentence on why they are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.memory import MemoryRows
from evalspec.sources.reading.in_memory import write_table


def read(value: Any, folder: Path, **fields: Any) -> tuple[pa.Table, str | None]:
    """Rows as a check gets them, and the label that they name."""
    label = write_table(value, folder / "test.arrow")
    rows, access = MemoryRows(path="test.arrow", **fields), Access(folder, memory=folder)
    table = rows.read(access)
    header = rows.header(access)
    assert (header.rows, list(header.columns)) == (table.num_rows, table.column_names)
    return table, label


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": [1, 2], "y": ["no", "yes"]}, index=[7, 9]),
        pa.table({"a": [1, 2], "y": ["no", "yes"]}),
        {"a": np.array([1, 2]), "y": np.array(["no", "yes"], dtype=object)},
        {"a": [1, 2], "y": pd.Series(["no", "yes"])},
        [{"a": 1, "y": "no"}, {"a": 2, "y": "yes"}],
        (pd.DataFrame({"a": [1, 2]}), pd.Series(["no", "yes"])),
        ({"a": [1, 2]}, ["no", "yes"]),
    ],
    ids=["frame", "table", "arrays", "lists", "dicts", "pair of pandas", "pair"],
)
def test_the_same_rows_in_every_form(value: Any, tmp_path: Path) -> None:
    table, label = read(value, tmp_path)
    assert table.to_pydict() == {"a": [1, 2], "y": ["no", "yes"]}
    assert label == ("y" if isinstance(value, tuple) else None)


def test_arrays_of_several_axes_categories_and_an_index_with_a_name(tmp_path: Path) -> None:
    table, label = read((np.ones((3, 2)), np.arange(3)), tmp_path)
    assert (table.column_names, label) == (["X", "y"], "y")
    assert table.column("X").to_pylist() == [[1.0, 1.0]] * 3
    frame = pd.DataFrame({"c": pd.Categorical(["a", "b"])}, index=pd.Index([5, 6], name="id"))
    assert read(frame, tmp_path)[0].to_pydict() == {"c": ["a", "b"], "id": [5, 6]}
    unnamed = pd.DataFrame({"c": [1, 2]}, index=[5, 6])
    assert read(unnamed, tmp_path)[0].column_names == ["c"]
    assert read(unnamed, tmp_path, key="__index_level_0__")[0].column_names == ["c", "__index_level_0__"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (3, "an object of type int holds no rows"),
        (np.zeros((3, 2)), "an object of type ndarray holds no rows"),
        ({}, "it has no rows"),
        (pd.DataFrame({"a": []}), "it has no rows"),
        ({"a": [1], "b": [1, 2]}, "differ in their number of rows: a 1, b 2"),
        ({"a": 5}, "a is a single value"),
        ({"a": "abc"}, "a is a single value"),
        ({"a": [1, "x"]}, "its cells can't become columns: "),
        ((np.zeros((3, 2)), [1, 2]), "there are 3 rows and 2 labels"),
        ((pd.DataFrame({"y": [1, 2]}), [1, 2]), "the inputs already have a column 'y'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names"),
    ],
)
def test_what_holds_no_rows(value: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        write_table(value, tmp_path / "test.arrow")


def test_what_nobody_handed_over(tmp_path: Path) -> None:
    for access in (Access(tmp_path), Access(tmp_path, memory=tmp_path)):
        for path in ("", "other.arrow", "../test.arrow"):
            with pytest.raises(
                InputError,
                match=r"`kind: memory` is for objects that a program passes to evalspec\.run, and none were passed",
            ):
                MemoryRows(path=path).read(access)
