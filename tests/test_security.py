"""Every line of the threat model names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evalspec.evidence.record import CheckRecord, EvidenceFile, ModelRecord, Record

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
LINES = [
    line
    for section in re.findall(r"\| line \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT)
    for line in section.splitlines()
]
FIELDS = {"models": ModelRecord, "checks": CheckRecord, "predictions": EvidenceFile, "evidence": EvidenceFile}


def test_there_are_lines() -> None:
    assert len(LINES) > 20


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[2:50])
def test_a_line_names_tests_that_exist(line: str) -> None:
    named = re.findall(r"`(tests/[^`]+\.py)::(\w+)`", line)
    assert named, line
    for file, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (file, name)


def test_leaves_that_only_the_journal_tells_are_leaves_of_a_record() -> None:
    table = TEXT.partition("## What only the journal tells")[2].partition("\n## ")[0]
    leaves = re.findall(r"`([a-z_.*]+)`", "".join(line for line in table.splitlines() if line.startswith("| `")))
    assert len(leaves) > 10
    for leaf in leaves:
        if leaf == "spec.yaml":
            continue
        kind: type[Record | ModelRecord | CheckRecord | EvidenceFile] = Record
        for key in leaf.replace(".*", "").split("."):
            assert key in kind.model_fields, leaf
            kind = FIELDS.get(key, kind)
