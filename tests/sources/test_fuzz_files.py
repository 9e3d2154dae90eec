"""F9, F10: a file with any bytes changed is read, or what is wrong with it is said in a sentence."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalspec.answers.classes import read_classes
from evalspec.errors import InputError
from evalspec.language.parts import Access, Dataset
from evalspec.runtimes.onnx_model.graph import read_graph
from evalspec.runtimes.predictions import read_predictions
from evalspec.runtimes.torch_model.archive import hidden_code
from evalspec.sources.arrow import Arrow
from evalspec.sources.csv import Csv
from evalspec.sources.images import Images
from evalspec.sources.jsonl import Jsonl
from evalspec.sources.npz import Npz
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.open import open_batches, open_counted
from evalspec.sources.reading.rows import dataset_digest
from tests.campaigns.sizes import examples

DIGITS = Path(__file__).parents[2] / "suites" / "digits"
FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=examples(1500), deadline=None, suppress_health_check=list(HealthCheck))
SIZES = (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 65_536)

COLUMNS = {
    "whole": pa.array([1, 2, 3]),
    "text": pa.array(["x", "y", None]),
    "number": pa.array([1.5, None, float("nan")]),
    "lists": pa.array([[1], [2, 3], None]),
    "record": pa.array([{"a": 1}, None, {"a": 2}]),
    "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "category": pa.array(["u", "v", "u"]).dictionary_encode(),
    "wide decimal": pa.array([1, 2, 3], pa.decimal256(60, 0)),
    "time": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
    "span": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    "nothing": pa.nulls(3),
    "bytes": pa.array([b"\xff", b"", None]),
    "": pa.array([1, 2, 3]),
    "view": pa.array(["a", "b", "c"], pa.string_view()),
    "uuid": pa.array([b"a" * 16] * 3, pa.uuid()),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((3, 2, 2), np.float32)),
    "union": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a"] * 3)]),
    "__index_level_0__": pa.array([1, 2, 3]),
}
TEXTS = {
    "csv": ["a,b\n1,2\n3,x\n", 'a;b\n"1;2";3\n', 'a,b\n"x\n1,2\n', "a,b\n1\n", ",\n1,2\n", "a\n1e400\n", "é\r\n1\r\n"],
    "jsonl": [
        '{"a":1}\n{"a":2.5}\n', '{"a":1,"a":2}\n', '{"a":' + "[" * 50 + "]" * 50 + "}\n", "{}\n{}\n", "[1]\n",
        '{"a":1}\n{"a":"x"}\n', '{"a":{"b":[{"c":null}]}}\n', '{"a":99999999999999999999999}\n', '{"":1}\n',
    ],
}  # fmt: skip
ARRAYS = (np.arange(3), np.array(["a", "b"]), np.array([1 + 2j]), np.zeros((3, 0)), np.zeros(()), np.zeros((2, 2, 2)),
          np.array([None], object), np.zeros(3, [("x", "i4")]), np.array([1, 2], ">i4"), np.zeros(2, "V8"))  # fmt: skip


def changed(data: bytes, rng: random.Random) -> bytes:
    """Some bytes other, gone, doubled, or taken for a size."""
    found = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 5, 20])):
        at = rng.randrange(len(found) + 1)
        ends = [
            bytes([rng.randrange(256)]) + found[at + 1 :],
            found[at + rng.randrange(30) :],
            found[max(0, at - 50) : at] * rng.randrange(3) + found[at:],
            struct.pack("<I", rng.choice(SIZES)) + found[at + 4 :],
            b"",
        ]
        found = found[:at] + rng.choice(ends)
    return bytes(found) or b"x"


def table(rng: random.Random) -> pa.Table:
    names = rng.sample(list(COLUMNS), rng.choice([0, 1, 2, 4]))
    return pa.table([COLUMNS[name] for name in names], names=names if rng.random() < 0.9 else ["x"] * len(names))


def content(kind: str, rng: random.Random) -> bytes:
    """A file of a kind, as somebody may have written it."""
    stream = io.BytesIO()
    if kind in TEXTS:
        return rng.choice(TEXTS[kind]).encode(rng.choice(["utf-8", "utf-16", "latin-1"]))
    if kind == "parquet":
        try:
            pq.write_table(table(rng), stream, compression=rng.choice(["none", "snappy", "zstd"]))
        except pa.ArrowException:
            pq.write_table(pa.table({"a": [1]}), stream)
    elif kind == "arrow":
        rows, options = table(rng), pa.ipc.IpcWriteOptions(compression=rng.choice([None, "zstd", "lz4"]))
        with rng.choice([pa.ipc.new_file, pa.ipc.new_stream])(stream, rows.schema, options=options) as writer:
            writer.write_table(rows)
    elif kind == "npz":
        arrays = {rng.choice(["a", "b", "..", "a/b"]): rng.choice(ARRAYS) for _ in range(rng.choice([1, 2]))}
        rng.choice([np.savez, np.savez_compressed])(stream, **arrays)  # type: ignore[arg-type]
    else:
        from PIL import Image

        Image.new(rng.choice(["L", "RGB"]), (5, 4)).save(stream, rng.choice(["PNG", "JPEG", "GIF", "TIFF", "WEBP"]))
    return stream.getvalue()


KINDS: dict[str, Callable[..., Dataset]] = {
    "csv": Csv, "jsonl": Jsonl, "parquet": Parquet, "arrow": Arrow, "npz": Npz, "images": Images,
}  # fmt: skip


def check_dataset(kind: str, seed: int, folder: Path) -> None:
    rng, access = random.Random(seed), Access(folder)
    path = folder / ("x.png" if kind == "images" else f"x.{kind}")
    path.write_bytes(changed(content(kind, rng), rng))
    dataset = KINDS[kind](path="." if kind == "images" else path.name)
    try:
        columns = list(dataset.header(access).columns)
        if columns and kind != "images":
            named = {rng.choice(["label", "key", "cluster"]): rng.choice(columns)}
            dataset = dataset.model_copy(update=named)
        dataset_digest(open_counted(dataset, access).table)
        list(open_batches(dataset, access))
    except InputError as error:
        assert str(error)
    if kind != "images":
        try:
            read_predictions(path, path.name)
        except InputError as error:
            assert str(error)


@FEW
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", KINDS)
def test_f9_a_dataset_with_any_bytes_changed(kind: str, seed: int, tmp_path: Path) -> None:
    check_dataset(kind, seed, tmp_path)


@pytest.mark.proof
@MANY
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", KINDS)
def test_f9_many_datasets_with_any_bytes_changed(kind: str, seed: int, tmp_path: Path) -> None:
    check_dataset(kind, seed, tmp_path)


@FEW
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", ["int8.onnx", "fp32.pt2", "classes.txt"])
def test_f9_a_file_of_a_model_with_any_bytes_changed(name: str, seed: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(changed((DIGITS / name).read_bytes(), random.Random(seed)))
    try:
        if name.endswith(".onnx"):
            read_graph(path, name)
        elif name.endswith(".pt2"):
            hidden_code(path, name)
        else:
            read_classes(name, Access(tmp_path))
    except InputError as error:
        assert str(error)
