"""Another precision than the one asked for voids what was measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from evalspec.evidence.record import ModelRecord
from evalspec.language.parts import Access
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.process import Limits
from evalspec.running.files import Journal
from evalspec.running.journal.events import JournalEvents
from evalspec.running.subjects import Children, Subjects
from tests.commands import evalspec

SUITE = Path(__file__).parents[2] / "suites" / "digits"
MODEL = (
    "{kind: onnx, path: fp32.onnx, preprocess: [{cast: float32}, {scale: 0.0625}], inputs: {image: pixels}, "
    "outputs: {logits: y}, classes: classes.txt"
)
SPEC = f"""
evalspec: 1
name: precision
models:
  candidate: {MODEL}, precision: fp32}}
  wrong: {MODEL}, precision: int8}}
datasets:
  test: {{kind: parquet, path: test.parquet, label: digit, key: id}}
model:
  - {{check: quality, id: right, model: candidate, dataset: test, require: [accuracy >= 92 %]}}
  - {{check: quality, id: wrong, model: wrong, dataset: test, require: [accuracy >= 92 %]}}
"""


@pytest.mark.proof
def test_precision_asked_against_observed(tmp_path: Path) -> None:
    for name in ("fp32.onnx", "classes.txt", "test.parquet"):
        shutil.copy(SUITE / name, tmp_path)
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    done = evalspec("run", "evalspec.yaml", "--output", "run", folder=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    checks = {check["id"]: check for check in record["checks"]}
    assert {name: check["status"] for name, check in checks.items()} == {"right": "measured", "wrong": "invalid"}
    assert checks["wrong"]["reason"].startswith("model wrong should compute in int8 but computed in fp32")
    statuses = {one["name"]: one["status"] for one in record["verdict"]["decisions"]}
    assert statuses == {"right/accuracy": "PASS", "wrong/accuracy": "INVALID"}


class Quiet:
    def step(self, what: str) -> None: ...

    def progress(self, done: float, total: float, what: str) -> None: ...


@pytest.mark.parametrize(
    ("asked", "got", "words"),
    [
        ("cuda:0", "cpu", "should run on cuda:0 but ran on cpu"),
        ("cuda:1", "cuda", None),
        ("cpu", "cpu", None),
        ("cpu", None, None),
    ],
)
def test_device_asked_against_observed(tmp_path: Path, asked: str, got: str | None, words: str | None) -> None:
    access = Access(tmp_path)
    children = Children(access, Limits(), 1, tmp_path)
    subjects = Subjects(
        SpecParts({}, {}, {}, access), children, Journal(tmp_path / "journal.jsonl"), Quiet(), JournalEvents()
    )
    subjects.models["candidate"] = ModelRecord(
        name="candidate", kind="onnx", digest="d", device=asked, device_observed=got
    )
    found = subjects.not_as_asked(["candidate", "unknown"])
    assert found is None if words is None else words in str(found)
