"""`suites/chat`: a real language model behind llama.cpp's server, started by the spec, judged over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import evalspec, overriding
from tests.selftest.holding import holds
from tests.suites.test_suites import SUITES, read, statuses

FOLDER = SUITES / "chat"
UNTIMED = {
    "quality/exact_match": "PASS", "answers/truncated": "PASS", "answers/unparsed": "PASS", "answers/empty": "PASS",
    "integrity/duplicate_rows": "PASS",
}  # fmt: skip
FEWEST = ("load.queries=340", "latency.queries=250", "latency.processes=5")
"""Queries that can show what is required of them, of 600 and 500 that the suite makes, in the first processes alone."""
MAY = {"PASS", "INCONCLUSIVE", "INVALID"}
"""Statuses of timings: other tests run beside this one and may void them; they are never wrong."""


def judged(spec: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    ended = evalspec(
        "run", "--trust", FOLDER / spec, "--output", folder / "run", *overriding(FEWEST), folder=folder
    )  # fmt: skip
    return ended, read(folder / "run")


@pytest.mark.parametrize("spec", ["evalspec.yaml", "flawed.yaml"])
def test_the_specs_are_right_and_nobody_is_asked(spec: str, tmp_path: Path) -> None:
    ended = evalspec("validate", "--json", str(FOLDER / spec), folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_twins_differ_in_the_template_alone() -> None:
    lines = [(FOLDER / name).read_text().splitlines() for name in ("evalspec.yaml", "flawed.yaml")]
    own, flawed = (
        [line.replace("18475", "18474") for line in one if not line.startswith(("#", "name"))] for one in lines
    )
    assert [line for line in flawed if line not in own] == [
        "    api: completions               # no template: the model sees the bare question"
    ]
    assert [line for line in own if line not in flawed] == []


def test_every_answer_stands_in_the_rows() -> None:
    rows = [json.loads(line) for line in (FOLDER / "test.jsonl").read_text().splitlines()]
    assert len(rows) == 400 == len({row["question"] for row in rows})
    assert all(row["question"] == f"shout {row['answer'].lower()}" for row in rows)


@pytest.mark.proof
@pytest.mark.slow
def test_it_is_ready(tmp_path: Path) -> None:
    """Of its queries as many as it takes to show what is required."""
    ended, record = judged("evalspec.yaml", tmp_path)
    found = statuses(record, blocking=True)
    timed = {name: status for name, status in found.items() if name.startswith(("latency/", "load/"))}
    assert {name: status for name, status in found.items() if name not in timed} == UNTIMED, ended.stdout
    assert len(timed) == 7 and set(timed.values()) <= MAY, ended.stdout
    checks = {check["id"]: check for check in record["checks"]}
    assert checks["latency"]["counts"]["errored"] == checks["load"]["counts"]["errored"] == 0
    if set(timed.values()) == {"PASS"}:
        assert record["verdict"]["word"] == "READY" and ended.returncode == 0, ended.stdout
    holds("chat/evalspec.yaml", tmp_path / "run", *FEWEST)


@pytest.mark.proof
@pytest.mark.slow
def test_its_flawed_twin_is_not_ready_for_its_answers_alone(tmp_path: Path) -> None:
    """Its timings need only not be wrong."""
    ended, record = judged("flawed.yaml", tmp_path)
    found = statuses(record, blocking=True)
    assert ended.returncode == 1 and record["verdict"]["word"] == "NOT READY", ended.stdout
    assert {name for name, status in found.items() if status == "FAIL"} - {"answers/unparsed"} == {
        "quality/exact_match"
    }
    assert {status for name, status in found.items() if name.startswith(("latency/", "load/"))} <= MAY, ended.stdout
