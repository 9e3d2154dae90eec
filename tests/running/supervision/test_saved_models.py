"""Models that runs save: each its own, which no other run writes over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model

from evalspec.evidence.record import Record
from evalspec.running.supervision import disturbance
from tests.stories.telling import command

TRAIN = """
import json, random, shutil, sys, time
from pathlib import Path
seed, out, how = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
draw = random.Random(seed)
with open(out / "log.jsonl", "w") as log:
    for step in range(6):
        value = 0.90 + 0.01 * step + 0.001 * draw.random()
        print(json.dumps({"t": 0.01 * step, "step": step, "val_accuracy": value}), file=log)
saved = {"far": out.parent / "best.onnx", "near": out / "best.onnx"}[how]
shutil.copyfile(f"model{seed}.onnx", saved)
(out / "model.onnx").symlink_to(saved)
"""
GATE = """
evalspec: 1
name: saved
models:
  candidate:
    kind: onnx
    path: "{{out}}/model.onnx"
    inputs: {{x: x}}
    outputs: {{logits: logits}}
    preprocess: [{{cast: float32}}, {{reshape: [1]}}]
    classes: [a, b]
datasets:
  unseen: {{kind: csv, path: unseen.csv, label: y}}
trainings:
  recipe:
    kind: command
    run: [python, train.py, "{{seed}}", "{{out}}", {how}]
    seeds: [1, 2, 3, 4, 5]
    limit: 20 s
    log: {{kind: jsonl, path: "{{out}}/log.jsonl", time: t}}
    makes: candidate
system:
  - check: time_to_accuracy
    training: recipe
    target: val_accuracy >= 92 %
    confirm: {{dataset: unseen}}
    require: [convergence_rate >= 50 %]
policy: {{screens: 'off'}}
"""


def write_model(path: Path, sign: float) -> None:
    """A model of two classes, by the sign of a number."""
    weights = numpy_helper.from_array(np.array([[-sign, sign]], np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["logits"])
    sides = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 1), ("logits", 2))
    ]
    graph = helper.make_graph([node], path.stem, sides[:1], sides[1:], [weights])
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.parametrize(
    ("how", "status"), [pytest.param("near", "INCONCLUSIVE", marks=pytest.mark.proof), ("far", "ERROR")]
)
def test_a_model_behind_a_link_where_other_runs_write_confirms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, status: str
) -> None:
    monkeypatch.setattr(disturbance, "disturbance", lambda told: None)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "gate.yaml").write_text(GATE.format(how=how))
    for seed in range(1, 6):
        # The last run alone saves what its log tells of.
        write_model(tmp_path / f"model{seed}.onnx", 1.0 if seed == 5 else -1.0)
    x = np.random.default_rng(3).normal(size=200)
    rows = "".join(f"{value:.6f},{'b' if value > 0 else 'a'}\n" for value in x)
    (tmp_path / "unseen.csv").write_text("x,y\n" + rows)
    done = command("run", str(tmp_path / "gate.yaml"), "--trust", "--output", str(tmp_path / "run"))
    record = Record.model_validate_json((tmp_path / "run" / "record.json").read_text())
    assert record.verdict is not None
    found = {one.name.partition("/")[2]: one.status for one in record.verdict.decisions}
    assert found["convergence_rate"] == status, done.output
    if how == "near":
        assert record.checks[0].measured["convergence_rate"] == 20.0
    said = "the model that run1-seed1 saved is behind a link out of {out}, where other runs may write over it"
    assert (said in done.output) is (how == "far")
