"""Trials of models for the screens: an artifact beside its file of answers, and what `runs_as` must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import SpecError
from evalspec.evidence.record import Record
from evalspec.language.yaml_text import write
from evalspec.loading import load
from tests.running.small import go
from tests.stories.defects_held_out import linear_model

ROWS = 200
WEIGHTS = np.array([1.0, -2.0, 0.5])


def judged(folder: Path, weights: np.ndarray, **fields: Any) -> Record:
    """A run on answers in a file, beside the artifact that is said to have given them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3))
    columns = {f"c{index}": x[:, index] for index in range(3)}
    pq.write_table(pa.table({"id": np.arange(ROWS), "y": x @ WEIGHTS, **columns}), folder / "test.parquet")
    pq.write_table(
        pa.table({"id": np.arange(ROWS), "p": x @ WEIGHTS + rng.normal(0, 0.01, ROWS)}), folder / "p.parquet"
    )
    (folder / "model.onnx").write_bytes(linear_model(weights, 0.0))
    candidate = {"kind": "predictions", "files": {"test": "p.parquet"}, "outputs": {"value": "p"},
                 "artifact": "model.onnx", **fields}  # fmt: skip
    (folder / "evalspec.yaml").write_text(write({
        "evalspec": 1, "name": "beside", "models": {"candidate": candidate},
        "datasets": {"test": {"kind": "parquet", "path": "test.parquet", "label": "y", "key": "id"}},
        "model": [{"check": "quality", "dataset": "test", "require": ["mae <= 0.1"]}],
    }))  # fmt: skip
    record, _ = go(folder / "evalspec.yaml", folder / "run")
    return record


RUNS_AS = {"kind": "onnx", "inputs": {"x": ["c0", "c1", "c2"]}, "outputs": {"value": "value"},
           "preprocess": [{"cast": "float32"}]}  # fmt: skip


@pytest.mark.proof
def test_an_artifact_that_answers_otherwise_is_told_and_weakens(tmp_path: Path) -> None:
    record = judged(tmp_path, -WEIGHTS, runs_as=RUNS_AS)
    assert record.verdict is not None and record.screens is not None
    (one,) = record.screens.suspicions
    assert (record.verdict.word, one.screen, one.weakens) == ("READY", "artifact", True)
    assert one.sentence in record.verdict.weakened
    (trial,) = record.screens.trials
    assert trial.rows == 64 and trial.unlike is not None and trial.unlike > 50


@pytest.mark.proof
def test_an_artifact_that_gave_the_answers_is_not(tmp_path: Path) -> None:
    record = judged(tmp_path, WEIGHTS, runs_as=RUNS_AS)
    assert record.screens is not None
    assert (record.screens.suspicions, record.screens.trials[0].unlike) == ((), 0)


def test_how_it_is_run_must_be_of_a_model(tmp_path: Path) -> None:
    for fields, said in (
        ({"kind": "onx"}, "`runs_as` needs the `kind` of a model"),
        ({"kind": "onnx", "input": {}}, "`runs_as` input: "),
        ({"kind": "record", "run": "x"}, "`runs_as`"),
    ):
        with pytest.raises(SpecError, match=said):
            judged(tmp_path, WEIGHTS, runs_as=fields)
    with pytest.raises(SpecError, match="write `artifact: PATH`"):
        judged(tmp_path, WEIGHTS, runs_as=RUNS_AS, artifact="sha256:" + 64 * "0")


@pytest.mark.proof
def test_code_of_an_artifact_needs_trust(tmp_path: Path) -> None:
    judged(tmp_path, WEIGHTS)
    text = (tmp_path / "evalspec.yaml").read_text()
    (tmp_path / "own.py").write_text("def answer(inputs): return inputs")
    made = text.replace("artifact: model.onnx", "artifact: own.py\n    runs_as: {kind: python, function: 'own:answer'}")
    (tmp_path / "evalspec.yaml").write_text(made)
    model = load(tmp_path / "evalspec.yaml").models["candidate"]
    assert any("own:answer" in one for one in model.runs_code())
