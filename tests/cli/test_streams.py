"""An error keeps its exit code whoever hears of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", ">&- 2>&-"])
@pytest.mark.parametrize("command", ["validate missing.yaml", "validate --nope", "validate missing.yaml --json"])
def test_a_wrong_command_ends_with_2_whatever_becomes_of_its_message(command: str, closed: str, tmp_path: Path) -> None:
    """F17: Python's own exit code, 1, would read as NOT READY."""
    line = f"{sys.executable} -m evalspec {command} {closed}"
    assert subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True).returncode == 2
