from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from tests.loading.doubles import write_files

HEAVY = ["torch", "onnxruntime", "sklearn", "scipy", "pandas", "datasets", "transformers"]
QUICKSTART = Path(__file__).parents[2] / "suites" / "digits" / "evalspec.yaml"
SPEC = """\
evalspec: 1
name: demo
models:
  candidate: {kind: predictions, files: {test: test.parquet}, outputs: {label: y}}
datasets:
  test: {kind: parquet, path: test.parquet, key: lux, label: y}
  train: {kind: parquet, path: train.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [accuracy >= 60 %]}
data:
  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = Path("s.yaml")
    path.write_text(SPEC)
    return path


def test_a_right_spec_is_said_to_be_right_with_what_was_not_verified(spec: Path) -> None:
    found = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("s.yaml: the spec is right\n  2 checks (0 system, 1 model, 1 data), 2 requirements")
    assert "not verified:" in found.stdout


def test_json_is_for_machines(spec: Path) -> None:
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--json"])
    (one,) = json.loads(found.stdout)["specs"]
    assert one["models"] == {"candidate": "predictions"}
    assert one["datasets"]["test"] == {"kind": "parquet", "rows": 50}
    assert one["checks"][0]["require"] == ["quality/accuracy"]


def test_every_mistake_is_a_line_and_the_exit_code_is_2(spec: Path) -> None:
    spec.write_text(SPEC.replace("label: y}\n  train", "label: yy}\n  train").replace("accuracy >=", "acuracy >="))
    found = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert found.exit_code == 2
    lines = found.stderr.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["s.yaml:6:62", "s.yaml:9:47"]
    assert "Traceback" not in found.output
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--json"])
    assert found.exit_code == 2
    first = json.loads(found.stdout)["errors"][0]
    assert (first["line"], first["column"], first["path"]) == (6, 62, "datasets.test.label")
    assert first["remedy"] == "did you mean 'y'?"


def test_set_is_validated_too(spec: Path) -> None:
    arguments = ["validate", "s.yaml", "--set", "quality.require=[accuracy >= 55 %]"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0
    assert "set on the command line: quality.require=[accuracy >= 55 %]" in found.stdout
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--set", "qualty.x=1"])
    assert found.exit_code == 2
    assert "did you mean 'quality'?" in found.stderr


def test_a_file_that_is_not_there_is_a_sentence() -> None:
    found = CliRunner().invoke(app, ["validate", "no-such-file.yaml"])
    assert (found.exit_code, found.stderr) == (2, "error: no-such-file.yaml: there is no such file\n")


def test_validate_of_the_quickstart_loads_nothing_heavy() -> None:
    code = (
        "import sys; from evalspec.cli import app\n"
        f"try: app(['validate', {str(QUICKSTART)!r}], prog_name='evalspec')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_a_repository_may_allow_paths_outside(spec: Path) -> None:
    Path("inner").mkdir()
    Path("inner/s.yaml").write_text(
        SPEC.replace("test.parquet", "../test.parquet").replace("path: train", "path: ../train")
    )
    assert CliRunner().invoke(app, ["validate", "inner/s.yaml"]).exit_code == 2
    assert CliRunner().invoke(app, ["validate", "inner/s.yaml", "--allow-outside"]).exit_code == 0
    Path("pyproject.toml").write_text("[tool.evalspec]\nallow-outside = true\n")
    assert CliRunner().invoke(app, ["validate", "inner/s.yaml"]).exit_code == 0
