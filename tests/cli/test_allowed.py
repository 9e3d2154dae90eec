"""What a run was not allowed is said before it starts: exit code 2, a sentence each, and nothing is written."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.errors import SpecError
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.planning.permissions import lacking
from evalspec.running.preflight import Start, refuse
from evalspec.runtimes.torch_model.archive import hidden_code

ROOT = Path(__file__).parents[2]

SPEC = """
evalspec: 1
name: asks
models:
  candidate: {kind: python, function: "behaviour:good", artifact: behaviour.py, inputs: {x: x}, classes: [a, b]}
  served:
    kind: http
    url: http://127.0.0.1:9
    model_name: m
    inputs: {x: x}
    outputs: {label: y}
    classes: [a, b]
    artifact: behaviour.py
    headers: {X-Token: {env: ASKS_TOKEN}}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [accuracy >= 90 %]}
  - {check: quality, id: remote, model: served, dataset: test, require: [accuracy >= 90 %]}
"""
CODE = "spec.yaml: models.candidate: candidate runs the function behaviour:good, which is not allowed; pass --trust if"
SECRET = "models.served: served reads the secret ASKS_TOKEN from the environment"


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    x = np.random.default_rng(0).normal(size=60)
    pq.write_table(pa.table({"x": x, "y": np.where(x > 0, "b", "a")}), tmp_path / "test.parquet")
    (tmp_path / "behaviour.py").write_text("raise SystemExit(77)")
    (tmp_path / "spec.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASKS_TOKEN", raising=False)
    return tmp_path / "spec.yaml"


def evalspec(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, list(arguments))
    return ended.exit_code, ended.output


def test_all_that_is_not_allowed_is_said_at_once_and_nothing_runs(spec: Path) -> None:
    code, said = evalspec("run", "spec.yaml")
    assert code == 2
    assert (
        CODE in said and f"{SECRET}, which is not allowed; pass --env ASKS_TOKEN if the server may receive it" in said
    )
    assert len(said.splitlines()) == 2
    assert not (spec.parent / "reports").exists()


def test_what_is_not_run_needs_no_leave(spec: Path) -> None:
    code, said = evalspec("run", "spec.yaml", "--only", "remote")
    assert code == 2 and "--trust" not in said and SECRET in said
    code, said = evalspec("run", "spec.yaml", "--only", "quality")
    assert code == 2 and SECRET not in said and CODE in said


@pytest.mark.proof
def test_a_secret_that_is_not_set_is_said_too(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("run", "spec.yaml", "--only", "remote", "--env", "ASKS_TOKEN")
    code, said = evalspec(*asked)
    assert code == 2 and f"{SECRET}, but it is not set; set ASKS_TOKEN" in said
    monkeypatch.setenv("ASKS_TOKEN", "s3cret")
    code, said = evalspec(*asked, "--output", "out")
    # Nobody listens there, so the check crashes; but it was started.
    assert code == 4 and "s3cret" not in said


def test_it_is_said_in_json_too(spec: Path) -> None:
    code, said = evalspec("run", "spec.yaml", "--json")
    errors = json.loads(said)["errors"]
    assert code == 2 and [error["path"] for error in errors] == ["models.candidate", "models.served"]
    assert errors[0]["remedy"] == "pass --trust if you know where it comes from"


def test_of_several_specs_none_is_run(spec: Path) -> None:
    (spec.parent / "plain.yaml").write_text(
        (ROOT / "suites" / "predictions" / "evalspec.yaml").read_text().replace("path: ", "path: ../p/")
    )
    code, said = evalspec("run", "--allow-outside", str(ROOT / "suites/predictions/evalspec.yaml"), "spec.yaml")
    assert code == 2 and CODE in said
    assert not (spec.parent / "reports").exists()


def test_a_plan_says_what_a_run_will_need(spec: Path) -> None:
    code, said = evalspec("plan", "spec.yaml")
    assert code == 0
    assert "a run needs --trust: candidate runs the function behaviour:good\n" in said
    assert "a run needs --env ASKS_TOKEN: served reads the secret ASKS_TOKEN from the environment\n" in said
    _, trusted = evalspec("plan", "spec.yaml", "--trust")
    assert "needs --trust" not in trusted
    _, machine = evalspec("plan", "spec.yaml", "--json")
    assert [one["option"] for one in json.loads(machine)["needs"]] == ["--trust", "--env ASKS_TOKEN"]
    _, plain = evalspec("plan", str(ROOT / "suites" / "digits" / "evalspec.yaml"))
    assert "a run needs" not in plain


def test_a_stage_and_a_module_of_metrics_are_code(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=60)
    pq.write_table(pa.table({"x": x, "y": np.where(x > 0, "b", "a")}), tmp_path / "test.parquet")
    for name in ("behaviour.py", "metric.py"):
        (tmp_path / name).write_text("raise SystemExit(77)")
    shutil.copy(ROOT / "suites" / "digits" / "int8.onnx", tmp_path / "model.onnx")
    (tmp_path / "spec.yaml").write_text("""
evalspec: 1
name: asks
models:
  candidate: {kind: onnx, path: model.onnx, preprocess: [{python: "behaviour:good"}], inputs: {x: x}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: evaluate, dataset: test, modules: {own: metric.py}, warn: [score(own) >= 0.5]}
  - {check: quality, dataset: test, require: [accuracy >= 90 %]}
""")
    planned = plan(load(tmp_path / "spec.yaml"))
    assert [one.why for one in lacking(planned, planned.spec.access())] == [
        "candidate runs the stage behaviour:good",
        "evaluate runs the module metric.py",
    ]
    assert lacking(planned, planned.spec.access(trust=True)) == ()


# -- what only files tell ------


class Own:
    """A type that nobody knows to be harmless."""

    def predict(self, rows: object) -> object:
        return rows


@pytest.mark.proof
def test_a_skops_file_with_foreign_types_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    import skops.io

    skops.io.dump(Own(), tmp_path / "own.skops")
    pq.write_table(pa.table({"x": [1.0, 2.0] * 100, "y": [1.0, 2.0] * 100}), tmp_path / "test.parquet")
    (tmp_path / "spec.yaml").write_text("""
evalspec: 1
name: asks
models:
  candidate: {kind: sklearn, path: own.skops, inputs: {X: [x]}}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [mae <= 1]}
""")
    planned = plan(load(tmp_path / "spec.yaml"))
    with pytest.raises(SpecError) as caught:
        refuse([Start(planned, planned.spec.access())])
    said = str(caught.value)
    assert "models.candidate: 'own.skops' holds types that are not known to be harmless: " in said
    assert said.endswith("which is not allowed; pass --trust if you know where it comes from")
    refuse([Start(planned, planned.spec.access(trust=True))])


def test_a_plain_archive_hides_nothing_and_compiled_code_is_seen_without_torch(tmp_path: Path) -> None:
    plain = ROOT / "suites" / "digits" / "fp32.pt2"
    assert hidden_code(plain, "fp32.pt2") is None
    compiled = tmp_path / "compiled.pt2"
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(compiled, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
        target.writestr("fp32/data/aotinductor/model/code.so", b"\x7fELF")
    found = hidden_code(compiled, "compiled.pt2")
    assert found == "'compiled.pt2' holds compiled code (data/aotinductor/model/code.so)"
    (tmp_path / "torn.pt2").write_bytes(plain.read_bytes()[:1000])
    # That it can't be read is for who loads it to say.
    assert hidden_code(tmp_path / "torn.pt2", "torn.pt2") is None
