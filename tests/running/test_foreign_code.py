"""Code that is not ours is given the pyarrow that it knows: one that takes a series of pandas for what it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

import evalspec
from evalspec.language.parts import Access, Model
from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.running.children.jobs import SpecParts, WorkerJob, foreign_code, is_foreign
from evalspec.running.engines.remote import shared
from evalspec.runtimes.memory import MemoryModel
from evalspec.runtimes.onnx import Onnx
from evalspec.sources.parquet import Parquet

ROWS, MISSING = 400, 120
OWN = """
import pandas as pd, pyarrow as pa

def series(rows):
    return pa.array(pd.Series(rows["x"])).is_null().to_pylist()

def marks(rows):
    import numpy as np
    marked = np.array([pd.NA if one != one else "x" for one in rows["x"]], dtype=object)
    return pa.array(marked, from_pandas=True).is_null().to_pylist()
"""
PLAIN = """
evalspec: 1
name: plain
datasets:
  test: {kind: parquet, path: rows.parquet, key: id}
data:
  - {check: integrity, dataset: test, require: [duplicate_rows == 0 rows]}
"""
FOREIGN = (
    PLAIN
    + """\
  - {check: python, id: series, dataset: test, function: "own.py:series", require: [series <= 5 %]}
  - {check: python, id: marks, dataset: test, function: "own.py:marks", require: [marks <= 5 %]}
"""
)

WATCHING = """
import sys
from pathlib import Path
import numpy as np

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            Path(__file__).with_name("imported").touch()

sys.meta_path.insert(0, Watch())

def sign(inputs):
    up = np.asarray(inputs["x"]).reshape(-1) > 0
    assert up.shape == inputs["gap"].shape == inputs["flag"].shape and inputs["pair"].shape == (len(up), 2)
    return {"p": np.stack([np.where(up, 0.1, 0.9), np.where(up, 0.9, 0.1)], axis=1)}

def word(inputs):
    return {"said": np.where(np.asarray(inputs["x"]).reshape(-1) > 0, "b", "a").astype(object)}

def bounds(inputs):
    x = np.asarray(inputs["x"]).reshape(-1)
    return {"y": x, "lower": x - 1, "upper": x + 1}
"""
WATCHED = {
    "classes": """
models:
  candidate:
    kind: python
    function: "watching:sign"
    inputs: {x: x, gap: gap, flag: flag, place: place, pair: pair}
    outputs: {probabilities: p}
    classes: [a, b]
datasets:
  test: {kind: parquet, path: seen.parquet, label: word, key: id, cluster: place, where: "x > -9"}
model:
  - {check: quality, dataset: test, require: [accuracy >= 50 %]}
system:
  - {check: latency, dataset: test, processes: 5, require: [latency_p50 <= 5 s]}
""",
    "texts": """
models:
  candidate: {kind: python, function: "watching:word", inputs: {x: x}, outputs: {text: said}}
datasets:
  test: {kind: parquet, path: seen.parquet, label: word, key: id}
model:
  - {check: quality, dataset: test, require: [exact_match >= 50 %]}
""",
    "values": """
models:
  candidate:
    kind: python
    function: "watching:bounds"
    inputs: {x: x}
    outputs: {value: y, lower: lower, upper: upper}
datasets:
  test: {kind: csv, path: seen.csv, label: y, key: id, missing: ["?"]}
model:
  - {check: quality, dataset: test, require: [mae <= 5]}
""",
}
"""Models that write down where pandas is imported beside them."""


class FromElsewhere(Parquet):
    """A source of another distribution."""

    kind: Literal["elsewhere"] = "elsewhere"  # type: ignore[assignment]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=ROWS)
    x[:MISSING] = np.nan
    pq.write_table(pa.table({"x": x, "id": np.arange(ROWS)}), tmp_path / "rows.parquet")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "plain.yaml").write_text(PLAIN)
    (tmp_path / "foreign.yaml").write_text(FOREIGN)
    return tmp_path


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.proof if kind == "classes" else ()) for kind in WATCHED]
)
def test_a_model_is_asked_without_pandas(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    rows = pa.table({
        "id": np.arange(ROWS), "x": x, "flag": x > 1, "word": np.where(x > 0, "b", "a"), "place": np.arange(ROWS) % 40,
        "y": x + rng.normal(size=ROWS) / 10,
        "gap": pa.array(x, mask=x < -1), "pair": pa.array(rng.normal(size=(ROWS, 2)).tolist()),
    })  # fmt: skip
    pq.write_table(rows, tmp_path / "seen.parquet")
    write_csv(rows.select(["id", "x", "y"]), tmp_path / "seen.csv")
    (tmp_path / "watching.py").write_text(WATCHING)
    (tmp_path / "spec.yaml").write_text(f"evalspec: 1\nname: watched\n{WATCHED[kind]}")
    made = evalspec.run(tmp_path / "spec.yaml", output=tmp_path / "out", allow=evalspec.Allow(trust=True))
    assert [one.status for one in made.record.checks] == ["measured"] * len(made.record.checks)
    assert not (tmp_path / "imported").exists()


@pytest.mark.processes
def test_a_series_has_its_missing_values_after_a_check_of_ours_too(folder: Path) -> None:
    made = evalspec.run(folder / "foreign.yaml", output=folder / "out", allow=evalspec.Allow(trust=True))
    measured = {one.id: one.measured.get(one.id) for one in made.record.checks if one.id != "integrity"}
    assert measured == dict.fromkeys(("series", "marks"), MISSING / ROWS)


def test_where_code_runs_is_known_from_the_plan(folder: Path) -> None:
    assert not foreign_code(plan(load(folder / "plain.yaml")))
    assert foreign_code(plan(load(folder / "foreign.yaml", options=LoadOptions(trust=True))))
    frame = pq.read_table(folder / "rows.parquet").to_pandas()
    assert foreign_code(evalspec.plan(evalspec.load(folder / "plain.yaml", datasets={"test": frame})))
    planned = plan(load(folder / "plain.yaml"))
    planned.spec.datasets["test"] = FromElsewhere(path="rows.parquet")  # type: ignore[index]
    assert foreign_code(planned)


def test_nodes_know_it_too(folder: Path) -> None:
    spec = load(folder / "plain.yaml")
    for foreign in (False, True):
        parts = SpecParts({}, spec.datasets, {}, spec.access(), foreign_code=foreign)
        assert shared(parts, ["test"]).foreign_code is foreign
    assert is_foreign(FromElsewhere(path="rows.parquet")) and not is_foreign(spec.datasets["test"])


def test_a_worker_reads_rows_too(folder: Path) -> None:
    spec = load(folder / "plain.yaml")
    ours = {"candidate": Onnx(path="m.onnx", classes=("a", "b"))}

    def job(access: Access, models: Mapping[str, Model] = ours, foreign_code: bool = False) -> WorkerJob:
        return WorkerJob(SpecParts(models, spec.datasets, {}, access, foreign_code=foreign_code), "candidate", 1)

    assert not job(spec.access()).foreign_code
    assert job(spec.access(), foreign_code=True).foreign_code
    assert job(spec.access(trust=True)).foreign_code
    assert job(spec.access(), ours | {"other": MemoryModel(path="m")}).foreign_code


PREPARED = """
import sys
from evalspec.running.children import reader, sharing
sharing.prepare()
reader.prepare()
assert "pandas" not in sys.modules
import pandas as pd, pyarrow as pa
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
"""


def test_a_child_that_is_there_before_the_spec_is_read_has_decided_nothing() -> None:
    subprocess.run([sys.executable, "-c", PREPARED], check=True)
