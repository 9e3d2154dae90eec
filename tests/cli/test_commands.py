"""Every command on its own: what it prints, its exit code, what it loads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from pyarrow import csv
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.cli._output import guarded
from tests import commands
from tests.shared import predictions_run, shared_folder

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "suites" / "predictions"
HEAVY = ("torch", "onnxruntime", "sklearn", "scipy", "pandas", "datasets", "transformers")


def command_line(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evalspec", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(predictions_run(tmp_path_factory), tmp_path_factory.mktemp("commands") / "base") / "run"


@pytest.fixture(scope="module")
def started_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with another seed, by a user who stands in a folder with modules of well-known names."""

    def make(folder: Path) -> None:
        for name in ("psutil", "pyarrow", "numpy", "jinja2"):
            (folder / f"{name}.py").write_text("raise SystemExit(77)")
        done = command_line("run", SUITE / "evalspec.yaml", "--set", "seed=11", "--output", folder / "run", cwd=folder)
        (folder / "ended.json").write_text(json.dumps([done.returncode, done.stderr]))

    return shared_folder(tmp_path_factory, "started-elsewhere", make)


@pytest.fixture(scope="module")
def good_and_bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two suites, the labels of one turned, and a run of both."""

    def make(folder: Path) -> None:
        shutil.copytree(SUITE, folder / "good")
        shutil.copytree(SUITE, folder / "bad")
        bad = folder / "bad" / "evalspec.yaml"
        table = pq.read_table(folder / "bad" / "test.parquet")
        labels = table.column("cultivar").to_pylist()
        turned = table.set_column(1, "cultivar", pa.array(labels[60:] + labels[:60]))
        pq.write_table(turned, folder / "bad" / "test.parquet")
        bad.write_text(bad.read_text().replace("name: predictions", "name: turned"))
        done = commands.evalspec("run", folder / "good" / "evalspec.yaml", bad, folder=folder)
        (folder / "ended.json").write_text(json.dumps([done.returncode, done.stdout + done.stderr]))

    return shared_folder(tmp_path_factory, "good-and-bad", make)


def loaded(*arguments: str | Path) -> set[str]:
    """Heavy modules in the process after a command."""
    code = (
        "import sys\n"
        f"sys.argv = ['evalspec', *{[str(one) for one in arguments]!r}]\n"
        "from evalspec.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        f"print('LOADED', *[m for m in {HEAVY!r} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.strip().splitlines()[-1].split()[1:])


def test_nothing_heavy_is_loaded_before_the_children_of_a_run(tmp_path: Path) -> None:
    arguments = [
        "evalspec",
        "run",
        str(SUITE.parent / "breast_cancer/evalspec.yaml"),
        "--output",
        str(tmp_path / "run"),
    ]
    code = (
        "import sys\n"
        "from evalspec.running.children.process import Child\n"
        "def started(self, role, *_, **__):\n"
        f"    print('LOADED', *[m for m in {(*HEAVY, 'numpy', 'pyarrow')!r} if m in sys.modules])\n"
        "    raise SystemExit\n"
        "Child.__init__ = started\n"
        f"sys.argv = {arguments!r}\n"
        "from evalspec.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1].split() == ["LOADED"], done.stdout + done.stderr


@pytest.mark.proof
@pytest.mark.parametrize("command", ["--help", "validate", "report", "verify"])
def test_nothing_heavy_is_loaded(command: str, run: Path) -> None:
    target = {"validate": SUITE / "evalspec.yaml", "report": run, "verify": run}.get(command)
    arguments = [command] if target is None else [command, target]
    # verify recomputes estimates, which takes scipy.
    assert loaded(*arguments) <= ({"scipy"} if command == "verify" else set())


def test_what_reads_rows_here_leaves_pandas_alone(tmp_path: Path) -> None:
    """pyarrow imports it by itself to convert values, unless it is kept from that: a fifth of what `validate` takes."""
    spec = (SUITE / "evalspec.yaml").read_text()
    for name in ("test", "predictions"):
        table = pq.read_table(SUITE / f"{name}.parquet")
        csv.write_csv(table, tmp_path / f"{name}.csv")
        spec = spec.replace(f"{name}.parquet", f"{name}.csv")
    (tmp_path / "evalspec.yaml").write_text(spec.replace("kind: parquet", "kind: csv"))
    assert loaded("validate", tmp_path / "evalspec.yaml") == set()


def test_the_run_folder_is_whole(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names >= {"record.json", "report.html", "junit.xml", "summary.md", "spec.yaml", "journal.jsonl", "evidence"}
    assert not [name for name in names if name.startswith(".")]


def test_an_output_folder_that_holds_something_is_refused(run: Path) -> None:
    done = command_line("run", SUITE / "evalspec.yaml", "--output", run)
    assert done.returncode == 2
    assert "is not empty" in done.stderr


def test_the_same_record_gives_the_same_report_byte_for_byte(run: Path, tmp_path: Path) -> None:
    before = (run / "report.html").read_bytes()
    again = tmp_path / "elsewhere"
    again.mkdir()
    shutil.copy(run / "record.json", again)
    assert command_line("report", again).returncode == 0
    assert (again / "report.html").read_bytes() == before
    assert (again / "junit.xml").read_bytes() == (run / "junit.xml").read_bytes()


@pytest.mark.parametrize(("form", "start"), [("--html", "<!doctype html>"), ("--markdown", "#"), ("--junit", "<?xml")])
def test_report_prints_one_form(run: Path, form: str, start: str) -> None:
    done = command_line("report", run, form)
    assert done.returncode == 0
    assert done.stdout.lower().startswith(start)


def test_run_prints_json(run: Path) -> None:
    (said,) = json.loads((run.parent / "said.json").read_text())
    assert said["verdict"]["word"] == "READY"


@pytest.mark.proof
def test_several_specs_end_with_the_worst(good_and_bad: Path) -> None:
    code, said = json.loads((good_and_bad / "ended.json").read_text())
    assert code == 1, said
    for name in ("predictions", "turned"):
        assert (good_and_bad / "reports" / name / "latest" / "record.json").exists()


@pytest.mark.proof
def test_only_is_never_ready(tmp_path: Path) -> None:
    only = commands.evalspec("run", SUITE / "evalspec.yaml", "--only", "quality", "--output", tmp_path / "only")
    assert only.returncode == 3


@pytest.mark.proof
def test_set_changes_a_field_and_the_resolved_spec_says_so(started_elsewhere: Path) -> None:
    assert "# --set seed=11" in (started_elsewhere / "run" / "spec.yaml").read_text()
    assert json.loads((started_elsewhere / "run" / "record.json").read_text())["seed"] == 11


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "nowhere.yaml"), "nowhere.yaml"),
        (("report", "nowhere"), "holds no record.json"),
        (("report", "nowhere", "--html", "--model-card"), "--html, --model-card can't be printed together"),
        (("run", SUITE / "evalspec.yaml", "--only", "qualty"), "did you mean 'quality'?"),
        (("run", SUITE / "evalspec.yaml", "--time-limit", "5"), "5"),
        (("run", SUITE / "evalspec.yaml", "--time-limit", "0 s"), "--time-limit must be above 0"),
        (("run", SUITE / "evalspec.yaml", "--memory-limit", "0 MiB"), "--memory-limit must be above 0"),
        (("run", SUITE / "evalspec.yaml", "--engine", "spark"), "local:2"),
        (("run", SUITE / "evalspec.yaml", "--set", "qualty.bins=3"), "did you mean"),
        (("checks", "qualty"), "did you mean 'quality'?"),
        (("run", SUITE / "evalspec.yaml", "--resume", "--output", "nowhere"), "no unfinished run"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_2(
    arguments: tuple[str | Path, ...], sentence: str, tmp_path: Path
) -> None:
    done = commands.evalspec(*arguments, folder=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (("validate", "--json"), "Missing argument 'SPEC...'", "see evalspec validate --help"),
        (("run", "a.yaml", "--json", "--drft"), "No such option: --drft", "see evalspec run --help"),
        (("nonsense", "--json"), "No such command 'nonsense'", "see evalspec --help"),
        (("run", "a.yaml", "--json", "--threads", "0"), "Invalid value for '--threads'", "see evalspec run --help"),
        (("verify", ".", "--json", "--spec-folder", "nowhere"), "Invalid value for '--spec-folder'", None),
    ],
)
def test_a_wrong_command_line_is_json_where_json_was_asked_for(
    arguments: tuple[str, ...], message: str, remedy: str | None, tmp_path: Path
) -> None:
    done = command_line(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr == ""
    (error,) = json.loads(done.stdout)["errors"]
    assert set(error) == {"message", "file", "line", "column", "path", "choices", "remedy"}
    assert error["message"].startswith(message)
    assert remedy is None or error["remedy"] == remedy


@pytest.mark.proof
def test_json_leaves_exit_codes_and_help_as_they_are(tmp_path: Path) -> None:
    assert command_line("checks", "--json").returncode == 0
    assert command_line("validate", "nowhere.yaml", "--json", cwd=tmp_path).returncode == 2
    done = command_line("validate", "--json", "--help")
    assert done.returncode == 0
    assert "Usage: evalspec validate" in done.stdout
    plain = command_line("validate")
    assert (plain.returncode, plain.stdout) == (2, "")
    assert "Missing argument 'SPEC...'" in plain.stderr


def test_checks_lists_and_documents() -> None:
    listing = command_line("checks")
    assert listing.returncode == 0
    for name in ("latency", "throughput", "quality", "calibration", "slices", "contamination", "shift"):
        assert f"  {name} " in listing.stdout
        page = CliRunner().invoke(app, ["checks", name])
        told = [page.stdout.index(f"\n{head}\n") for head in ("Example", "Metrics", "Fields", "What it cannot show")]
        assert told == sorted(told)
    listed = CliRunner().invoke(app, ["checks", "--json"])
    assert {one["check"] for one in json.loads(listed.stdout)} >= {"quality", "shift"}


def test_doctor_says_what_is_here() -> None:
    done = command_line("doctor", "--json")
    assert done.returncode == 0, done.stdout
    found = {one["what"]: one["state"] for one in json.loads(done.stdout)}
    assert found["python"] == "ok"
    assert found["dataset kind parquet"] == "ok"


@pytest.mark.proof
def test_a_closed_pipe_is_no_success(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "evalspec", "run", str(SUITE / "evalspec.yaml"), "--output", str(tmp_path / "run")]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 141, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.proof
def test_a_module_in_the_folder_where_the_user_stands_is_not_imported(started_elsewhere: Path) -> None:
    code, said = json.loads((started_elsewhere / "ended.json").read_text())
    assert code == 0, said


def test_all_specs_are_read_before_the_first_is_run(tmp_path: Path) -> None:
    done = command_line("run", SUITE / "evalspec.yaml", "nowhere.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "reports").exists()


@pytest.mark.proof
def test_a_violation_stands_whatever_else_crashed(tmp_path: Path) -> None:
    shutil.copytree(SUITE, tmp_path / "one")
    shutil.copytree(SUITE, tmp_path / "two")
    one, two = (tmp_path / name / "evalspec.yaml" for name in ("one", "two"))
    table = pq.read_table(tmp_path / "one" / "test.parquet")
    labels = table.column("cultivar").to_pylist()
    turned = table.set_column(table.column_names.index("cultivar"), "cultivar", pa.array(labels[60:] + labels[:60]))
    pq.write_table(turned, tmp_path / "one" / "test.parquet")
    two.write_text(two.read_text().replace("name: predictions", "name: blocked"))
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "blocked").write_text("a file stands where the folder should be")
    done = commands.evalspec("run", one, two, folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "can't be made" in done.stderr


def test_a_failure_of_our_own_does_not_read_as_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError("of our own making")

    with pytest.raises(typer.Exit) as ended:
        guarded(broken)()
    assert ended.value.exit_code == 4
    assert "evalspec itself failed (ZeroDivisionError)" in capsys.readouterr().err


@pytest.mark.proof
def test_evidence_that_changed_is_not_resumed_from(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    journal = folder / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if event["event"] == "check":
            event["record"]["evidence"] = [{"path": "evidence/gone.parquet", "digest": "0" * 64, "rows": 1, "what": ""}]
    journal.write_text("".join(json.dumps(event) + "\n" for event in events if event["event"] != "end"))
    spec = run.parent / "suite" / "evalspec.yaml"
    done = commands.evalspec("run", spec, "--resume", "--output", folder)
    assert done.returncode == 0, done.stderr
    assert "model: quality" in done.stderr
    assert json.loads((folder / "record.json").read_text())["checks"][0]["evidence"] == []


@pytest.mark.proof
def test_what_was_measured_is_resumed_from(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    journal = folder / "journal.jsonl"
    journal.write_text("".join(line + "\n" for line in journal.read_text().splitlines() if '"end"' not in line))
    done = commands.evalspec("run", run.parent / "suite" / "evalspec.yaml", "--resume", "--output", folder)
    assert done.returncode == 0, done.stderr
    assert "model: quality" not in done.stderr


@pytest.mark.proof
def test_a_plan_takes_no_truth_from_a_draft_which_is_never_ready(tmp_path: Path, good_and_bad: Path) -> None:
    shutil.copytree(SUITE, tmp_path / "suite")
    spec = tmp_path / "suite" / "evalspec.yaml"
    assert commands.evalspec("run", spec, "--draft", folder=tmp_path).returncode == 3
    assert "no earlier run of this spec" in commands.evalspec("plan", spec, folder=tmp_path).stdout
    spec = good_and_bad / "good" / "evalspec.yaml"
    assert "those of the run of" in commands.evalspec("plan", spec, folder=good_and_bad).stdout
