from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.open import clusters, open_counted, open_dataset, rows_at

TABLE = pa.table(
    {
        "x": [1.0, 2.0, 3.0, 4.0],
        "lux": [10, None, 200, 300],
        "y": ["a", "b", "a", "b"],
        "patient": ["p", "q", "p", "r"],
        "id": [1, 2, 3, 4],
    }
)


def dataset(folder: Path, table: pa.Table = TABLE, **fields: str) -> Parquet:
    pq.write_table(table, folder / "d.parquet")
    return Parquet(path="d.parquet", **fields)  # type: ignore[arg-type]


def test_where_keeps_rows_and_counts_those_of_which_it_says_nothing(tmp_path: Path) -> None:
    one = dataset(tmp_path, where="lux > 100", label="y")
    opened = open_counted(one, Access(tmp_path))
    assert opened.table["x"].to_pylist() == [3.0, 4.0]
    assert (opened.rows, opened.unknown) == (4, 1)
    assert open_dataset(one, Access(tmp_path)).equals(opened.table)


def test_columns_wanted_come_with_label_key_and_cluster_and_without_those_of_where(tmp_path: Path) -> None:
    one = dataset(tmp_path, where="lux > 100", label="y", key="id", cluster="patient")
    assert open_dataset(one, Access(tmp_path), ["x"]).column_names == ["x", "y", "id", "patient"]
    assert open_dataset(one, Access(tmp_path)).column_names == TABLE.column_names


NAMED = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64()))


@pytest.mark.parametrize(
    ("kind", "cells", "text"),
    [
        (NAMED, [[("a", 1)], None, []], "map<string, int64>"),
        (pa.map_(pa.string(), NAMED), [[("a", [("b", 1)])], None], "map<string, map<string, int64>>"),
        (pa.list_(NAMED), [[[("a", 1)], []], None, []], "list<element: map<string, int64>>"),
        (pa.large_list(NAMED), [[[("a", 1)], []], None, []], "large_list<element: map<string, int64>>"),
        (pa.struct([("m", NAMED)]), [{"m": [("a", 1)]}, None, {"m": None}], "struct<m: map<string, int64>>"),
    ],
)
def test_a_map_has_one_type_whatever_its_fields_are_called(
    kind: pa.DataType, cells: list[Any], text: str, tmp_path: Path
) -> None:
    one = dataset(tmp_path, pa.table({"m": pa.array(cells, kind)}))
    opened, (batch,) = open_dataset(one, Access(tmp_path)), one.batches(Access(tmp_path))
    assert {str(opened.schema.field("m").type), str(batch.schema.field("m").type)} == {text}
    assert one.header(Access(tmp_path)).columns == {"m": text}
    assert opened.column("m").to_pylist() == batch.column(0).to_pylist() == cells


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"label": "Y"}, "there is no label column 'Y' (choices: x, lux, y, patient, id)"),
        ({"label": "yy"}, "did you mean 'y'?"),
        ({"key": "key"}, "there is no key column 'key'"),
        ({"cluster": "pat"}, "there is no cluster column 'pat'"),
        ({"label": "lux"}, "label column 'lux' is missing (null or NaN) in 1 of 4 rows; drop them with `where: lux is"),
        ({"cluster": "lux"}, "cluster column 'lux' is missing"),
        ({"where": "lux > 1000"}, "`where: lux > 1000` matches none of its 4 rows"),
        ({"where": "luz > 1"}, "unknown column 'luz'"),
    ],
)
def test_what_is_wrong_with_labels_and_rows(tmp_path: Path, fields: dict[str, str], words: str) -> None:
    with pytest.raises(InputError) as caught:
        open_dataset(dataset(tmp_path, **fields), Access(tmp_path))
    assert words in str(caught.value)


def test_nan_labels_are_missing_and_where_can_drop_them(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2, 3], "y": [0.5, float("nan"), None]})
    with pytest.raises(InputError, match="missing \\(null or NaN\\) in 2 of 3 rows"):
        open_dataset(dataset(tmp_path, table, label="y"), Access(tmp_path))
    kept = open_dataset(dataset(tmp_path, table, label="y", where="y is not None"), Access(tmp_path))
    assert kept["y"].to_pylist() == [0.5]


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no rows left: it has no rows"):
        open_dataset(dataset(tmp_path, TABLE.slice(0, 0)), Access(tmp_path))


def test_clusters_are_codes_in_the_order_of_rows() -> None:
    codes = clusters(TABLE, "patient")
    assert codes.dtype == np.int64
    assert codes.tolist() == [0, 1, 0, 2]
    chunked = pa.concat_tables([TABLE, TABLE.slice(1)])
    assert clusters(chunked, "patient").tolist() == [0, 1, 0, 2, 1, 0, 2]
    with pytest.raises(InputError, match="missing"):
        clusters(TABLE, "lux")


def test_rows_are_looked_up_by_their_numbers_and_one_that_is_gone_is_said() -> None:
    batches = pa.table({"x": list(range(100))}).to_batches(30)
    read = iter(batches)
    rows = rows_at(read, [31, 2, 31])
    assert {row: one.column("x").to_pylist() for row, one in rows.items()} == {2: [2], 31: [31]}
    # Of four batches two were asked for.
    assert len(list(read)) == 2
    assert rows_at(iter(batches), []) == {}
    with pytest.raises(InputError, match="there is no row 100 any more: the rows change while they are read"):
        rows_at(iter(batches), [5, 100])
