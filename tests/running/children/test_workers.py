"""Answers to rows that a check made: asked of a worker, kept, and given back to `verify`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from evalspec.errors import NotRunError
from evalspec.language.parts import Access
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.running.children.inputs import RunInputs
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.process import Limits
from evalspec.running.children.workers import rows_digest
from evalspec.running.journal.replay import Replay
from evalspec.running.timing import Workers

SPEC = """
evalspec: 1
name: halves
models:
  candidate: {kind: python, function: 'half:half', inputs: {x: x}, outputs: {value: y}}
  read: {kind: predictions, files: {test: read.csv}, outputs: {value: y}}
datasets:
  test: {kind: csv, path: test.csv, label: y, key: id, cluster: person}
model:
  - {check: quality, dataset: test, require: [roc_auc >= 0.5]}
"""


def job_in(folder: Path) -> CheckJob:
    (folder / "half.py").write_text("def half(inputs):\n    return {'y': inputs['x'] / 2}\n")
    (folder / "test.csv").write_text("id,person,x,y\n1,7,2.0,1.0\n2,7,4.0,2.0\n3,8,6.0,3.0\n")
    (folder / "read.csv").write_text("id,y\n1,1.0\n2,2.0\n3,3.0\n")
    (folder / "evalspec.yaml").write_text(SPEC)
    access = Access(folder, trust=True)
    spec = load(folder / "evalspec.yaml")
    parts = SpecParts(models=dict(spec.models), datasets=dict(spec.datasets), slices={}, access=access)
    return CheckJob(
        parts=parts, check=plan(spec).checks[0].check, predictions={}, model_facts={}, confidence=0.95,
        alpha_fail=0.01, seed=1, draft=False, evidence=folder / "evidence", limits=Limits(time_s=60), threads=1,
        environment={},
    )  # fmt: skip


def test_asked_kept_and_given_back(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    workers = Workers(job)
    try:
        inputs = RunInputs(job, lambda *_: None, workers)
        rows = inputs.table("test")
        doubled = rows.set_column(rows.column_names.index("x"), "x", pa.array([4.0, 8.0, 12.0]))
        first, second = inputs.predict(doubled, "test", "doubled"), inputs.predict(doubled.slice(1), "test", "last two")
    finally:
        workers.close()
    assert first.values is not None and first.truth is not None and first.clusters is not None
    assert first.values.tolist() == [2.0, 4.0, 6.0]
    assert first.truth.tolist() == [1.0, 2.0, 3.0]
    assert first.clusters.tolist() == [0, 0, 1]
    assert second.values is not None
    assert second.values.tolist() == [4.0, 6.0]
    names = [name for name, _ in workers.answering.files]
    assert names == [
        "answers-quality-candidate-test-doubled.parquet",
        "answers-quality-candidate-test-last-two.parquet",
    ]
    assert sorted(path.name for path in job.evidence.iterdir()) == names

    again = RunInputs(job, lambda *_: None, Replay(job.evidence, "quality")).predict(doubled, "test", "doubled")
    assert again.values is not None
    assert again.values.tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(NotRunError, match="rows other than doubled"):
        RunInputs(job, lambda *_: None, Replay(job.evidence, "quality")).predict(rows, "test", "doubled")
    with pytest.raises(NotRunError, match="no answers of candidate to tripled"):
        RunInputs(job, lambda *_: None, Replay(job.evidence, "quality")).predict(rows, "test", "tripled")


def test_a_file_of_predictions_knows_no_other_rows(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    inputs = RunInputs(job, lambda *_: None, Workers(job))
    with pytest.raises(
        NotRunError, match="read is a file of predictions: it can't answer again, nor answer other rows"
    ):
        inputs.predict(inputs.table("test"), "test", "same", "read")


def test_the_digest_is_of_names_and_values() -> None:
    rows = pa.table({"x": [1.0, 2.0]})
    chunked = pa.table({"x": pa.chunked_array([[1.0], [2.0]])})
    assert rows_digest(rows) == rows_digest(chunked.replace_schema_metadata({"made": "elsewhere"}))
    assert rows_digest(rows) != rows_digest(pa.table({"x": [1.0, 3.0]}))
    assert rows_digest(rows) != rows_digest(pa.table({"z": [1.0, 2.0]}))
