"""The engine that a run names."""

from __future__ import annotations

import pytest

from evalspec.errors import SpecError
from evalspec.running.engines.choice import LOCAL, EngineChoice, check_host, engine_named


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("local", LOCAL),
        ("local:1", LOCAL),
        ("local:16", EngineChoice(children=16)),
        ("ray:127.0.0.1:6379", EngineChoice("ray", address="127.0.0.1:6379")),
        ("ray", EngineChoice("ray", address="10.0.0.5:6379")),
        ("dask:scheduler.lab:8786", EngineChoice("dask", address="scheduler.lab:8786")),
        ("dask:[::1]:8786", EngineChoice("dask", address="[::1]:8786")),
    ],
)
def test_engines(text: str, engine: EngineChoice) -> None:
    assert engine_named(text, {"RAY_ADDRESS": "10.0.0.5:6379"}) == engine
    assert engine.apart == (text not in ("local", "local:1"))


@pytest.mark.parametrize(
    "wrong",
    [
        "", "Local", "local:", "local:0", "local:65", "local:two", "local:-1", "local:1.5", "local:٢", "spark",
        "dask", "dask:", "dask:8786", "dask:host:", "dask:host:0", "dask:host:65536", "dask:::1:8786", "ray:",
        "ray:auto", "ray:ray://host:10001", "ray:user@host:6379", "dask:tcp://127.0.0.1:8786", "dask:h ost:1",
    ],
)  # fmt: skip
def test_what_is_none(wrong: str) -> None:
    with pytest.raises(SpecError, match="is not an engine"):
        engine_named(wrong, {"RAY_ADDRESS": "127.0.0.1:6379"})


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("", "RAY_ADDRESS is not set"),
        ("auto", "RAY_ADDRESS is 'auto', not HOST:PORT"),
        ("ray://head:10001", "run evalspec on a node of the cluster and name the address"),
    ],
)
def test_an_address_that_is_none(told: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        engine_named("ray", {"RAY_ADDRESS": told})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.9.1"])
def test_this_machine_is_allowed(host: str) -> None:
    check_host(EngineChoice("ray", address=f"{host}:6379"), ())
    check_host(EngineChoice(children=2), ())


@pytest.mark.parametrize("host", ["10.0.3.7", "head.lab", "0.0.0.0"])
def test_another_one_is_asked_for(host: str) -> None:
    choice = EngineChoice("dask", address=f"{host}:8786")
    with pytest.raises(SpecError, match=f"pass --allow-host {host} if this is intended"):
        check_host(choice, ("10.0.3.8",))
    check_host(choice, (host,))
