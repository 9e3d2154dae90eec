"""Another precision than the one asked for voids what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evalspec.evidence.record import ModelRecord
from evalspec.language.parts import Access
from evalspec.run.files import Journal
from evalspec.run.jobs import Parts
from evalspec.run.process import Limits
from evalspec.run.subjects import Children, Subjects

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


class Quiet:
    def step(self, what: str) -> None: ...

    def progress(self, done: float, total: float, what: str) -> None: ...


@pytest.mark.parametrize(
    ("asked", "got", "words"),
    [
        ("cuda:0", "cpu", "is to run on cuda:0 and was seen to run on cpu"),
        ("cuda:1", "cuda", None),
        ("cpu", "cpu", None),
        ("cpu", None, None),
    ],
)
def test_device_asked_against_observed(tmp_path: Path, asked: str, got: str | None, words: str | None) -> None:
    access = Access(tmp_path)
    children = Children(access, Limits(), 1, tmp_path)
    subjects = Subjects(Parts({}, {}, {}, access), children, Journal(tmp_path / "journal.jsonl"), Quiet(), ())
    subjects.models["candidate"] = ModelRecord(
        name="candidate", kind="onnx", digest="d", device=asked, device_observed=got
    )
    found = subjects.not_as_asked(["candidate", "unknown"])
    assert found is None if words is None else words in str(found)
