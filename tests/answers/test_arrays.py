"""Columns of every type as arrays."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.answers.arrays import column_array, plain_array, stacked
from evalspec.errors import InputError


def column(values: Any, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"c": pa.array(values, kind)})


@pytest.mark.parametrize(
    ("table", "want"),
    [
        (column([1, 2], pa.int8()), np.array([1, 2], dtype=np.int8)),
        (column([1.5, None]), np.array([1.5, np.nan])),
        (column([1, None]), np.array([1.0, np.nan])),
        (column([True, False]), np.array([True, False])),
        (column([True, None]), np.array([1.0, np.nan])),
        (column([decimal.Decimal("1.5")]), np.array([1.5])),
        (column([1.5], pa.float16()), np.array([1.5], dtype=np.float16)),
        (column([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])),
        (column([[1, 2], [3, 4]], pa.list_(pa.uint8(), 2)), np.array([[1, 2], [3, 4]], dtype=np.uint8)),
        (column([[1.0], [2.0]], pa.large_list(pa.float32())), np.array([[1.0], [2.0]], dtype=np.float32)),
        (column([[[1, 2], [3, 4]]]), np.array([[[1, 2], [3, 4]]])),
        (column([[1.0, None]]), np.array([[1.0, np.nan]])),
    ],
)
def test_numbers(table: pa.Table, want: Any) -> None:
    got = column_array(table, "c")
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_text_is_python_text() -> None:
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        got = column_array(pa.table({"c": pa.array(["a", None, "b"], kind)}), "c")
        assert got.dtype == object and got.tolist() == ["a", None, "b"]


def test_tensors() -> None:
    values = np.arange(12.0).reshape(2, 2, 3)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    np.testing.assert_array_equal(column_array(pa.table({"c": tensors}), "c"), values)


def test_slices_and_chunks_are_read_as_they_stand() -> None:
    table = pa.concat_tables([column([[1, 2], [3, 4], [5, 6]]), column([[7, 8]])])
    np.testing.assert_array_equal(column_array(table.slice(1, 3), "c"), [[3, 4], [5, 6], [7, 8]])
    fixed = table.cast(pa.schema([("c", pa.list_(pa.int64(), 2))]))
    np.testing.assert_array_equal(column_array(fixed.slice(2, 2), "c"), [[5, 6], [7, 8]])


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (column([[1, 2], [3]]), r"lists of several lengths: 2 in row 100 and 1 in row 101 \(counted from 0\)"),
        (column([[1], None]), r"row 101 \(counted from 0\) of the column 'c' has no list"),
        (column([None, None]), r"every value of the column 'c' is missing"),
        (column([datetime.date(2026, 1, 1)]), r"'c' holds date32\[day\], which can't be an input of a model"),
        (column([{"a": 1}]), r"'c' holds struct<a: int64>, which can't be an input"),
        (pa.table({"d": [1]}), r"no column 'c' \(choices: d\)"),
    ],
)
def test_columns_that_are_no_input(table: pa.Table, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        column_array(table, "c", 100)


def test_stacking() -> None:
    table = pa.table({"a": [1, 2], "b": [0.5, 1.5], "t": ["x", "y"], "l": [[1, 2], [3, 4]]})
    np.testing.assert_array_equal(stacked(table, ["b", "a"]), [[0.5, 1.0], [1.5, 2.0]])
    np.testing.assert_array_equal(stacked(table, ["l", "l"]), [[[1, 2], [1, 2]], [[3, 4], [3, 4]]])
    with pytest.raises(InputError, match=r"the column 't' holds text, so it can't be stacked"):
        stacked(table, ["a", "t"])
    with pytest.raises(InputError, match=r"'a' has rows of \[\], 'l' of \[2\]"):
        stacked(table, ["a", "l"])


KINDS = [pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("chunks", [[[1, 0, 3]], [[1], [0, 3]], [[]], [], [[1, None, 0]]], ids=str)
def test_numbers_are_those_of_the_column(kind: pa.DataType, chunks: list[list[int | None]]) -> None:
    """However they are stored, and also of rows that are a part of more."""
    pieces = [[None if one is None else kind.to_pandas_dtype()(one) for one in chunk] for chunk in chunks]
    whole = pa.chunked_array(pieces, kind)
    for column in (whole, whole.slice(1)):
        expected = column.to_numpy(zero_copy_only=False)
        numbers = column_array(pa.table({"x": column}), "x")
        assert numbers.dtype == (np.float64 if expected.dtype == object else expected.dtype)
        np.testing.assert_array_equal(numbers, expected.astype(numbers.dtype))


def test_a_model_that_needs_no_pandas_gets_its_inputs_without_it() -> None:
    code = (
        "import sys, pyarrow.parquet as pq\n"
        "from evalspec.answers.arrays import column_array\n"
        "table = pq.ParquetFile(sys.argv[1]).read()\n"
        "for name in table.column_names: column_array(table, name)\n"
        "print(*({'pandas'} & {*sys.modules}))"
    )
    rows = Path(__file__).parents[2] / "suites" / "digits" / "test.parquet"
    done = subprocess.run([sys.executable, "-c", code, str(rows)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.int64(), pa.bool_()])
def test_a_gap_among_numbers_is_nan_and_the_array_may_be_written(kind: pa.DataType) -> None:
    ones = np.ones(2, kind.to_pandas_dtype())
    array = plain_array(pa.chunked_array([pa.array([ones[0], None], kind), pa.array(ones[1:], kind)]), "x")
    assert array.dtype == (kind.to_pandas_dtype() if pa.types.is_floating(kind) else np.float64)
    np.testing.assert_array_equal(array, [1.0, np.nan, 1.0])
    array[1] = 0
