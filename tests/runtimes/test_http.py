"""`kind: http`: what a spec may say, what is sent, what is read, what stands in the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError, NotRunError
from evalspec.language.inputs import Schedule
from evalspec.language.parts import Access
from evalspec.measure.servable import Remote
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.wire import parse_url
from tests.runtimes.servers import Answer, Request, answer, linear, outputs, read_rows, serving

X = np.random.default_rng(0).normal(size=(70, 4)).astype(np.float32)
TABLE = pa.table({"x": pa.array(list(X)), "site": ["lab", "field"] * 35})
OIP: dict[str, Any] = {"kind": "http", "model_name": "m", "outputs": {"value": "s"}, "inputs": {"x": "x"}}
PLAIN: dict[str, Any] = {
    "kind": "http", "protocol": "json", "inputs": {"x": "x"},
    "request": {"instances": {"each": {"features": "{x}"}}, "note": "sums of {x}"},
    "response": {"value": "predictions[*].sum"},
}  # fmt: skip


def served(fields: dict[str, Any], access: Access) -> Served:
    model = Http.model_validate(fields)
    return Served(model, model.load(access), access, DatasetFacts("d"))


def close(one: Served) -> None:
    one.loaded.close()


def seen(handle: Callable[[Request], Answer]) -> tuple[Callable[[Request], Answer], list[Request]]:
    """A handler that keeps what it was asked."""
    kept: list[Request] = []

    def keeping(request: Request) -> Answer:
        kept.append(request)
        return handle(request)

    return keeping, kept


# -- what a spec may say ------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "ftp://127.0.0.1:1"}, "write http://HOST:PORT or https://HOST:PORT"),
        ({"ca": "ca.pem"}, "`ca` belongs to https"),
        ({"verify": False}, "Extra inputs are not permitted"),
        ({"url": "127.0.0.1:8080"}, "not a usable address"),
        ({"url": "http://user:secret@127.0.0.1"}, "user or a password"),
        ({"url": "http://127.0.0.1:notaport"}, "not a URL"),
        ({"url": "http://127.0.0.1/a b"}, "space"),
        ({"model_name": None}, "needs `model_name:`"),
        ({"model_name": "a/b"}, "not a segment of a path"),
        ({"request": {}}, "belongs to `protocol: json`"),
        ({"headers": {"Host": "x"}}, "is set by evalspec"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "pattern"),
        ({"headers": {"X A": "a"}}, "pattern"),
        ({"timeout": 5}, "no unit"),
        ({"health": "ready"}, "pattern"),
    ],
)
def test_a_wrong_field_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        Http.model_validate(OIP | {"url": "http://127.0.0.1:1"} | fields)
    found = error.value.errors()[0]
    assert words in str(found["msg"]) + str(found.get("ctx", ""))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"request": None}, "needs `request:`"),
        ({"response": {}}, "needs `response:`"),
        ({"request": {"x": "x"}}, "no place for an input"),
        ({"request": {"x": "{x}", "y": "{y}"}}, "has a place for 'y'"),
        ({"inputs": {"x": "x", "z": "z"}}, "no place for the input 'z'"),
        ({"response": {"value": "a[b"}}, "not a path"),
        ({"response": {"value": ""}}, "empty"),
        ({"response": {"sum": "sum"}}, "the spec does not say what the answer is"),
        ({"binary": True}, "belongs to `protocol: oip`"),
    ],
)
def test_a_template_that_does_not_fit_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        Http.model_validate(PLAIN | {"url": "http://127.0.0.1:1/predict"} | fields)
    found = error.value.errors()[0]
    assert words in str(found["msg"]) + str(found.get("ctx", ""))


def test_another_machine_needs_to_be_allowed(tmp_path: Path) -> None:
    model = Http.model_validate(OIP | {"url": "http://models.example.com:8080"})
    for asked in (lambda access: model.files(access), lambda access: model.load(access)):
        with pytest.raises(InputError, match=r"a different machine; pass --allow-host models\.example\.com"):
            asked(Access(tmp_path))
    assert model.files(Access(tmp_path, hosts=frozenset({"models.example.com"}))) == ()
    assert model.elsewhere


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1:1", "http://127.9.9.9:1", "http://[::1]:1"])
def test_loopback_needs_no_leave(url: str, tmp_path: Path) -> None:
    model = Http.model_validate(OIP | {"url": url})
    assert model.files(Access(tmp_path)) == () and not model.elsewhere


@pytest.mark.parametrize("host", ["127.0.0.1.example.com", "localhost.example.com", "0.0.0.0", "10.0.0.1"])
def test_what_looks_like_loopback_does(host: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a different machine"):
        Http.model_validate(OIP | {"url": f"http://{host}:1"}).files(Access(tmp_path))


def test_an_address_keeps_its_parts() -> None:
    address = parse_url("http://[::1]:8080/base/")
    assert (address.host, address.port, address.path, address.authority) == ("::1", 8080, "/base", "[::1]:8080")
    assert str(parse_url("http://h/p?v=1")) == "http://h:80/p?v=1"


# -- secrets ------


def test_a_secret_is_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-7")
    handle, asked = seen(linear)
    with serving(handle) as server:
        model = Http.model_validate(OIP | {"url": server.url, "headers": {"Authorization": {"env": "TOKEN"}}})
        one = model.load(Access(tmp_path, env=frozenset({"TOKEN"})))
        one.predict({"x": X[:2]})
        one.close()
    assert {request.headers["authorization"] for request in asked} == {"hush-7"}
    assert "hush" not in model.model_dump_json() + json.dumps(dict(one.observed))


def test_a_secret_that_may_not_be_read_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-7")
    model = Http.model_validate(OIP | {"url": "http://127.0.0.1:1", "headers": {"Authorization": {"env": "TOKEN"}}})
    with pytest.raises(InputError, match="pass --env TOKEN") as error:
        model.load(Access(tmp_path))
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("value", [None, "", "a\r\nX-B: b"])
def test_a_secret_that_no_header_can_hold_is_refused(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("TOKEN", value)
    model = Http.model_validate(OIP | {"url": "http://127.0.0.1:1", "headers": {"Authorization": {"env": "TOKEN"}}})
    with pytest.raises(InputError, match="variable TOKEN is not set, or holds characters that a header can't"):
        model.load(Access(tmp_path, env=frozenset({"TOKEN"})))


# -- the Open Inference Protocol ------


@pytest.mark.parametrize("binary", [False, True])
def test_a_server_answers_about_every_row(binary: bool, access: Access) -> None:
    handle, asked = seen(linear)
    with serving(handle) as server:
        one = served(OIP | {"url": server.url, "binary": binary, "batch": 32}, access)
        answers = one.predict_all(TABLE)
        close(one)
    np.testing.assert_allclose(answers.values, X.sum(axis=1, dtype=np.float64), rtol=1e-5, atol=1e-6)
    batches = [len(read_rows(request)) for request in asked if request.path == "/v2/models/m/infer"]
    assert batches == [32, 32, 6]
    # All of it, questions about the model too, over one connection.
    assert server.accepted == 1


def test_what_the_server_says_of_itself_stands_in_the_record(access: Access) -> None:
    with serving() as server:
        one = Http.model_validate(OIP | {"url": server.url}).load(access)
        one.close()
    assert one.observed["framework"] == "served by stub 1.2"
    assert one.observed["platform"] == "stub"
    assert one.observed["model_versions"] == "3"
    assert one.input_names == ("x",)
    assert one.output_names == ("s",)


def test_inputs_are_held_against_the_metadata(access: Access) -> None:
    with serving() as server:
        one = served(OIP | {"url": server.url}, access)
        with pytest.raises(InputError, match=r"takes shape \[rows, 4\] but got \[rows, 3\]"):
            one.predict_all(pa.table({"x": pa.array(list(X[:, :3]))}))
        close(one)


def test_a_server_without_metadata_is_fed_by_the_spec(access: Access) -> None:
    def without(request: Request) -> Answer:
        plain = request.path.endswith(("/ready", "/infer"))
        return linear(request) if plain else answer(404, {"error": "none"})

    with serving(without) as server:
        one = served(OIP | {"url": server.url}, access)
        assert one.loaded.observed["framework"] == "served"
        assert one.predict_all(TABLE).n == 70
        close(one)


def test_a_version_and_a_base_path_are_asked_for(access: Access) -> None:
    handle, asked = seen(
        lambda request: linear(request) if "/infer" not in request.path else answer(200, outputs([1.0]))
    )

    def moved(request: Request) -> Answer:
        handle(Request(request.method, request.path, request.headers, request.body, request.connection))
        path = request.path.removeprefix("/base").replace("/versions/7", "")
        return linear(Request(request.method, path, request.headers, request.body, request.connection))

    with serving(moved) as server:
        one = served(OIP | {"url": f"{server.url}/base/", "version": "7"}, access)
        one.predict_all(TABLE.slice(0, 1))
        close(one)
    assert [request.path for request in asked] == [
        "/base/v2/models/m/versions/7/ready",
        "/base/v2",
        "/base/v2/models/m/versions/7",
        "/base/v2/models/m/versions/7/infer",
    ]


def test_a_health_path_of_its_own_counts_from_the_root(access: Access) -> None:
    handle, asked = seen(lambda request: answer(200, {}) if request.path == "/healthz" else linear(request))
    with serving(handle) as server:
        Http.model_validate(OIP | {"url": server.url, "health": "/healthz"}).load(access).close()
    assert asked[0].path == "/healthz"


def test_named_outputs_are_asked_for(access: Access) -> None:
    handle, asked = seen(linear)
    with serving(handle) as server:
        one = served(OIP | {"url": server.url}, access)
        one.predict_all(TABLE.slice(0, 1))
        close(one)
    assert json.loads(asked[-1].body)["outputs"] == [{"name": "s"}]


@pytest.mark.parametrize("way", ["chunked", "until the end", "close"])
def test_every_way_to_end_an_answer_is_understood(way: str, access: Access) -> None:
    def ended(request: Request) -> Answer:
        whole = linear(request)
        assert isinstance(whole, bytes)
        body = whole.partition(b"\r\n\r\n")[2]
        if way == "chunked":
            pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
            chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        if way == "close":
            return answer(200, body, close=True)
        request.connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
        request.connection.close()
        return None

    with serving(ended) as server:
        one = served(OIP | {"url": server.url, "batch": 10}, access)
        assert one.predict_all(TABLE).n == 70
        rows = one.rows(TABLE)
        assert isinstance(rows, Remote)
        found = rows.answers(rows.serve(rows.take(np.array([5]))))
        close(one)
    np.testing.assert_allclose(found, X[5].sum(dtype=np.float64), rtol=1e-5)


def test_a_kept_connection_that_the_server_has_closed_is_opened_again(access: Access) -> None:
    """Servers close idle connections; a request that was never read is no failure."""
    with serving() as server:
        one = served(OIP | {"url": server.url}, access)
        for connection in server.open_:
            connection.close()
        assert one.predict_all(TABLE).n == 70
        close(one)


def test_a_number_that_json_has_not_is_named(access: Access) -> None:
    rows = X.copy()
    rows[3, 1] = np.nan
    with serving() as server:
        one = served(OIP | {"url": server.url}, access)
        with pytest.raises(InputError, match=r"not finite.*binary: true"):
            one.predict_all(pa.table({"x": pa.array(list(rows))}))
        close(one)


# -- plain JSON ------


def plain(request: Request) -> Answer:
    rows = [one["features"] for one in json.loads(request.body)["instances"]]
    return answer(200, {"predictions": [{"sum": sum(row)} for row in rows]})


def test_a_template_makes_requests_and_finds_answers(access: Access) -> None:
    handle, asked = seen(plain)
    with serving(handle) as server:
        one = served(PLAIN | {"url": f"{server.url}/predict?model=a", "batch": 50}, access)
        answers = one.predict_all(TABLE)
        close(one)
    np.testing.assert_allclose(answers.values, X.sum(axis=1, dtype=np.float64), rtol=1e-5, atol=1e-6)
    assert [request.path for request in asked] == ["/predict?model=a"] * 2
    # Only a string that is nothing but a placeholder is one.
    assert json.loads(asked[0].body)["note"] == "sums of {x}"


def test_one_row_a_request(access: Access) -> None:
    def single(request: Request) -> Answer:
        return answer(200, {"y": "up" if sum(json.loads(request.body)["input"]) > 0 else "down"})

    handle, asked = seen(single)
    fields = PLAIN | {
        "request": {"input": "{x}"},
        "response": {"label": "y"},
        "per_row": True,
        "classes": ("down", "up"),
    }
    with serving(handle) as server:
        one = served(fields | {"url": server.url}, access)
        answers = one.predict_all(TABLE)
        rows = one.rows(TABLE)
        assert isinstance(rows, Remote)
        several = rows.answers(rows.serve(rows.take(np.arange(6))))
        with pytest.raises(NotRunError, match="takes 1 row per request"):
            rows.drive(Schedule("open_loop", 1), lambda: np.array([0]), np.array([[0, 1]]), Nothing(), 0)
        close(one)
    assert len(asked) == 70 + 6
    np.testing.assert_array_equal(answers.predicted, (X.sum(axis=1) > 0).astype(int))
    np.testing.assert_array_equal(several, (X[:6].sum(axis=1) > 0).astype(float))


class Nothing:
    """A sink that is never reached."""

    first = 0

    def record(self, query: int, **facts: Any) -> None:
        raise AssertionError

    def amend(self, query: int, **facts: Any) -> None:
        raise AssertionError


def test_a_place_that_is_not_there_is_named(access: Access) -> None:
    with serving(lambda request: answer(200, {"results": []})) as server:
        one = served(PLAIN | {"url": server.url}, access)
        with pytest.raises(InputError, match=r"nothing at 'predictions\[\*\]\.sum'"):
            one.predict_all(TABLE)
        close(one)


def test_another_number_of_answers_is_named(access: Access) -> None:
    with serving(lambda request: answer(200, {"predictions": [{"sum": 1.0}]})) as server:
        one = served(PLAIN | {"url": server.url}, access)
        with pytest.raises(InputError, match="not 32 answers"):
            one.predict_all(TABLE)
        close(one)
