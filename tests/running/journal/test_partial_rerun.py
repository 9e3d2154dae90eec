"""What a busy machine voided is measured again; what was decided never is, and that it was done stays visible."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.answers.file import Answers, write_answers
from evalspec.errors import RecordError
from evalspec.evidence.estimate import Fact, Measured, Parts
from evalspec.evidence.reasons import BySurroundings
from evalspec.evidence.record import ControlRecord, Environment, Record
from evalspec.evidence.test import Test
from evalspec.language.parts import CheckResult
from evalspec.records.verify import verify
from evalspec.running.environment import differences
from evalspec.running.files import Journal
from evalspec.running.folders import read_record
from evalspec.running.journal.closing import JOURNAL, write_record
from evalspec.running.journal.partial_rerun import measurable
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.running.servers.fingerprint import ServerFingerprint
from evalspec.verdict import decide
from tests import commands
from tests.checks.system.load.test_load import load
from tests.verdict.test_decide import a_check, a_record, a_test

BUSY = "other processes used 93% of this machine's processor time meanwhile, more than 75%"

MODEL = """
import numpy as np

def good(inputs):
    x = np.asarray(next(iter(inputs.values()))).reshape(-1)
    p = np.where(x > 0, 0.97, 0.03)
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""

SPEC = """
evalspec: 1
name: again
models:
  candidate: {kind: python, function: "behaviour:good", artifact: behaviour.py, inputs: {x: x}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
system:
  - {check: memory, dataset: test, require: [peak_host_memory <= 100 GiB]}
model:
  - {check: quality, dataset: test, require: [accuracy >= 90 %]}
"""


def evalspec(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return commands.evalspec(*arguments, folder=folder)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec and a run of it that has ended."""
    folder = tmp_path_factory.mktemp("again")
    x = np.random.default_rng(0).normal(size=300)
    pq.write_table(pa.table({"x": x, "y": np.where(x > 0, "b", "a")}), folder / "test.parquet")
    (folder / "behaviour.py").write_text(MODEL)
    (folder / "spec.yaml").write_text(SPEC)
    done = evalspec(folder, "run", "spec.yaml", "--trust", "--output", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def folder(ended: Path, tmp_path: Path) -> Path:
    """The same, with its timings void since the machine was busy."""
    shutil.copytree(ended, tmp_path / "work")
    void(tmp_path / "work" / "first", "memory", invalid=BUSY, by_surroundings=True)
    return tmp_path / "work"


def void(run: Path, check: str, **changes: Any) -> None:
    """Have the run say otherwise what became of a check, and the verdict with it."""
    record = read_record(run)
    checks = tuple(
        one.model_copy(update={"tests": tuple(test.model_copy(update=changes) for test in one.tests)})
        if one.id == check
        else one
        for one in record.checks
    )
    record = record.model_copy(update={"checks": checks})
    record = record.model_copy(update={"verdict": decide(record)})
    write_record(record, run, Journal(run / JOURNAL))


def checks(run: Path) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in json.loads((run / "record.json").read_text())["checks"]}


def again(folder: Path, *options: str | Path, of: str = "first") -> subprocess.CompletedProcess[str]:
    return evalspec(folder, "run", "spec.yaml", "--trust", "--remeasure", of, *options)


@pytest.mark.proof
def test_only_what_the_machine_voided_is_measured_again(folder: Path) -> None:
    done = again(folder, "--output", "second")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "measured again: memory; all else is kept" in done.stderr
    assert "model: quality" not in done.stderr and "candidate on test" not in done.stderr
    assert f"! memory was measured in 2 runs, and only the last one counts; before that: {BUSY}" in done.stdout
    before, now = checks(folder / "first"), checks(folder / "second")
    assert now["quality"] == before["quality"]
    assert now["memory"]["tests"][0]["invalid"] is None and now["memory"]["attempts"] == [
        {"run": "first", "started": read_record(folder / "first").started, "status": "measured", "reason": BUSY}
    ]
    record = read_record(folder / "second")
    assert [one.run for one in record.continues] == ["first"]
    # It decides nothing that the run before it decided; that one is no earlier look at these data.
    assert record.earlier_runs == 0
    assert evalspec(folder, "verify", "second").returncode == 0
    assert "was measured in 2 runs" in (folder / "second" / "report.html").read_text()


@pytest.mark.proof
def test_it_is_counted_however_often(folder: Path) -> None:
    assert again(folder, "--output", "second").returncode == 0
    void(folder / "second", "memory", invalid="the load generator was the bottleneck", by_surroundings=True)
    done = again(folder, "--output", "third", of="second")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one["run"] for one in checks(folder / "third")["memory"]["attempts"]] == ["first", "second"]
    assert [one.run for one in read_record(folder / "third").continues] == ["first", "second"]
    said = f"memory was measured in 3 runs, and only the last one counts; before that: {BUSY}; the load generator was"
    assert said in done.stdout


@pytest.mark.proof
def test_without_anything_to_measure_again_it_says_why(folder: Path) -> None:
    void(folder / "first", "memory", invalid="answers come from a cache", by_surroundings=False)
    done = again(folder)
    assert done.returncode == 2
    assert "memory is void for another reason: answers come from a cache" in done.stderr
    assert not (folder / "reports").exists()


@pytest.mark.proof
def test_a_record_that_was_edited_is_gone_on_from_no_more(folder: Path) -> None:
    """What was decided can't be made undecided by hand, and measured until it looks better."""
    record = read_record(folder / "first")
    lost = record.checks[1].model_copy(update={"status": "not_run", "reason": "there was no time"})
    record = record.model_copy(update={"checks": (record.checks[0], lost)})
    record = record.model_copy(update={"verdict": decide(record)})
    (folder / "first" / "record.json").write_text(record.model_dump_json())
    done = again(folder, "--output", "second")
    assert done.returncode == 2 and "record.json in" in done.stderr and "is not what the run wrote" in done.stderr
    assert not (folder / "second").exists()
    done = evalspec(folder, "bless", "first", "--as", "one")
    assert done.returncode == 2 and "is not what the run wrote" in done.stderr


@pytest.mark.proof
def test_a_spec_that_reads_otherwise_is_another_one(folder: Path) -> None:
    (folder / "spec.yaml").write_text(SPEC.replace("90 %", "89 %"))
    done = again(folder)
    assert done.returncode == 2
    assert "was made from a spec that differs from spec.yaml as it is now; start a new run instead" in done.stderr


@pytest.mark.proof
def test_other_data_are_refused_and_leave_no_run_behind(folder: Path) -> None:
    table = pq.read_table(folder / "test.parquet")
    pq.write_table(table.slice(0, 299), folder / "test.parquet")
    for options in ((), ("--output", "second")):
        done = again(folder, *options)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "dataset test has changed since the run in" in done.stderr
    assert list((folder / "reports").rglob("record.json")) == []
    assert list((folder / "reports" / "again").iterdir()) == []
    assert list((folder / "second").iterdir()) == []


@pytest.mark.proof
def test_another_artifact_or_number_of_threads_is_refused(folder: Path) -> None:
    said = again(folder, "--threads", "2").stderr
    assert "quality is not run as it was in" in said and "for example with other --threads" in said
    (folder / "behaviour.py").write_text(MODEL + "\n# another one\n")
    assert "model candidate has changed since the run in" in again(folder).stderr


@pytest.mark.proof
def test_another_machine_is_refused(folder: Path) -> None:
    run = folder / "first"
    record = read_record(run)
    facts = record.environment.facts | {"cpu": "Another Processor"}
    environment = record.environment.model_copy(update={"facts": facts})
    write_record(record.model_copy(update={"environment": environment}), run, Journal(run / JOURNAL))
    done = again(folder)
    assert done.returncode == 2
    assert "this is not the environment of" in done.stderr and "cpu was Another Processor, and is" in done.stderr


@pytest.mark.proof
def test_evidence_that_was_changed_is_refused(folder: Path) -> None:
    (folder / "first" / "evidence" / "predictions-candidate-test.parquet").write_bytes(b"PAR1")
    done = again(folder)
    assert done.returncode == 2
    assert "is missing, or has changed since it was written" in done.stderr


@pytest.mark.parametrize("option", ["--resume", "--draft"])
def test_it_goes_alone(folder: Path, option: str) -> None:
    done = again(folder, option)
    assert done.returncode == 2
    assert f"{option} and --remeasure can't be combined" in done.stderr


@pytest.mark.proof
def test_a_part_of_a_spec_is_no_run_to_go_on_from(folder: Path) -> None:
    assert evalspec(folder, "run", "spec.yaml", "--trust", "--only", "quality", "--output", "part").returncode == 3
    done = again(folder, of="part")
    assert done.returncode == 2 and "is a part of a spec (--only), from which nothing can be kept" in done.stderr


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.proof
def test_it_can_be_interrupted_and_gone_on_with(folder: Path) -> None:
    command = [sys.executable, "-m", "evalspec", "run", "spec.yaml", "--trust"]
    running = subprocess.Popen(
        [*command, "--remeasure", "first"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=heed_interrupts,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        journals = list((folder / "reports").glob("again/2*/journal.jsonl"))
        if journals and '"event": "check"' in journals[0].read_text():
            break
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, out + err
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (path for path in (folder / "reports" / "again").glob("2*"))
    assert len(checks(run)["memory"]["attempts"]) == 1
    assert checks(run)["quality"] == checks(folder / "first")["quality"]
    assert [one.run for one in read_record(run).continues] == ["first"]
    assert verify(run).differs == ()


@pytest.mark.proof
def test_what_fail_fast_left_out_is_measured_without_deciding_again_what_it_stopped_at(folder: Path) -> None:
    table = pq.read_table(folder / "test.parquet")
    turned = ["a" if label == "b" else "b" for label in table.column("y").to_pylist()]
    pq.write_table(table.set_column(1, "y", pa.array(turned)), folder / "test.parquet")
    stopped = evalspec(folder, "run", "spec.yaml", "--trust", "--fail-fast", "--output", "stopped")
    assert stopped.returncode == 1, stopped.stdout + stopped.stderr
    assert checks(folder / "stopped")["memory"]["status"] == "not_run"
    assert verify(folder / "stopped").differs == ()
    done = again(folder, "--output", "second", of="stopped")
    assert done.returncode == 1, done.stdout + done.stderr
    now = checks(folder / "second")
    assert now["quality"] == checks(folder / "stopped")["quality"]
    assert now["memory"]["status"] == "measured"
    assert now["memory"]["attempts"][0]["reason"] == "--fail-fast stopped the run before"


def test_a_server_that_answers_otherwise_is_another_one(tmp_path: Path) -> None:
    def answered(folder: Path, first: int) -> None:
        (folder / "evidence").mkdir(parents=True)
        predicted = np.array([first, 1, 0])
        path = folder / "evidence" / "server-candidate-start.parquet"
        write_answers(Answers(3, ("a", "b"), None, predicted, None, None, None), path)

    answered(tmp_path / "before", 0)
    answered(tmp_path / "same", 0)
    answered(tmp_path / "other", 1)
    for name, differs in (("same", False), ("other", True)):
        children = SimpleNamespace(folder=tmp_path / name)
        witness = ServerFingerprint(None, children, None, None)  # type: ignore[arg-type]  # nobody is asked
        witness._asked, witness._rows = {"candidate": "test"}, {"candidate": 3}
        if differs:
            with pytest.raises(RecordError, match="the server of candidate answers 1 of 3 rows differently from"):
                witness.check_same(tmp_path / "before")
        else:
            witness.check_same(tmp_path / "before")


# -- what may be measured again ------


def measured(*tests: Test, **fields: Any) -> Record:
    return a_record(a_check(*tests, id="latency", **fields))


def busy(**fields: Any) -> Test:
    return a_test(name="latency/p99", check="latency", invalid=BUSY, by_surroundings=True, **fields)


PASSES = {"p_pass": 0.001, "p_fail": 0.999}
FAILS = {"p_pass": 0.999, "p_fail": 1e-6}
OPEN = {"p_pass": 0.3, "p_fail": 0.7}


def test_what_is_void_beside_a_pass_is_measured_again() -> None:
    found, refused = measurable(measured(busy(), a_test(name="latency/p50", check="latency", **PASSES)))
    assert (found, refused) == ({"latency": BUSY}, [])


@pytest.mark.parametrize(("numbers", "word"), [(FAILS, "FAIL"), (OPEN, "INCONCLUSIVE")])
@pytest.mark.parametrize("severity", ["require", "warn"])
def test_what_was_decided_stands(numbers: dict[str, float], word: str, severity: Any) -> None:
    beside = a_test(name="latency/p50", check="latency", severity=severity, **numbers)
    found, refused = measurable(measured(busy(), beside))
    assert found == {}
    assert refused == [f"latency is not measured again, since latency/p50 is {word}, which stands"]


def test_a_reason_of_the_systems_own_stands() -> None:
    other = a_test(name="latency/p50", check="latency", invalid="answers come from a cache")
    found, refused = measurable(measured(busy(), other))
    assert found == {} and "void for another reason: answers come from a cache" in refused[0]


@pytest.mark.parametrize(
    ("status", "reason", "may"),
    [
        ("not_run", "--fail-fast stopped the run before", True),
        ("not_run", "left out by --only quality", False),
        ("error", "the model raised", False),
        ("invalid", "dataset test changed during the run", False),
    ],
)
def test_a_check_without_a_measurement(status: Any, reason: str, may: bool) -> None:
    record = measured(a_test(name="latency/p50", check="latency"), status=status, reason=reason)
    only = ("quality",) if reason.startswith("left out") else ()
    found, _ = measurable(record.model_copy(update={"only": only}))
    assert found == ({"latency": reason} if may else {})


@pytest.mark.parametrize("only", ["latency", "latency/p50"])
def test_what_only_names_is_not_left_out(only: str) -> None:
    record = measured(a_test(name="latency/p50", check="latency"), status="not_run", reason="no quiet machine")
    assert measurable(record.model_copy(update={"only": (only,)}))[0] == {"latency": "no quiet machine"}


def test_a_reason_keeps_whose_doing_it_was_on_its_way_into_the_record() -> None:
    check = load(rates=["100 qps", "500 qps"], require=["latency_p99 <= 20 ms", "latency_p50(500 qps) <= 9 ms"])

    def result(first: str, second: str) -> CheckResult:
        parts = Parts({
            "100 qps": Measured(Fact(1.0, 5), invalid=first), "500 qps": Measured(Fact(1.0, 5), invalid=second),
        })  # fmt: skip
        return CheckResult(estimates={"latency_p99": parts, "latency_p50": parts})

    quiet, cached = BySurroundings(BUSY), "answers come from a cache"
    levels = SignificanceLevels(0.95, 0.01)
    assert [test.by_surroundings for test in write_tests(check, result(quiet, quiet), levels)] == [True, True]
    assert [test.by_surroundings for test in write_tests(check, result(cached, quiet), levels)] == [False, True]
    assert [test.by_surroundings for test in write_tests(check, result(quiet, cached), levels)] == [False, False]


def test_environments_differ_by_what_lasts() -> None:
    facts: dict[str, Any] = {"cpu": "A", "cpu_MHz": 2000, "cpu_steal_s_since_boot": 1.0, "git_commit": "a", "cores": 2}
    before = Environment(facts=facts, packages={"numpy": "2.0"}, load_at_start=0.1)
    now = Environment(
        facts=facts | {"cpu_MHz": 3000, "cpu_steal_s_since_boot": 2.0, "git_commit": "b"}, packages={"numpy": "2.0"},
        load_at_start=5.0,
    )  # fmt: skip
    assert differences(before, now) == []
    other = Environment(
        facts=facts | {"cores": 4}, packages={"numpy": "2.1"},
        controls=(ControlRecord(name="cpu governor", state="not attempted", detail="performance"),),
    )  # fmt: skip
    assert differences(before, other) == [
        "cores was 2, and is 4",
        "version of numpy was 2.0, and is 2.1",
        "cpu governor was None, and is not attempted (performance)",
    ]
