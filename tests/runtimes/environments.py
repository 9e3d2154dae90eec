"""Environments of their own for servers that people use, made once a checkout.

Tests that need one are skipped, with the reason, where no package index can be reached.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.process import ServerProcess

ENVIRONMENTS = Path(__file__).resolve().parents[2] / ".venv-servers"
INSTALL_S = 600


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
