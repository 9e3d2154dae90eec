from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.loading.profile import profile_names


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
    assert f"{tmp_path / 'evalspec.yaml'}: this file is there already; pass --force" in found.stderr
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
    assert found.stdout.splitlines()[1].startswith("Still to be put here, or named otherwise: model.onnx, baseline")
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
