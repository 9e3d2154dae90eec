"""Whole runs against a server that the spec starts: it is up while it is needed, and the same to the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import SpecError
from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.records.verify import verify
from evalspec.running.options import Options, default_limits
from evalspec.running.runner import run
from evalspec.running.samples import read_samples

SERVER = Path(__file__).parents[1] / "server.py"
SPEC = """
evalspec: 1
name: served
seed: 1
models:
  candidate:
    kind: http
    url: http://127.0.0.1:{port}
    model_name: sums
    inputs: {{x: x}}
    outputs: {{value: s}}
    artifact: server.py
    ready_within: {within}
    start: [python, server.py, "{port}"{way}]
datasets:
  test: {{kind: parquet, path: test.parquet, label: y, label_unit: min}}
system:
{system}
model:
  - {{check: quality, dataset: test, metrics: [mae], report_only: true}}
"""
LATENCY = "  - {check: latency, dataset: test, processes: 5, queries: 100, warmup: 3, require: [latency_p50 <= 500 ms]}"
THROUGHPUT = """  - check: throughput
    dataset: test
    batch_sizes: [2]
    connections: 8
    duration: 300 ms
    require: [throughput >= 1 samples/s]"""
LOAD = """  - check: load
    dataset: test
    arrivals: {kind: poisson}
    rates: [200 qps]
    queries: 400
    warmup: 8
    caching_audit: false
    require: [error_rate <= 40 %]"""
RECOVERY = """  - check: recovery
    dataset: test
    rate: 100 qps
    kill_after: 300 ms
    repeats: 3
    within: 30 s
    require: [time_to_healthy <= 20 s, lost_requests <= 3000]"""


class Steps:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(self, text: str) -> None:
        self.seen.append(text)

    def progress(self, done: float, total: float, what: str) -> None:
        pass


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def write(folder: Path, port: int, way: str = "", system: str = LATENCY, within: str = "30 s") -> Path:
    shutil.copy(SERVER, folder / "server.py")
    x = np.random.default_rng(0).normal(size=(60, 4))
    pq.write_table(pa.table({"x": pa.array(list(x)), "y": x.sum(axis=1)}), folder / "test.parquet")
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(port=port, way=f", {way}" if way else "", system=system, within=within))
    return path


def ran(path: Path, *, trust: bool = True, only: tuple[str, ...] = ()) -> tuple[dict[str, Any], Path, list[str]]:
    steps = Steps()
    spec = load(path, options=LoadOptions(trust=trust))
    options = Options(access=spec.access(trust=trust), output=path.parent / "run", limits=default_limits(time_s=120))
    _, folder = run(plan(spec, only=only), options, steps)
    return json.loads((folder / "record.json").read_text()), folder, steps.seen


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def checks(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in record["checks"]}


@pytest.mark.proof
def test_a_server_is_started_used_by_all_checks_and_stopped(tmp_path: Path, port: int) -> None:
    record, folder, _ = ran(write(tmp_path, port))
    assert {name: one["status"] for name, one in checks(record).items()} == {
        "latency": "measured",
        "quality": "measured",
    }
    (ready,) = events(folder, "server ready")
    assert not psutil.pid_exists(ready["pid"])
    (model,) = record["models"]
    assert model["details"]["framework"] == "served by server.py 9"
    assert model["details"]["answers_of_the_server"] == "agree on 60 rows at the start and the end of the run"
    assert model["digest_stated"] is True
    assert record["subject"] == model["digest"]
    said = {file["what"] for file in record["predictions"]}
    assert {"answers of the server of candidate at the start", "answers of the server of candidate at the end"} <= said


@pytest.mark.proof
@pytest.mark.slow
def test_throughput_keeps_several_requests_under_way_and_says_how_many(tmp_path: Path, port: int) -> None:
    """A server that takes 4 ms and has a thread for each connection."""
    record, folder, _ = ran(write(tmp_path, port, "slow", THROUGHPUT))
    one = checks(record)["throughput"]
    assert one["status"] == "measured", one["reason"]
    assert one["conditions"]["scenario"] == "offline, 8 connections" and one["conditions"]["connections"] == 8
    assert one["counts"]["errored"] == 0
    found = read_samples(folder / "evidence" / "samples-throughput.parquet")
    assert len(found) == one["conditions"]["processes"] >= 3
    assert all(len(samples.end_ns) >= 32 for samples in found)
    kinds = {name: {samples.details[name] for samples in found} for name in ("connections", "kind", "in_process")}
    assert kinds == {"connections": {8}, "kind": {"offline"}, "in_process": {False}}
    # Little's law: time that requests were under way by the time that it took; eight but for what the client takes.
    for samples in found:
        span = samples.end_ns.max() - samples.sent_ns.min()
        assert 4 < (samples.end_ns - samples.sent_ns).sum() / span <= 8
    assert not verify(folder).differs


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("way", "void"), [("remembers", True), ("slow", False)])
def test_a_server_that_remembers_what_it_was_asked_before_is_found(
    tmp_path: Path, port: int, way: str, void: bool
) -> None:
    """It has been asked for all 60 rows at the start of the run."""
    record, _, _ = ran(write(tmp_path, port, way), only=("latency",))
    one = checks(record)["latency"]
    assert one["status"] == "measured", one["reason"]
    invalid = one["tests"][0]["invalid"]
    assert (invalid is not None and "answers come from a cache" in invalid) == void
    assert any("than the same changed by a hair" in note for note in one["notes"])


@pytest.mark.proof
def test_the_error_rate_of_a_server_that_errs_is_measured(tmp_path: Path, port: int) -> None:
    """F18: neither the rows asked for at the start and the end nor warming up end the check."""
    path = write(tmp_path, port, "errs", LOAD)
    path.write_text(path.read_text().replace("model_name: sums", "model_name: sums\n    batch: 2"))
    record, _, _ = ran(path, only=("load",))
    load = checks(record)["load"]
    assert load["status"] == "measured", load["reason"]
    assert load["measured"]["error_rate(200 qps)"] == pytest.approx(20.0, abs=3.0)
    assert any("queries failed while warming up and were asked again" in note for note in load["notes"])
    assert load["counts"]["errored"] == pytest.approx(0.2 * load["counts"]["attempted"], rel=0.2)
    (model,) = record["models"]
    assert re.fullmatch(
        r"agree on 60 rows .* run; \d+ requests? for them failed and had to be sent again",
        model["details"]["answers_of_the_server"],
    )


@pytest.mark.proof
def test_checks_tell_the_same_of_a_server_that_drops_requests(tmp_path: Path, port: int) -> None:
    """F12: what is timed counts each as failed, and what quality is computed on says how many were sent again."""
    path = write(tmp_path, port, "drops", LATENCY.replace("warmup: 3", "warmup: 3, caching_audit: false"))
    path.write_text(path.read_text().replace("model_name: sums", "model_name: sums\n    batch: 2"))
    record, _, _ = ran(path)
    latency, quality = checks(record)["latency"], checks(record)["quality"]
    assert (latency["status"], quality["status"]) == ("measured", "measured")
    assert latency["counts"]["errored"] == pytest.approx(0.2 * latency["counts"]["used"] / 0.8, rel=0.1)
    assert any("connection broke" in note for note in latency["notes"])
    assert any("were opened again" in note for note in latency["notes"])
    (model,) = record["models"]
    assert re.fullmatch(r"connection broke \d+", model["details"]["requests_failed_how"])
    assert any("failed when asked for its answers, and was asked again" in line
               for line in record["verdict"]["weakened"])  # fmt: skip


def test_without_trust_nothing_is_started(tmp_path: Path, port: int) -> None:
    with pytest.raises(SpecError, match="candidate runs the command python, which is not allowed; pass --trust"):
        ran(write(tmp_path, port), trust=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.proof
@pytest.mark.parametrize(
    ("way", "within", "words"),
    [
        ("never", "0.5 s", "was not ready within 0.5 s"),
        ("ends", "30 s", "ended with code 1; its last line: the weights"),
    ],
)
def test_a_server_that_does_not_come_up_is_the_checks_error(
    way: str, within: str, words: str, tmp_path: Path, port: int
) -> None:
    record, _, steps = ran(write(tmp_path, port, way, within=within))
    for one in checks(record).values():
        assert one["status"] == "error"
        assert words in one["reason"]
    # It is not tried again for every check.
    assert steps.count("starting the server of candidate") == 1


@pytest.mark.proof
def test_another_server_at_the_address_is_not_taken_for_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        record, _, _ = ran(write(tmp_path, other.getsockname()[1]))
    assert "a different server already answers at" in checks(record)["quality"]["reason"]


@pytest.mark.proof
def test_a_server_that_answers_otherwise_at_the_end_voids_what_was_measured(tmp_path: Path, port: int) -> None:
    record, folder, _ = ran(write(tmp_path, port, "drifts"), only=("quality",))
    one = checks(record)["quality"]
    assert one["status"] == "invalid"
    assert "60 of 60 rows were answered differently at the end of the run" in one["reason"]
    (witness,) = events(folder, "witness")
    assert "60 of 60" in witness["said"]


@pytest.mark.proof
@pytest.mark.slow
def test_a_server_that_dies_is_started_again_and_that_is_written_down(tmp_path: Path, port: int) -> None:
    """It dies in the middle of timing: that check shows it, and the journal says how it ended."""
    record, folder, _ = ran(write(tmp_path, port, "dies"))
    assert checks(record)["quality"]["status"] == "measured"
    assert checks(record)["latency"]["status"] == "error"
    assert [event["code"] for event in events(folder, "server ended")] == [3]
    assert len(events(folder, "server ready")) == 2


@pytest.mark.proof
@pytest.mark.slow
def test_a_server_of_somebody_elses_that_is_gone_at_the_end_is_not_shown(tmp_path: Path, port: int) -> None:
    import subprocess
    import sys
    import time

    path = write(tmp_path, port, "dies")
    text = path.read_text()
    path.write_text(text.replace(f'    start: [python, server.py, "{port}", dies]\n', ""))
    with subprocess.Popen([sys.executable, str(SERVER), str(port), "dies"]) as server:
        try:
            until = time.monotonic() + 20
            while time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            record, _, _ = ran(path)
        finally:
            server.kill()
    (model,) = record["models"]
    assert "could not be reached at the end of the run: no server answers" in model["details"]["answers_of_the_server"]
    assert record["subject"] is None
    assert record["verdict"]["word"] != "READY"


@pytest.mark.proof
def test_a_check_that_looks_into_the_process_says_nothing_of_a_server(tmp_path: Path, port: int) -> None:
    system = "  - {check: memory, dataset: test, require: [peak_host_memory <= 4 GiB]}"
    record, _, _ = ran(write(tmp_path, port, system=system), only=("memory",))
    assert checks(record)["memory"]["status"] == "not_run"
    assert "is a server" in checks(record)["memory"]["reason"]


@pytest.mark.proof
@pytest.mark.slow
def test_recovery_of_a_real_server(tmp_path: Path, port: int) -> None:
    record, folder, _ = ran(write(tmp_path, port, system=RECOVERY))
    found = checks(record)["recovery"]
    assert found["status"] == "measured", found["reason"]
    healthy, lost = found["tests"]
    assert healthy["status"] == "PASS" if "status" in healthy else healthy["value"] < 20
    # A server that is away for some time at 100 queries a second loses some, and not all.
    assert 1 <= lost["value"] < found["counts"]["attempted"] / 3
    assert found["counts"]["used"] > found["counts"]["attempted"] / 3
    assert events(folder, "server ended")[0]["code"] == -9
    assert record["models"][0]["details"]["answers_of_the_server"].startswith("agree")
    listening = [one.laddr.port for one in psutil.net_connections("tcp") if one.status == "LISTEN"]
    assert port not in listening


def test_recovery_needs_a_server_that_the_spec_starts(tmp_path: Path, port: int) -> None:
    path = write(tmp_path, port, system=RECOVERY)
    path.write_text(path.read_text().replace(f'    start: [python, server.py, "{port}"]\n', ""))
    with pytest.raises(SpecError, match="recovery needs a server that the spec starts"):
        load(path)


@pytest.mark.proof
def test_secrets_do_not_stand_in_the_run(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVED_TOKEN", "hush-5f1c")
    path = write(tmp_path, port)
    path.write_text(path.read_text().replace("    inputs:", "    headers: {X-Token: {env: SERVED_TOKEN}}\n    inputs:"))
    spec = load(path, options=LoadOptions(trust=True))
    access = spec.access(trust=True, env=frozenset({"SERVED_TOKEN"}))
    _, folder = run(plan(spec, only=("quality",)), Options(access=access, output=tmp_path / "run"), Steps())
    record = json.loads((folder / "record.json").read_text())
    assert checks(record)["quality"]["status"] == "measured"
    for root, _, names in os.walk(folder):
        for name in names:
            assert b"hush-5f1c" not in (Path(root) / name).read_bytes(), name
