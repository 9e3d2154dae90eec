"""F14: nothing that comes from a file or a model repaints a terminal, and nothing prints but by one place."""

from __future__ import annotations

import importlib
import io
import re
import subprocess
import sys
import threading
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

import evalspec
from evalspec.cli import app
from evalspec.cli._output import MARKS, Progress, Terminal
from evalspec.evidence.record import CheckRecord
from evalspec.evidence.test import Test
from evalspec.evidence.verdict import Status, Word
from evalspec.evidence.visible import one_line, visible
from evalspec.records.outputs import check_line, say
from evalspec.running.folders import read_record
from evalspec.running.subjects import CheckEnd
from evalspec.verdict import decide

HOSTILE = (
    "\x1b[2J\x1b]8;;http://x\x07\x9b31m\u202eREADY\u2066\u200b\ufeff\r\b\x00\u2028\U000e0041\xad\nREADY [red]x[/red]"
)


def is_clean(text: str) -> bool:
    """No control but line feeds and tabs, no direction, nothing that is not seen."""
    return all(one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in text)


def test_what_is_not_seen_is_written_out() -> None:
    assert is_clean(visible(HOSTILE)) and "\n" in visible(HOSTILE)
    assert is_clean(one_line(HOSTILE)) and "\n" not in one_line(HOSTILE)
    assert one_line("a\nb\x1b\U000e0041") == "a\\nb\\u001b\\U000e0041"
    assert visible("Zürich 東京 👍🏽 a\tb") == "Zürich 東京 👍🏽 a\tb"


def test_every_format_character_is_written_out() -> None:
    left = [one for one in map(chr, range(sys.maxunicode + 1)) if not is_clean(visible(one))]
    # Marks of Arabic, Kaithi and hieroglyphs that are seen and belong to the words that they stand in.
    allowed = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f]")
    assert [hex(ord(one)) for one in left if not allowed.match(one)] == []


def test_nothing_prints_but_by_one_place() -> None:
    root = Path(evalspec.__file__).parent
    prints = re.compile(r"typer\.(echo|secho)|\bprint\(|print_exc\(|sys\.(stdout|stderr)\.write|console\.print")
    # The others are children of ours, whose streams no terminal shows.
    own = {"cli/_output.py", "running/children/child.py", "running/doctor.py", "measure/background.py"}
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if prints.search(path.read_text())}
    assert found <= own, found - own


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["run", "--quiet"]])
def test_a_spec_can_t_repaint_a_terminal(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "s\x1b[31m\u202e[bold].yaml"
    text = 'evalspec: 1\nname: s\n"k\\e[2J\\u202e\\nREADY": 1\nmodels: {candidate: {kind: onnx, path: "x\\e[2J"}}\n'
    Path(name).write_text(text)
    ended = CliRunner().invoke(app, [*command, name])
    assert ended.exit_code == 2 and is_clean(ended.output)
    assert "s\\u001b[31m\\u202e[bold].yaml:3:1: k\\u001b[2J\\u202e\\nREADY: unknown key" in ended.output
    assert not [line for line in ended.output.splitlines() if not line.startswith("error: s\\u001b")]


def test_nor_can_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (["validate", "--n\x1b[31m"], ["val\x1b[31m"], ["history", "\x1b[31m\u202e"]):
        ended = CliRunner().invoke(app, given)
        assert ended.exit_code == 2 and is_clean(ended.output), given
        assert "\\u001b[31m" in ended.output or "\\x1b[31m" in ended.output


def test_steps_of_a_run_are_lines_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.step(HOSTILE)
        progress._said = 0.0
        progress.progress(1, 2, HOSTILE)
    said = capsys.readouterr().err
    assert is_clean(said) and len(said.splitlines()) == 2 and "[red]x[/red]" in said


BAR = """
import sys, time
from evalspec.cli._output import Progress
sys.stderr.isatty = lambda: True
with Progress() as progress:
    progress.step(sys.argv[1])
    progress.progress(1, 2, "[bold]" + sys.argv[1])
    progress._bar.refresh()
"""


def test_nor_does_the_bar_take_marks_for_its_own() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BAR, "a\x1b[41m\u202e[red]b[/red]\r"], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(evalspec.__file__).parents[1]), "TERM": "xterm", "COLUMNS": "200"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "\x1b[41m" not in ended.stderr and "\u202e" not in ended.stderr
    assert "\\u001b[41m\\u202e[red]b[/red]\\u000d" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", ended.stderr)


class Stream(io.StringIO):
    """A terminal, or none, that can show some characters."""

    def __init__(self, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self._tty, self._encoding = tty, encoding

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:
        return self._encoding


@pytest.mark.parametrize(
    ("stream", "environment", "width", "marked"),
    [
        (Stream(True), {}, 80, True),
        (Stream(True), {"NO_COLOR": "1"}, 80, False),
        (Stream(True), {"TERM": "dumb"}, 80, False),
        (Stream(True, "ascii"), {}, 80, False),
        (Stream(False), {}, None, False),
        (None, {}, None, False),
    ],
)
def test_colours_and_shapes_are_for_terminals_that_have_them(
    stream: Stream | None, environment: dict[str, str], width: int | None, marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal.of(stream)
    assert (terminal.width, terminal.marked) == (width, marked)
    assert bool(terminal.shape("FAIL")) is marked and terminal.shape("a word of nobody's") == ""


def test_lines_are_cut_between_words_on_a_terminal_alone() -> None:
    line = "  " + " ".join(["accuracy(occluded)"] * 12)
    assert Terminal(None, False).wrapped(line, 4) == [line]
    lines = Terminal(60, True).wrapped(line, 4)
    assert len(lines) > 3 and all(len(one) <= 60 for one in lines)
    assert lines[0].startswith("  accuracy") and all(one.startswith("    accuracy") for one in lines[1:])
    assert " ".join(one.strip() for one in lines) == line.strip()
    word = "x" * 200
    assert Terminal(60, True).wrapped(word, 2) == [word]


def test_every_status_and_word_has_a_shape_of_its_own() -> None:
    assert set(MARKS) == {*get_args(Status), *get_args(Word)}
    shapes = {MARKS[one][0] for one in get_args(Status)}
    assert len(shapes) == len(get_args(Status))


def test_a_line_for_each_check_stays(capsys: pytest.CaptureFixture[str]) -> None:
    red = end_of(
        one_test("exact_duplicates", value=4.0, threshold=0.0, op="==", unit="rows", exact=True), violated=True
    )
    with Progress() as progress:
        progress.ended(red)
        progress.step("data: shift")
    said = capsys.readouterr().err
    assert "FAIL: contamination: exact_duplicates 4 rows, needs = 0 rows, 2 s [1/3], about 40 s left" in said


def test_a_check_of_a_draft_ran_and_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    test = one_test("accuracy", value=0.93, threshold=0.95, op=">=", unit="fraction", written_unit="%")
    with Progress() as progress:
        for status in ("measured", "error"):
            progress.ended(replace(end_of(test, status), left_s=0.0, draft=True))
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "  ran: contamination: accuracy 93 %, needs ≥ 95 %, 2 s [1/3]",
        "  ERROR: contamination: why, 2 s [1/3]",
    ]


@pytest.mark.parametrize(
    ("status", "violated", "met", "shown"),
    [
        ("measured", True, False, "FAIL"),
        ("measured", False, True, "PASS"),
        ("measured", False, False, "INCONCLUSIVE"),
        ("error", False, False, "ERROR"),
        ("not_run", False, False, "NOT_RUN"),
        ("invalid", False, False, "INVALID"),
    ],
)
def test_a_check_that_ended_has_the_status_that_is_known_by_then(
    status: str, violated: bool, met: bool, shown: str
) -> None:
    test = one_test("accuracy", value=0.93, threshold=0.95, op=">=", unit="fraction", written_unit="%")
    end = end_of(test, status=status, violated=violated, met=met)
    told, line = check_line(end)
    assert told == shown
    assert line == ("contamination: accuracy 93 %, needs ≥ 95 %" if status == "measured" else "contamination: why")


def one_test(metric: str, **given: Any) -> Test:
    """A test of one requirement, as far as a line is made of it."""
    fields = {"name": f"contamination/{metric}", "metric": metric, "sentence": metric, "severity": "require", "n": 100}
    fields |= {"check": "contamination"}
    return Test.model_validate(fields | given)


def end_of(test: Test, status: str = "measured", violated: bool = False, met: bool = False) -> CheckEnd:
    record = CheckRecord.model_validate(
        {"id": "contamination", "check": "contamination", "dimension": "data", "status": status, "duration_s": 2.0,
         "reason": None if status == "measured" else "why", "tests": [test.model_dump()]}
    )  # fmt: skip
    return CheckEnd(record, 1, 3, 40.0, 40.0, violated, met)


def test_what_to_do_stands_last_before_the_report() -> None:
    folder = Path(__file__).parents[2] / "reports" / "sample"
    record = read_record(folder)
    checks = tuple(
        one.model_copy(
            update={
                "tests": tuple(
                    test.model_copy(update={"value": 4.0}) if test.metric == "exact_duplicates" else test
                    for test in one.tests
                )
            }
        )
        for one in record.checks
    )
    changed = record.model_copy(update={"checks": checks})
    lines = [one.text for one in say(changed.model_copy(update={"verdict": decide(changed)}), folder)]
    at = lines.index("What to do")
    steps = lines[at + 1 : -1]
    assert lines[-1].startswith("report: ") and steps and steps[0].startswith("  1  ")
    assert [one.split()[0] for one in steps] == [str(number) for number in range(1, len(steps) + 1)]
    sound = [one.text for one in say(record, folder)]
    assert all(not one.startswith("  1  ") for one in sound) or "What to do" in sound


def test_what_writes_pages_is_imported_once_while_a_run_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("evalspec.cli.run")
    begun: list[threading.Thread] = []
    imported = threading.Event()

    def take_note() -> None:
        begun.append(threading.current_thread())
        imported.set()

    monkeypatch.setattr(module, "_import_pages", take_note)
    with module._RunProgress(quiet=True) as progress:
        progress.step("reading")
        progress.step("latency")
    assert imported.wait(30.0)
    assert len(begun) == 1 and begun[0] is not threading.current_thread()
