"""`suites/served-digits`: a real server, started by the spec, judged over HTTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.commands import evalspec, overriding
from tests.selftest.holding import holds
from tests.suites.test_suites import SUITES, read, statuses

FOLDER = SUITES / "served-digits"
TIMED = ("latency/", "load/", "recovery/")
ENOUGH = ("load.queries=1500", "latency.processes=5")
"""Queries that can show what is required of them, of 3,000 that the suite makes, and no processes beside the first."""


def test_its_files_are_those_of_digits() -> None:
    for name in ("fp32.onnx", "test.parquet", "classes.txt"):
        assert (FOLDER / name).read_bytes() == (SUITES / "digits" / name).read_bytes(), name


def test_the_spec_is_right_and_nobody_is_asked(tmp_path: Path) -> None:
    ended = evalspec("validate", "--json", str(FOLDER / "evalspec.yaml"), folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("binary", [False, True])
def test_the_server_speaks_both_ways(binary: bool, tmp_path: Path) -> None:
    import numpy as np
    import pyarrow.parquet as pq

    from evalspec.language.parts import Access
    from evalspec.pipeline.inputs import DatasetFacts
    from evalspec.pipeline.serve import Served
    from evalspec.runtimes.http import Http
    from evalspec.runtimes.http_client.process import ServerProcess
    from evalspec.runtimes.onnx import Onnx
    from tests.runtimes.test_real_servers import free_ports

    (port,) = free_ports(1)
    shared = {
        "preprocess": [{"cast": "float32"}, {"scale": 0.0625}], "inputs": {"image": "pixels"},
        "outputs": {"logits": "y"}, "classes": "classes.txt",
    }  # fmt: skip
    model = Http.model_validate(
        shared | {"url": f"http://127.0.0.1:{port}", "model_name": "digits", "binary": binary,
                  "start": [sys.executable, "serve.py", "fp32.onnx", str(port)]}
    )  # fmt: skip
    access = Access(FOLDER, trust=True)
    table = pq.read_table(FOLDER / "test.parquet").slice(0, 100)
    server = ServerProcess(model, access, tmp_path / "log")
    try:
        server.wait_ready({})
        one = model.load(access)
        answers = Served(model, one, access, DatasetFacts("test", label="digit", key="id")).predict_all(table)
        one.close()
    finally:
        server.stop()
    here = Onnx.model_validate(shared | {"path": "fp32.onnx"})
    own = Served(here, here.load(access), access, DatasetFacts("test", label="digit", key="id")).predict_all(table)
    np.testing.assert_allclose(answers.probabilities, own.probabilities, atol=1e-6)


@pytest.mark.proof
@pytest.mark.slow
def test_it_is_ready(tmp_path: Path) -> None:
    """The accuracy over HTTP is that of the network in process: 0.986 (suites/digits/README.md)."""
    ended = evalspec(
        "run", "--trust", FOLDER / "evalspec.yaml", "--output", tmp_path / "run",
        *overriding(ENOUGH), folder=tmp_path,
    )  # fmt: skip
    record = read(tmp_path / "run")
    found = statuses(record, blocking=True)
    assert found["quality/accuracy"] == "PASS"
    timed = {name: status for name, status in found.items() if name.startswith(TIMED)}
    assert len(timed) == 7
    # Other tests run beside this one and may void timings or make them too unsteady to decide; they are never wrong.
    assert set(timed.values()) <= {"PASS", "INCONCLUSIVE", "INVALID"}, ended.stdout
    if set(timed.values()) == {"PASS"}:
        assert record["verdict"]["word"] == "READY", ended.stdout
        assert ended.returncode == 0
    assert "Traceback" not in ended.stderr
    (test,) = next(one for one in record["checks"] if one["id"] == "quality")["tests"]
    assert test["value"] == pytest.approx(0.986, abs=0.001), ended.stdout
    (model,) = record["models"]
    assert model["details"]["framework"] == "served by serve.py 1"
    assert model["digest_stated"] is True
    assert "was declared, not verified" in json.dumps(record["verdict"])
    holds("served-digits/evalspec.yaml", tmp_path / "run", *ENOUGH)
