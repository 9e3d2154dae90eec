"""A kill under load: a load that breaks is an error, never a kill without losses."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError, InvalidError
from evalspec.language.abilities import KillPlan
from evalspec.language.parts import Access
from evalspec.language.timings import OUTCOMES
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client import recovery
from evalspec.runtimes.http_client.open_loop import Client
from evalspec.runtimes.http_client.process import ServerProcess
from evalspec.runtimes.http_client.rows import RemoteRows
from tests.runtimes.servers import serving

TABLE = pa.table({"x": pa.array(list(np.ones((8, 4), dtype=np.float32)))})
SLEEPS = "import time; time.sleep(60)"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process group that stands for the server that runs; what answers lives in this process and stays up."""
    with subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerProcess]:
    made: list[ServerProcess] = []

    class Kept(ServerProcess):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            made.append(self)

    monkeypatch.setattr(recovery, "ServerProcess", Kept)
    return made


def recover(folder: Path, victim: subprocess.Popen[bytes], *, trust: bool = True, repeats: int = 1) -> Any:
    with serving() as server:
        model = Http.model_validate(
            {"kind": "http", "url": server.url, "model_name": "m", "outputs": {"value": "s"},
             "start": ["python", "-c", SLEEPS]}
        )  # fmt: skip
        access = Access(folder=folder, trust=trust)
        one = model.load(access)
        rows = Served(model, one, access, DatasetFacts("d")).rows(TABLE)
        assert isinstance(rows, RemoteRows)
        kill = KillPlan(
            repeats=repeats, rate_qps=200.0, kill_after_s=0.2, within_s=10.0, settle_s=0.2, timeout_s=1.0,
            connections=4, seed=1, pid=victim.pid, log=folder / "log",
        )  # fmt: skip
        try:
            return one.recover(rows, kill, access, lambda *_: None)
        finally:
            one.close()


def test_every_query_that_was_due_is_told_of(
    tmp_path: Path, victim: subprocess.Popen[bytes], started: list[ServerProcess]
) -> None:
    found = recover(tmp_path, victim, repeats=2)
    assert len(found) == 2
    assert victim.wait(10) == -9
    for one in found:
        assert one.healthy_s is not None and one.lag_p99_ms is not None
        assert (one.outcome == OUTCOMES.index("answered")).all()
        # From 0.2 s before the kill to 0.2 s after it was back.
        assert one.due_s.min() < 0 < one.healthy_s < one.due_s.max()
    assert len(started) == 2 and all(one.ended is not None for one in started)


def test_a_load_that_breaks_at_once_kills_nothing(
    tmp_path: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> bool:
        raise OSError("no buffer space")

    monkeypatch.setattr(Client, "run", breaks)
    with pytest.raises(OSError, match="no buffer space"):
        recover(tmp_path, victim)
    assert victim.poll() is None


def test_a_load_that_breaks_after_the_kill_is_an_error_and_leaves_no_server(
    tmp_path: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, started: list[ServerProcess]
) -> None:
    def breaks(*_: Any) -> bool:
        while not started:
            time.sleep(0.01)
        raise OSError("no buffer space")

    monkeypatch.setattr(Client, "run", breaks)
    with pytest.raises(OSError, match="no buffer space"):
        recover(tmp_path, victim)
    assert victim.wait(10) == -9
    assert started[0].ended is not None


def test_queries_that_nobody_tells_of_void_it(
    tmp_path: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, started: list[ServerProcess]
) -> None:
    def forgets(client: Client, requests: Any, due_ns: Any, took: Any) -> bool:
        whole = Client.__dict__["whole_run"]
        return bool(whole(client, requests, due_ns, lambda query, outcome: query == 7 or took(query, outcome)))

    monkeypatch.setattr(Client, "whole_run", Client.run, raising=False)
    monkeypatch.setattr(Client, "run", forgets)
    with pytest.raises(InvalidError, match=r"the client reported \d+ queries, but \d+ were due"):
        recover(tmp_path, victim)
    assert started[0].ended is not None


def test_the_load_has_ended_before_its_connections_are_closed(
    tmp_path: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    run, close = Client.run, Client.close

    def runs(client: Client, *words: Any) -> bool:
        try:
            return run(client, *words)
        finally:
            seen.append("ended")

    def closes(client: Client) -> None:
        seen.append("closed")
        close(client)

    monkeypatch.setattr(Client, "run", runs)
    monkeypatch.setattr(Client, "close", closes)
    with pytest.raises(InputError, match="pass --trust"):
        recover(tmp_path, victim, trust=False)
    assert seen == ["ended", "closed"]
