"""A run in MLflow."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.errors import RecordError
from evalspec.evidence.record import Record
from evalspec.records.mlflow_log import MlflowEntry, mlflow_entry, mlflow_key
from tests.records.test_compare import made, quality
from tests.report import records


def whole() -> Record:
    return records.every_status().model_copy(update={"draft": False})


def test_values_and_bounds_are_in_the_unit_of_the_requirement() -> None:
    entry = mlflow_entry(made(quality(960)))
    assert entry.metrics["quality/accuracy"] == 96.0
    assert entry.metrics["quality/accuracy.lower"] < 96.0 < entry.metrics["quality/accuracy.upper"]
    assert entry.tags["evalspec.verdict"] == "READY" and entry.tags["status.quality/accuracy"] == "PASS"
    assert entry.tags["unit.quality/accuracy"] == "%" and entry.params["model.candidate"] == "onnx"
    assert entry.finished_ms is not None and entry.started_ms is not None


def test_what_cannot_be_judged_has_a_status_and_no_value() -> None:
    entry = mlflow_entry(whole())
    assert entry.tags["status.latency/latency_p95"] == "INVALID"
    assert not any(name.startswith("latency/latency_p95") for name in entry.metrics)


def test_names_hold_only_what_mlflow_allows() -> None:
    entry = mlflow_entry(whole())
    for name in (*entry.metrics, *entry.params, *entry.tags):
        assert re.fullmatch(r"[/\w\-. :]+", name, flags=re.ASCII), name
    assert mlflow_key("slices/accuracy(dark)") == "slices/accuracy_dark" and mlflow_key("(é)") == "unnamed"
    assert all(len(text) <= 500 for text in (*entry.params.values(), *entry.tags.values()))


def test_a_draft_is_refused() -> None:
    with pytest.raises(RecordError, match="a draft decides nothing"):
        mlflow_entry(records.ready().model_copy(update={"draft": True}))


class Client:
    """As much of MLflow's client as is used."""

    calls: ClassVar[list[tuple[str, Any]]] = []

    def __init__(self, tracking_uri: str, registry_uri: str) -> None:
        self.calls.append(("uri", tracking_uri))
        assert tracking_uri == registry_uri

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str) -> str:
        self.calls.append(("experiment", name))
        return "1"

    def create_run(self, experiment: str, start_time: int, run_name: str) -> Any:
        self.calls.append(("run", run_name))
        return type("Run", (), {"info": type("Info", (), {"run_id": "abc"})})

    def log_batch(self, run: str, metrics: list[Any], params: list[Any], tags: list[Any]) -> None:
        assert max(len(metrics), len(params), len(tags)) <= 100
        self.calls.append(("batch", dict(one[:2] for one in metrics)))

    def log_artifact(self, run: str, path: str) -> None:
        self.calls.append(("artifact", Path(path).name))

    def set_terminated(self, run: str, end_time: int) -> None:
        self.calls.append(("end", run))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    parts: dict[str, dict[str, Any]] = {
        "mlflow": {"MlflowClient": Client},
        "mlflow.exceptions": {"MlflowException": type("MlflowException", (Exception,), {})},
        "mlflow.entities": {name: (lambda *values: values) for name in ("Metric", "Param", "RunTag")},
        "sqlalchemy": {},
        "sqlalchemy.exc": {"SQLAlchemyError": type("SQLAlchemyError", (Exception,), {})},
    }
    for name, values in parts.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Client, "calls", [])
    return Client


def test_the_command(client: type[Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "record.json").write_text(made(quality(960)).model_dump_json())
    done = CliRunner().invoke(app, ["log", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "run abc of experiment example in sqlite:///mlflow.db" in done.output
    assert client.calls[:3] == [("uri", "sqlite:///mlflow.db"), ("experiment", "example"), ("run", tmp_path.name)]
    assert client.calls[-2:] == [("artifact", "record.json"), ("end", "abc")]
    assert ("batch", mlflow_entry(made(quality(960))).metrics) in client.calls


def test_without_mlflow_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    (tmp_path / "record.json").write_text(made(quality(960)).model_dump_json())
    done = CliRunner().invoke(app, ["log", str(tmp_path)])
    assert done.exit_code == 2 and "pip install 'evalspec-gate[mlflow]'" in done.output


def test_a_real_store_holds_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "record.json").write_text(made(quality(960)).model_dump_json())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert CliRunner().invoke(app, ["log", str(tmp_path), "--uri", uri]).exit_code == 0
    client = mlflow.MlflowClient(uri, registry_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("example").experiment_id])
    entry: MlflowEntry = mlflow_entry(made(quality(960)))
    assert run.data.metrics == entry.metrics and run.data.params == entry.params and run.info.status == "FINISHED"
    refused = CliRunner().invoke(app, ["log", str(tmp_path), "--uri", f"sqlite:///{tmp_path}/record.json/all.db"])
    assert refused.exit_code == 2 and "refuses the run" in refused.output
