"""Against servers that people use, each in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.system.stages.server_time import apart, typical
from evalspec.language.inputs import Schedule
from evalspec.measure.probes import stages
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http_client.rows import RemoteRows
from tests.measure.probes.contexts import context
from tests.runtimes.environments import environment, free_ports, running
from tests.runtimes.http_client.test_faults import counts

pytestmark = [pytest.mark.slow, pytest.mark.served, pytest.mark.timeout(900)]

CLASSES = ("setosa", "versicolor", "virginica")


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
import time
import litserve as ls
from starlette.middleware.base import BaseHTTPMiddleware


class Timing(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        began = time.perf_counter()
        response = await call_next(request)
        spent = 1e3 * (time.perf_counter() - began)
        response.headers["Server-Timing"] = f'app;desc="behind it all";dur={spent:.3f}'
        return response


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
    server = ls.LitServer(Api(), accelerator="cpu", middlewares=[Timing])
    server.run(port=int(sys.argv[1]), host="127.0.0.1", generate_client_file=False)
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
        options = {"queries": 40, "batch": 1, "warmup": 3, "warmup_s": 0.0}
        made = context(one.model, tmp_path, x, options)
        found = stages.probe(made).as_probe("stages", "m", 0)
        made.rows.loaded.close()  # type: ignore[attr-defined]  # it is a RemoteRows
        assert server.ended is None
    np.testing.assert_array_equal(answers.predicted, (x[:, 2] >= 2.5).astype(int))
    told = apart([found], found.texts["stages"])
    assert found.texts["stages"] == ("serialize", "server", "parse") and told.names == ("app", "transfer"), told
    assert all(typical(told.series_ns[0][name]) > 0 for name in told.names)
    assert counts(samples) == {"answered": 100}
    np.testing.assert_array_equal(samples.answers[:, 0], answers.predicted[samples.items])
