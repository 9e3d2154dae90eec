"""Rows some at a time are the rows of `read`, with its values and types, for every kind that reads files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access, Dataset
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.reader import dataset_record
from evalspec.running.children.tables import Tables
from evalspec.sources import csv, jsonl
from evalspec.sources.arrow import Arrow
from evalspec.sources.csv import Csv
from evalspec.sources.jsonl import Jsonl
from evalspec.sources.npz import Npz
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.batches import evenly
from evalspec.sources.reading.open import open_batches, open_counted
from evalspec.sources.reading.rows import PORTION_ROWS, TableDigest, dataset_digest

N = 3000


def plain() -> pa.Table:
    """Columns whose first rows say little about their types."""
    late = np.arange(N) > 2500
    return pa.table(
        {
            "whole": np.arange(N),
            "number": np.where(late, 0.5, 1.0) * np.arange(N),
            "text": [f"a {i}" if i % 7 else None for i in range(N)],
            "later": pa.array(np.where(late, "words", "17").tolist()),
            "empty": pa.array([None] * 2700 + [3] * 300),
            "flag": late,
        }
    )


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of any size are read in parts."""
    for module in (csv, jsonl):
        monkeypatch.setattr(module, "SMALL_BYTES", 0)
    monkeypatch.setattr(csv, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(jsonl, "PART_BYTES", 4096)


def to_jsonl(table: pa.Table, path: Path) -> None:
    rows = ({name: value for name, value in row.items() if value is not None} for row in table.to_pylist())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


WRITERS: dict[str, tuple[type[Dataset], Callable[[pa.Table, Path], object]]] = {
    "parquet": (Parquet, lambda table, path: pq.write_table(table, path, row_group_size=700)),
    "csv": (Csv, lambda table, path: pacsv.write_csv(table, path)),
    "jsonl": (Jsonl, to_jsonl),
    "arrow": (Arrow, lambda table, path: feather.write_feather(table, path, chunksize=700)),
}


def assert_same(dataset: Dataset, access: Access, columns: list[str] | None = None, rows: int = 256) -> pa.Table:
    """Batches are what `read` gives."""
    whole = dataset.read(access, columns)
    batches = list(dataset.batches(access, columns, rows))
    assert len(batches) > 3 and max(batch.num_rows for batch in batches) <= rows
    assert all(batch.schema.equals(whole.schema) for batch in batches), (batches[0].schema, whole.schema)
    assert pa.Table.from_batches(batches).equals(whole)
    return whole


@pytest.mark.parametrize("kind", list(WRITERS))
@pytest.mark.usefixtures("small_blocks")
def test_batches_are_the_rows_of_read(kind: str, tmp_path: Path) -> None:
    source, write = WRITERS[kind]
    write(plain(), tmp_path / "rows")
    dataset = source(path="rows")  # type: ignore[call-arg]
    whole = assert_same(dataset, Access(tmp_path))
    assert whole.schema.field("later").type == pa.string() and whole.schema.field("number").type == pa.float64()
    assert_same(dataset, Access(tmp_path), ["later", "empty"])
    with pytest.raises(InputError, match=r"has no column 'lator'.*did you mean 'later'"):
        list(dataset.batches(Access(tmp_path), ["lator"]))


CELLS: dict[str, tuple[str, str]] = {
    "null then int": ("", "3"), "int then float": ("1", "1.5"), "int then text": ("1", "x"), "bool": ("true", "false"),
    "bool then text": ("true", "maybe"), "0 then true": ("0", "true"), "2 then true": ("2", "true"),
    "date": ("2026-01-01", "2026-02-01"), "date then time": ("2026-01-01", "2026-01-01 10:00:00"),
    "seconds then ns": ("2026-01-01 10:00:00", "2026-01-01 10:00:00.123"), "clock": ("10:00:00", "11:00:00"),
    "clock then date": ("10:00:00", "2026-01-01"), "date then number": ("2026-01-01", "7"),
    "zoned": ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00+0200"),
    "local then zoned": ("2026-01-01 10:00:00", "2026-01-01T10:00:00Z"),
    "float then text": ("1.5", "NA!"), "NA then number": ("NA", "4"), "all missing": ("", ""), "spaces": (" 1", "2 "),
    "big": ("1", "99999999999999999999"),
}  # fmt: skip


@pytest.mark.usefixtures("small_blocks")
def test_types_of_csv_go_by_all_cells(tmp_path: Path) -> None:
    lines = [",".join(f'"{name}"' for name in CELLS)]
    lines += [",".join(first for first, _ in CELLS.values())] * 600
    lines += [",".join(second for _, second in CELLS.values())]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    whole = assert_same(Csv(path="d.csv"), Access(tmp_path), rows=100)
    assert whole.schema.field("null then int").type == pa.int64()
    assert whole.schema.field("int then text").type == pa.string()
    assert_same(Csv(path="d.csv", types={"null then int": "text"}, missing=("x",)), Access(tmp_path), rows=100)


@pytest.mark.usefixtures("small_blocks")
def test_types_of_jsonl_go_by_all_lines(tmp_path: Path) -> None:
    early = {"i": 1, "t": "2026-01-01", "l": [1], "o": {"a": 1, "b": None}, "n": None, "p": [1, 2]}
    late = {"i": 1.5, "t": "soon", "l": [1.5, 2], "o": {"b": "x", "c": [None]}, "n": "text", "p": [3, 4], "new": True}
    lines = [json.dumps(early)] * 400 + ["", json.dumps(late)] + [json.dumps(early)] * 5
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    whole = assert_same(Jsonl(path="d.jsonl"), Access(tmp_path), rows=50)
    assert whole.schema.field("p").type == pa.list_(pa.int64(), 2) and whole.schema.field("t").type == pa.string()


def test_lists_dictionaries_tensors_and_several_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        pixels = pa.FixedSizeListArray.from_arrays(rng.random(4 * 500), 4)
        table = pa.table(
            {
                "even": pixels.cast(pa.list_(pa.float64())),
                "odd": [[1.0] * (i % 3) for i in range(500)],
                "coded": pa.array([f"c{i % 5}" for i in range(500)]).dictionary_encode(),
                "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float64(), [2, 2]), pixels),
                "count": pa.array(np.arange(500), kind),
                "when": pa.array(np.arange(500), pa.timestamp("us", "Europe/Berlin")),
                "price": pa.array([None if i % 9 else i for i in range(500)], pa.decimal128(9, 2)),
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=130)
        feather.write_feather(table.drop_columns(["tensor"]), tmp_path / f"{name}.arrow")
    whole = assert_same(Parquet(path="*.parquet"), Access(tmp_path), rows=100)
    assert whole.schema.field("even").type == pa.list_(pa.float64(), 4)
    assert whole.schema.field("odd").type == pa.list_(pa.float64()) and whole.schema.field("count").type == pa.int64()
    assert_same(Arrow(path="*.arrow"), Access(tmp_path), rows=100)


@pytest.mark.usefixtures("small_blocks")
def test_what_is_wrong_far_down_is_one_sentence(tmp_path: Path) -> None:
    def refused(dataset: Dataset) -> str:
        with pytest.raises(InputError) as caught:
            list(dataset.batches(Access(tmp_path)))
        return str(caught.value)

    (tmp_path / "short.csv").write_text("a,b\n" + "1,2\n" * 2000 + "3\n")
    assert "row 2002: Expected 2 columns, got 1" in refused(Csv(path="short.csv"))
    (tmp_path / "quote.csv").write_text("a,b\n" + "1,2\n" * 2000 + '3,"never closed\n4,5\n')
    assert "a quote that is never closed" in refused(Csv(path="quote.csv"))
    (tmp_path / "forced.csv").write_text("a,b\n" + "1,2\n" * 2000 + "x,3\n")
    assert "invalid value 'x'" in refused(Csv(path="forced.csv", types={"a": "integer"}))
    (tmp_path / "latin.csv").write_bytes(b"a,b\n" + b"1,2\n" * 2000 + b"1,caf\xe9\n")
    assert "is not text in utf-8" in refused(Csv(path="latin.csv"))
    assert (
        pc.sum(pa.Table.from_batches(Csv(path="latin.csv", encoding="latin-1").batches(Access(tmp_path)))["a"]).as_py()
        == 2001
    )
    (tmp_path / "broken.jsonl").write_text('{"a": 1}\n' * 2000 + '{"a": \n')
    assert "line 2,001" in refused(Jsonl(path="broken.jsonl"))
    (tmp_path / "mixed.jsonl").write_text('{"a": 1}\n' * 2000 + '{"a": "x"}\n')
    assert "line 2,001 has text in 'a' where line 1 has a number" in refused(Jsonl(path="mixed.jsonl"))
    pq.write_table(plain(), tmp_path / "cut.parquet")
    whole = bytearray((tmp_path / "cut.parquet").read_bytes())
    whole[4:4000] = bytes(3996)
    (tmp_path / "cut.parquet").write_bytes(whole)
    assert "can't be read as parquet" in refused(Parquet(path="cut.parquet"))


def test_other_kinds_read_all_rows_first(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.arange(1000), pixels=np.ones((1000, 2, 2)))
    assert_same(Npz(path="d.npz"), Access(tmp_path))


def parquet(folder: Path, **fields: str) -> Parquet:
    rows = np.arange(1000)
    table = pa.table({"x": rows, "lux": pa.array(rows % 10, mask=rows % 5 == 0), "y": rows % 2, "id": rows})
    pq.write_table(table, folder / "d.parquet")
    return Parquet(path="d.parquet", **fields)


def test_batches_are_opened_as_the_whole_is(tmp_path: Path) -> None:
    access = Access(tmp_path)
    dataset = parquet(tmp_path, where="lux > 3", label="y", key="id")
    whole, batches = open_counted(dataset, access, ["x"]), open_batches(dataset, access, ["x"], 64)
    assert pa.Table.from_batches(batches).equals(whole.table.combine_chunks())
    assert (batches.rows, batches.unknown) == (whole.rows, whole.unknown) == (1000, 200)
    assert all(batch.num_rows for batch in open_batches(parquet(tmp_path, where="x > 990"), access, None, 64))
    with pytest.raises(InputError, match="`where: x > 5000` matches none of its 1,000 rows"):
        list(open_batches(parquet(tmp_path, where="x > 5000"), access))
    with pytest.raises(InputError, match=r"label column 'lux' is missing \(null or NaN\) in row 0 "):
        list(open_batches(parquet(tmp_path, label="lux"), access, None, 64))
    with pytest.raises(InputError, match="no label column 'z'"):
        open_batches(parquet(tmp_path, label="z"), access)


def test_a_check_is_handed_batches_and_a_draft_few_of_them(tmp_path: Path) -> None:
    datasets: dict[str, Dataset] = {"d": parquet(tmp_path, where="x >= 100", label="y")}
    tables = Tables(SpecParts(models={}, datasets=datasets, slices={}, access=Access(tmp_path)))
    streamed = pa.Table.from_batches(tables.batches("d", ["id", "x"]))
    assert streamed.column_names == ["id", "x"] and streamed["x"].to_pylist() == list(range(100, 1000))
    assert tables.names("d") == ("x", "lux", "y", "id")
    tables.get("d")
    assert pa.Table.from_batches(tables.batches("d", ["id", "x"])).equals(streamed)
    few = Tables(SpecParts(models={}, datasets=datasets, slices={}, access=Access(tmp_path), rows=64))
    assert pa.Table.from_batches(few.batches("d")).equals(few.get("d").combine_chunks())
    with pytest.raises(InputError, match="dataset d has no column 'z'"):
        list(tables.batches("d", ["z"]))


def test_a_digest_made_in_parts_is_that_of_the_whole(tmp_path: Path) -> None:
    rows = 2 * PORTION_ROWS + 17
    table = pa.table({"x": np.arange(rows), "s": pa.array(np.arange(rows) % 7).cast(pa.string())})
    whole = dataset_digest(table)
    for step in (rows, 1000, PORTION_ROWS):
        digest = TableDigest()
        for start in range(0, rows, step):
            digest.update(table.slice(start, step))
        assert (digest.end(), digest.rows) == (whole, rows)
    other = table.set_column(0, "x", pa.array(np.roll(np.arange(rows), PORTION_ROWS)))
    assert dataset_digest(other) != whole and dataset_digest(table.slice(1)) != whole
    pq.write_table(table, tmp_path / "d.parquet")
    parts = SpecParts(models={}, datasets={"d": Parquet(path="d.parquet")}, slices={}, access=Access(tmp_path))
    record = dataset_record("d", parts)
    assert (record.digest, record.rows, record.rows_read) == (whole, rows, rows)
    assert record.columns == {"x": "int64", "s": "string"}


def test_a_cell_larger_than_a_block(tmp_path: Path) -> None:
    rows = "1,ok\n" * 1000
    (tmp_path / "d.csv").write_text(f"a,b\n{rows}2,{'x' * 5_000_000}\n{rows}")
    (tmp_path / "d.jsonl").write_text(
        '{"a": 1, "b": "ok"}\n' * 1000 + json.dumps({"a": 2, "b": "x" * 9_000_000}) + "\n"
    )
    for dataset in (Csv(path="d.csv"), Jsonl(path="d.jsonl")):
        whole = dataset.read(Access(tmp_path))
        assert pc.max(pc.utf8_length(whole["b"])).as_py() >= 5_000_000
        assert pa.Table.from_batches(dataset.batches(Access(tmp_path), rows=300)).equals(whole.combine_chunks())


def test_rows_come_as_many_at_a_time_whatever_pieces_they_come_in() -> None:
    pictures = pa.FixedSizeListArray.from_arrays(np.arange(1000.0), 10)
    table = pa.table(
        {
            "x": np.arange(100),
            "kind": pa.array([f"k{i // 9}" for i in range(100)]),
            "photo": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float64(), [2, 5]), pictures),
        }
    )
    pieces = []
    for start, size in ((0, 7), (7, 0), (7, 41), (48, 1), (49, 51)):
        part = table.slice(start, size)
        # Each piece has a dictionary of its own, as each row group of a file has.
        part = part.set_column(1, "kind", part.column("kind").combine_chunks().dictionary_encode())
        pieces += part.combine_chunks().to_batches()
    found = list(evenly(pieces, 16))
    assert [batch.num_rows for batch in found] == [16] * 6 + [4]
    together = pa.Table.from_batches([batch.select(["x", "photo"]) for batch in found])
    assert together.equals(table.select(["x", "photo"]))
    assert [one for batch in found for one in batch.column("kind").to_pylist()] == table["kind"].to_pylist()
    assert list(evenly([], 16)) == []
