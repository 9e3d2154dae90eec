"""Against servers that people use, each in an environment of its own, which is made once a checkout.

They are skipped, with the reason, where no package index can be reached.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.language.inputs import Schedule
from evalspec.language.parts import Access
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from evalspec.runtimes._http_rows import RemoteRows
from evalspec.runtimes._http_server import ServerProcess
from evalspec.runtimes._inputs import DatasetFacts
from evalspec.runtimes._serve import Served
from evalspec.runtimes.http import Http
from tests.runtimes.test_http_faults import counts

pytestmark = [pytest.mark.slow, pytest.mark.served, pytest.mark.timeout(900)]

ENVIRONMENTS = Path(__file__).resolve().parents[2] / ".venv-servers"
INSTALL_S = 600
CLASSES = ("setosa", "versicolor", "virginica")


def environment(name: str, *packages: str) -> Path:
    """The folder of a virtual environment with these packages; made once, and used by later runs of the tests."""
    folder = ENVIRONMENTS / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        # Several processes may run the tests.
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = "\n".join(packages)
        done = folder / "installed.txt"
        if not done.exists() or done.read_text() != wanted:
            venv.create(folder, clear=True, with_pip=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries", "1", *packages]
            try:
                ended = subprocess.run(pip, capture_output=True, text=True, timeout=INSTALL_S, check=False)
            except subprocess.TimeoutExpired:
                pytest.skip(f"{name} was not installed within {INSTALL_S} s")
            if ended.returncode:
                pytest.skip(f"{name} can't be installed here: {ended.stderr.strip().splitlines()[-1][:200]}")
            done.write_text(wanted)
    return folder


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in listeners]


@contextlib.contextmanager
def running(fields: dict[str, Any], folder: Path) -> Iterator[tuple[Served, ServerProcess]]:
    """The server of a spec's model, started as a run starts it."""
    model = Http.model_validate({"kind": "http", "inputs": {"x": "x"}, "ready_within": "120 s"} | fields)
    access = Access(folder, trust=True)
    server = ServerProcess(model, access, folder / "server.log")
    try:
        server.wait_ready({})
        one = Served(model, model.load(access), access, DatasetFacts("iris"))
        yield one, server
        one.loaded.close()
    finally:
        server.stop()


def iris() -> tuple[pa.Table, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    return pa.table({"x": pa.array(list(x)), "species": [CLASSES[one] for one in y]}), x, y


def open_loop(one: Served, table: pa.Table, folder: Path) -> Any:
    rows = one.rows(table)
    assert isinstance(rows, RemoteRows)
    times = np.cumsum(np.random.default_rng(1).exponential(1e9 / 50, 100)).astype(np.int64)
    schedule = Schedule("open_loop", 100, arrivals_ns=times, warmup_s=0.0, warmup_queries=5, connections=8)
    session = Session(rows, schedule, folder / "samples")
    session.warm_up()
    session.block(0, 100, 0.0)
    return read_samples(folder / "samples", model="m", process=0, details=session.finish())


def test_mlserver_with_a_scikit_learn_model(tmp_path: Path) -> None:
    home = environment("mlserver", "mlserver==1.7.1", "mlserver-sklearn==1.7.1")
    http, grpc, metrics = free_ports(3)
    (tmp_path / "settings.json").write_text(
        json.dumps(
            {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics, "parallel_workers": 0}
        )
    )
    (tmp_path / "model-settings.json").write_text(
        json.dumps(
            {
                "name": "iris",
                "implementation": "mlserver_sklearn.SKLearnModel",
                "parameters": {"uri": "./iris.joblib", "version": "v1"},
            }
        )
    )
    # Its own scikit-learn writes the file that it will read.
    train = (
        "import joblib; from sklearn.datasets import load_iris; from sklearn.linear_model import LogisticRegression;"
        "x, y = load_iris(return_X_y=True); joblib.dump(LogisticRegression(max_iter=1000).fit(x, y), 'iris.joblib')"
    )
    subprocess.run([home / "bin" / "python", "-c", train], cwd=tmp_path, check=True)
    fields = {
        "url": f"http://127.0.0.1:{http}", "model_name": "iris", "version": "v1", "classes": CLASSES,
        "outputs": {"probabilities": "predict_proba"}, "start": [str(home / "bin" / "mlserver"), "start", "."],
    }  # fmt: skip
    table, x, y = iris()
    with running(fields, tmp_path) as (one, _):
        assert str(one.loaded.observed["framework"]).startswith("served by mlserver")
        answers = one.predict_all(table)
        samples = open_loop(one, table, tmp_path)
    assert answers.probabilities is not None and answers.probabilities.shape == (150, 3)
    assert answers.predicted is not None
    assert float((answers.predicted == y).mean()) > 0.95
    from sklearn.linear_model import LogisticRegression

    ours = LogisticRegression(max_iter=1000).fit(x, y).predict_proba(x)
    np.testing.assert_allclose(answers.probabilities, ours, atol=0.02)
    assert counts(samples) == {"answered": 100}
    np.testing.assert_array_equal(samples.answers[:, 0], answers.predicted[samples.items])


LITSERVE = """
import sys
import litserve as ls


class Api(ls.LitAPI):
    def setup(self, device):
        self.threshold = 2.5

    def decode_request(self, request):
        return request["flower"]

    def predict(self, flower):
        return "setosa" if flower[2] < self.threshold else "other"

    def encode_response(self, output):
        return {"species": {"name": output}}


if __name__ == "__main__":
    ls.LitServer(Api(), accelerator="cpu").run(port=int(sys.argv[1]), host="127.0.0.1", generate_client_file=False)
"""


def test_litserve_with_plain_json(tmp_path: Path) -> None:
    home = environment("litserve", "litserve==0.2.19")
    (port,) = free_ports(1)
    (tmp_path / "api.py").write_text(LITSERVE)
    fields = {
        "url": f"http://127.0.0.1:{port}/predict", "protocol": "json", "health": "/health", "per_row": True,
        "request": {"flower": "{x}"}, "response": {"label": "species.name"}, "classes": ("setosa", "other"),
        "start": [str(home / "bin" / "python"), "api.py", str(port)],
    }  # fmt: skip
    table, x, _ = iris()
    with running(fields, tmp_path) as (one, server):
        answers = one.predict_all(table)
        samples = open_loop(one, table, tmp_path)
        assert server.ended is None
    np.testing.assert_array_equal(answers.predicted, (x[:, 2] >= 2.5).astype(int))
    assert counts(samples) == {"answered": 100}
    np.testing.assert_array_equal(samples.answers[:, 0], answers.predicted[samples.items])
