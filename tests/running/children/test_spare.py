"""Children that are started before it is known what they are to do."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.errors import WorkerError, WriteError
from evalspec.running.children.process import Child, Limits
from evalspec.running.children.spare import CHECKS, READER, Spare, Spares, child_environment

pytestmark = pytest.mark.processes
ROLE = "tests.running.roles"
HERE = {"OMP_NUM_THREADS": "1"}
SPEC = """
evalspec: 1
name: spare
datasets: {test: {kind: parquet, path: test.parquet}}
data: [{check: integrity, dataset: test, require: [duplicate_rows == 0 rows]}]
"""


@pytest.fixture
def spare() -> Iterator[Spare]:
    one = Spare(ROLE, HERE)
    yield one
    one.close()


def adopted(spare: Spare, log: Path) -> Child:
    return Child(ROLE, {"a": 1}, limits=Limits(), log=log, spare=spare)


def test_it_becomes_the_child_and_writes_to_its_log(spare: Spare, tmp_path: Path) -> None:
    with adopted(spare, tmp_path / "child.log") as child:
        assert child.ask({"do": "echo"})["job"] == {"a": 1}
        assert child.ask({"do": "echo"})["pid"] == child.pid == spare.process.pid
        with pytest.raises(WorkerError, match=r"exited with code 0 without an answer.*giving up now"):
            child.ask({"do": "exit"})
    assert "giving up now" in (tmp_path / "child.log").read_text()
    assert not psutil.pid_exists(spare.process.pid)


def test_what_a_secret_lets_through_is_hidden_as_in_any_child(
    spare: Spare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_TEST", "giving up")
    child = Child(ROLE, None, limits=Limits(), log=tmp_path / "child.log", spare=spare, secrets=["TOKEN_OF_TEST"])
    with child, pytest.raises(WorkerError):
        child.ask({"do": "exit"})
    assert " now" in (tmp_path / "child.log").read_text() and "giving up" not in (tmp_path / "child.log").read_text()


def test_one_that_has_ended_is_an_error_of_the_child(spare: Spare, tmp_path: Path) -> None:
    os.kill(spare.process.pid, signal.SIGKILL)
    spare.process.wait(10.0)
    with pytest.raises(WorkerError, match="killed by SIGKILL"), adopted(spare, tmp_path / "child.log") as child:
        child.ask({"do": "echo"})


def test_nothing_is_left_of_one_whose_log_can_not_be_written(spare: Spare, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    with pytest.raises(WriteError):
        adopted(spare, tmp_path / "logs" / "child.log")
    assert spare.process.ended is not None and spare.channel.fileno() == -1


def test_none_is_taken_that_is_not_as_it_should_be() -> None:
    with Spares(HERE) as spares:
        assert spares.take("no.such.role", HERE) is None
        other = spares.take(READER, {"OMP_NUM_THREADS": "2"})
        assert other is None and spares.take(READER, HERE) is None, "it is started in its own environment"
        taken = spares.take(CHECKS, HERE)
        assert taken is not None
        taken.close()
    with Spares(HERE) as spares:
        os.kill(spares._waiting[CHECKS].process.pid, signal.SIGKILL)
        spares._waiting[CHECKS].process.wait(10.0)
        assert spares.take(CHECKS, HERE) is None
        pid = spares._waiting[READER].process.pid
    assert not psutil.pid_exists(pid)


def test_nobody_is_started_where_nobody_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with Spares(HERE) as spares:
        assert spares.take(CHECKS, HERE) is None


def spec_in(folder: Path, text: str = SPEC) -> Path:
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), folder / "test.parquet")
    path = folder / "evalspec.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("options", "begun_anew"),
    [([], set()), (["--hub"], set()), (["--allow-host", "169.254.169.254"], {READER, CHECKS}), (["--draft"], set())],
)
def test_a_run_starts_no_other_reader_and_no_other_child_of_checks(
    options: list[str], begun_anew: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    init = Child.__init__

    def noted(self: Child, role: str, *words: object, **fields: object) -> None:
        if fields.get("spare") is None:
            begun.append(role)
        init(self, role, *words, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(Child, "__init__", noted)
    done = CliRunner().invoke(app, ["run", str(spec_in(tmp_path)), "--output", str(tmp_path / "run"), *options])
    assert done.exit_code == (3 if options == ["--draft"] else 0), done.output
    assert begun_anew <= set(begun) if begun_anew else not {READER, CHECKS} & set(begun)


@pytest.mark.parametrize("text", [SPEC, SPEC.replace("integrity", "integrty"), "]"])
def test_nothing_of_them_is_left(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    close = Spares.close

    def closing(self: Spares) -> None:
        pids.extend(one.process.pid for one in self._waiting.values())
        close(self)

    monkeypatch.setattr(Spares, "close", closing)
    done = CliRunner().invoke(app, ["run", str(spec_in(tmp_path, text)), "--output", str(tmp_path / "run")])
    assert done.exit_code == (0 if text == SPEC else 2), done.output
    assert len(pids) == (0 if text == SPEC else 2)
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_variables_are_as_a_run_may_use_them() -> None:
    closed = child_environment(trust=False, hub=False, metadata=False, threads=3)
    assert (
        closed["OMP_NUM_THREADS"] == "3" and closed["HF_HUB_OFFLINE"] == closed["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1"
    )
    assert closed["AWS_EC2_METADATA_DISABLED"] == "true"
    left = {"HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "AWS_EC2_METADATA_DISABLED"}
    assert not left & set(child_environment(trust=True, hub=True, metadata=True, threads=1))
