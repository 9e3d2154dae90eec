"""The closed loop over many connections: so many requests are always under way, and what comes of them is kept."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import Access
from evalspec.measure.samples import read_samples
from evalspec.measure.servable import Concurrent, rows_of_queries
from evalspec.measure.session import Session
from evalspec.runtimes.http_client import prepared
from evalspec.runtimes.http_client.prepared import Ahead, Query
from evalspec.runtimes.http_client.rows import RemoteRows
from evalspec.timing.samples import rate
from tests.runtimes.http_client.test_faults import TABLE, X, broken, client, counts, infer_only
from tests.runtimes.servers import Answer, Request, answer, linear, serving
from tests.runtimes.test_http import PLAIN, served

N = len(TABLE)


def offline(rows: RemoteRows, folder: Path, *, warm: bool = False, blocks: int = 1, **fields: object) -> Samples:
    asked = {"queries": 20, "connections": 4, "warmup_queries": 1, "warmup_s": 0.0, "seed": 5, **fields}
    session = Session(rows, Schedule("offline", **asked), folder / "samples")  # type: ignore[arg-type]
    if warm:
        session.warm_up()
    for block in range(blocks):
        session.block(block, session.schedule.queries, session.schedule.min_s)
    return read_samples(folder / "samples", model="m", process=0, details=session.finish())


def together(count: int) -> threading.Barrier:
    """Passes when so many are there; a query that the others do not come for is an error after a while."""
    return threading.Barrier(count, timeout=10)


@pytest.mark.parametrize("connections", [2, 4, 8])
def test_so_many_requests_are_under_way_at_any_time(connections: int, tmp_path: Path) -> None:
    """Each is answered only when all the others are at the server: with fewer under way nothing would be answered."""
    barrier = together(connections)

    def meeting(request: Request) -> Answer:
        barrier.wait()
        return linear(request)

    with serving(infer_only(meeting)) as server, client(server, tmp_path) as rows:
        assert isinstance(rows, Concurrent)
        samples = offline(rows, tmp_path, queries=5 * connections, connections=connections)
    assert counts(samples) == {"answered": 5 * connections}
    assert samples.details["connections"] == samples.details["connections_open_at_start"] == connections
    assert server.accepted == 1 + connections, "and the one that asked whether it is ready"


@pytest.mark.proof
@pytest.mark.slow
def test_throughput_grows_with_connections_as_far_as_the_server_has_threads(tmp_path: Path) -> None:
    """Four threads of 50 ms a query: 20 a second with one connection, 80 with four, and no more with twelve."""
    threads = threading.Semaphore(4)

    def busy(request: Request) -> Answer:
        with threads:
            time.sleep(0.05)
        return linear(request)

    rates = {}
    with serving(infer_only(busy)) as server, client(server, tmp_path) as rows:
        for connections, queries in ((1, 20), (4, 80), (12, 80)):
            samples = offline(rows, tmp_path, queries=queries, connections=connections)
            assert counts(samples) == {"answered": queries}
            rates[connections] = rate(samples)
    assert 3.2 < rates[4] / rates[1] < 4.4
    assert 0.8 < rates[12] / rates[4] < 1.2


def test_rows_answers_and_times_belong_together(tmp_path: Path) -> None:
    with serving() as server, client(server, tmp_path) as rows:
        samples = offline(rows, tmp_path, queries=30, batch=7, connections=3)
    assert len(samples.end_ns) == 30 and samples.answers is not None and samples.first_ns is not None
    asked = rows_of_queries(samples.items, 7, N, seed=5)
    np.testing.assert_allclose(samples.answers, X[asked].sum(axis=2, dtype=np.float64), rtol=1e-4, atol=1e-5)
    assert sorted(asked.reshape(-1)[:N].tolist()) == list(range(N)), "every row comes before one comes again"
    assert (samples.sent_ns <= samples.first_ns).all() and (samples.first_ns <= samples.end_ns).all()
    np.testing.assert_array_equal(samples.intended_ns, samples.sent_ns)
    assert (np.diff(samples.sent_ns) >= 0).all()


def test_answers_that_come_in_another_order_are_not_mixed_up(tmp_path: Path) -> None:
    """The first of each two waits for the second one's answer to be sent."""
    turn = threading.Semaphore(0)
    asked: list[int] = []
    lock = threading.Lock()

    def crossing(request: Request) -> Answer:
        with lock:
            asked.append(1)
            first = len(asked) % 2 == 1
        whole = linear(request)
        if first:
            assert turn.acquire(timeout=10)
            return whole
        assert isinstance(whole, bytes)
        request.connection.sendall(whole)
        turn.release()
        return b""

    with serving(infer_only(crossing)) as server, client(server, tmp_path) as rows:
        samples = offline(rows, tmp_path, queries=40, connections=2)
    assert counts(samples) == {"answered": 40} and samples.answers is not None
    np.testing.assert_allclose(samples.answers[:, 0], X[samples.items].sum(axis=1, dtype=np.float64), rtol=1e-4)


def test_it_goes_on_until_count_and_time_are_reached(tmp_path: Path) -> None:
    with serving() as server, client(server, tmp_path) as rows:
        few = offline(rows, tmp_path, queries=6)
        long = offline(rows, tmp_path, queries=6, min_s=0.3)
    assert len(few.end_ns) == 6 and few.details["complete"] is True
    assert len(long.end_ns) > 6 and long.details["complete"] is True
    assert long.end_ns.max() - long.sent_ns.min() >= 0.3e9


def test_a_run_that_is_out_of_time_says_so(tmp_path: Path) -> None:
    with serving() as server, client(server, tmp_path) as rows:
        samples = offline(rows, tmp_path, queries=100_000, limit_s=0.2)
    assert samples.details["complete"] is False
    assert 0 < len(samples.end_ns) < 100_000


@pytest.mark.proof
def test_connections_are_kept_from_warm_up_to_the_last_block(tmp_path: Path) -> None:
    with serving() as server, client(server, tmp_path) as rows:
        samples = offline(rows, tmp_path, warm=True, blocks=4, queries=8)
        assert server.accepted == 1 + 4
        asked = server.requests
    assert len(samples.end_ns) == 32 and np.bincount(samples.block).tolist() == [8] * 4
    # One question for readiness, two for metadata; each connection has carried two queries before.
    assert asked == 3 + samples.warmup + 32 and samples.warmup >= 2 * 4
    assert samples.details["connections_opened_again"] == 0
    share = samples.details["client_busy_share"]
    assert isinstance(share, float) and 0.0 < share <= 1.1


def test_a_query_of_several_requests_is_one_query(tmp_path: Path) -> None:
    """A server that takes one row a request: a batch of three is three requests, which are under way together."""
    barrier = together(3)

    def single(request: Request) -> Answer:
        barrier.wait()
        (row,) = json.loads(request.body)["input"]
        return answer(200, {"y": sum(row)})

    fields = PLAIN | {"request": {"input": ["{x}"]}, "response": {"value": "y"}, "per_row": True}
    with serving(single) as server:
        one = served(fields | {"url": server.url}, Access(tmp_path))
        rows = one.rows(TABLE)
        assert isinstance(rows, RemoteRows)
        samples = offline(rows, tmp_path, queries=8, batch=3, connections=3)
        one.loaded.close()
        assert server.requests == 24
    assert counts(samples) == {"answered": 8} and samples.answers is not None
    expected = X[rows_of_queries(samples.items, 3, N, seed=5)].sum(axis=2, dtype=np.float64)
    np.testing.assert_allclose(samples.answers, expected, rtol=1e-4, atol=1e-5)


def test_a_server_that_fails_all_is_given_up(tmp_path: Path) -> None:
    with (
        serving(infer_only(broken)) as server,
        client(server, tmp_path) as rows,
        pytest.raises(InputError, match=r"first 20 queries all failed; the last one: server error \(HTTP 5xx\)"),
    ):
        offline(rows, tmp_path, queries=1000)
    assert server.requests < 100


def test_what_fails_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    asked: list[int] = []
    lock = threading.Lock()

    def every_fifth(request: Request) -> Answer:
        with lock:
            asked.append(1)
            fails = len(asked) % 5 == 0
        return broken(request) if fails else linear(request)

    with serving(infer_only(every_fifth)) as server, client(server, tmp_path) as rows:
        samples = offline(rows, tmp_path, queries=50)
    assert counts(samples) == {"answered": 40, "server error (HTTP 5xx)": 10}
    assert samples.answers is not None and np.isnan(samples.answers[~samples.ok]).all()


def test_the_time_of_a_request_counts_from_when_it_is_sent(tmp_path: Path) -> None:
    """Two connections, and a server that never answers one query: it times out, and no other one does."""
    asked: list[int] = []

    def once_silent(request: Request) -> Answer:
        asked.append(1)
        if len(asked) == 3:
            time.sleep(1.0)
            return None
        return linear(request)

    with serving(infer_only(once_silent)) as server, client(server, tmp_path, timeout="0.4 s") as rows:
        samples = offline(rows, tmp_path, queries=30, min_s=0.8, connections=2)
    found = counts(samples)
    assert found.pop("timed out") == 1
    assert set(found) == {"answered"} and found["answered"] >= 29


def test_a_server_that_dies_leaves_what_it_had_answered(tmp_path: Path) -> None:
    def dying(request: Request) -> Answer:
        if server.requests >= 40:
            server.die()
            return None
        return linear(request)

    with serving(dying) as server, client(server, tmp_path) as rows:
        samples = offline(rows, tmp_path, queries=200)
    found = counts(samples)
    assert len(samples.end_ns) == 200
    assert 30 <= found["answered"] <= 40
    assert set(found) <= {"answered", "connection broke", "not connected"}


def test_requests_are_made_before_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def make(rows: np.ndarray) -> Query:
        made.append(int(rows[0]))
        return Query((b"x" * 40,), (1,), 1)

    monkeypatch.setattr(prepared, "HELD_BYTES", 100)
    ahead = Ahead(make)
    for row in (0, 1, 2, 3, 0, 1, 2, 3):
        ahead.query(np.array([row]))
    assert not ahead.has_room
    assert made == [0, 1, 2, 3, 3], "120 bytes are held, and what came after is made each time"


def test_a_server_that_nobody_listens_for_is_given_up(tmp_path: Path) -> None:
    with (
        serving() as server,
        client(server, tmp_path) as rows,
        pytest.raises(InputError, match=r"first 20 queries all failed; the last one: (connection broke|not connected)"),
    ):
        server.die()
        offline(rows, tmp_path, queries=100)
