"""Rows of today that a model is tried on, where a check compares them and where none names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.evidence.record import Record
from evalspec.language.yaml_text import write
from tests.running.small import go

pytestmark = pytest.mark.proof

ROWS = 200
CODE = """
import numpy as np
OF = {{"a": 0.9, "b": 0.1}}
def answer(inputs):
    p = np.array([{lookup} for kind in np.asarray(inputs["kind"]).reshape(-1)])
    return {{"p": np.stack([p, 1 - p], axis=1)}}
"""


def tried(folder: Path, *, lookup: str, new: str, named: bool) -> Record:
    """A run of a model in code; six of today's rows are of a kind that may be new."""
    kinds = np.where(np.arange(ROWS) % 2, "a", "b")
    today = np.where(np.arange(ROWS) % 34 == 5, new, kinds)
    for side, values in (("test", kinds), ("today", today)):
        pq.write_table(
            pa.table({"id": np.arange(ROWS), "kind": values, "y": np.where(kinds == "a", "yes", "no"),
                      "x": np.random.default_rng(len(side)).normal(size=ROWS)}), folder / f"{side}.parquet"
        )  # fmt: skip
    (folder / "own.py").write_text(CODE.format(lookup=lookup))
    spec: dict[str, Any] = {
        "evalspec": 1, "name": "tried",
        "models": {"candidate": {"kind": "python", "function": "own:answer", "artifact": "own.py",
                                 "inputs": {"kind": "kind"}, "outputs": {"probabilities": "p"},
                                 "classes": ["yes", "no"]}},
        "datasets": {"test": {"kind": "parquet", "path": "test.parquet", "key": "id", "label": "y"},
                     "today": {"kind": "parquet", "path": "today.parquet", "key": "id", "label": "y"}},
        "model": [{"check": "quality", "dataset": "test", "require": ["accuracy >= 80 %"]}],
    }  # fmt: skip
    if named:
        spec["data"] = [{"check": "shift", "reference": "test", "current": "today", "columns": ["x"],
                         "require": ["shift <= 0.3"]}]  # fmt: skip
    (folder / "evalspec.yaml").write_text(write(spec))
    record, _ = go(folder / "evalspec.yaml", folder / "run")
    return record


@pytest.mark.parametrize("named", [True, False])
def test_rows_that_a_model_can_not_answer_are_told(tmp_path: Path, named: bool) -> None:
    record = tried(tmp_path, lookup="OF[str(kind)]", new="c", named=named)
    assert record.screens is not None and record.verdict is not None
    (one,) = [each for each in record.screens.suspicions if each.screen == "answerable"]
    assert one.subject == "candidate on today"
    assert one.weakens and one.sentence in record.verdict.weakened


@pytest.mark.parametrize(
    ("lookup", "new"), [("OF[str(kind)]", "a"), ("OF.get(str(kind), 0.5)", "c")], ids=["no new kind", "a default"]
)
def test_rows_that_it_can_answer_are_not(tmp_path: Path, lookup: str, new: str) -> None:
    record = tried(tmp_path, lookup=lookup, new=new, named=False)
    assert record.screens is not None
    assert not [one for one in record.screens.suspicions if one.screen == "answerable"]
