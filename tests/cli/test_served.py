"""What a spec with a served model may reach, as the command line says it. Nobody is asked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evalspec.cli import app

SPEC = """
evalspec: 1
name: far
models:
  candidate: {kind: http, url: "http://models.example.com:8080", model_name: m, inputs: {x: x}, outputs: {value: s}}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [mae <= 1]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"x": [1.0, 2.0] * 100, "y": [1.0, 2.0] * 100}), tmp_path / "test.parquet")
    (tmp_path / "spec.yaml").write_text(SPEC)
    return tmp_path / "spec.yaml"


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_another_machine_is_refused_before_anything_runs(command: str, spec: Path) -> None:
    ended = CliRunner().invoke(app, [command, str(spec)])
    assert ended.exit_code == 2
    assert (
        "models.candidate: 'models.example.com' is a different machine; pass --allow-host models.example.com"
        in ended.output
    )


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_it_may_be_allowed(command: str, spec: Path) -> None:
    ended = CliRunner().invoke(app, [command, str(spec), "--allow-host", "models.example.com"])
    assert ended.exit_code == 0, ended.output


def test_a_repository_may_allow_it(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = spec.parent / "caller"
    caller.mkdir()
    inner = caller / "suite"
    inner.mkdir()
    for one in list(spec.parent.iterdir()):
        if one != caller:
            one.rename(inner / one.name)
    monkeypatch.chdir(caller)
    (caller / "pyproject.toml").write_text('[tool.evalspec]\nallow-host = ["models.example.com"]\n')
    ended = CliRunner().invoke(app, ["validate", f"suite/{spec.name}"])
    assert ended.exit_code == 0
    assert f"note: {caller / 'pyproject.toml'} allows allow-host models.example.com" in ended.output


@pytest.mark.parametrize("value", ['"models.example.com"', "[1]"])
def test_the_setting_is_a_list_of_names(value: str, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec.parent)
    (spec.parent / "pyproject.toml").write_text(f"[tool.evalspec]\nallow-host = {value}\n")
    ended = CliRunner().invoke(app, ["validate", str(spec)])
    assert ended.exit_code == 2
    assert "allow-host is not a setting, or has the wrong type" in ended.output


def test_secrets_that_a_run_needs_are_named(spec: Path) -> None:
    spec.write_text(SPEC.replace("model_name: m,", "model_name: m, headers: {X-Token: {env: TOKEN}, X-Plain: a},"))
    ended = CliRunner().invoke(app, ["validate", str(spec), "--allow-host", "models.example.com"])
    assert ended.exit_code == 0, ended.output
    assert "candidate: `run` needs --env TOKEN, the secret of a header" in ended.output
