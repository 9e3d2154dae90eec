"""Rows that lie in a folder and in a bucket alike."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.sources.parquet import Parquet
from tests.sources.objects.fake_s3 import Bucket

ROWS, GROUP, DAYS = 900, 250, 5
HIVE = {"partitions": "hive"}


def rows(day: int) -> pa.Table:
    random = np.random.default_rng(day)
    numbers = {"x": random.normal(size=ROWS), "k": random.integers(0, 4, ROWS)}
    texts = [f"w{one % 7}" for one in range(ROWS)]
    return pa.table(numbers | {"word": texts, "vector": [[float(one), 1.0] for one in range(ROWS)]})


def parquet(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=GROUP)
    return stream.getvalue()


def fill(bucket: Bucket, folder: Path, prefix: str = "t") -> None:
    """A table of some days, and what the job that wrote it left behind."""
    for day in range(DAYS):
        bucket.objects[f"{prefix}/dt=2026-11-0{day + 1}/n={day}/part-0.parquet"] = parquet(rows(day))
    bucket.objects[f"{prefix}/_temporary/0/part-9.parquet"] = b"half a file"
    bucket.objects[f"{prefix}/_SUCCESS"] = b""
    bucket.objects[f"{prefix}/dt=2026-11-01/.part-0.parquet.crc"] = b"crc"
    for key, content in bucket.objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def dataset(bucket: Bucket, path: str = "s3://data/t/", **fields: object) -> Parquet:
    return Parquet.model_validate({"kind": "parquet", "path": path, "endpoint": bucket.endpoint, **HIVE} | fields)
