"""A driver's way to its cluster, and what it makes of what nodes say."""

from __future__ import annotations

import sys

import pytest

from evalspec.errors import EngineError
from evalspec.running.engines import driver, node
from evalspec.running.engines.choice import EngineChoice
from evalspec.running.engines.cluster import Needs
from evalspec.running.engines.driver import connected, unframed, unlike
from tests.runtimes.environments import free_ports


@pytest.mark.parametrize("name", ["ray", "dask"])
def test_nobody_listens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(driver.PACKAGES, name, "numpy")
    (port,) = free_ports(1)
    with pytest.raises(EngineError, match=f"{name} at 127.0.0.1:{port} can't be reached: Connection refused; start"):
        connected(EngineChoice(name, address=f"127.0.0.1:{port}"), {}, Needs())


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_a_package_that_is_not_installed(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    said = rf"--engine {name} needs the package {package}: pip install 'evalspec-gate\[{name}\]'"
    with pytest.raises(EngineError, match=said):
        connected(EngineChoice(name, address="127.0.0.1:1"), {}, Needs())


def test_what_nodes_say_comes_whole() -> None:
    blocks = [b"", b"one", bytes(range(256))]
    assert unframed(node.framed({"rows": 3}, blocks)) == ({"rows": 3}, blocks)


def test_a_node_that_lacks_the_package_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.importlib.util, "find_spec", lambda name: None)
    assert node.versions()["evalspec"] == "none"
    header, _ = unframed(node.look(b"nothing", 0, 1))
    assert "UnpicklingError" in header["crash"]
    told = {"name": "n", "versions": node.versions()}
    monkeypatch.undo()
    assert unlike(told, node.versions()).startswith("node n has evalspec none (here: ")
    assert driver.unlike({"name": "n", "failed": "it died"}, {}) == "node n can't be asked: it died"
