"""Against Ray and Dask as people run them: two nodes on loopback, killed at any moment. `make engines`."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.running.engines import clusters
from tests.running.engines.clusters import Group

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(1200)]

TEST_ROWS, TRAFFIC_ROWS = 2_300_000, 6_000_000
"""Three leaves and six; the digest of more than five million rows goes by leaves too."""
LEAVES = 6 + 3 + 6
"""The digest, and a pass over each dataset, in which `coverage` sees the rows that `shift` does."""
SPEC = """
evalspec: 1
name: scans
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
  traffic: {kind: parquet, path: traffic}
data:
  - {check: shift, reference: test, current: traffic, require: [drifted_columns <= 10 %]}
  - {check: coverage, dataset: traffic, by: [site, y], conditions: [{name: dark, where: x0 < 0}], report_only: true}
"""
Cluster = Callable[..., AbstractContextManager[Group]]
ENGINES: dict[str, Cluster] = {"ray": clusters.ray, "dask": clusters.dask}


def table(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"x{i}": pa.array(rng.normal(0, 1, n), mask=rng.random(n) < 0.01) for i in range(4)}
    return pa.table(columns | {
        "site": pa.array(rng.choice(["a", "b", "c"], n)).dictionary_encode(), "y": rng.choice(["yes", "no"], n),
        "note": pa.array([f"note {i}" for i in range(997)]).take(pa.array(np.arange(n) % 997)),
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    (folder / "traffic").mkdir()
    pq.write_table(table(TEST_ROWS, 1), folder / "test.parquet", row_group_size=97_003)
    traffic = table(TRAFFIC_ROWS, 2)
    for name, start, stop in (("a", 0, 2_500_001), ("b", 2_500_001, TRAFFIC_ROWS)):
        pq.write_table(
            traffic.slice(start, stop - start), folder / "traffic" / f"{name}.parquet", row_group_size=250_000
        )
    (folder / "evalspec.yaml").write_text(SPEC)
    return folder


def begin(folder: Path, output: Path, *options: str) -> subprocess.Popen[str]:
    command = [
        clusters.home() / "bin" / "python",
        "-m",
        "evalspec",
        "run",
        "evalspec.yaml",
        "--output",
        output,
        *options,
    ]
    return subprocess.Popen(
        [str(one) for one in command], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def run(folder: Path, output: Path, *options: str) -> tuple[int, str]:
    with begin(folder, output, *options) as one:
        _, said = one.communicate(timeout=600)
    return one.returncode, said


def checks(output: Path) -> str:
    """What the record says of all checks and datasets, but for the time that they took."""
    record = json.loads((output / "record.json").read_text())
    for one in record["checks"]:
        del one["duration_s"]
    return json.dumps([record["checks"], record["datasets"]])


def engine(output: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((output / "record.json").read_text())["environment"]["engine"]
    return told


@pytest.fixture(scope="module")
def alone(folder: Path) -> str:
    code, said = run(folder, folder / "alone")
    assert code in (0, 1, 3), said
    return checks(folder / "alone")


def test_processes_give_the_same_record(folder: Path, alone: str, tmp_path: Path) -> None:
    code, said = run(folder, tmp_path / "run", "--engine", "local:2")
    assert code in (0, 1, 3) and checks(tmp_path / "run") == alone, said
    assert engine(tmp_path / "run")["leaves"] == LEAVES
    assert not (tmp_path / "run" / "leaves").exists()


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_cluster_gives_the_same_record(folder: Path, alone: str, tmp_path: Path, name: str) -> None:
    with ENGINES[name]() as cluster:
        address = f"{name}:{cluster.address}"
        code, said = run(folder, tmp_path / "run", "--engine", address)
        assert code in (0, 1, 3) and checks(tmp_path / "run") == alone, said
        facts = engine(tmp_path / "run")
        assert (facts["name"], facts["nodes"], facts["cpus"], facts["again"], facts["lost"]) == (name, 2, 2, 0, "")
        assert f"engine {name} {facts['version']}: 2 nodes, 2 CPUs of one kind" in said
        command = [str(clusters.home() / "bin" / "evalspec"), "doctor", "evalspec.yaml", "--engine", address]
        told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
        assert told.count("its files are the same there") == 4 and told.count("1 CPU (") == 2, told


def leaves_of(output: Path) -> int:
    """Bytes of the leaves that a run has kept until now."""
    return sum(file.stat().st_size for file in (output / "leaves").glob("*.states")) if output.exists() else 0


def wait_for_leaves(one: subprocess.Popen[str], output: Path, at_least: int) -> None:
    ends = time.monotonic() + 120
    while leaves_of(output) < at_least and one.poll() is None and time.monotonic() < ends:
        time.sleep(0.05)


@pytest.mark.parametrize("name", list(ENGINES))
@pytest.mark.parametrize("seed", range(int(os.environ.get("EVALSPEC_KILLS", "3"))))
def test_a_node_that_is_killed_changes_nothing(folder: Path, alone: str, tmp_path: Path, name: str, seed: int) -> None:
    chance = random.Random(seed)
    with ENGINES[name]() as cluster, begin(folder, tmp_path / "run", "--engine", f"{name}:{cluster.address}") as one:
        wait_for_leaves(one, tmp_path / "run", chance.randrange(1, 2**24))
        time.sleep(chance.uniform(0, 1))
        cluster.kill(len(cluster.nodes) - 1)
        _, said = one.communicate(timeout=600)
    assert one.returncode in (0, 1, 3) and checks(tmp_path / "run") == alone, said
    facts = engine(tmp_path / "run")
    # One leaf is lost for each processor of the node, and again where the same leaf was on its way in another pass.
    assert facts["again"] <= 2 and facts["leaves"] == LEAVES, facts
    assert not list((tmp_path / "run").rglob("*.partial")) and not (tmp_path / "run" / "leaves").exists()


@contextlib.contextmanager
def killed_control(name: str, folder: Path, output: Path) -> Iterator[tuple[int, str, float]]:
    with ENGINES[name]() as cluster, begin(folder, output, "--engine", f"{name}:{cluster.address}") as one:
        wait_for_leaves(one, output, 2**20)
        begun = time.monotonic()
        if name == "ray":
            cluster.kill_control()
        else:
            cluster.kill(0)
        _, said = one.communicate(timeout=600)
        yield one.returncode, said, time.monotonic() - begun


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_control_process_that_is_killed_ends_the_run(folder: Path, alone: str, tmp_path: Path, name: str) -> None:
    output = tmp_path / "run"
    with killed_control(name, folder, output) as (code, said, took):
        assert code == 4 and took < 90, said
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and f"{name} at 127.0.0.1:" in errors[0] and "pass --resume to go on" in errors[0], said
    assert "Traceback" not in said
    kept = leaves_of(output)
    assert kept
    with ENGINES[name]() as cluster:
        code, said = run(folder, output, "--engine", f"{name}:{cluster.address}", "--resume")
    assert code in (0, 1, 3) and checks(output) == alone, said
    facts = engine(output)
    assert facts["leaves_kept"] > 0, facts


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_node_with_other_versions_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    metadata = tmp_path / "other" / "pyarrow-14.0.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pyarrow\nVersion: 14.0.0\n")
    with ENGINES[name]({}, {"PYTHONPATH": str(tmp_path / "other")}) as cluster:
        code, said = run(folder, tmp_path / "run", "--engine", f"{name}:{cluster.address}")
        assert code == 4 and not (tmp_path / "run").exists(), said
        (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
        assert "node " in error and "has pyarrow 14.0.0 (here: " in error


@pytest.mark.parametrize("name", list(ENGINES))
def test_nobody_there(folder: Path, tmp_path: Path, name: str) -> None:
    (port,) = clusters.free_ports(1)
    begun = time.monotonic()
    code, said = run(folder, tmp_path / "run", "--engine", f"{name}:127.0.0.1:{port}")
    assert code == 4 and f"error: {name} at 127.0.0.1:{port} can't be reached" in said and time.monotonic() - begun < 60
    assert "Traceback" not in said and not (tmp_path / "run").exists()


ANSWERS = """
evalspec: 1
name: answers
models:
  candidate: {kind: python, function: "behaviour:slow", batch: 1000, inputs: {x: x0}, classes: ["no", "yes"]}
datasets:
  test: {kind: parquet, path: answers.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [accuracy >= 40 %]}
  - {check: slices, dataset: test, by: [site], report_only: true}
  - {check: calibration, dataset: test, report_only: true}
"""
SLOW = """
import time
import numpy as np

def slow(inputs):
    time.sleep(0.01)
    p = 1 / (1 + np.exp(-np.nan_to_num(inputs["x"])))
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""


@pytest.fixture(scope="module")
def asked(folder: Path) -> tuple[Path, str, dict[str, bytes]]:
    """Answers in eight parts: folder of the spec, what one process's record says, and its files."""
    own = folder / "answers"
    own.mkdir()
    pq.write_table(table(500_000, 3).select(["x0", "site", "y"]), own / "answers.parquet", row_group_size=70_001)
    (own / "behaviour.py").write_text(SLOW)
    (own / "evalspec.yaml").write_text(ANSWERS)
    code, said = run(own, own / "alone", "--trust")
    assert code in (0, 1, 3), said
    return own, checks(own / "alone"), parts_in(own / "alone")


def parts_in(output: Path) -> dict[str, bytes]:
    """The list of the answers, and all parts."""
    return {path.name: path.read_bytes() for path in (output / "evidence").rglob("*.parquet")}


def wait_for_parts(one: subprocess.Popen[str], output: Path, at_least: int) -> None:
    ends = time.monotonic() + 120
    while len(list(output.rglob("part-*.parquet"))) < at_least and one.poll() is None and time.monotonic() < ends:
        time.sleep(0.02)


@pytest.mark.parametrize("name", list(ENGINES))
@pytest.mark.parametrize("kill", [False, True])
def test_nodes_give_the_answers_of_one_process(
    asked: tuple[Path, str, dict[str, bytes]], tmp_path: Path, name: str, kill: bool
) -> None:
    """Also where a node is killed that holds the model: the others answer what it had begun."""
    own, alone, files = asked
    assert len(files) == 9
    output = tmp_path / "run"
    with ENGINES[name]() as cluster, begin(own, output, "--trust", "--engine", f"{name}:{cluster.address}") as one:
        if kill:
            wait_for_parts(one, output, 2)
            cluster.kill(len(cluster.nodes) - 1)
        _, said = one.communicate(timeout=600)
    assert one.returncode in (0, 1, 3) and checks(output) == alone, said
    assert parts_in(output) == files and not list(output.rglob("*.partial"))
    facts = engine(output)
    # Ray may say that a node is gone only after its last part was answered elsewhere.
    assert facts["parts"] == 8 and facts["again"] <= 2 * kill and (kill or not facts["lost"]), facts


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_cluster_that_is_gone_leaves_the_parts(
    asked: tuple[Path, str, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    own, alone, files = asked
    output = tmp_path / "run"
    with ENGINES[name]() as cluster, begin(own, output, "--trust", "--engine", f"{name}:{cluster.address}") as one:
        wait_for_parts(one, output, 2)
        for place in reversed(range(len(cluster.nodes))):
            cluster.kill(place)
        _, said = one.communicate(timeout=600)
    assert one.returncode == 4 and "of 8 parts of the answers of candidate on test are kept" in said, said
    code, said = run(own, output, "--trust", "--engine", "local:2", "--resume")
    assert code in (0, 1, 3) and checks(output) == alone and parts_in(output) == files, said
    facts = engine(output)
    assert facts["parts_kept"] >= 2 and facts["parts"] + facts["parts_kept"] >= 8, facts
