"""F2: what is kept of a run that is gone on with rests on what answers now; all else is measured again, and said."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import RecordError
from evalspec.evidence.record import Record
from evalspec.running.files import Journal, sha256_of
from evalspec.running.journal.closing import write_record
from evalspec.running.journal.events import JournalEvents
from tests.running.small import ROWS, Steps, answers, go, write

PREDICTIONS = f"""
  candidate:
    kind: predictions
    files: {{test: said.parquet}}
    outputs: {{label: said}}
    classes: [a, b]
    artifact: sha256:{"1" * 64}
"""
PYTHON = """
  candidate: {kind: python, function: "own:good", inputs: {x: x}, classes: [a, b]}
"""
OWN = """
import numpy as np
import helper

def good(inputs):
    x = np.asarray(next(iter(inputs.values()))).reshape(-1)
    p = np.where((x > 0) == helper.right(), 0.97, 0.03)
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""
HELPER = "def right():\n    return {}\n"
READS = "import pathlib\n\n\ndef right():\n    return open('{}').read() == 'right'\n"


def interrupted(spec: Path, at: str = "model: two") -> tuple[Record, Path]:
    """A run that stops when a step begins."""
    out = spec.parent / "out"
    record, _ = go(spec, out, steps=Steps(at))
    assert record.interrupted
    return record, out


def statuses(record: Record) -> dict[str, str]:
    assert record.verdict is not None
    return {one.name: one.status for one in record.verdict.decisions}


@pytest.mark.proof
def test_f2_what_rests_on_the_same_is_kept(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "helper.py").write_text(HELPER.format(True))
    spec = write(tmp_path, PYTHON)
    before, out = interrupted(spec)
    record, steps = go(spec, out, resume=True)
    assert record.verdict is not None and record.verdict.word == "READY"
    assert record.checks[0] == before.checks[0]
    assert "candidate on test" not in steps.said and "model: one" not in steps.said
    assert record.resumption is not None
    assert (record.resumption.kept, record.resumption.again) == (("one",), {})
    assert [one.path for one in record.models[0].code_read] == ["helper.py"]


def assert_measured_again(record: Record, steps: Steps, why: str) -> None:
    """The kept check was measured again, on what answers now, and all say so."""
    assert record.verdict is not None and record.verdict.word == "NOT READY"
    assert [*statuses(record).values()] == ["FAIL", "FAIL"]
    assert record.resumption is not None and list(record.resumption.again) == ["one"]
    assert why in record.resumption.again["one"], record.resumption
    assert any(line.startswith("one was measured again when") and why in line for line in record.verdict.weakened)
    assert any(line.startswith("one is measured again: ") for line in steps.said)


@pytest.mark.proof
def test_f2_a_file_of_predictions_that_was_swapped_in_between(tmp_path: Path) -> None:
    answers(tmp_path / "said.parquet", right=True)
    spec = write(tmp_path, PREDICTIONS)
    _, out = interrupted(spec)
    answers(tmp_path / "said.parquet", right=False)
    record, steps = go(spec, out, resume=True)
    assert_measured_again(record, steps, "said.parquet (answers on test of candidate) has changed")
    assert record.models[0].contents[0].digest == sha256_of(tmp_path / "said.parquet")


@pytest.mark.proof
@pytest.mark.parametrize("what", ["helper", "shadowed", "opened"])
def test_f2_what_the_code_of_a_model_reads(tmp_path: Path, what: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "state.txt").write_text("right")
    text = READS.format(tmp_path / "state.txt") if what == "opened" else HELPER.format(True)
    (tmp_path / "helper.py").write_text(text)
    spec = write(tmp_path, PYTHON)
    _, out = interrupted(spec)
    if what == "helper":
        (tmp_path / "helper.py").write_text(HELPER.format(False))
    elif what == "shadowed":
        # A package goes before a module of the same name.
        (tmp_path / "helper").mkdir()
        (tmp_path / "helper" / "__init__.py").write_text(HELPER.format(False))
    else:
        (tmp_path / "state.txt").write_text("wrong")
    record, steps = go(spec, out, resume=True)
    name = {"helper": "helper.py", "shadowed": "helper/__init__.py", "opened": "state.txt"}[what]
    assert_measured_again(record, steps, name)


@pytest.mark.proof
def test_f2_answers_that_were_changed_in_the_run_itself_are_asked_for_again(tmp_path: Path) -> None:
    answers(tmp_path / "said.parquet", right=True)
    spec = write(tmp_path, PREDICTIONS)
    _, out = interrupted(spec)
    (out / "evidence" / "predictions-candidate-test.parquet").write_bytes(b"PAR1")
    record, _ = go(spec, out, resume=True)
    assert record.verdict is not None and record.verdict.word == "READY"
    assert (
        record.resumption is not None
        and "is missing, or has changed since it was written" in record.resumption.again["one"]
    )


@pytest.mark.proof
def test_f2_a_file_of_predictions_that_is_replaced_during_a_run_voids_it(tmp_path: Path) -> None:
    answers(tmp_path / "said.parquet", right=True)
    spec = write(tmp_path, PREDICTIONS)
    replaced = Steps("model: two", lambda: answers(tmp_path / "said.parquet", right=False))
    record, _ = go(spec, tmp_path / "out", steps=replaced)
    assert set(statuses(record).values()) == {"INVALID"}
    assert record.checks[0].reason == "model candidate changed during the run"


@pytest.mark.proof
def test_f2_a_helper_that_is_changed_during_a_run_voids_it(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "helper.py").write_text(HELPER.format(True))
    spec = write(tmp_path, PYTHON)
    changed = Steps("model: two", lambda: (tmp_path / "helper.py").write_text(HELPER.format(False)))
    record, _ = go(spec, tmp_path / "out", steps=changed)
    assert set(statuses(record).values()) == {"INVALID"}
    assert "helper.py, which candidate reads, changed during the run" in str(record.checks[0].reason)


SERVED = """
  candidate:
    kind: http
    url: http://127.0.0.1:{port}
    model_name: sums
    inputs: {{x: x}}
    outputs: {{value: s}}
    artifact: sha256:{digest}
"""
MINUTES = """
datasets:
  test: {kind: parquet, path: test.parquet, label: y, label_unit: min}
model:
  - {check: quality, id: one, dataset: test, metrics: [mae], require: [mae <= 0.1 min]}
  - {check: quality, id: two, dataset: test, metrics: [mae], require: [mae <= 0.2 min]}
"""


def a_server(folder: Path, port: int, sign: str) -> subprocess.Popen[bytes]:
    """That of these tests; with another sign it answers otherwise from its first request on."""
    text = (Path(__file__).parents[1] / "server.py").read_text()
    (folder / "server.py").write_text(text.replace("[sum(", f"[{sign}sum("))
    process = subprocess.Popen([sys.executable, "server.py", str(port)], cwd=folder)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.02)
    raise AssertionError("the server did not start")


@pytest.mark.proof
@pytest.mark.parametrize("sign", ["", "-"])
def test_f2_a_server_is_held_against_what_the_run_began_with(tmp_path: Path, sign: str) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    spec = write(tmp_path, SERVED.format(port=port, digest="1" * 64), MINUTES)
    x = [float(i) for i in range(ROWS)]
    y = [2 * one + 0.01 * (one % 3) for one in x]
    pq.write_table(
        pa.table({"x": [[one, one] for one in x], "y": y}),
        tmp_path / "test.parquet",
    )
    server = a_server(tmp_path, port, "")
    try:
        _, out = interrupted(spec)
    finally:
        server.kill()
        server.wait()
    start = sha256_of(out / "evidence" / "server-candidate-start.parquet")
    server = a_server(tmp_path, port, sign)
    try:
        record, steps = go(spec, out, resume=True)
    finally:
        server.kill()
        server.wait()
    if sign:
        assert_measured_again(record, steps, "the server of candidate has changed")
    else:
        assert record.verdict is not None and record.verdict.word == "READY", record.verdict
        assert record.resumption is not None and record.resumption.kept == ("one",)
        assert sha256_of(out / "evidence" / "server-candidate-start.parquet") == start
    paths = [one.path for one in record.predictions]
    assert len(paths) == len(set(paths)) and not list((out / "evidence").glob("*-now.parquet"))


FAR = """
import sys

import numpy as np

sys.path.insert(0, "{far}")
import elsewhere

def good(inputs):
    x = np.asarray(next(iter(inputs.values()))).reshape(-1)
    p = np.where((x > 0) == elsewhere.right(), 0.97, 0.03)
    return {{"probabilities": np.stack([1 - p, p], axis=1)}}
"""


@pytest.mark.proof
@pytest.mark.parametrize("changed", ["elsewhere.py", "right.txt"])
def test_f2_code_that_lies_elsewhere_counts_with_what_lies_beside_it(tmp_path: Path, changed: str) -> None:
    """A module that an import path leads to is no installed package of which the version would tell."""
    far, own = tmp_path / "far", tmp_path / "spec"
    far.mkdir()
    own.mkdir()
    before, after = {
        "elsewhere.py": (HELPER.format(True), HELPER.format(False)),
        "right.txt": ("right", "wrong"),
    }[changed]
    (far / "elsewhere.py").write_text(READS.format(far / "right.txt"))
    (far / changed).write_text(before)
    (own / "own.py").write_text(FAR.format(far=far))
    spec = write(own, PYTHON)
    _, out = interrupted(spec)
    (far / changed).write_text(after)
    record, steps = go(spec, out, resume=True)
    assert_measured_again(record, steps, f"../far/{changed}, which candidate reads, has changed")


@pytest.mark.proof
def test_a_journal_with_lines_of_another_kind_keeps_what_can_be_read(tmp_path: Path) -> None:
    """Lines of a journal that miss something, or hold something else, are nothing that was measured."""
    answers(tmp_path / "said.parquet", right=True)
    spec = write(tmp_path, PREDICTIONS)
    _, out = interrupted(spec)
    lines = (out / "journal.jsonl").read_text().splitlines()
    bad = ['{"event": "check"}', '{"event": "predictions"}', '{"event": "again"}', '{"event": "server"}']
    bad += [json.dumps(json.loads(line) | {"key": [1]}) for line in lines if '"key"' in line]
    without = [json.dumps({k: v for k, v in json.loads(line).items() if k != "basis"}) for line in lines]
    (out / "journal.jsonl").write_text("\n".join([*without, *bad, '{"event": "che']))
    record, steps = go(spec, out, resume=True)
    assert record.verdict is not None and record.verdict.word == "READY"
    assert "model: one" in steps.said
    assert [one for one in Journal(out / "journal.jsonl").read() if one["event"] == "end"]


@pytest.mark.proof
def test_f2_going_on_measures_again_what_the_machine_voided_on_the_same_answers_only(tmp_path: Path) -> None:
    """A run that has ended is gone on with by the same files of answers, code and servers, or not at all."""
    answers(tmp_path / "said.parquet", right=True)
    spec = write(tmp_path, PREDICTIONS)
    first, _ = go(spec, tmp_path / "first", fail_fast=True, steps=Steps())
    assert first.models[0].content_digest is not None
    stopped = first.model_copy(
        update={
            "checks": (
                first.checks[0],
                first.checks[1].model_copy(
                    update={"status": "not_run", "reason": "--fail-fast stopped the run before"}
                ),
            )
        }
    )
    lines = (tmp_path / "first" / "journal.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"id": "two"' not in line]
    (tmp_path / "first" / "journal.jsonl").write_text("\n".join(kept) + "\n")
    write_record(stopped, tmp_path / "first", Journal(tmp_path / "first" / "journal.jsonl"))
    shutil.copytree(tmp_path / "first", tmp_path / "old")
    again, _ = go(spec, tmp_path / "again", remeasure=tmp_path / "first")
    assert again.verdict is not None and again.verdict.word == "READY"
    # A record from before contents were recorded is like no other.
    models = tuple(one.model_copy(update={"content_digest": None, "contents": ()}) for one in stopped.models)
    old = stopped.model_copy(update={"models": models})
    write_record(old, tmp_path / "old", Journal(tmp_path / "old" / "journal.jsonl"))
    with pytest.raises(RecordError, match="does not say which model candidate was"):
        go(spec, tmp_path / "never", remeasure=tmp_path / "old")
    answers(tmp_path / "said.parquet", right=False)
    with pytest.raises(RecordError, match="model candidate has changed since the run in"):
        go(spec, tmp_path / "never", remeasure=tmp_path / "first")
    assert list((tmp_path / "never").iterdir()) == []


def test_an_old_journal_says_nothing_that_is_kept() -> None:
    old = {"event": "check", "key": "k", "id": "one", "record": {}, "observed": {}}
    assert JournalEvents([old, {"event": "predictions", "key": "k", "dataset": "test"}]).checks == {}
