"""A server that a spec starts ends with whoever started it, with all that it has started itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.process import ServerProcess

SERVER = """
import pathlib, subprocess, sys, time
apart = sys.argv[-1] == "apart"
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=apart)
pathlib.Path("pid.part").write_text(str(child.pid))
pathlib.Path("pid.part").rename("pid")
time.sleep(600)
"""
STARTER = """
import sys, time
from pathlib import Path
from tests.runtimes.http_client.test_process import started
server = started(Path(sys.argv[1]), *sys.argv[2:])
print(server.pid, flush=True)
time.sleep(600)
"""


def started(folder: Path, *words: str) -> ServerProcess:
    model = Http.model_validate(
        {"kind": "http", "url": "http://127.0.0.1:1", "model_name": "m", "start": ["python", "-c", SERVER, *words]}
    )
    return ServerProcess(model, Access(folder=folder, trust=True), folder / "log")


def grandchild(folder: Path) -> int:
    until = time.monotonic() + 60
    while not (folder / "pid").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    return int((folder / "pid").read_text())


def gone(pid: int) -> bool:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


WAYS = pytest.mark.parametrize(
    "words",
    [
        (),
        pytest.param(
            ("apart",), marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what has left")
        ),
    ],
)
"""What the server starts stays in its group, or leaves it (F13)."""


@WAYS
def test_stopping_it_stops_all_of_its_group(words: tuple[str, ...], tmp_path: Path) -> None:
    server = started(tmp_path, *words)
    pid = grandchild(tmp_path)
    server.stop()
    assert server.ended is not None
    assert gone(pid)
    server.stop()


@WAYS
def test_what_it_started_ends_when_it_is_killed(words: tuple[str, ...], tmp_path: Path) -> None:
    """F13: by somebody else, before it is stopped."""
    server = started(tmp_path, *words)
    pid = grandchild(tmp_path)
    os.kill(server.pid, signal.SIGKILL)
    assert gone(pid)
    server.stop()
    assert server.ended == -signal.SIGKILL


def test_a_command_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    model = Http.model_validate(
        {"kind": "http", "url": "http://127.0.0.1:1", "model_name": "m", "start": ["no-such-command"]}
    )
    server = ServerProcess(model, Access(folder=tmp_path, trust=True), tmp_path / "log")
    with pytest.raises(InputError, match="no-such-command can't be started: No such file or directory"):
        server.wait_ready({})


@WAYS
@pytest.mark.skipif(sys.platform != "linux", reason="a child ends with its parent on Linux only")
def test_nothing_of_it_survives_that_its_starter_is_killed(words: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as starter:
        assert starter.stdout is not None
        server = int(starter.stdout.readline())
        pid = grandchild(tmp_path)
        assert (os.getpgid(pid) == server) is not bool(words)
        starter.send_signal(signal.SIGKILL)
    assert gone(server)
    assert gone(pid)
