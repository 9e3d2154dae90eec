"""Arrays and columns of pyarrow without pandas: the same columns and arrays that pyarrow itself makes."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.arrow import array_of, column_of, column_of_texts, read_parquet

TYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64")
SIZES = (0, 1, 7, 8, 9, 100)
ALONE = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        assert name != "pandas"
sys.meta_path.insert(0, Refusing())
import io
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from evalspec.answers.arrays import plain_array
from evalspec.arrow import array_of, column_of, column_of_texts, read_parquet
numbers, texts = np.arange(4.0), ["a", None, "b", None]
table = pa.table({"x": column_of(numbers), "b": column_of(numbers > 1), "t": column_of_texts(texts)})
sink = pa.BufferOutputStream()
pq.write_table(table, sink)
again = read_parquet(io.BytesIO(sink.getvalue().to_pybytes()))
assert again.equals(table)
assert array_of(again["x"]).tolist() == [0.0, 1.0, 2.0, 3.0] and array_of(again["b"]).sum() == 2
gaps = again.set_column(0, "x", pa.compute.if_else(again["b"], again["x"], pa.nulls(4, pa.float64())))
assert np.isnan(plain_array(gaps["x"], "x")).sum() == 2 and plain_array(gaps["t"], "t")[1] is None
assert "pandas" not in sys.modules
"""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", TYPES)
def test_numbers_there_and_back(kind: str, size: int) -> None:
    values = (np.random.default_rng(size).normal(size=2 * size) * 50).astype(kind)
    for given in (values, values[::2]):
        column = column_of(given)
        column.validate(full=True)
        assert column.equals(pa.array(given))
        for of, expected in (
            (column, given),
            (pa.chunked_array([column, column]), np.concatenate([given, given])),
            (column.slice(size // 3), given[size // 3 :]),
            (pa.chunked_array([], column.type), given[:0]),
        ):
            array = array_of(of)
            assert array.dtype == expected.dtype and array.tolist() == expected.tolist()


def test_the_order_of_bytes_is_the_machines() -> None:
    assert column_of(np.array([1, 256], ">i4")).to_pylist() == [1, 256]


@pytest.mark.parametrize("texts", [[], ["a"], [None], ["a", None, "é€", "", " "] * 5])
def test_texts(texts: list[str | None]) -> None:
    column = column_of_texts(texts)
    column.validate(full=True)
    assert column.equals(pa.array(texts, pa.large_string()))


def test_half_a_character_is_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        column_of_texts(["a", "\ud800"])


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(range(1000)), "l": pa.array([[1.5], None] * 500)}).replace_schema_metadata(
        {"a": "b"}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    for file in (tmp_path / "a.parquet", io.BytesIO((tmp_path / "a.parquet").read_bytes())):
        read = read_parquet(file)
        assert read.equals(table) and read.schema.metadata == table.schema.metadata
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises((OSError, pa.ArrowException)):
        read_parquet(tmp_path / "b.parquet")


def test_none_of_it_imports_pandas() -> None:
    subprocess.run([sys.executable, "-c", ALONE], check=True, timeout=60)


def test_lists_of_dictionaries_are_read_from_several_row_groups(tmp_path: Path) -> None:
    kind = pa.list_(pa.dictionary(pa.int32(), pa.string()))
    table = pa.table({"x": pa.array([["a"], ["b", "a"], None], kind)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    assert read_parquet(tmp_path / "a.parquet")["x"].to_pylist() == [["a"], ["b", "a"], None]


def test_all_else_is_what_pyarrow_makes_of_it() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for given in ([0, 2], np.array(["1", "2"]), np.array([1, None], object), masked):
        assert column_of(given).equals(pa.array(given))  # type: ignore[arg-type]
    for wrong in (np.ones((2, 2)), np.ones((2, 1))):
        with pytest.raises(pa.ArrowInvalid):
            column_of(wrong)
    assert column_of_texts([b"a"]).to_pylist() == ["a"]  # type: ignore[list-item]
    with pytest.raises(pa.ArrowException):
        column_of_texts(["a", 1])  # type: ignore[list-item]
