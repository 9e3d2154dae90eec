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

from evalspec.language.parts import Access
from evalspec.runtimes._http_server import ServerProcess
from evalspec.runtimes.http import Http

SERVER = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("pid.part").write_text(str(child.pid))
pathlib.Path("pid.part").rename("pid")
time.sleep(600)
"""
STARTER = """
import sys, time
from pathlib import Path
from tests.runtimes.test_http_server import started
server = started(Path(sys.argv[1]))
print(server.pid, flush=True)
time.sleep(600)
"""


def started(folder: Path) -> ServerProcess:
    model = Http.model_validate(
        {"kind": "http", "url": "http://127.0.0.1:1", "model_name": "m", "start": ["python", "-c", SERVER]}
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


def test_stopping_it_stops_all_of_its_group(tmp_path: Path) -> None:
    server = started(tmp_path)
    pid = grandchild(tmp_path)
    server.stop()
    assert server.ended is not None
    assert gone(pid)
    server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="a child ends with its parent on Linux only")
def test_nothing_of_it_survives_that_its_starter_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as starter:
        assert starter.stdout is not None
        server = int(starter.stdout.readline())
        pid = grandchild(tmp_path)
        assert os.getpgid(pid) == server
        starter.send_signal(signal.SIGKILL)
    assert gone(server)
    assert gone(pid)
