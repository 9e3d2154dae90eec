"""A bucket in this process, and a client that reads it: obstore where it is installed, else a stand-in for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.sources.objects import servers
from tests.sources.objects.fake_s3 import Bucket, served

STAND_IN = Path(__file__).parent / "client"
CLOUD = ("AWS_", "GOOGLE_", "AZURE_")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads object storage, in this process and in children; nothing in the environment speaks of a provider."""
    for name in [name for name in os.environ if name.startswith(CLOUD)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    if find_spec("obstore") is None:
        monkeypatch.syspath_prepend(str(STAND_IN))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(STAND_IN), os.environ.get("PYTHONPATH", "")]))
        for name in ("obstore", "obstore.store", "obstore.exceptions"):
            # Put back as it was: not there.
            monkeypatch.setitem(sys.modules, name, None)
            del sys.modules[name]


@pytest.fixture
def bucket(client: None) -> Iterator[Bucket]:
    """A bucket called data."""
    with served(Bucket()) as one:
        yield one


@pytest.fixture(scope="session")
def home() -> Path:
    """The environment of servers and client."""
    return servers.home()


@pytest.fixture(scope="session")
def weed(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.weed(home, tmp_path_factory.mktemp("weed")) as server:
        yield server


@pytest.fixture(scope="session")
def moto(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.moto(home, tmp_path_factory.mktemp("moto")) as server:
        yield server
