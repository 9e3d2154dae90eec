"""A real bucket that the nodes of real clusters read: SeaweedFS, with Ray and Dask. `make engines`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.running.engines import clusters
from tests.running.engines.test_real import ENGINES, checks, engine, leaves_of, parts_in, wait_for_leaves
from tests.sources.objects.fault_proxy import Faults, before
from tests.sources.objects.servers import KEY, SECRET, Server

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(1200)]

SMALL_ROWS, LARGE_ROWS, DAYS = 1_200_000, 5_200_000, 4
"""Two leaves and five; the digest of more than five million rows goes by leaves too."""
ANSWERED_ROWS = 200_000
OWN = {"PLACES_KEY": KEY, "PLACES_SECRET": SECRET}
ALLOWED = ("--allow-host", "s3://data", "--env", "PLACES_KEY", "--env", "PLACES_SECRET")
CHECKS = """
data:
  - {check: shift, reference: test, current: traffic, columns: [x, k, site], require: [drifted_columns <= 40 %]}
  - {check: coverage, dataset: traffic, by: [site], conditions: [{name: dark, where: x < 0}], report_only: true}
"""
ANSWERS = """
models:
  candidate: {kind: python, function: "behaviour:plain", batch: 1000, inputs: {x: x}, classes: [a, b]}
model:
  - {check: quality, dataset: asked, require: [accuracy >= 50 %]}
"""
CODE = """
import numpy as np

def plain(inputs):
    p = 1 / (1 + np.exp(-inputs["x"]))
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""


def rows(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {"x": random.normal(size=count), "k": random.integers(0, 50, count).astype(np.int32)}
    return pa.table(columns | {"site": pa.array(random.choice(["a", "b", "c"], count)).dictionary_encode()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of some days, and rows that a model answers."""
    folder = tmp_path_factory.mktemp("rows")
    for name, count in (("test", SMALL_ROWS), ("traffic", LARGE_ROWS), ("newer", SMALL_ROWS)):
        for day in range(DAYS):
            file = folder / name / f"dt=2026-11-0{day + 1}" / "part-0.parquet"
            file.parent.mkdir(parents=True)
            pq.write_table(rows(count // DAYS, len(name) + 10 * day), file, row_group_size=97_003)
    asked = rows(ANSWERED_ROWS, 3).select(["x"])
    (folder / "asked").mkdir()
    asked = asked.append_column("y", pa.array(np.where(asked["x"].to_numpy() > 0, "b", "a")))
    pq.write_table(asked, folder / "asked" / "a.parquet", row_group_size=30_001)
    return folder


@pytest.fixture(scope="module")
def bucket(weed: Server, folder: Path) -> Server:
    weed.put(folder)
    return weed


def spec(where: Path, endpoint: str, datasets: Mapping[str, str], more: str) -> Path:
    """A spec in a folder of its own.

    Args:
        where: It.
        endpoint: Of the bucket; empty: the rows are in the same folder.
        datasets: Name: folder of its rows.
        more: Models and checks.
    """
    where.mkdir(parents=True, exist_ok=True)
    keys = "credentials: {access_key_id: {env: PLACES_KEY}, secret_access_key: {env: PLACES_SECRET}}"
    stored = f", endpoint: '{endpoint}', {keys}" if endpoint else ""
    named = "".join(
        f"  {name}: {{kind: parquet, path: '{'s3://data/' if endpoint else ''}{path}/'{stored}"
        f"{', label: y' if name == 'asked' else ', partitions: hive'}}}\n"
        for name, path in datasets.items()
    )
    path = where / "evalspec.yaml"
    path.write_text(f"evalspec: 1\nname: places\nseed: 3\ndatasets:\n{named}{more}")
    (where / "behaviour.py").write_text(CODE)
    return path


def begin(path: Path, *options: str, command: str = "run") -> subprocess.Popen[str]:
    line = [str(clusters.home() / "bin" / "python"), "-m", "evalspec", command, str(path), *ALLOWED, *options]
    if command == "run":
        line += ["--output", str(path.parent / "out")]
    return subprocess.Popen(
        line, cwd=path.parent, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, **OWN, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def run(path: Path, *options: str, command: str = "run") -> tuple[int, str]:
    with begin(path, *options, command=command) as one:
        told, said = one.communicate(timeout=900)
    return one.returncode, told + said


def same(output: Path) -> str:
    """What the record says of all checks and datasets that does not hang on where the rows lie."""
    checked, datasets = json.loads(checks(output))
    return json.dumps([checked, [{**one, "objects": [], "path": None} for one in datasets]])


LARGE, SMALL = {"test": "test", "traffic": "traffic"}, {"test": "test", "traffic": "newer"}


@pytest.fixture(scope="module")
def alone(folder: Path) -> str:
    """The record of the rows in a folder."""
    path = spec(folder, "", LARGE, CHECKS)
    code, said = run(path)
    assert code in (0, 1, 3), said
    return same(folder / "out")


def holds_no_secret(output: Path) -> bool:
    files = [file.read_bytes() for file in output.rglob("*") if file.is_file()]
    return not any(value.encode() in content for content in files for value in OWN.values())


@pytest.mark.parametrize("name", ["local", "local:2"])
def test_this_machine_gives_the_record_of_the_folder(bucket: Server, alone: str, tmp_path: Path, name: str) -> None:
    code, said = run(spec(tmp_path, bucket.endpoint, LARGE, CHECKS), "--engine", name)
    assert code in (0, 1, 3) and same(tmp_path / "out") == alone, said


@pytest.mark.parametrize("name", list(ENGINES))
@pytest.mark.parametrize("kill", [False, True])
def test_nodes_give_the_record_of_the_folder(bucket: Server, alone: str, tmp_path: Path, name: str, kill: bool) -> None:
    """Also where a node is killed while it reads."""
    path = spec(tmp_path, bucket.endpoint, LARGE, CHECKS)
    with ENGINES[name](OWN, OWN) as cluster, begin(path, "--engine", f"{name}:{cluster.address}") as one:
        if kill:
            wait_for_leaves(one, tmp_path / "out", 1)
            cluster.kill(len(cluster.nodes) - 1)
        _, said = one.communicate(timeout=900)
    assert one.returncode in (0, 1, 3) and same(tmp_path / "out") == alone, said
    facts = engine(tmp_path / "out")
    # The digest of the large one, and a pass over each, in which `coverage` sees the rows that `shift` does.
    assert facts["leaves"] == 5 + 2 + 5 and facts["again"] <= 2 * kill, facts
    assert [len(one["objects"]) for one in json.loads((tmp_path / "out" / "record.json").read_text())["datasets"]] == [
        DAYS, DAYS
    ]  # fmt: skip
    assert holds_no_secret(tmp_path / "out")


@pytest.mark.parametrize("name", list(ENGINES))
def test_an_object_that_is_replaced_while_nodes_read(bucket: Server, tmp_path: Path, name: str) -> None:
    key = "newer/dt=2026-11-03/part-0.parquet"
    old, new = tmp_path / "old", tmp_path / "new"
    for where, seed in ((old, 25), (new, 99)):
        (where / key).parent.mkdir(parents=True)
        pq.write_table(rows(SMALL_ROWS // DAYS, seed), where / key, row_group_size=97_003)
    bucket.put(old)
    output, faults, replaced = tmp_path / "out", Faults(), list[str]()

    def replace(method: str, path: str) -> None:
        # Nodes have begun.
        if not replaced and path.replace("%3D", "=").endswith(key) and leaves_of(output):
            replaced.append(path)
            bucket.put(new)

    faults.before = replace
    with before(bucket.port, faults) as endpoint, ENGINES[name](OWN, OWN) as cluster:
        code, said = run(spec(tmp_path, endpoint, SMALL, CHECKS), "--engine", f"{name}:{cluster.address}")
    assert replaced and code in (3, 4), said
    found = [(one["status"], one["reason"]) for one in json.loads((output / "record.json").read_text())["checks"]]
    sentence = f"'s3://data/{key}' was replaced after it had been listed, so no number is given of its rows"
    assert {one[0] for one in found} == {"invalid"} and all(sentence in one[1] for one in found), found
    assert "Traceback" not in said


UNSET = "the variable PLACES_SECRET, `credentials.secret_access_key`, is not set; set it where evalspec is started"


@pytest.mark.parametrize("name", list(ENGINES))
def test_doctor_names_the_node_without_the_credential(bucket: Server, tmp_path: Path, name: str) -> None:
    path = spec(tmp_path, bucket.endpoint, SMALL, CHECKS)
    with ENGINES[name](OWN, {"PLACES_KEY": KEY}) as cluster:
        code, said = run(path, "--engine", f"{name}:{cluster.address}", command="doctor")
    assert code == 4, said
    unread = [line for line in said.splitlines() if line.startswith("broken")]
    assert len(unread) == 2 and all(UNSET in line for line in unread), said
    assert said.count("its objects can be read there") == 2, said


@pytest.mark.parametrize("name", list(ENGINES))
@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"PLACES_KEY": KEY}, UNSET),
        ({"PLACES_KEY": KEY, "PLACES_SECRET": "another-secret-of-nodes"}, "refuses the credentials that were sent"),
    ],
)
def test_a_node_without_the_credential_is_named(
    bucket: Server, tmp_path: Path, name: str, own: Mapping[str, str], sentence: str
) -> None:
    """Its processes were started without it, though on the machine of the run it is set."""
    path = spec(tmp_path, bucket.endpoint, SMALL, CHECKS)
    with ENGINES[name](own, own) as cluster:
        code, said = run(path, "--engine", f"{name}:{cluster.address}")
    assert code == 4, said
    found = [one["reason"] for one in json.loads((tmp_path / "out" / "record.json").read_text())["checks"]]
    assert len(found) == 2 and all(one.startswith("node ") and sentence in one for one in found), found
    assert all("\n" not in one and len(one) < 300 for one in found), found
    assert "another-secret-of-nodes" not in said + json.dumps(found) and "Traceback" not in said


@pytest.fixture(scope="module")
def answers(folder: Path) -> tuple[str, dict[str, bytes]]:
    """What one process says of the rows in a folder, and its files."""
    where = folder / "answers"
    path = spec(where, "", {"asked": "rows"}, ANSWERS)
    (where / "rows").mkdir()
    os.link(folder / "asked" / "a.parquet", where / "rows" / "a.parquet")
    code, said = run(path, "--trust")
    assert code in (0, 1, 3), said
    files = parts_in(where / "out")
    assert len(files) == 1 + 4
    return same(where / "out"), files


@pytest.mark.parametrize("name", list(ENGINES))
def test_nodes_give_the_answers_of_the_folder(
    bucket: Server, answers: tuple[str, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    path = spec(tmp_path, bucket.endpoint, {"asked": "asked"}, ANSWERS)
    with ENGINES[name](OWN, OWN) as cluster:
        code, said = run(path, "--trust", "--engine", f"{name}:{cluster.address}")
    assert code in (0, 1, 3), said
    assert (same(tmp_path / "out"), parts_in(tmp_path / "out")) == answers
    facts = engine(tmp_path / "out")
    assert (facts["parts"], facts["again"], facts["lost"]) == (4, 0, ""), facts
    assert holds_no_secret(tmp_path / "out")
