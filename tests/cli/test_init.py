from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

import evalspec
from evalspec.cli import app
from evalspec.loading import LoadOptions, load
from evalspec.loading.profile import profile_names
from tests.starting.files import frame, write_joblib, write_onnx


def test_init_writes_a_spec_and_says_what_to_do(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["init", str(tmp_path)])
    spec = tmp_path / "evalspec.yaml"
    assert found.exit_code == 0
    assert found.stdout.splitlines()[-1] == f"edit {spec}, then: evalspec validate {spec}"
    assert spec.exists()


def test_init_never_overwrites_by_itself(tmp_path: Path) -> None:
    (tmp_path / "evalspec.yaml").write_text("mine")
    found = CliRunner().invoke(app, ["init", str(tmp_path)])
    assert found.exit_code == 2
    assert f"{tmp_path / 'evalspec.yaml'}: this file already exists; pass --force" in found.stderr
    assert (tmp_path / "evalspec.yaml").read_text() == "mine"
    found = CliRunner().invoke(app, ["init", str(tmp_path), "--force", "--json"])
    assert json.loads(found.stdout) == {
        "spec": str(tmp_path / "evalspec.yaml"),
        "schema": str(tmp_path / "spec.v1.json"),
    }


def test_a_spec_for_a_profile_is_written_and_one_that_is_none_is_refused_with_the_choices(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["init", str(tmp_path / "gate"), "--profile", "edge"])
    assert found.exit_code == 0
    assert "\nprofile: edge\n" in (tmp_path / "gate" / "evalspec.yaml").read_text()
    assert found.stdout.splitlines()[1].startswith("Still to be added, or renamed in the spec: model.onnx, baseline")
    found = CliRunner().invoke(app, ["init", str(tmp_path / "none"), "--profile", "nope"])
    assert found.exit_code == 2
    assert f"unknown profile 'nope' (choices: {', '.join(profile_names())})" in found.stderr
    assert not (tmp_path / "none").exists()


def test_help_names_every_profile() -> None:
    parameters = typer.main.get_command(app).commands["init"].params  # type: ignore[attr-defined]  # the app is a group
    (text,) = [one.help for one in parameters if one.name == "profile"]
    assert set(text.partition(": ")[2].rstrip(".").split(", ")) == set(profile_names())


def test_the_new_spec_is_validated_with_sentences(tmp_path: Path) -> None:
    CliRunner().invoke(app, ["init", str(tmp_path)])
    found = CliRunner().invoke(app, ["validate", str(tmp_path / "evalspec.yaml")])
    assert found.exit_code == 2
    assert "there is no file or folder 'model.onnx'" in found.stderr
    assert "Traceback" not in found.output


@pytest.mark.proof
def test_a_gate_from_a_model_and_its_rows_runs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_joblib(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["init", "model.joblib", "test.csv", "train.csv", "--trust", "--ci", "github"])
    assert found.exit_code == 0, found.output
    assert "  classes: fraud, paid\n" in found.stdout
    assert found.stdout.splitlines()[-1] == "read it, then: evalspec run evalspec.yaml --trust"
    text = Path("evalspec.yaml").read_text()
    spec = load("evalspec.yaml", options=LoadOptions(trust=True))
    assert [check.name for check in spec.checks] == ["latency", "quality", "calibration", "contamination"]
    assert [one.metric for one in spec.model[0].require] == ["accuracy", "recall", "recall"]
    assert "yours to decide" in text
    assert list(Path().glob(".evalspec-init-*")) == []
    workflow = Path(".github/workflows/evalspec.yml").read_text()
    assert "pip install 'evalspec-gate[sklearn]'" in workflow
    assert "run: evalspec run evalspec.yaml --trust --output evalspec-report" in workflow
    assert yaml.safe_load(workflow)["jobs"]["gate"]["steps"]
    record = evalspec.run(evalspec.plan("evalspec.yaml", allow=evalspec.Allow(trust=True), only=["quality"]),
                          allow=evalspec.Allow(trust=True), output=tmp_path / "run")  # fmt: skip
    assert record.verdict is not None
    assert {one.status for one in record.verdict.decisions if one.name.startswith("quality")} == {"PASS"}
    found = CliRunner().invoke(app, ["init", "model.joblib", "test.csv", "--trust"])
    assert found.exit_code == 2
    assert "evalspec.yaml: this file already exists; choose a different place with --output" in found.stderr


@pytest.mark.proof
def test_without_trust_nothing_is_unpickled_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_joblib(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["init", "model.joblib", "test.csv", "--output", "gate"])
    assert found.exit_code == 0, found.output
    assert "it was not opened, since that would run code (the pickle ../model.joblib); pass --trust" in found.stdout
    text = Path("gate/evalspec.yaml").read_text()
    assert "accuracy >= 90 %                # not measured: yours to decide" in text
    assert found.stdout.splitlines()[-1] == "read it, then: evalspec run gate/evalspec.yaml --trust --allow-outside"


@pytest.mark.proof
def test_a_profile_is_filled_with_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_onnx(tmp_path)
    frame().to_csv(tmp_path / "test.csv", index=False)
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["init", "model.onnx", "test.csv", "--profile", "edge", "--json"])
    assert found.exit_code == 0, found.output
    seen = json.loads(found.stdout)
    assert seen["written"] == ["evalspec.yaml", "spec.v1.json"]
    text = Path("evalspec.yaml").read_text()
    assert "inputs: {input: [age, amount, hour]}" in text
    assert "outputs: {logits: scores}" in text
    assert "classes: [fraud, paid]" in text or "classes: [paid, fraud]" in text
    assert "# Left out: unknown dataset 'traffic'." in text
    assert CliRunner().invoke(app, ["validate", "evalspec.yaml"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model.onnx"], "'model.onnx' is not a folder; name both: evalspec init MODEL TEST [TRAIN]"),
        (["--ci", "github"], "--ci is about a model and its rows"),
        (["a", "b", "c", "d"], "takes a model, its test set and its training set, and 4 files were named"),
        (["model.onnx", "none.csv"], "there is no file or folder 'none.csv'"),
        (["http://example.org/v1", "test.csv"], "'example.org' is a different machine; pass --allow-host example.org"),
        (["test.csv", "test.csv"], "'test.csv' is not a model in a known format"),
        (["model.onnx", "test.csv", "--label", "outcom"], "test.csv has no column 'outcom' (choices: age,"),
    ],
)
def test_what_can_t_be_looked_at_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    write_onnx(tmp_path)
    frame(50).to_csv(tmp_path / "test.csv", index=False)
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["init", *arguments])
    assert found.exit_code == 2
    assert said in found.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "test.csv"]
