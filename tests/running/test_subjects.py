"""One subject: digests at the start, the same at the end, and runs before this one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.evidence.record import DatasetRecord, ModelRecord, Record
from evalspec.running.folders import earlier_runs
from evalspec.running.subjects import subject_of
from evalspec.verdict import decide
from tests.commands import evalspec
from tests.verdict.test_decide import a_check, a_record, a_test

SUITE = Path(__file__).parents[2] / "suites" / "predictions"

DATA_ONLY = """
evalspec: 1
name: data-only
datasets:
  train: {kind: csv, path: train.csv}
  test: {kind: csv, path: test.csv}
data:
  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}
"""

SLOW_MODEL = """
import time
import numpy as np

def slow(inputs):
    time.sleep(4)
    x = np.asarray(next(iter(inputs.values()))).reshape(-1)
    p = np.where(x > 0, 0.97, 0.03)
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""

SWAPPED = """
evalspec: 1
name: swapped
models:
  candidate:
    {kind: python, function: "behaviour:slow", weights: [weights.bin], batch: 5000, inputs: {x: x}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [accuracy >= 90 %]}
"""


def a_model(name: str, digest: str | None) -> ModelRecord:
    return ModelRecord(name=name, kind="onnx", digest=digest)


def test_the_subject_is_the_candidate_or_the_only_model_or_the_data() -> None:
    models = {"candidate": a_model("candidate", "c"), "other": a_model("other", "o")}
    datasets = {"test": DatasetRecord(name="test", kind="csv", digest="t", rows=1)}
    assert subject_of(models, datasets, ["candidate", "other"]) == "c"
    assert subject_of(models, datasets, ["other"]) == "o"
    assert subject_of({"other": models["other"]}, datasets, ["other", "third"]) is None
    alone = subject_of({}, datasets, [])
    assert alone is not None
    assert alone != subject_of({}, {"test": datasets["test"].model_copy(update={"digest": "u"})}, [])


@pytest.mark.proof
def test_a_spec_about_data_alone_can_be_ready(tmp_path: Path) -> None:
    (tmp_path / "evalspec.yaml").write_text(DATA_ONLY)
    (tmp_path / "train.csv").write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(50)))
    (tmp_path / "test.csv").write_text("a,b\n" + "".join(f"{i},{i * i + 7}\n" for i in range(100, 150)))
    done = evalspec("run", tmp_path / "evalspec.yaml", folder=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "data-only: READY")


def record_of(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "reports" / name / "latest" / "record.json").read_text())
    return found


@pytest.mark.proof
def test_run_until_green_is_seen_also_under_another_name(tmp_path: Path) -> None:
    shutil.copytree(SUITE, tmp_path / "suite")
    spec = tmp_path / "suite" / "evalspec.yaml"
    assert evalspec("run", spec, folder=tmp_path).returncode == 0
    assert record_of(tmp_path, "predictions")["earlier_runs"] == 0
    spec.write_text(spec.read_text().replace("name: predictions", "name: again"))
    done = evalspec("run", spec, folder=tmp_path)
    assert record_of(tmp_path, "again")["earlier_runs"] == 1
    assert "decided 1 time before" in done.stdout
    assert record_of(tmp_path, "again")["asked_otherwise"] == []
    spec.write_text(spec.read_text().replace("accuracy >= 90 %", "accuracy >= 85 %"))
    done = evalspec("run", spec, folder=tmp_path)
    assert "decided 2 times before on this test set, on this subject" in done.stdout
    (one,) = record_of(tmp_path, "again")["asked_otherwise"]
    notice = f"loosened: quality/accuracy is `accuracy >= 85 %`, was `accuracy >= 90 %` in run {one['run']}"
    assert f"  ! {notice}\n" in done.stdout
    folder = tmp_path / "reports" / "again" / "latest"
    assert "Loosened: quality/accuracy is `accuracy >= 85 %`" in (folder / "summary.md").read_text()
    assert "Loosened: quality/accuracy is <code>accuracy &gt;= 85 %</code>" in (folder / "report.html").read_text()


@pytest.mark.proof
def test_an_artifact_that_is_swapped_while_it_runs_voids_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "behaviour.py").write_text(SLOW_MODEL)
    (tmp_path / "weights.bin").write_bytes(b"first")
    (tmp_path / "evalspec.yaml").write_text(SWAPPED)
    x = [float(i - 150) + 0.5 for i in range(300)]
    pq.write_table(pa.table({"x": x, "y": ["b" if v > 0 else "a" for v in x]}), tmp_path / "test.parquet")
    command = [sys.executable, "-m", "evalspec", "run", "evalspec.yaml", "--trust"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if "candidate on test" in line:
            break
    time.sleep(0.2)
    (tmp_path / "weights.bin").write_bytes(b"second")
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 3, out
    (check,) = record_of(tmp_path, "swapped")["checks"]
    assert check["status"] == "invalid"
    assert check["reason"] == "model candidate changed during the run"


def test_a_training_set_that_was_seen_before_is_no_test_set_that_was(tmp_path: Path) -> None:
    """Of specs about data alone, only runs on the very same datasets are earlier decisions."""

    def written(name: str, test: str) -> Record:
        data = [
            DatasetRecord(name=one, kind="parquet", digest=digest, rows=9)
            for one, digest in (("train", "t"), ("test", test))
        ]
        check = a_check(a_test("leakage", "x"), id="leakage", dimension="data", datasets=("train", "test"))
        record = a_record(check, datasets=tuple(data))
        record = record.model_copy(update={"verdict": decide(record)})
        folder = tmp_path / "reports" / "example" / name
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(record.model_dump_json())
        return record

    written("a", "one")
    other, again = written("b", "two"), written("c", "one")
    assert earlier_runs(tmp_path / "reports" / "example" / "b", tmp_path, other).runs == 0
    assert earlier_runs(tmp_path / "reports" / "example" / "c", tmp_path, again).runs == 1
