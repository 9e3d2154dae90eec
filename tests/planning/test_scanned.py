"""What a plan says of datasets that several children would scan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.language import scans
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.planning.scanned import scanned

SPEC = """
evalspec: 1
name: scanned
datasets:
  large: {kind: parquet, path: d.parquet}
  some: {kind: parquet, path: d.parquet, where: x < 3000}
  lines: {kind: csv, path: d.csv}
  small: {kind: parquet, path: small.parquet}
  train: {kind: parquet, path: d.parquet}
data:
  - {check: shift, reference: large, current: some, require: [drifted_columns <= 10 %]}
  - {check: shift, id: other, reference: lines, current: small, report_only: true}
  - {check: contamination, train: [train], test: small, report_only: true}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"x": range(4_500)}), tmp_path / "d.parquet")
    pq.write_table(pa.table({"x": range(2_000)}), tmp_path / "small.parquet")
    (tmp_path / "d.csv").write_text("x\n" + "\n".join(map(str, range(4_500))))
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    return tmp_path


def test_each_dataset_and_why_one_process_scans_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "LEAF_ROWS", 2_000)
    planned = plan(load(folder / "evalspec.yaml"))
    lines = [one.line("3 children scan") for one in scanned(planned)]
    kept = "(where they take 256 MiB or less, a run keeps them and several children do)"
    assert lines == [
        "3 children scan large: 3 leaves of 2,000 rows",
        f"one process scans some: which rows its `where` leaves is known only when all before them were read {kept}",
        f"one process scans lines: rows of kind csv can't be read by their numbers {kept}",
        "one process scans small: 2,000 rows or fewer are one leaf",
        "3 children scan train: 3 leaves of 2,000 rows",
    ]
    # What this machine keeps of small datasets is not there for a node.
    assert [one.line("ray at 127.0.0.1:6379 scans") for one in scanned(planned, elsewhere=True)] == [
        one.removesuffix(f" {kept}").replace("3 children scan", "ray at 127.0.0.1:6379 scans") for one in lines
    ]


@pytest.mark.proof
def test_the_command_says_so_where_an_engine_is_named(folder: Path) -> None:
    def said(*options: str) -> str:
        command = [sys.executable, "-m", "evalspec", "plan", str(folder / "evalspec.yaml"), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout

    assert "leaf" not in said() and "one process scans small: 1,048,576 rows or fewer" in said("--engine", "local:2")
    told = json.loads(said("--engine", "local:2", "--json"))
    assert told["engine"] == {"name": "local", "children": 2, "address": ""}
    assert [one["name"] for one in told["scanned"]] == ["large", "some", "lines", "small", "train"]
