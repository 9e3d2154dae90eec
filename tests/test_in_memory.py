"""`evalspec.run` with models and rows in memory: a copy of each is measured, kept with the run, and told of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import evalspec
from evalspec.errors import SpecError
from evalspec.records.bless import bless
from evalspec.records.verify import verify
from tests.running.small import MODELS_OF_FILES, answers, write

SPEC: dict[str, Any] = {
    "evalspec": 1,
    "name": "memory",
    "policy": {"screens": "off"},
    "datasets": {"test": {"label": "y"}},
    "model": [{"check": "quality", "dataset": "test", "require": ["accuracy >= 90 %"]}],
}


def frame(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    x = np.random.default_rng(seed).normal(size=(rows, 2))
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.where(x[:, 0] > 0, "yes", "no")})


def fitted(seed: int = 1) -> LogisticRegression:
    rows = frame(500, seed)
    return LogisticRegression(C=1e4).fit(rows[["a", "b"]], rows["y"])


def by_rule(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"label": np.where(inputs["a"] > 0, "yes", "no")}


@pytest.mark.proof
def test_an_estimator_and_a_frame_are_judged_and_verified(tmp_path: Path) -> None:
    run = evalspec.run(SPEC, models={"candidate": fitted()}, datasets={"test": frame()}, output=tmp_path / "run")
    assert run.ready, run
    (model,), (rows,) = run.record.models, run.record.datasets
    assert (model.in_memory, rows.in_memory, model.kind, rows.kind) == (True, True, "memory", "memory")
    assert model.digest is not None and model.digest == run.record.subject
    assert [one.path for one in model.contents] == ["memory:candidate.pkl"]
    (caveat,) = [one for one in run.verdict.weakened if "in memory" in one]
    assert "candidate and test" in caveat and "no model file is tied to this verdict" in caveat
    assert caveat[1:] in run.report.read_text(encoding="utf-8")
    assert str(tmp_path) not in (tmp_path / "run" / "record.json").read_text(encoding="utf-8")
    again = verify(tmp_path / "run")
    assert (again.differs, again.skipped) == ((), ())
    # The look of a run, in what people read.
    one = run.requirement("quality/accuracy")
    assert (one.status, one.unit, one.n, one.threshold) == ("PASS", "%", 200, 90.0)
    assert one.lower is not None and one.value is not None and 90 < one.lower < one.value
    shown = run.to_frame()
    assert list(shown["name"]) == ["quality/accuracy"] and list(shown["value"]) == [one.value]
    with pytest.raises(LookupError, match=r"quality/acuracy.*did you mean 'quality/accuracy'"):
        run.requirement("quality/acuracy")
    html = run._repr_html_()
    assert "READY" in html and "≥ 90 %" in html and "<script" not in html and "http" not in html


@pytest.mark.proof
def test_a_run_of_a_mapping_is_blessed_and_paired_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"models": {"candidate": fitted()}, "datasets": {"test": frame()}}
    first = evalspec.run(SPEC, **given)
    assert "as Python gave it" in first.report.read_text(encoding="utf-8")
    target, _ = bless(first.folder, "v1")
    assert target == tmp_path / "baselines" / "v1"
    checks = [{"check": "quality", "dataset": "test", "require": ["accuracy >= baseline - 2 pp"]}]
    against = {**SPEC, "model": checks, "models": {"baseline": {"kind": "record", "path": "baselines/v1"}}}
    again = evalspec.run(against, **given, output=tmp_path / "again")
    assert again.requirement("quality/accuracy vs baseline").status == "PASS"
    # A folder that was moved holds all that is needed.
    assert verify((tmp_path / "again").rename(tmp_path / "elsewhere")).differs == ()


@pytest.mark.proof
def test_a_file_beside_an_object_and_the_same_digest_twice(tmp_path: Path) -> None:
    """The spec names files for both models; the object is read in the place of one of them."""
    answers(tmp_path / "said.parquet", right=True)
    path = write(tmp_path, MODELS_OF_FILES, checks="")
    digests = []
    for place in ("one", "two"):
        model = {"candidate": lambda inputs: {"label": np.where(inputs["x"] > 0, "b", "a")}}
        run = evalspec.run(path, models=model, output=tmp_path / place)
        assert run.ready, run
        models = {one.name: one for one in run.record.models}
        assert (models["candidate"].in_memory, models["baseline"].in_memory) == (True, False)
        digests.append(models["candidate"].digest)
    assert digests[0] == digests[1]


@pytest.mark.proof
def test_a_torch_module_and_a_function_of_this_module(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-9.0, 0.0], [9.0, 0.0]]))
        module.bias.zero_()
    net = {"inputs": {"input": ["a", "b"]}, "outputs": {"logits": "output"}, "classes": ["no", "yes"]}
    spec = SPEC | {
        "models": {"candidate": net, "rule": {"classes": ["no", "yes"]}},
        "model": [
            {"check": "quality", "dataset": "test", "model": name, "id": name, "require": ["accuracy >= 90 %"]}
            for name in ("candidate", "rule")
        ],
    }
    run = evalspec.run(
        spec, models={"candidate": module, "rule": by_rule}, datasets={"test": frame()}, output=tmp_path / "run"
    )
    assert run.ready, run
    models = {one.name: one for one in run.record.models}
    assert "test_in_memory.py" in {Path(one.path).name for one in models["rule"].code_read}
    assert models["candidate"].precision_observed == "fp32"


def test_what_is_wrong_is_said_before_anything_is_measured() -> None:
    def problems(**objects: Any) -> list[str]:
        return [str(one) for one in evalspec.validate(SPEC, **objects)]

    right: dict[str, Any] = {"models": {"candidate": fitted()}, "datasets": {"test": frame()}}
    assert problems(**right) == []
    assert evalspec.plan(SPEC, **right).checks[0].check.name == "quality"
    assert problems(**right | {"datasets": {"test": frame().drop(columns="y")}}) != []
    (wrong,) = problems(**right | {"models": {"candidate": 5}})
    assert wrong.startswith("models={'candidate': ...}: an object of type int is not a model")
    (wrong,) = problems(**right | {"datasets": {"test": {"a": [1, 2], "y": [1]}}})
    assert "differ in their number of rows: a 2, y 1" in wrong
    nothing = evalspec.validate(SPEC | {"models": {"candidate": {"kind": "memory"}}}, datasets={"test": frame()})
    assert any("`kind: memory` is for objects that a program passes to evalspec.run" in str(one) for one in nothing)
    with pytest.raises(SpecError, match=r"models\.candidate: an object of type LogisticRegression can't be part of a"):
        evalspec.load(SPEC | {"models": {"candidate": fitted()}})


def test_nothing_is_left_behind_where_a_spec_is_let_go() -> None:
    spec = evalspec.load(SPEC, models={"candidate": fitted()}, datasets={"test": frame()})
    assert spec.memory is not None
    folder = spec.memory.folder.path
    assert sorted(one.name for one in folder.iterdir()) == ["candidate.pkl", "test.arrow"]
    assert folder.stat().st_mode & 0o077 == 0
    del spec
    assert not folder.exists()


def test_a_spec_of_objects_is_nothing_for_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "evalspec.yaml"
    path.write_text(json.dumps(SPEC | {"models": {"candidate": {"kind": "memory"}}}))
    command = [sys.executable, "-m", "evalspec", "validate", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "`kind: memory` is for objects that a program passes to evalspec.run, and none were passed" in done.stderr
