"""How many files of the package a value goes through, from where it is read to the page, as ARCHITECTURE.md says it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.evidence.written import in_unit
from tests.follow import Marks, follow

PAGE = Path(__file__).resolve().parent.parent / "ARCHITECTURE.md"
ROWS = 311
LABEL = """evalspec: 1
name: small
models:
  candidate: {kind: predictions, files: {test: said.parquet}, artifact: said.parquet, outputs: {label: said},
              classes: [za, zb]}
datasets:
  test: {kind: parquet, path: test.parquet, label: zlabel, key: id}
model:
  - {check: quality, dataset: test, require: [accuracy >= 70 %]}
"""
FEW = 40
LEAST = 200
LATENCY = """evalspec: 1
name: small
models:
  candidate: {kind: python, function: 'own:sign', inputs: {x: x}, outputs: {probabilities: p}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y, key: id}
system:
  - {check: latency, dataset: test, processes: 5, require: [latency_p50 <= 900 ms]}
"""
SIGN = """
import numpy as np

def sign(inputs):
    x = np.asarray(inputs["x"]).reshape(-1)
    return {"p": np.stack([np.where(x > 0, 0.1, 0.9), np.where(x > 0, 0.9, 0.1)], axis=1)}
"""


def stated(value: str) -> tuple[int, int, int, int]:
    """What the page says of a value: files that have it, the number made of it, either; files that have it on a run
    with screens.
    """
    row = re.search(rf"^\| {re.escape(value)} \|" + r" (\d+) \|" * 4, PAGE.read_text(encoding="utf-8"), re.M)
    assert row is not None
    first, second, both, screened = (int(one) for one in row.groups())
    return first, second, both, screened


OFF = "policy: {screens: off}\n"


def counts(folder: Path, spec: str, marks: Marks) -> tuple[int, int, int, int]:
    (folder / "spec.yaml").write_text(spec)
    screened = follow(["run", "spec.yaml", "--trust", "--output", "screened"], marks, folder)
    (folder / "spec.yaml").write_text(spec + OFF)
    followed = follow(["run", "spec.yaml", "--trust", "--output", "out"], marks, folder)
    record = json.loads((folder / "out" / "record.json").read_text(encoding="utf-8"))
    test = record["checks"][0]["tests"][0]
    value = test["value"]
    assert isinstance(value, float)
    # People see it in the unit that the requirement is written in.
    shown = in_unit(value, test["unit"], test["written_unit"] or test["unit"])
    files, number = set(followed["it"]), set(followed[repr(value)]) | set(followed[repr(shown)])
    # It was followed from one end to the other.
    assert any(name.startswith("report/") for name in number) and "running/requirements.py" in number
    return len(files), len(number), len(files | number), len(screened["it"])


@pytest.mark.proof
def test_a_label_column_goes_through_as_many_files_as_the_page_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    true = x > 0
    said = np.where(rng.random(ROWS) < 0.05, ~true, true)
    # The first rows tell the labels from the answers.
    said[1] = not true[1]
    pq.write_table(pa.table({"id": np.arange(ROWS), "x": x, "zlabel": np.where(true, "zb", "za")}),
                   tmp_path / "test.parquet")  # fmt: skip
    pq.write_table(pa.table({"id": np.arange(ROWS), "said": np.where(said, "zb", "za")}), tmp_path / "said.parquet")
    arrays = tuple("".join("1" if one else "0" for one in array) for array in (true, ~true, true == said, true != said))
    words = tuple(np.where(true[:12], "zb", "za").tolist())
    assert counts(tmp_path, LABEL, Marks(columns=("zlabel",), words=words, arrays=arrays)) == stated("label column")


@pytest.mark.proof
def test_a_latency_sample_goes_through_no_more_files_than_the_page_says(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=FEW)
    pq.write_table(pa.table({"id": np.arange(FEW), "x": x, "y": np.where(x > 0, "b", "a")}), tmp_path / "test.parquet")
    (tmp_path / "own.py").write_text(SIGN)
    # How steady the machine is decides which estimators look at it.
    measured = counts(tmp_path, LATENCY, Marks(least=LEAST))
    assert all(one <= most for one, most in zip(measured, stated("latency sample"), strict=True)), measured
