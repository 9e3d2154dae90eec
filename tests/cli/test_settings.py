"""F11: what may be read and asked is for the caller to say; a suite grants itself nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.evidence.record import Record

SPEC = """
evalspec: 1
name: asks
datasets:
  test: {kind: parquet, path: ../test.parquet}
data:
  - {check: integrity, dataset: test, require: [duplicate_rows == 0]}
"""
ALLOWS = "[tool.evalspec]\nallow-outside = true\n"
OUTSIDE = "'../test.parquet' lies outside the spec's folder; pass --allow-outside if this is intended"


@pytest.fixture
def caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the caller stands in, with a suite in it that reads beside itself."""
    (tmp_path / "suite" / "below").mkdir(parents=True)
    (tmp_path / "suite" / "spec.yaml").write_text(SPEC)
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), tmp_path / "test.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evalspec(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, list(arguments))
    return ended.exit_code, ended.output


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_suite_s_own_file_allows_nothing(command: str, caller: Path) -> None:
    (caller / "suite" / "pyproject.toml").write_text(ALLOWS + 'output = "../planted"\n')
    code, said = evalspec(command, "suite/spec.yaml")
    assert code == 2 and OUTSIDE in said
    assert not (caller / "planted").exists() and not (caller.parent / "planted").exists()


@pytest.mark.proof
@pytest.mark.parametrize("folder", ["suite", "suite/below"])
def test_nor_where_the_caller_stands_in_it(folder: str, caller: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(caller / folder)
    Path("pyproject.toml").write_text(ALLOWS + 'allow-host = ["evil.example"]\noutput = "../../planted"\n')
    spec = "spec.yaml" if folder == "suite" else "../spec.yaml"
    code, said = evalspec("validate", spec)
    assert code == 2 and OUTSIDE in said
    told = "lies in the spec's own folder, so its settings for allow-outside, allow-host, output are ignored; "
    assert told + "pass --allow-outside, --allow-host, --output if you mean them" in said
    code, _ = evalspec("run", spec, "--allow-outside", "--quiet")
    assert code == 0
    assert len(list(Path("reports/asks").glob("2*"))) == 1


@pytest.mark.proof
def test_what_the_caller_s_file_allows_is_printed_and_recorded(caller: Path) -> None:
    (caller / "pyproject.toml").write_text(ALLOWS + 'output = "build"\n')
    line = f"{caller / 'pyproject.toml'} allows allow-outside"
    assert f"note: {line}\n" in evalspec("validate", "suite/spec.yaml")[1]
    assert f"note: {line}\n" in evalspec("plan", "suite/spec.yaml")[1]
    code, said = evalspec("run", "suite/spec.yaml", "--quiet")
    assert code == 0 and f"  ! {line}\n" in said
    (folder,) = (caller / "build" / "reports" / "asks").glob("2*")
    record = Record.model_validate_json((folder / "record.json").read_text())
    assert record.allowed == (line,)
    assert record.verdict is not None and line in record.verdict.weakened
    assert line in (folder / "summary.md").read_text().replace("\\", "")


@pytest.mark.proof
def test_what_was_passed_stands_in_the_command(caller: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (caller / "pyproject.toml").write_text(ALLOWS)
    arguments = ["run", "suite/spec.yaml", "--allow-outside", "--output", "out", "--quiet"]
    monkeypatch.setattr("sys.argv", ["evalspec", *arguments])
    assert evalspec(*arguments)[0] == 0
    record = Record.model_validate_json((caller / "out" / "record.json").read_text())
    assert record.allowed == () and "--allow-outside" in record.command[0]


@pytest.mark.proof
@pytest.mark.parametrize("command", ["plan", "run"])
def test_an_engine_is_the_caller_s_to_name(command: str, caller: Path) -> None:
    (caller / "pyproject.toml").write_text(ALLOWS + 'engine = "abacus:3"\n')
    code, said = evalspec(command, "suite/spec.yaml")
    assert code == 2 and "--engine 'abacus:3' is not an engine" in said
    assert evalspec(command, "suite/spec.yaml", "--engine", "local")[0] == 0
    (caller / "pyproject.toml").write_text(ALLOWS)
    (caller / "suite" / "pyproject.toml").write_text('[tool.evalspec]\nengine = "abacus:3"\n')
    assert evalspec(command, "suite/spec.yaml")[0] == 0


@pytest.mark.proof
def test_an_engine_on_another_machine_is_asked_for(caller: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (caller / "pyproject.toml").write_text(ALLOWS + 'engine = "ray:10.0.3.1:6379"\n')
    code, said = evalspec("run", "suite/spec.yaml")
    assert code == 2 and "the engine ray at 10.0.3.1:6379 is on a different machine" in said
    assert "pass --allow-host 10.0.3.1 if this is intended" in said and not Path("reports").exists()
    code, said = evalspec("doctor", "--engine", "dask:head.lab:8786")
    assert code == 2 and "pass --allow-host head.lab if this is intended" in said
    monkeypatch.chdir(caller / "suite")
    Path("pyproject.toml").write_text(ALLOWS + 'engine = "ray:10.0.3.1:6379"\nallow-host = ["10.0.3.1"]\n')
    code, said = evalspec("run", "spec.yaml", "--allow-outside")
    assert code == 0 and "its settings for allow-outside, allow-host, engine are ignored" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool]\nevalspec = 3\n", "tool.evalspec is not a table"),
        ("[tool.evalspec]\nallow-outside = 1\n", "allow-outside is not a setting, or has the wrong type"),
        ('[tool.evalspec]\noutput = "a\\u0000"\n', "output is not a setting, or has the wrong type"),
        ("[tool.evalspec]\nengine = 2\n", "engine is not a setting, or has the wrong type"),
        ("[tool.evalspec]\ntrust = true\n", "trust is not a setting"),
        ("[tool.evalspec\n", "is not valid TOML"),
        ("[tool.evalspec]\na = " + "[" * 5000, "is not valid TOML"),
        ("\udc80", "is not valid TOML"),
        ("#" * 2**20 + "\n", "is larger than 1 MiB"),
    ],
)
def test_a_file_of_settings_that_is_wrong_is_said(text: str, said: str, caller: Path) -> None:
    (caller / "pyproject.toml").write_bytes(text.encode(errors="surrogateescape"))
    code, output = evalspec("validate", "suite/spec.yaml")
    assert code == 2 and said in output and "Traceback" not in output
