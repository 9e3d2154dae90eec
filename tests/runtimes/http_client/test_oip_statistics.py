"""Counters of the statistics extension, as servers write them."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.language.parts import Access
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.loaded import LoadedHttp
from evalspec.runtimes.http_client.oip_statistics import counters
from tests.runtimes.servers import Answer, Request, answer, linear, serving
from tests.runtimes.test_http import OIP, PLAIN


def statistics(**parts: tuple[Any, Any]) -> dict[str, Any]:
    """Of one version of a model."""
    return {
        "name": "m", "version": "1", "inference_count": 7, "execution_count": 3,
        "inference_stats": {name: {"count": count, "ns": ns} for name, (count, ns) in parts.items()},
    }  # fmt: skip


SEEN = statistics(success=(3, 900), fail=(1, 50), queue=(3, 100), compute_input=(3, 10), compute_infer=(3, 600),
                  compute_output=(3, 20), cache_hit=(0, 0))  # fmt: skip


def test_requests_parts_and_the_whole() -> None:
    found = counters({"model_stats": [SEEN]})
    assert found is not None
    assert found.requests == 4, "a request that failed was one"
    assert list(found.parts_ns) == ["queue", "compute_input", "compute_infer", "compute_output", "cache_hit"]
    assert found.parts_ns["compute_infer"] == 600 and found.total_ns == 900


def test_all_versions_together() -> None:
    found = counters({"model_stats": [SEEN, SEEN]})
    assert found is not None and found.requests == 8 and found.parts_ns["queue"] == 200 and found.total_ns == 1800


def test_numbers_as_text_are_numbers() -> None:
    found = counters({"model_stats": [statistics(success=("3", "900"), queue=("3", str(2**60)))]})
    assert found is not None and found.requests == 3 and found.parts_ns == {"queue": float(2**60)}


def test_what_is_left_out_is_zero() -> None:
    found = counters({"model_stats": [{"inference_stats": {"success": {}, "queue": {"count": 2}}}]})
    assert found is not None and found.requests == 0 and found.parts_ns == {"queue": 0.0} and found.total_ns == 0


@pytest.mark.parametrize("other", [{}, {"error": "no such path"}, {"model_stats": "none"}, {"model_stats": None}])
def test_another_answer_tells_nothing(other: dict[str, Any]) -> None:
    assert counters(other) is None


@pytest.mark.parametrize(
    "wrong",
    [
        [{}], ["m"], [{"inference_stats": {}}], [{"inference_stats": None}], [statistics(success=(1.5, 2))],
        [statistics(success=(True, 2))], [statistics(success=(-1, 2))], [statistics(success=("many", 2))],
        [statistics(success=(1, 2), queue=(1, None))],
    ],
)  # fmt: skip
def test_counters_that_can_not_be_read_are_said(wrong: list[Any]) -> None:
    found = counters({"model_stats": wrong})
    assert found is not None and not found.says_something
    assert "its statistics" in found.unread[0]


def ask(fields: dict[str, Any], access: Access, reply: Answer) -> tuple[LoadedHttp, list[str]]:
    """A server that answers so about statistics, and what it was asked."""
    asked: list[str] = []

    def handle(request: Request) -> Answer:
        asked.append(request.path)
        if request.path.endswith("/stats"):
            return reply
        return linear(Request(request.method, request.path.replace("/versions/3", ""), {}, b"", request.connection))

    with serving(handle) as server:
        loaded = Http.model_validate(fields | {"url": f"{server.url}{fields.get('url', '')}"}).load(access)
        assert isinstance(loaded, LoadedHttp)
        found = loaded.counted()
        loaded.close()
    assert (found is not None) == (reply == SAID), fields
    return loaded, asked


SAID = answer(200, {"model_stats": [SEEN]})


def test_a_server_is_asked_for_the_model_and_its_version(access: Access) -> None:
    assert ask(OIP, access, SAID)[1][-1] == "/v2/models/m/stats"
    assert ask(OIP | {"version": "3"}, access, SAID)[1][-1] == "/v2/models/m/versions/3/stats"


@pytest.mark.parametrize("reply", [answer(404, {}), answer(501, b"no"), answer(200, b"<html>"), answer(200, [1])])
def test_a_server_without_them_tells_nothing(reply: bytes, access: Access) -> None:
    ask(OIP, access, reply)


def test_plain_json_has_none(access: Access) -> None:
    assert not any(path.endswith("/stats") for path in ask(PLAIN | {"url": "/predict"}, access, answer(404, {}))[1])
