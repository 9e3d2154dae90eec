"""What a plan says of answers that come in parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.loading import load
from evalspec.planning import plan
from evalspec.planning.answered import answered

ROWS = 150_000
SPEC = """
evalspec: 1
name: answered
models:
  candidate: {kind: python, function: "behaviour:f", batch: 3000, inputs: {x: x}, classes: [a, b]}
  gpu: {kind: python, function: "behaviour:f", batch: 40000, inputs: {x: x}, device: "cuda"}
  said: {kind: predictions, files: {large: said.parquet}, outputs: {label: said}, classes: [a, b]}
datasets:
  large: {kind: parquet, path: large.parquet, label: y, key: id}
  lines: {kind: arrow, path: large.arrow, label: y}
  some: {kind: parquet, path: large.parquet, label: y, where: x < 3}
  small: {kind: parquet, path: small.parquet, label: y}
model:
  - {check: quality, dataset: large, require: [accuracy >= 50 %, accuracy >= said - 5 pp]}
  - {check: quality, id: again, dataset: large, require: [accuracy >= 40 %]}
  - {check: quality, id: on_gpu, model: gpu, dataset: large, report_only: true}
  - {check: quality, id: lines, dataset: lines, report_only: true}
  - {check: quality, id: some, dataset: some, report_only: true}
  - {check: quality, id: small, dataset: small, report_only: true}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({"id": np.arange(ROWS), "x": np.arange(ROWS) / ROWS, "y": np.where(np.arange(ROWS) % 2, "a", "b")})
    pq.write_table(table, tmp_path / "large.parquet")
    pq.write_table(pa.table({"id": np.arange(ROWS), "said": table.column("y")}), tmp_path / "said.parquet")
    pq.write_table(table.slice(0, 60_000), tmp_path / "small.parquet")
    with pa.OSFile(str(tmp_path / "large.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "behaviour.py").write_text("def f(inputs): ...\n")
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    return tmp_path


def test_answers_to_large_datasets_are_named(folder: Path) -> None:
    planned = plan(load(folder / "evalspec.yaml"))
    told = {(one.model, one.dataset): one for one in answered(planned)}
    assert set(told) <= {("candidate", "large"), ("gpu", "large"), ("candidate", "lines")}
    assert told["candidate", "large"].line("2 children") == (
        "answers of candidate on large: 3 parts of 66,000 rows, from 2 children; a check holds all of them, 3 MiB or "
        "more"
    )
    assert "from one process; " in told["candidate", "large"].line("")
    gpu = told["gpu", "large"]
    assert (gpu.part_rows, gpu.bytes) == (80_000, ROWS * 8)
    assert "from one process (the model is on cuda); " in gpu.line("2 children")
    assert {one.why_one for one in answered(planned, elsewhere=True) if one.dataset == "large"} == {""}
