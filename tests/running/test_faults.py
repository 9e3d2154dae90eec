"""Models and machines that misbehave: each ends as that check's ERROR, and what was measured is kept."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.records.verify import verify
from tests.commands import evalspec
from tests.shared import shared_folder

MODEL = """
import os, sys, time, signal
import numpy as np

def good(inputs):
    x = np.asarray(next(iter(inputs.values()))).reshape(-1)
    p = np.where(x > 0, 0.97, 0.03)
    return {"probabilities": np.stack([1 - p, p], axis=1)}

def raises(inputs):
    raise RuntimeError("the weights are gone")

def hangs(inputs):
    time.sleep(600)

def exits(inputs):
    os._exit(0)

def leaves(inputs):
    sys.exit(0)

def killed(inputs):
    os.kill(os.getpid(), signal.SIGKILL)

def nan(inputs):
    answer = good(inputs)
    answer["probabilities"][0, 0] = np.nan
    return answer

def unsummed(inputs):
    answer = good(inputs)
    return {"probabilities": answer["probabilities"] * 0.5}

def hungry(inputs):
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1 << 20)) * 32)
        time.sleep(0.005)

asked = 0

def wears_out(inputs):
    global asked
    asked += 1
    time.sleep(0.002)
    if asked > 1000:
        os.kill(os.getpid(), signal.SIGKILL)
    return good(inputs)

def short(inputs):
    return {"probabilities": good(inputs)["probabilities"][:-1]}
"""


def spec(**functions: str) -> str:
    """A good model and others, each with a check."""
    fields = "artifact: behaviour.py, inputs: {x: x}, classes: [a, b]"
    models = {"candidate": "good"} | functions
    checks = {"quality": "candidate"} | {name: name for name in functions}
    lines = ["evalspec: 1", "name: faults", "seed: 1", "models:"]
    lines += [f'  {name}: {{kind: python, function: "behaviour:{which}", {fields}}}' for name, which in models.items()]
    lines += ["datasets:", "  test: {kind: parquet, path: test.parquet, label: y}", "model:"]
    lines += [
        f"  - {{check: quality, id: {name}, model: {model}, dataset: test, require: [accuracy >= 90 %]}}"
        for name, model in checks.items()
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_parts(tmp_path)
    return tmp_path


def write_parts(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    pq.write_table(pa.table({"x": x, "y": np.where(x > 0, "b", "a")}), folder / "test.parquet")
    (folder / "behaviour.py").write_text(MODEL)


def run(folder: Path, function: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run in this process."""
    (folder / "evalspec.yaml").write_text(spec(other=function))
    return evalspec("run", "evalspec.yaml", "--trust", *options, folder=folder)


def run_spec(folder: Path, *options: str, **popen: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evalspec", "run", str(folder / "evalspec.yaml"), "--trust", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=240,
        **popen,
    )


def record_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "reports/faults/latest/record.json").read_text())
    return found


@pytest.mark.proof
def test_a_good_model_is_ready(folder: Path) -> None:
    done = run(folder, "good")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert done.stdout.startswith("faults: READY")


BAD = {
    "raises": "RuntimeError: the weights are gone",
    "hangs": "did not answer within 8 s and was killed",
    "exits": "exited with code 0 without an answer",
    "leaves": "exited with code 0 without an answer",
    "killed": "was killed by SIGKILL",
    "nan": "NaN",
    "unsummed": "sum",
    "hungry": "MiB of resident memory, over the limit of 700 MiB",
    "short": "rows",
}


@pytest.fixture(scope="module")
def all_bad_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run for all of them, since each takes seconds."""

    def make(folder: Path) -> None:
        write_parts(folder)
        (folder / "evalspec.yaml").write_text(spec(**{name: name for name in BAD}))
        done = run_spec(folder, "--time-limit", "8 s", "--memory-limit", "700 MiB")
        (folder / "ended.json").write_text(json.dumps([done.returncode, done.stdout + done.stderr]))

    return shared_folder(tmp_path_factory, "all-bad-models", make)


@pytest.mark.proof
@pytest.mark.parametrize("function", list(BAD))
def test_a_bad_model_is_an_error_and_the_other_checks_stay(all_bad_models: Path, function: str) -> None:
    code, said = json.loads((all_bad_models / "ended.json").read_text())
    assert code == 4, said
    assert "Traceback" not in said
    record = record_of(all_bad_models)
    checks = {check["id"]: check for check in record["checks"]}
    assert (checks["quality"]["status"], checks[function]["status"]) == ("measured", "error")
    assert BAD[function] in checks[function]["reason"]
    statuses = {one["name"]: one["status"] for one in record["verdict"]["decisions"]}
    assert statuses == {"quality/accuracy": "PASS"} | {f"{name}/accuracy": "ERROR" for name in BAD}
    assert (all_bad_models / "reports/faults/latest/report.html").exists()


@pytest.mark.proof
def test_one_bad_model_ends_the_run_with_4(folder: Path) -> None:
    done = run(folder, "killed")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert [check["status"] for check in record_of(folder)["checks"]] == ["measured", "error"]


@pytest.mark.proof
def test_a_draft_says_what_ran_and_what_did_not_and_decides_nothing(folder: Path) -> None:
    # Most labels are turned: in a run this is a violation.
    table = pq.read_table(folder / "test.parquet")
    turned = ["a" if label == "b" else "b" for label in table.column("y").to_pylist()]
    pq.write_table(table.set_column(1, "y", pa.array(turned)), folder / "test.parquet")
    done = run(folder, "good", "--draft")
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.startswith("faults: UNDECIDED (a draft)\n  Everything was tried on a few rows and queries")
    assert "  ran      quality: accuracy 0 %\n" in done.stdout
    crashed = run(folder, "raises", "--draft")
    assert crashed.returncode == 4
    assert crashed.stdout.startswith("faults: ERROR (a draft)")
    assert "  ran      quality: accuracy 0 %\n" in crashed.stdout
    reason = "behaviour:raises raised RuntimeError: the weights are gone"
    assert f"  crashed  other: {reason}\n" in crashed.stdout
    # What is wrong is the crash, whatever the few rows say.
    assert crashed.stdout.splitlines()[1] == f"  other/accuracy: accuracy >= 90 %: crashed: {reason}"


CHECKED = """
evalspec: 1
name: faults
models:
  candidate: {kind: python, function: "behaviour:good", artifact: behaviour.py, inputs: {x: x}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: quality, id: one, dataset: test, require: [accuracy >= 90 %]}
  - {check: quality, id: two, dataset: test, require: [accuracy >= 90 %]}
"""


@pytest.mark.proof
def test_checks_of_a_draft_share_a_process_and_one_that_kills_it_leaves_the_next_a_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalspec.loading import LoadOptions, load
    from evalspec.planning import plan
    from evalspec.running.children.sharing import SharedChild
    from evalspec.running.options import Options, default_limits
    from evalspec.running.runner import run as run_plan

    (folder / "spec.yaml").write_text(CHECKED)
    spec = load(folder / "spec.yaml", options=LoadOptions(trust=True))
    pids = []
    ask = SharedChild.ask

    def killing(drafter: SharedChild, job: Any, **how: Any) -> Any:
        answer = ask(drafter, job, **how)
        assert drafter._child is not None
        pids.append(drafter._child.pid)
        if job.check.name == "two":
            drafter._child.kill()
        return answer

    class Steps:
        def step(self, text: str) -> None: ...

        def progress(self, done: float, total: float, what: str) -> None: ...

    monkeypatch.setattr(SharedChild, "ask", killing)
    planned = plan(spec)
    twice = replace(planned, checks=(*planned.checks, replace(planned.checks[0], check=planned.checks[0].check)))
    options = Options(access=spec.access(trust=True), output=folder / "out", limits=default_limits(60.0), draft=True)
    record, _ = run_plan(twice, options, Steps())
    assert [one.status for one in record.checks] == ["measured"] * 3
    assert pids[0] == pids[1] != pids[2]


TIMED = """
evalspec: 1
name: faults
models:
  candidate: {kind: python, function: "behaviour:wears_out", artifact: behaviour.py, inputs: {x: x}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
system:
  - {check: latency, dataset: test, queries: 5000, caching_audit: false, require: [latency_p50 <= 1 s]}
"""


@pytest.mark.proof
def test_what_was_timed_before_a_model_died_is_kept(folder: Path) -> None:
    from evalspec.running.samples import read_samples

    (folder / "evalspec.yaml").write_text(TIMED)
    done = subprocess.run(
        [sys.executable, "-m", "evalspec", "run", "evalspec.yaml", "--trust"],
        capture_output=True, text=True, check=False, cwd=folder, timeout=120,
    )  # fmt: skip
    assert done.returncode == 4, done.stdout + done.stderr
    (check,) = record_of(folder)["checks"]
    assert (check["status"], check["measured"]) == ("error", {})
    assert "was killed by SIGKILL" in check["reason"]
    evidence = folder / "reports/faults/latest/evidence"
    (samples,) = read_samples(evidence / "samples-latency.parquet")
    assert samples.details["complete"] is False
    # Warm-up takes some of the 1,000 that it answers.
    assert 0 < len(samples.end_ns) < 1000
    assert samples.ok.all() and (samples.end_ns > samples.sent_ns).all()
    assert list(evidence.glob(".*")) == []


def test_without_trust_no_code_runs(folder: Path) -> None:
    (folder / "evalspec.yaml").write_text(spec(other="good"))
    done = subprocess.run(
        [sys.executable, "-m", "evalspec", "run", str(folder / "evalspec.yaml")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert [line.partition("models.")[2] for line in lines] == [
        f"{name}: {name} runs the function behaviour:good, which is not allowed; pass --trust if you know where it "
        "comes from"
        for name in ("candidate", "other")
    ]
    assert not (folder / "reports").exists()


@pytest.mark.proof
@pytest.mark.skipif(sys.platform != "linux", reason="limits of file size are POSIX")
def test_a_full_disk_is_one_sentence(folder: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    (folder / "evalspec.yaml").write_text(spec(other="good"))
    done = run_spec(folder, preexec_fn=limit)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "can't be written" in done.stderr


def heed_interrupts() -> None:
    """A process started in the background of a shell ignores SIGINT, and so do its children; this one is to hear it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.proof
def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(folder: Path) -> None:
    (folder / "evalspec.yaml").write_text(spec(other="hangs"))
    command = [sys.executable, "-m", "evalspec", "run", str(folder / "evalspec.yaml"), "--trust"]
    running = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        journals = list((folder / "reports").glob("faults/2*/journal.jsonl"))
        if journals and '"event": "check"' in journals[0].read_text():
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    try:
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, out + err
    assert "Traceback" not in out + err
    record = record_of(folder)
    assert [one["status"] for one in record["checks"]] == ["measured", "not_run"]
    assert record["interrupted"]
    (run,) = (folder / "reports/faults").glob("2*")
    assert verify(run).differs == ()
    # The first check is kept as it was; the second still hangs, now against a limit.
    done = subprocess.run(
        [*command, "--resume", "--time-limit", "5 s"], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 4, done.stdout + done.stderr
    resumed = record_of(folder)
    assert resumed["checks"][0]["duration_s"] == record["checks"][0]["duration_s"]
    assert len(list((folder / "reports/faults").glob("2*"))) == 1
    assert verify(run).differs == ()
