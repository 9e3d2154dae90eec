"""Small runs in this process: a classifier of 300 rows, asked by two checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.evidence.record import Record
from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.running.options import Options, default_limits
from evalspec.running.runner import run

ROWS = 300
CHECKS = """
datasets:
  test: {kind: parquet, path: test.parquet, label: y, key: id}
model:
  - {check: quality, id: one, dataset: test, require: [accuracy >= 90 %]}
  - {check: quality, id: two, dataset: test, require: [accuracy >= 80 %]}
"""


MODELS_OF_FILES = f"""
  candidate: {{kind: onnx, path: gone.onnx, precision: fp32, classes: [a, b]}}
  baseline:
    kind: predictions
    files: {{test: said.parquet}}
    outputs: {{label: said}}
    classes: [a, b]
    artifact: sha256:{"1" * 64}
datasets:
  test: {{kind: parquet, path: test.parquet, label: y, key: id}}
model:
  - {{check: quality, dataset: test, require: [accuracy >= 90 %, accuracy >= baseline - 5 pp]}}
"""
"""A candidate whose file is gone, and a baseline of which the answers are kept."""


class Steps:
    """Notes the steps of a run, and can interrupt it, or do something, when one begins."""

    def __init__(self, at: str | None = None, do: Any = None) -> None:
        self.at, self.do = at, do
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)
        if text == self.at:
            if self.do is None:
                raise KeyboardInterrupt
            self.do()

    def progress(self, done: float, total: float, what: str) -> None: ...


def write(folder: Path, models: str, checks: str = CHECKS) -> Path:
    """A spec with its rows: x, and the label b where x is above 0."""
    x = np.random.default_rng(0).normal(size=ROWS)
    table = pa.table({"id": np.arange(ROWS), "x": x, "y": np.where(x > 0, "b", "a")})
    pq.write_table(table, folder / "test.parquet")
    path = folder / "spec.yaml"
    path.write_text(f"evalspec: 1\nname: small\nmodels:\n{models}{checks}")
    return path


def answers(path: Path, *, right: bool, rows: int = ROWS) -> None:
    """A file of predictions of the first of these rows, all right or all wrong."""
    x = np.random.default_rng(0).normal(size=ROWS)[:rows]
    pq.write_table(pa.table({"id": np.arange(rows), "said": np.where((x > 0) == right, "b", "a")}), path)


def go(
    spec: Path, out: Path, *, steps: Steps | None = None, trust: bool = True, **options: Any
) -> tuple[Record, Steps]:
    """One run, under --trust unless that is off."""
    steps = steps or Steps()
    loaded = load(spec, options=LoadOptions(trust=trust))
    how: dict[str, Any] = {"limits": default_limits(120.0), "output": out, "root": spec.parent} | options
    record, _ = run(plan(loaded), Options(access=loaded.access(trust=trust), **how), steps)
    return record, steps
