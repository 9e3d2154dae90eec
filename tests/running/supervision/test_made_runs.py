"""Runs that the gate makes itself: what they end in, what is kept of them, and what stops them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from evalspec.evidence.record import CheckRecord, Record
from evalspec.running.supervision import disturbance
from tests.running.supervision.toy import write_toy
from tests.stories.telling import command

REAL = disturbance.disturbance
QUIET = {"processors": 4.0, "own": 1.0, "others_share": 0.0, "steal_share": 0.0}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does: only what a test plants spoils a run."""
    monkeypatch.setattr(disturbance, "disturbance", lambda told: None)


def run(gate: Path, *options: str, code: int = 0) -> tuple[Record, str]:
    """A run of a gate beside it."""
    out = gate.parent / "run"
    done = command("run", str(gate), "--trust", "--output", str(out), *options)
    assert done.exit_code == code, done.output
    return Record.model_validate_json((out / "record.json").read_text()), done.output


def only(record: Record) -> CheckRecord:
    (check,) = record.checks
    return check


@pytest.mark.proof
def test_five_runs_with_five_seeds_are_made_and_can_be_verified(tmp_path: Path) -> None:
    record, _ = run(write_toy(tmp_path))
    (training,) = record.trainings
    assert [one.ended for one in training.runs] == ["ended"] * 5
    assert len({one.seed for one in training.runs}) == 5
    assert [one.path for one in training.code] == ["train.py"]
    assert all(one.log is not None and (tmp_path / "run" / one.log.path).is_file() for one in training.runs)
    (tmp_path / "again").mkdir()
    again, _ = run(write_toy(tmp_path / "again"))
    assert [one.seed for one in again.trainings[0].runs] == [one.seed for one in training.runs]
    verified = command("verify", str(tmp_path / "run"))
    assert verified.exit_code == 0, verified.output
    log = tmp_path / "run" / str(training.runs[0].log and training.runs[0].log.path)
    log.write_text(log.read_text().replace('"step": 8', '"step": 9'))
    assert command("verify", str(tmp_path / "run")).exit_code == 1


@pytest.mark.proof
def test_the_gate_may_be_started_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gate", "here"):
        (tmp_path / name).mkdir()
    write_toy(tmp_path / "gate")
    monkeypatch.chdir(tmp_path / "here")
    done = command("run", "../gate/gate.yaml", "--trust", "--output", "out")
    assert done.exit_code == 0, done.output


def test_code_runs_under_trust_alone(tmp_path: Path) -> None:
    done = command("run", str(write_toy(tmp_path)), "--output", str(tmp_path / "run"))
    assert done.exit_code == 2 and "--trust" in done.output and "the command python" in done.output
    assert not (tmp_path / "run").exists()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("how", "ended", "limits"),
    [
        ("crash at the end", "failed", ()),
        pytest.param("hang", "limit", (), marks=pytest.mark.proof),
        pytest.param("memory", "out_of_memory", ("--memory-limit", "300 MiB"), marks=pytest.mark.proof),
    ],
)
def test_a_run_that_leaves_no_model_got_nowhere(tmp_path: Path, how: str, ended: str, limits: tuple[str, ...]) -> None:
    limit = "1 s" if how == "hang" else "2 s"
    gate = write_toy(tmp_path, f'"{how}"', limit=limit, require=f"time_to_accuracy_p50 <= {limit}", seeds="5")
    record, said = run(gate, *limits, code=1)
    assert [one.ended for one in record.trainings[0].runs] == [ended] * 5
    assert "FAIL" in said
    assert not _of(gate)


@pytest.mark.proof
def test_nan_is_not_at_the_target(tmp_path: Path) -> None:
    gate = write_toy(tmp_path, "nan", seeds="[1, 3, 5, 7, 9, 11]", require="convergence_rate >= 50 %")
    record, _ = run(gate, code=1)
    assert only(record).measured["convergence_rate"] == 0.0


@pytest.mark.proof
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ('"no log"', "ended and left no log {out}/log.jsonl"),
        ('"never logs"', "the first 2 runs failed before they logged anything; its last line: no such device"),
        ("constant", "log the same values from beginning to end: they are one run made twice"),
    ],
)
def test_what_no_run_can_show_is_an_error_in_one_sentence(tmp_path: Path, how: str, words: str) -> None:
    record, said = run(write_toy(tmp_path, how), code=4)
    assert only(record).status == "error" and words in str(only(record).reason)
    assert "Traceback" not in said


def test_a_measure_that_is_not_logged_stops_the_first_run_and_not_the_last(tmp_path: Path) -> None:
    record, _ = run(write_toy(tmp_path, target="accuracy >= 94 %"), code=4)
    assert "has no measure 'accuracy', which a check reads; it has val_accuracy" in str(only(record).reason)
    assert len(record.trainings[0].runs) == 1


def test_a_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    gate = write_toy(tmp_path)
    gate.write_text(gate.read_text().replace("[python, train.py", "[nowhere-to-be-seen, train.py"))
    record, _ = run(gate, code=4)
    assert "nowhere-to-be-seen can't be started" in str(only(record).reason)


@pytest.mark.proof
def test_two_that_crash_at_once_are_counted_where_others_do_not(tmp_path: Path) -> None:
    gate = write_toy(tmp_path, '"two crash"', seeds="[1, 2, 4, 3, 5, 6, 7, 8]", require="convergence_rate >= 30 %")
    record, _ = run(gate)
    assert only(record).measured["convergence_rate"] == 75.0


@pytest.mark.proof
def test_the_time_before_the_log_counts(tmp_path: Path) -> None:
    record, _ = run(write_toy(tmp_path, "late", require="time_to_accuracy_p50 <= 0.3 s"), code=1)
    assert all(one.before_s is not None and one.before_s >= 0.4 for one in record.trainings[0].runs)
    assert any("before the clock of its log" in one for one in only(record).notes)


@pytest.mark.proof
def test_a_clock_that_stops_meanwhile_is_told(tmp_path: Path) -> None:
    record, _ = run(write_toy(tmp_path, "pauses", require="time_to_accuracy_p50 <= 10 s"))
    assert any("falls behind that of the process" in one for one in only(record).weakens)


@pytest.mark.proof
def test_a_spoiled_run_is_made_again_once_and_both_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter(["other work", None, None, None, None, None, None])
    monkeypatch.setattr(disturbance, "disturbance", lambda told: next(said))
    record, _ = run(write_toy(tmp_path))
    runs = record.trainings[0].runs
    assert [one.replaced for one in runs] == [True, *[False] * 5]
    assert runs[1].name.startswith("run1-again-seed") and runs[1].seed != runs[0].seed
    assert only(record).counts.used == 5
    assert any("is not counted, and another was made in its place: other work." in one for one in only(record).notes)


@pytest.mark.proof
def test_runs_beside_other_work_void_a_fail_and_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbance, "disturbance", lambda told: "other work")
    record, _ = run(write_toy(tmp_path, require="time_to_accuracy_p50 <= 0.01 s"), code=3)
    (test,) = only(record).tests
    assert test.invalid is not None and test.by_surroundings and "other work" in test.invalid
    assert len(record.trainings[0].runs) == 10
    (tmp_path / "pass").mkdir()
    record, _ = run(write_toy(tmp_path / "pass"))
    assert any("in spite of a disturbance" in one for one in only(record).tests[0].notes)


@pytest.mark.proof
def test_a_draft_makes_one_run_and_stops_it_after_two_evaluations(tmp_path: Path) -> None:
    record, _ = run(write_toy(tmp_path, "slow"), "--draft", code=3)
    (one,) = record.trainings[0].runs
    assert one.ended == "cut" and one.process_s < 1.0


@pytest.mark.proof
def test_seeds_are_trained_on_each_number_of_workers(tmp_path: Path) -> None:
    gate = write_toy(tmp_path, 'well, "{workers}"', seeds="3", more="also_workers: [2]")
    gate.write_text(
        gate.read_text().split("system:")[0]
        + "system:\n  - {check: scaling, training: recipe, target: val_accuracy >= 94 %, workers: [1, 2],\n"
        + "     require: [scaling_efficiency(2) >= 30 %]}\n"
    )
    record, _ = run(gate)
    assert [(one.workers, one.name.rpartition("-")[2]) for one in record.trainings[0].runs][:4] == [
        (1, "on1"), (2, "on2"), (2, "on2"), (1, "on1"),
    ]  # fmt: skip
    assert record.trainings[0].runs[0].seed == record.trainings[0].runs[1].seed


@pytest.mark.proof
def test_pairs_with_and_without_checkpoints_are_made_in_turn(tmp_path: Path) -> None:
    gate = write_toy(tmp_path, seeds="1", more="without_checkpoints: ['2']")
    gate.write_text(
        gate.read_text().split("system:")[0]
        + "system:\n  - {check: training_recovery, training: recipe, kills: 2, pairs: 2,\n"
        + "     require: [checkpoint_overhead <= 300 %]}\n"
    )
    record, _ = run(gate)
    named = [one.name.partition("-")[0] for one in record.trainings[0].trials if one.pair is not None]
    assert named == ["paired1", "plain1", "plain2", "paired2"]
    (test,) = only(record).tests
    assert test.n == 2


def started(gate: Path, *options: str) -> subprocess.Popen[bytes]:
    code = (
        "from evalspec.running.supervision import disturbance\n"
        "disturbance.disturbance = lambda told: None\n"
        "from evalspec.cli import app\napp()\n"
    )
    # What spoils runs on a busy machine is shown by itself.
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", str(gate), "--trust", "--output", str(gate.parent / "run"), *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=gate.parent, start_new_session=True,
    )  # fmt: skip


def events(gate: Path) -> list[Mapping[str, Any]]:
    journal = gate.parent / "run" / "journal.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [one for one in map(json.loads, lines) if one["event"] == "training run"]


def until(gate: Path, runs: int) -> None:
    end = time.monotonic() + 120
    while len(events(gate)) < runs or not any(_of(gate)):
        assert time.monotonic() < end
        time.sleep(0.02)


def _of(gate: Path) -> list[psutil.Process]:
    """Processes of a gate's own training that run."""
    found = []
    for one in psutil.process_iter(["cmdline"]):
        if any(str(gate.parent) in part for part in one.info["cmdline"] or ()) and "run" not in (
            one.info["cmdline"][3:4] or ()
        ):
            found.append(one)
    return found


@pytest.mark.processes
@pytest.mark.proof
def test_nine_runs_are_kept_when_the_gate_is_killed_in_the_tenth(tmp_path: Path) -> None:
    gate = write_toy(tmp_path, "slow", seeds="11")
    process = started(gate)
    until(gate, 9)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = events(gate)
    end = time.monotonic() + 10
    while _of(gate) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _of(gate)
    record, _ = run(gate, "--resume")
    runs = record.trainings[0].runs
    assert len(runs) == 11 and len(kept) in (9, 10)
    assert [one.model_dump(mode="json") for one in runs[: len(kept)]] == [one["run"] for one in kept]
    assert len(events(gate)) == 11


@pytest.mark.processes
@pytest.mark.proof
def test_an_interrupt_leaves_no_orphan_and_keeps_finished_runs(tmp_path: Path) -> None:
    gate = write_toy(tmp_path, "slow", seeds="6")
    process = started(gate)
    until(gate, 2)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert not _of(gate)
    record = Record.model_validate_json((tmp_path / "run" / "record.json").read_text())
    assert record.interrupted and only(record).status == "not_run"
    made = len(events(gate))
    assert 2 <= made < 6 and len(record.trainings[0].runs) == made
    record, _ = run(gate, "--resume")
    assert len(record.trainings[0].runs) == 6 and len(events(gate)) == 6


@pytest.mark.processes
@pytest.mark.proof
def test_changed_code_is_trained_anew(tmp_path: Path) -> None:
    gate = write_toy(tmp_path, "slow", seeds="6")
    process = started(gate)
    until(gate, 2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (tmp_path / "train.py").write_text((tmp_path / "train.py").read_text() + "\n# other code\n")
    made = len(events(gate))
    run(gate, "--resume")
    assert len(events(gate)) == made + 6


@pytest.mark.parametrize(
    ("told", "spoiled"),
    [
        (QUIET, False),
        (QUIET | {"others_share": 0.5}, False),
        (QUIET | {"others_share": 0.7}, True),
        (QUIET | {"own": 4.0, "others_share": 0.2}, False),
        (QUIET | {"own": 3.0, "others_share": 0.26}, True),
        (QUIET | {"processors": 64.0, "own": 8.0, "others_share": 0.74}, False),
        (QUIET | {"processors": 64.0, "own": 8.0, "others_share": 0.8}, True),
        (QUIET | {"steal_share": 0.2}, True),
        (QUIET | {"others_share": None}, False),
        (QUIET | {"gpu_others_share": 0.1}, False),
        (QUIET | {"gpu_others_share": 0.2}, True),
        (QUIET | {"others_share": None, "gpu_others_share": 0.2}, True),
        (QUIET | {"gpu_others_share": None}, False),
    ],
)
def test_other_work_spoils_a_run_where_it_leaves_too_little(told: Mapping[str, Any], spoiled: bool) -> None:
    assert (REAL(told) is not None) == spoiled
