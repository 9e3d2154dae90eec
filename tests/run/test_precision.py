"""Another precision than the one asked for voids what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[2] / "suites" / "breast_cancer" / "evalspec.yaml"


@pytest.mark.parametrize(("asked", "status"), [("fp64", "measured"), ("int8", "invalid")])
def test_precision_asked_against_observed(asked: str, status: str, tmp_path: Path) -> None:
    arguments = ["run", SPEC, "--set", f"models.candidate.precision={asked}", "--only", "quality"]
    done = subprocess.run(
        [sys.executable, "-m", "evalspec", *map(str, arguments), "--output", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    quality = next(check for check in record["checks"] if check["id"] == "quality")
    assert quality["status"] == status
    statuses = {one["status"] for one in record["verdict"]["decisions"] if one["name"].startswith("quality/")}
    if asked == "int8":
        assert quality["reason"].startswith("model candidate is to compute in int8 and was seen to in fp64")
        assert statuses == {"INVALID"}
    else:
        assert "INVALID" not in statuses
