"""What a bad server does to a query: it is counted under its name, shown, and never dropped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import Access
from evalspec.language.timings import OUTCOMES
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.rows import RemoteRows
from evalspec.runtimes.http_client.wire import HttpError
from tests.runtimes.servers import Answer, Request, Server, answer, linear, outputs, read_rows, reset, serving

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
TABLE = pa.table({"x": pa.array(list(X))})
Fault = Callable[[Request], Answer]


def infer_only(fault: Fault) -> Fault:
    """Health and metadata as they should be, every query by ``fault``."""
    return lambda request: fault(request) if request.path.endswith("/infer") else linear(request)


def refused(request: Request) -> Answer:
    return answer(429, {"error": "too many"})


def broken(request: Request) -> Answer:
    return answer(500, {"error": "out of memory"})


def moved(request: Request) -> Answer:
    return answer(302, b"", {"Location": "http://127.0.0.2/"})


def resets(request: Request) -> Answer:
    reset(request.connection)
    return None


def closes(request: Request) -> Answer:
    request.connection.close()
    return None


def half_a_body(request: Request) -> Answer:
    request.connection.sendall(answer(200, outputs([1.0]))[:-10])
    request.connection.close()
    return None


def no_http(request: Request) -> Answer:
    request.connection.sendall(b"220 mail.example.com ESMTP\r\n\r\n")
    return b""


def cut_json(request: Request) -> Answer:
    return answer(200, json.dumps(outputs([1.0])).encode()[:-10])


def no_outputs(request: Request) -> Answer:
    return answer(200, {"predictions": [1.0]})


def text_for_numbers(request: Request) -> Answer:
    return answer(200, {"outputs": [{"name": "s", "shape": [1], "datatype": "FP64", "data": ["high"]}]})


def fewer_numbers(request: Request) -> Answer:
    return answer(200, outputs([1.0], shape=[2]))


def more_rows(request: Request) -> Answer:
    return answer(200, outputs([1.0] * (len(read_rows(request)) + 1)))


def nan(request: Request) -> Answer:
    return answer(200, outputs([float("nan")] * len(read_rows(request))))


def infinite(request: Request) -> Answer:
    return answer(200, outputs([float("inf")] * len(read_rows(request))))


def silent(request: Request) -> Answer:
    time.sleep(1.0)
    return None


def slow_loris(request: Request) -> Answer:
    for byte in answer(200, outputs([1.0])):
        request.connection.sendall(bytes([byte]))
        time.sleep(0.02)
    return None


FAULTS: dict[str, tuple[Fault, str]] = {
    "4xx": (refused, "refused (HTTP 4xx)"),
    "5xx": (broken, "server error (HTTP 5xx)"),
    "3xx": (moved, "answer not understood"),
    "reset": (resets, "connection broke"),
    "closed without an answer": (closes, "connection broke"),
    "half a body": (half_a_body, "connection broke"),
    "no HTTP": (no_http, "answer not understood"),
    "cut JSON": (cut_json, "answer not understood"),
    "another protocol": (no_outputs, "answer not understood"),
    "text for numbers": (text_for_numbers, "answer not understood"),
    "fewer numbers than the shape says": (fewer_numbers, "answer of another shape"),
    "more rows than were asked about": (more_rows, "answer of another shape"),
    "NaN": (nan, "answer not finite"),
    "infinity": (infinite, "answer not finite"),
    "no answer": (silent, "timed out"),
    "slow loris": (slow_loris, "timed out"),
}


@contextmanager
def client(server: Server, folder: Path, **fields: object) -> Iterator[RemoteRows]:
    model = Http.model_validate(
        {"kind": "http", "url": server.url, "model_name": "m", "outputs": {"value": "s"}, **fields}
    )
    access = Access(folder=folder)
    one = model.load(access)
    rows = Served(model, one, access, DatasetFacts("d")).rows(TABLE)
    assert isinstance(rows, RemoteRows)
    try:
        yield rows
    finally:
        one.close()


def open_loop(rows: RemoteRows, folder: Path, queries: int, qps: float, **fields: object) -> Samples:
    times = (np.arange(queries) * 1e9 / qps).astype(np.int64)
    schedule = Schedule(
        "open_loop", queries=queries, arrivals_ns=times, warmup_queries=1, warmup_s=0.0, **{"connections": 8, **fields}
    )  # type: ignore[arg-type]
    session = Session(rows, schedule, folder / "samples")
    session.block(0, queries, 0.0)
    return read_samples(folder / "samples", model="m", process=0, details=session.finish())


def counts(samples: Samples) -> dict[str, int]:
    assert samples.outcome is not None
    found = np.bincount(samples.outcome, minlength=len(OUTCOMES))
    return {name: int(count) for name, count in zip(OUTCOMES, found, strict=True) if count}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_single_query_fails_under_its_name(fault: str, tmp_path: Path) -> None:
    handle, outcome = FAULTS[fault]
    with serving(infer_only(handle)) as server, client(server, tmp_path, timeout="0.2 s") as rows:
        with pytest.raises(HttpError) as error:
            rows.answers(rows.serve(rows.take(np.array([3]))))
        assert OUTCOMES[error.value.outcome] == outcome


@pytest.mark.proof
@pytest.mark.parametrize("fault", FAULTS)
def test_an_open_loop_counts_every_query_of_a_server_that_fails_all(fault: str, tmp_path: Path) -> None:
    handle, outcome = FAULTS[fault]
    with serving(infer_only(handle)) as server, client(server, tmp_path) as rows:
        samples = open_loop(rows, tmp_path, 30, 200.0, timeout_s=0.25, connections=40)
    assert counts(samples) == {outcome: 30}
    assert not samples.ok.any()
    assert samples.answers is not None and np.isnan(samples.answers).all()
    assert (samples.end_ns >= samples.sent_ns).all() and (samples.sent_ns >= samples.intended_ns).all()


@pytest.mark.proof
def test_a_run_in_which_all_failed_has_no_latency(tmp_path: Path) -> None:
    from evalspec.stats.timing.percentile import percentile
    from evalspec.timing.samples import latencies_ms

    with serving(infer_only(broken)) as server, client(server, tmp_path) as rows:
        samples = open_loop(rows, tmp_path, 30, 500.0)
    estimate = percentile([latencies_ms(samples)], 0.5)
    assert estimate.value is None
    assert estimate.bound(0.95, "upper") is None


def test_a_closed_loop_gives_up_when_the_first_queries_all_fail(tmp_path: Path) -> None:
    with serving(infer_only(broken)) as server, client(server, tmp_path) as rows:
        session = Session(rows, Schedule("single_stream", queries=30), tmp_path / "samples")
        with pytest.raises(InputError, match=r"first 20 queries all failed; .*HTTP 500: .*out of memory"):
            session.block(0, 30, 0.0)


def test_a_closed_loop_keeps_what_failed_and_why(tmp_path: Path) -> None:
    asked: list[int] = []

    def every_third(request: Request) -> Answer:
        asked.append(1)
        return broken(request) if len(asked) % 3 == 0 else linear(request)

    with serving(infer_only(every_third)) as server, client(server, tmp_path) as rows:
        session = Session(rows, Schedule("single_stream", queries=30), tmp_path / "samples")
        session.block(0, 30, 0.0)
        samples = read_samples(tmp_path / "samples", model="m", process=0, details=session.finish())
    assert counts(samples) == {"answered": 20, "server error (HTTP 5xx)": 10}


def test_a_server_that_is_down_is_named_when_it_is_loaded(tmp_path: Path) -> None:
    with serving() as server:
        pass
    with (
        pytest.raises(InputError, match=rf"no server answers at {server.url}.*start it first"),
        client(server, tmp_path),
    ):
        pass


def test_a_server_that_is_not_ready_is_named(tmp_path: Path) -> None:
    with (
        serving(lambda request: answer(503, {"error": "loading"})) as server,
        pytest.raises(InputError, match=r"not ready: /v2/models/m/ready answers HTTP 503: .*loading"),
        client(server, tmp_path),
    ):
        pass


@pytest.mark.proof
def test_a_server_that_dies_at_half_time(tmp_path: Path) -> None:
    """What it had answered stays answered, everything else is counted as lost, and nothing is missing."""
    seen: list[float] = []

    def dying(request: Request) -> Answer:
        if request.path.endswith("/infer"):
            seen.append(time.monotonic())
            if len(seen) == 50:
                server.die()
                return None
        return linear(request)

    with serving(dying) as server, client(server, tmp_path) as rows:
        samples = open_loop(rows, tmp_path, 100, 500.0, timeout_s=1.0)
    found = counts(samples)
    assert len(samples.end_ns) == 100
    assert sum(found.values()) == 100
    # A few that were under way as it died may have their answers.
    assert 40 <= found.pop("answered") <= 55
    assert set(found) <= {"connection broke", "not connected"}
    # Nobody listens any more, so a query knows at once.
    assert found["not connected"] >= 40


@pytest.mark.proof
def test_a_server_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    first: list[int] = []

    def once(request: Request) -> Answer:
        first.append(1)
        return resets(request) if len(first) <= 5 else linear(request)

    with serving(infer_only(once)) as server, client(server, tmp_path) as rows:
        samples = open_loop(rows, tmp_path, 60, 500.0, connections=4)
    assert counts(samples) == {"answered": 55, "connection broke": 5}
    # One that broke is opened again when a query finds no other.
    opened = samples.details["connections_opened_again"]
    assert isinstance(opened, int) and 1 <= opened <= 5


@pytest.mark.proof
def test_a_late_answer_is_not_taken_for_the_next_query(tmp_path: Path) -> None:
    """Each row has its own answer, so a mix-up would show."""
    asked: list[int] = []

    def sometimes_late(request: Request) -> Answer:
        asked.append(1)
        if len(asked) % 7 == 0:
            time.sleep(0.3)
        return linear(request)

    with serving(infer_only(sometimes_late)) as server, client(server, tmp_path) as rows:
        samples = open_loop(rows, tmp_path, 70, 400.0, timeout_s=0.2, connections=16)
    found = counts(samples)
    assert found["timed out"] >= 5
    assert set(found) == {"answered", "timed out"}
    assert samples.answers is not None
    expected = X[samples.items].sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(samples.answers[samples.ok, 0], expected[samples.ok], rtol=1e-5)
    assert np.isnan(samples.answers[~samples.ok]).all()


def every(nth: int, fault: Fault) -> Fault:
    """Every so many-th query by ``fault``."""
    asked: list[int] = []

    def handle(request: Request) -> Answer:
        if request.path.endswith("/infer"):
            asked.append(1)
            if len(asked) % nth == 0:
                return fault(request)
        return linear(request)

    return handle


def measured(rows: RemoteRows, folder: Path, kind: str, queries: int, **fields: object) -> Samples:
    schedule = Schedule(kind, queries=queries, warmup_queries=8, warmup_s=0.0, settle=False, **fields)  # type: ignore[arg-type]
    session = Session(rows, schedule, folder / "samples")
    warm = session.warm_up()
    session.block(0, queries, 0.0)
    return read_samples(folder / "samples", model="m", process=0, details=warm | session.finish())


@pytest.mark.parametrize("fault", [resets, closes, half_a_body])
@pytest.mark.parametrize("kind", ["single_stream", "offline", "flood"])
def test_a_query_whose_connection_broke_is_counted_and_not_sent_again(kind: str, fault: Fault, tmp_path: Path) -> None:
    """F12: one query after the other, and several under way, tell the same of one server."""
    fields = {"connections": 4} if kind == "flood" else {}
    with serving(every(5, fault)) as server, client(server, tmp_path) as rows:
        before = server.requests
        samples = measured(rows, tmp_path, "offline" if kind == "flood" else kind, 60, **fields)
        asked = server.requests - before
    found = counts(samples)
    assert set(found) == {"answered", "connection broke"}
    assert sum(found.values()) == len(samples.end_ns) <= asked
    assert found["connection broke"] == pytest.approx(len(samples.end_ns) / 5, abs=2)
    assert samples.details["warmup_failed"] == 1
    opened = samples.details["connections_opened_again"]
    assert isinstance(opened, int) and opened >= found["connection broke"] - 4


@pytest.mark.proof
def test_a_connection_that_was_seen_to_be_closed_is_opened_again(tmp_path: Path) -> None:
    """F12: nothing was written to it, so nothing is lost and nothing is sent twice."""

    def closing(request: Request) -> Answer:
        request.connection.sendall(linear(request))
        request.connection.close()
        return None

    with serving(infer_only(closing)) as server, client(server, tmp_path) as rows:
        query = rows.take(np.array([3]))
        for _ in range(5):
            rows.serve(query)
            time.sleep(0.02)
        assert rows.facts()["connections_opened_again"] == 4
        before = server.requests
        samples = open_loop(rows, tmp_path, 20, 50.0, connections=1)
        assert server.requests - before == 20
    assert counts(samples) == {"answered": 20}
    assert samples.details["connections_opened_again"] == 19


def test_what_a_server_says_unasked_is_no_answer(tmp_path: Path) -> None:
    """F12: as over several connections."""

    def talks(request: Request) -> Answer:
        request.connection.sendall(linear(request))
        time.sleep(0.01)
        return answer(200, outputs([99.0]))

    with serving(infer_only(talks)) as server, client(server, tmp_path) as rows:
        for row in (3, 5, 7):
            (found,) = rows.answers(rows.serve(rows.take(np.array([row]))))
            assert found == pytest.approx(float(X[row].sum()), rel=1e-5)
            time.sleep(0.05)


@pytest.mark.parametrize("fault", [broken, refused, closes, cut_json, nan])
def test_warming_up_asks_again(fault: Fault, tmp_path: Path) -> None:
    """F18: how often a server errs can be measured, whatever it errs with."""
    with serving(every(3, fault)) as server, client(server, tmp_path) as rows:
        samples = measured(rows, tmp_path, "single_stream", 30)
    assert counts(samples)["answered"] == 20
    failed = samples.details["warmup_failed"]
    assert isinstance(failed, int) and 2 <= failed <= 6


def test_warming_up_ends_where_nothing_is_answered(tmp_path: Path) -> None:
    """F18: a server that does not answer at all is not asked for ever."""
    with serving(infer_only(broken)) as server, client(server, tmp_path) as rows:
        with pytest.raises(HttpError, match="HTTP 500"):
            measured(rows, tmp_path, "single_stream", 30)
        assert server.requests < 40


@pytest.mark.parametrize("fault", [closes, resets])
def test_answers_for_quality_are_asked_for_again_and_counted(fault: Fault, tmp_path: Path) -> None:
    """F12: a connection that broke; all other failures end it, as they did."""
    with serving(every(3, fault)) as server, client(server, tmp_path, batch=4) as rows:
        answers = rows.served.predict_all(TABLE)
    assert answers.n == 40
    assert answers.details["requests_failed"] == 4
    assert answers.details["requests_failed_how"] == "connection broke 4"
    with serving(every(3, broken)) as server, client(server, tmp_path, batch=4) as rows:
        with pytest.raises(HttpError, match="HTTP 500"):
            rows.served.predict_all(TABLE)
        rows.loaded.patient = True
        answers = rows.served.predict_all(TABLE)
    assert answers.details["requests_failed_how"] == "server error (HTTP 5xx) 4"


@pytest.mark.parametrize("fault", [broken, closes])
def test_loading_asks_again(fault: Fault, tmp_path: Path) -> None:
    """F18: health and metadata of a server that errs at times."""
    asked: list[int] = []

    def handle(request: Request) -> Answer:
        asked.append(1)
        return fault(request) if len(asked) % 2 else linear(request)

    with serving(handle) as server, client(server, tmp_path) as rows:
        assert rows.loaded.observed["framework"] == "served by stub 1.2"
        assert rows.loaded.output_names == ("s",)


def test_stages_ask_again(tmp_path: Path) -> None:
    """F18: of a server that errs there are stages all the same, and how often it did."""
    from evalspec.measure.probes import Context
    from evalspec.measure.probes.stages import probe

    options = {"queries": 12, "batch": 1, "warmup": 4, "warmup_s": 0.0}
    with serving(every(5, broken)) as server, client(server, tmp_path) as rows:
        context = Context(
            model=rows.served.model, loaded=rows.loaded, rows=rows, tensors=lambda index: {}, seed=1,
            access=Access(folder=tmp_path), options=options, progress=lambda done, total, what: None,
        )  # fmt: skip
        found = probe(context)
    assert found.facts["queries_failed"] == 6
    assert found.facts["warmup_failed"] in (1, 2)
    assert len(found.series["end_to_end_ns"]) == 12
