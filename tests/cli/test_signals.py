"""F17: whatever ends a command from outside, there is one line, the code that belongs to it, and what was measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.interrupts import SIGNALS
from tests.commands import forking

SPEC = """
evalspec: 1
name: signals
models:
  candidate: {kind: python, function: "hang:answer", inputs: {x: x}, outputs: {value: s}}
  other: {kind: python, function: "hang:hang", inputs: {x: x}, outputs: {value: s}}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: quality, id: first, dataset: test, require: [THRESHOLD]}
  - {check: quality, id: second, model: other, dataset: test, require: [mae <= 1]}
"""
MODEL = """
import time
import numpy as np

def answer(inputs):
    return {"s": np.asarray(inputs["x"], dtype=float)}

def hang(inputs):
    time.sleep(600)
"""


def write(folder: Path, *, hangs: bool = True, holds: bool = True) -> Path:
    x = [float(row) for row in range(400)]
    pq.write_table(pa.table({"x": x, "y": [one + (one % 7) / 10 for one in x]}), folder / "test.parquet")
    (folder / "hang.py").write_text(MODEL)
    text = SPEC.replace("THRESHOLD", "mae <= 1" if holds else "mae <= 0.1")
    if not hangs:
        text = text.partition("  - {check: quality, id: second")[0].replace("hang:hang", "hang:answer")
    (folder / "spec.yaml").write_text(text)
    return folder / "spec.yaml"


def heeding(ignored: tuple[int, ...] = ()) -> None:
    """A process in the background of a shell ignores SIGINT, and so do its children; this one is to hear it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


def begun(path: Path, *, ignored: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    """A run whose first check has been measured."""
    command = [sys.executable, "-m", "evalspec", "run", str(path), "--trust", "--output", str(path.parent / "run")]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: heeding(ignored)
    )
    journal = path.parent / "run" / "journal.jsonl"
    until = time.monotonic() + 60
    while not (journal.exists() and '"event": "check"' in journal.read_text()):
        assert time.monotonic() < until and running.poll() is None
        time.sleep(0.02)
    return running


def assert_kept(folder: Path, said: str) -> None:
    record = json.loads((folder / "record.json").read_text())
    assert record["interrupted"]
    assert [one["status"] for one in record["checks"]] == ["measured", "not_run"]
    assert (folder / "report.html").exists()
    assert "Traceback" not in said and "Exception ignored" not in said


@pytest.mark.proof
@pytest.mark.parametrize("number", SIGNALS)
def test_every_signal_leaves_a_record(number: signal.Signals, tmp_path: Path) -> None:
    running = begun(write(tmp_path))
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, out + err
    assert_kept(tmp_path / "run", out + err)


@pytest.mark.proof
@pytest.mark.parametrize(("times", "seconds"), [(15, 0.5)])
def test_several_of_them_still_leave_one(times: int, seconds: float, tmp_path: Path) -> None:
    running = begun(write(tmp_path))
    for _ in range(times):
        running.send_signal(signal.SIGINT)
        time.sleep(seconds / times)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, out + err
    assert_kept(tmp_path / "run", out + err)


@pytest.mark.proof
def test_a_signal_that_was_ignored_stays_so(tmp_path: Path) -> None:
    """As under `nohup`."""
    running = begun(write(tmp_path), ignored=(signal.SIGHUP,))
    running.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert running.poll() is None
    running.terminate()
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, out + err


@pytest.mark.parametrize("after_s", [0.03, 0.15, 0.3])
@pytest.mark.parametrize("number", [signal.SIGINT])
def test_in_the_first_second_there_is_one_line(number: signal.Signals, after_s: float, tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['evalspec', *sys.argv[1:]]\n"
    code += "from evalspec.cli import main; print(flush=True); main()\n"
    command = [sys.executable, "-c", code, "run", str(write(tmp_path)), "--trust"]
    running = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeding
    )
    assert running.stdout is not None
    running.stdout.readline()
    time.sleep(after_s)
    for _ in range(5):
        running.send_signal(number)
        time.sleep(0.02)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, out + err
    assert "Traceback" not in err
    assert err.endswith("interrupted\n") or (tmp_path / "reports").exists()


def closed(descriptors: tuple[int, ...]) -> None:
    for one in descriptors:
        os.close(one)


@pytest.mark.proof
@pytest.mark.parametrize(("holds", "descriptors"), [(True, (0, 1, 2)), (False, (1, 2)), (False, (2,))])
def test_the_code_is_the_verdict_whatever_is_closed(holds: bool, descriptors: tuple[int, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evalspec", "run", str(write(tmp_path, hangs=False, holds=holds)), "--trust"]
    ended = subprocess.run(
        [*command, "--output", str(tmp_path / "run")], check=False, timeout=60, preexec_fn=lambda: closed(descriptors)
    )
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["verdict"]["word"] == ("READY" if holds else "NOT READY")
    assert ended.returncode == record["verdict"]["exit_code"]


@pytest.mark.proof
@pytest.mark.parametrize(("streams", "as_json"), [("stderr", False), ("both", False), ("stdout", True)])
def test_nobody_who_reads_does_not_change_a_verdict_that_blocks(streams: str, as_json: bool, tmp_path: Path) -> None:
    """A run goes on to its record though the other end of a pipe is gone from the start."""
    reading, writing = os.pipe()
    os.close(reading)
    path = write(tmp_path, hangs=False, holds=False)
    command = [*forking(os.environ), "run", str(path), "--trust", "--output", str(tmp_path / "run")]
    ended = subprocess.run(
        [*command, *(["--json"] if as_json else [])], check=False, timeout=60,
        stdout=subprocess.PIPE if streams == "stderr" else writing,
        stderr=subprocess.PIPE if streams == "stdout" else writing,
    )  # fmt: skip
    os.close(writing)
    assert ended.returncode == 1
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.proof
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_a_full_disk_where_it_prints(holds: bool, code: int, tmp_path: Path) -> None:
    path = write(tmp_path, hangs=False, holds=holds)
    with open("/dev/full", "wb") as full:
        command = [*forking(os.environ), "run", str(path), "--trust", "--output", str(tmp_path / "run")]
        ended = subprocess.run(command, check=False, timeout=60, stdout=full, stderr=full)
    assert ended.returncode == (4 if holds else 1)
    assert json.loads((tmp_path / "run" / "record.json").read_text())["verdict"]["exit_code"] == code
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*command[:-1], str(tmp_path / "second")],
            check=False,
            timeout=60,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert "error: the outcome can't be printed: No space left on device; the run's folder has it" in ended.stderr


@pytest.mark.proof
def test_a_full_disk_at_the_report_says_how_to_go_on(tmp_path: Path) -> None:
    """Record and journal are there."""
    code = "import sys\nimport evalspec.records.outputs as outputs\n"
    code += "from evalspec.errors import WriteError\n"
    code += "def write(path, text): raise WriteError(f'{path} can\\'t be written: No space left on device')\n"
    code += "outputs.write_atomically = write\n"
    code += "from evalspec.cli import main\nsys.argv = ['evalspec', *sys.argv[1:]]\nmain()\n"
    path = write(tmp_path, hangs=False)
    run = [sys.executable, "-c", code, "run", str(path), "--trust", "--output", str(tmp_path / "run")]
    ended = subprocess.run(run, check=False, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 4
    assert f"the record and journal are kept; `evalspec report {tmp_path / 'run'}` writes the pages" in ended.stderr
    done = subprocess.run([sys.executable, "-m", "evalspec", "report", str(tmp_path / "run")], check=False)
    assert done.returncode == 0
    assert (tmp_path / "run" / "report.html").exists()


SWALLOWED = """
import os, signal
from evalspec import interrupts
interrupts.end_at_once()
from evalspec.cli._output import guarded

@guarded
def command():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt as error:
        raise ValueError("a library made this of it") from error

import typer
try:
    command()
except typer.Exit as ended:
    os._exit(ended.exit_code)
"""


def test_an_interrupt_of_which_a_library_made_another_error_is_one() -> None:
    """pydantic builds its validators in Rust, where a KeyboardInterrupt becomes a SchemaError."""
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n"), done.stderr


LATE = """
import os, signal, sys
from evalspec import interrupts
interrupts.end_at_once()
import typer
from evalspec.cli import _output
from evalspec.errors import SpecError, WriteError
app = typer.Typer()

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)

@app.command()
@_output.guarded
def command(context: typer.Context):
    {what}

app()
"""


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("context.call_on_close(interrupt)", 0),
        ("context.call_on_close(interrupt); raise typer.Exit(3)", 3),
        ("context.call_on_close(interrupt); raise WriteError('a disk is full')", 4),
        ("context.call_on_close(interrupt); interrupt()", 130),
        ("_output.echo_errors = interrupt; raise SpecError(['no spec'])", 130),
    ],
    ids=["success", "a verdict", "an error", "a second one", "while an error is told"],
)
def test_an_interrupt_after_the_end_of_a_command_changes_no_code(what: str, code: int) -> None:
    """The library of the command line ends with 130 where it meets one, whatever the outcome was."""
    done = subprocess.run(
        [sys.executable, "-c", LATE.format(what=what)], capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=heeding,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Aborted" not in done.stderr and "Traceback" not in done.stderr
