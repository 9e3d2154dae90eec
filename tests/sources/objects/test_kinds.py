"""The other kinds of files in object storage: the rows of the file here."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from evalspec.errors import InputError, InvalidError
from evalspec.language.parts import Access, Dataset
from evalspec.sources.arrow import Arrow
from evalspec.sources.csv import Csv
from evalspec.sources.jsonl import Jsonl
from tests.sources.objects.fake_s3 import Bucket

HOSTS = frozenset({"s3://data"})
SMALL, LARGE = 500, 220_000


def table(rows: int) -> pa.Table:
    random = np.random.default_rng(0)
    texts = [f"word {one % 91}, with a comma" for one in range(rows)]
    return pa.table({"x": random.normal(size=rows), "k": random.integers(0, 9, rows), "text": texts})


def content(kind: str, rows: pa.Table) -> bytes:
    stream = io.BytesIO()
    if kind.startswith("csv"):
        pacsv.write_csv(rows, stream)
        return gzip.compress(stream.getvalue(), 1) if kind == "csv.gz" else stream.getvalue()
    if kind == "jsonl":
        return "".join(f"{json.dumps(one)}\n" for one in rows.to_pylist()).encode()
    new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    with new(stream, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=10_000)
    return stream.getvalue()


CLASSES: dict[str, type[Dataset]] = {"csv": Csv, "csv.gz": Csv, "jsonl": Jsonl, "arrow": Arrow, "arrows": Arrow}


def both(bucket: Bucket, folder: Path, kind: str, rows: int) -> tuple[Dataset, Dataset, Access]:
    name = f"t.{kind}"
    bucket.objects[name] = content(kind, table(rows))
    (folder / name).write_bytes(bucket.objects[name])
    fields = {"kind": kind.partition(".")[0].removesuffix("s") if kind == "arrows" else kind.partition(".")[0]}
    there = CLASSES[kind].model_validate(fields | {"path": f"s3://data/{name}", "endpoint": bucket.endpoint})
    return there, CLASSES[kind].model_validate(fields | {"path": name}), Access(folder, hosts=HOSTS)


@pytest.mark.proof
@pytest.mark.parametrize("rows", [SMALL, LARGE])
@pytest.mark.parametrize("kind", CLASSES)
def test_rows_are_those_of_the_file_here(bucket: Bucket, tmp_path: Path, kind: str, rows: int) -> None:
    there, here, access = both(bucket, tmp_path, kind, rows)
    assert there.header(access) == here.header(access)
    expected = here.read(access, ["k", "text"])
    assert there.read(access, ["k", "text"]).equals(expected)
    assert pa.Table.from_batches(there.batches(access, ["k", "text"])).equals(expected)
    assert there.files(access) == () and len(there.stamps(access)) == 1


@pytest.mark.parametrize("kind", CLASSES)
def test_one_that_is_replaced_midway_is_named(bucket: Bucket, tmp_path: Path, kind: str) -> None:
    there, _, access = both(bucket, tmp_path, kind, SMALL)
    there.list_objects(access)
    bucket.objects[f"t.{kind}"] = content(kind, table(SMALL).slice(1))
    for way in (there.header, there.read, lambda access: list(there.batches(access))):
        with pytest.raises(InvalidError, match=rf"'s3://data/t\.{kind}' was replaced"):
            way(access)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_kind_that_reads_one_file_reads_one_object(bucket: Bucket, tmp_path: Path, kind: str) -> None:
    bucket.objects |= {f"t/{one}.{kind}": content(kind, table(SMALL)) for one in "ab"}
    fields = {"kind": kind, "path": "s3://data/t/", "endpoint": bucket.endpoint}
    with pytest.raises(InputError, match=f"'s3://data/t/' holds 2 objects; kind {kind} reads one"):
        CLASSES[kind].model_validate(fields).header(Access(tmp_path, hosts=HOSTS))


@pytest.mark.parametrize(
    ("kind", "broken"), [("csv", b"a,b\n1,2,3\n"), ("jsonl", b'{"a": 1}\n{"a": \n'), ("arrow", b"a")]
)
def test_a_broken_one_is_named(bucket: Bucket, tmp_path: Path, kind: str, broken: bytes) -> None:
    bucket.objects[f"t.{kind}"] = broken
    fields = {"kind": kind, "path": f"s3://data/t.{kind}", "endpoint": bucket.endpoint}
    with pytest.raises(InputError, match=rf"'s3://data/t\.{kind}' can't be read as {kind}"):
        CLASSES[kind].model_validate(fields).read(Access(tmp_path, hosts=HOSTS))
