"""F14: nothing that comes from a file or a model repaints a terminal, and nothing prints but by one place."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from typer.testing import CliRunner

import evalspec
from evalspec.cli import app
from evalspec.cli._output import Progress
from evalspec.evidence.visible import one_line, visible

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
