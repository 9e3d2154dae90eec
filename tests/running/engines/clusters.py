"""Ray nodes and Dask workers on loopback, each in a process group of its own: ``ray stop`` would end everybody's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.runtimes.environments import environment, free_ports

ROOT = Path(__file__).resolve().parents[3]
VERSIONS = ("ray==2.60.0", "distributed==2026.8.0", "obstore==0.12.1")
STORE = "400000000"
UP_S = 120.0
PLAIN: Sequence[Mapping[str, str]] = ({}, {})


def home() -> Path:
    """The environment with both engines and this package."""
    return environment("engines", "--constraint", str(ROOT / "constraints.txt"), "--editable", str(ROOT), *VERSIONS)


@dataclass
class Group:
    """Processes that were started together.

    Args:
        address: Of the cluster.
        nodes: The control process and its node first.
    """

    address: str
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: Sequence[str | Path], log: Path, more: Mapping[str, str] | None = None) -> None:
        """Start one in a group of its own."""
        own = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "100"}
        with log.open("ab") as output:
            self.nodes.append(
                subprocess.Popen(
                    [str(one) for one in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    start_new_session=True, env={**os.environ, **own, **(more or {})}, cwd=log.parent,
                )
            )  # fmt: skip

    def kill(self, place: int) -> None:
        """Kill a node with all that it has started, as if its power had failed."""
        process = self.nodes[place]
        below = []
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for one in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait(20)

    def kill_control(self) -> None:
        """Kill the control process alone."""
        (control,) = [
            one for one in psutil.Process(self.nodes[0].pid).children(recursive=True) if "gcs_server" in one.name()
        ]
        control.kill()


@contextlib.contextmanager
def ray(*variables: Mapping[str, str]) -> Iterator[Group]:
    """A cluster of nodes with a processor each, one for each of these environments; none: two plain ones."""
    (port,) = free_ports(1)
    # A path to a socket may have 107 bytes.
    place = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    group = Group(f"127.0.0.1:{port}")
    shared = ["--num-cpus=1", f"--object-store-memory={STORE}", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    command = home() / "bin" / "ray"
    try:
        first, *others = variables or PLAIN
        group.start(
            [command, "start", "--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={place}",
             "--block", *shared], place / "head.log", first,
        )  # fmt: skip
        wait_for(port, group)
        for number, more in enumerate(others, 1):
            group.start(
                [command, "start", f"--address={group.address}", "--block", *shared], place / f"{number}.log", more
            )
        wait_until(lambda: sum("raylet" in name for name in names(group)) > len(others), "nodes", place)
        time.sleep(3)
        yield group
    finally:
        end(group)
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def dask(*variables: Mapping[str, str]) -> Iterator[Group]:
    """A scheduler and workers with a thread each, without nannies; their environments as for Ray."""
    (port,) = free_ports(1)
    place = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    group = Group(f"127.0.0.1:{port}")
    command = home() / "bin" / "dask"
    try:
        group.start(
            [command, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-jupyter"],
            place / "scheduler.log",
        )
        wait_for(port, group)
        for number, more in enumerate(variables or PLAIN):
            group.start(
                [command, "worker", f"tcp://{group.address}", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny",
                 "--no-dashboard", "--local-directory", place / f"w{number}"],
                place / f"{number}.log", more,
            )  # fmt: skip
        wait_until(
            lambda: (
                sum("Registered to" in log.read_text() for log in place.glob("[0-9].log")) >= len(variables or PLAIN)
            ),
            "workers",
            place,
        )
        yield group
    finally:
        end(group)
        shutil.rmtree(place, ignore_errors=True)


def end(group: Group) -> None:
    for place in reversed(range(len(group.nodes))):
        group.kill(place)


def names(group: Group) -> list[str]:
    found = []
    for one in group.nodes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child.name() for child in psutil.Process(one.pid).children(recursive=True)]
    return found


def wait_for(port: int, group: Group) -> None:
    def is_up() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_up, "cluster", None)


def wait_until(holds: object, what: str, place: Path | None) -> None:
    assert callable(holds)
    ends = time.monotonic() + UP_S
    while not holds():
        if time.monotonic() > ends:
            logs = "" if place is None else "\n".join(log.read_text()[-1500:] for log in place.glob("*.log"))
            raise AssertionError(f"no {what} within {UP_S:.0f} s\n{logs}")
        time.sleep(0.2)
