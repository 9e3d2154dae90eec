"""The steps of the Action, run as they are on both suites of digits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.commands import put_command

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent


def untimed(suite: str, folder: Path) -> Path:
    """The suite without what is timed: here other tests run beside it, and a busy machine voids timings."""
    made = folder / suite
    shutil.copytree(ROOT / "suites" / suite, made, ignore=shutil.ignore_patterns("made", "*.py"))
    spec = made / "evalspec.yaml"
    text = re.sub(r"^system:\n(?:[ #].*\n|\n)*", "", spec.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert "latency" not in text
    spec.write_text(text, encoding="utf-8")
    return spec


def gate(spec: Path, folder: Path, compare: Path | None = None) -> tuple[int, dict[str, str], str]:
    folder.mkdir()
    put_command(folder, os.environ)
    environment = os.environ | {
        "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "EVALSPEC_SPEC": str(spec),
        "EVALSPEC_OUTPUT": str(folder / "run"),
        "EVALSPEC_COMPARE": str(compare or ""),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
    }
    done = subprocess.run(
        ["bash", str(ROOT / "ci" / "gate.sh")], env=environment, capture_output=True, text=True, check=False
    )
    assert (folder / "summary").is_file(), done.stderr
    outputs = dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())
    return done.returncode, outputs, (folder / "summary").read_text()


def test_the_action_turns_green_and_red(tmp_path: Path) -> None:
    code, outputs, summary = gate(untimed("digits", tmp_path), tmp_path / "green")
    assert code == 0 and outputs["exit-code"] == "0" and summary.startswith("## READY")
    earlier = Path(outputs["report"])
    code, outputs, summary = gate(untimed("digits-flawed", tmp_path), tmp_path / "red", earlier)
    assert code == 1 and outputs["exit-code"] == "1" and summary.startswith("## NOT READY")
    comment = Path(outputs["comment"]).read_text()
    assert "### NOT READY, was READY" in comment and "# Regressions" in comment
    report = Path(outputs["report"])
    assert {"report.html", "junit.xml", "record.json", "comparison.html"} <= {path.name for path in report.iterdir()}
    cases = list(ElementTree.parse(report / "junit.xml").getroot().iter("testcase"))
    assert cases and all(float(case.attrib["time"]) > 0 for case in cases)
