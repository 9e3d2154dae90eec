"""Checks that hold all rows of a dataset are named in the plan, and not run where these don't fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import NotRunError
from evalspec.language.header import Header
from evalspec.language.parts import Access
from evalspec.loading import load
from evalspec.planning import held as planning_held
from evalspec.planning import plan
from evalspec.planning.held import held
from evalspec.running.children.inputs import RunInputs
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.process import Limits
from evalspec.running.journal.replay import Replay

SPEC = """
evalspec: 1
name: held
datasets:
  test: {kind: parquet, path: d.parquet, label: y}
  grouped: {kind: parquet, path: d.parquet, cluster: y}
  train: {kind: parquet, path: t.parquet}
data:
  - {check: shift, reference: train, current: grouped, report_only: true}
  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("d", "t"):
        pq.write_table(pa.table({"x": np.arange(4_500.0), "y": [name] * 4_500}), tmp_path / f"{name}.parquet")
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    return tmp_path


def test_the_plan_names_them_with_rows_and_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(load(folder / "evalspec.yaml"))
    assert held(planned) == []
    monkeypatch.setattr(planning_held, "MUCH", 1000)
    found = held(planned)
    assert [(one.check, one.dataset, one.rows, one.bytes) for one in found] == [
        ("shift", "grouped", 4_500, 4_500 * 12), ("contamination", "test", 4_500, 4_500 * 12),
    ]  # fmt: skip
    line = "holds all rows of test in memory: 4,500 rows, with all columns 0.0 GiB or more"
    assert found[1].line == f"contamination {line}"


def test_what_does_not_fit_is_not_run(folder: Path) -> None:
    spec = load(folder / "evalspec.yaml")
    parts = SpecParts(models={}, datasets=dict(spec.datasets), slices={}, access=Access(folder))
    job = CheckJob(
        parts=parts, check=plan(spec).checks[1].check, predictions={}, model_facts={}, confidence=0.95,
        alpha_fail=0.01, seed=1, draft=False, evidence=folder, limits=Limits(memory_bytes=40_000), threads=1,
        environment={},
    )  # fmt: skip

    def inputs(job: CheckJob) -> RunInputs:
        return RunInputs(job, lambda *_: None, Replay(folder, "none"))

    with pytest.raises(NotRunError, match=r"contamination holds all 4,500 rows of test in memory, 0 MiB or more, and"):
        inputs(job).table("test")
    assert inputs(job).table("test", ["x"]).num_rows == 4_500
    assert inputs(replace(job, limits=Limits())).table("test").num_columns == 2


def test_widths() -> None:
    kinds = [
        pa.int8(), pa.uint32(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"),
        pa.time32("s"), pa.decimal128(9, 2), pa.string(), pa.list_(pa.int64()), pa.dictionary(pa.int8(), pa.string()),
    ]  # fmt: skip
    header = Header(10, {str(place): str(kind) for place, kind in enumerate(kinds)})
    each = [header.least_bytes([str(place)]) // 10 for place in range(len(kinds))]
    assert each == [1, 4, 2, 4, 8, 0, 4, 8, 4, 16, 4, 4, 1]
    assert header.least_bytes() == 10 * sum(each) and Header(None, {"x": "double"}).least_bytes() == 0
