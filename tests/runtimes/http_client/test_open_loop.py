"""The open loop over many connections: times, waits, and whose fault they are."""

from __future__ import annotations

import select
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from evalspec.clocks import now_ns
from evalspec.language.inputs import Schedule
from evalspec.language.timings import ANSWERED, NOT_CONNECTED, NOT_SENT, TIMED_OUT
from evalspec.measure.samples import read_samples
from evalspec.measure.servable import rows_of_queries
from evalspec.measure.session import Session
from evalspec.runtimes.http_client import open_loop as http_client_open_loop
from evalspec.runtimes.http_client import pool
from evalspec.runtimes.http_client.open_loop import Client
from evalspec.runtimes.http_client.pool import Outcome, PooledConnection
from evalspec.runtimes.http_client.wire import Address, parse_url, request_bytes
from tests.measure.fakes import FakeClock
from tests.runtimes.http_client.test_faults import X, client, counts, open_loop
from tests.runtimes.servers import Answer, Request, answer, linear, read_rows, serving

HOUR_NS = 3600 * 10**9


def drive(
    url: str, times_s: list[float], *, connections: int = 4, timeout_s: float = 5.0, give_up_s: float | None = None
) -> tuple[list[Outcome | None], np.ndarray, bool, Client]:
    """Every query's outcome, its due time, whether all were sent."""
    address = parse_url(url)
    one = Client(address, connections, int(timeout_s * 1e9))
    one.open(2.0)
    start = now_ns() + 20_000_000
    if give_up_s is not None:
        one.until_ns = start + int(give_up_s * 1e9)
    due = [start + int(time * 1e9) for time in times_s]
    found: list[Outcome | None] = [None] * len(due)
    requests = [request_bytes(address, f"/{index}", {}, b"{}") for index in range(len(due))]
    done = one.run(requests, due, lambda index, outcome: found.__setitem__(index, outcome))
    one.close()
    return found, np.array(due), done, one


def hold(request: Request) -> Answer:
    time.sleep(0.1)
    return answer(200, {})


def echo(request: Request) -> Answer:
    return answer(200, {"path": request.path})


def test_every_query_gets_its_own_answer() -> None:
    with serving(echo) as server:
        found, due, done, _ = drive(server.url, [index / 2000 for index in range(200)])
    assert done
    for index, one in enumerate(found):
        assert one is not None and one.outcome == ANSWERED and one.reply is not None
        assert one.reply.body == f'{{"path": "/{index}"}}'.encode()
        assert due[index] <= one.sent_ns <= one.first_ns <= one.end_ns


def test_nothing_is_sent_before_its_time() -> None:
    with serving(echo) as server:
        found, due, _, _ = drive(server.url, [0.0, 0.05, 0.1, 0.15])
    assert all(one is not None and one.sent_ns >= at for one, at in zip(found, due, strict=True))


def test_queries_do_not_wait_for_answers() -> None:
    """Ten queries at once to a server that takes 0.1 s for each: all are sent at once."""
    with serving(hold) as server:
        found, _, _, _ = drive(server.url, [0.0] * 10, connections=10)
    sent = np.array([one.sent_ns for one in found if one is not None])
    assert len(sent) == 10
    ends = np.array([one.end_ns for one in found if one is not None])
    assert sent.max() < ends.min()


def test_connections_are_kept_and_opened_before() -> None:
    with serving(echo) as server:
        found, _, _, one = drive(server.url, [index / 500 for index in range(100)], connections=3)
    assert server.accepted == 3
    assert one.reconnected == 0
    assert all(one is not None and one.outcome == ANSWERED for one in found)


def test_a_wait_for_a_connection_is_no_lag() -> None:
    """Six queries at once over two connections to a server that takes 0.1 s: the last wait 0.2 s, not by our fault."""
    with serving(hold) as server:
        found, due, _, _ = drive(server.url, [0.0] * 6, connections=2)
    waited = np.array([one.sent_ns for one in found if one is not None]) - due
    lag = np.array([one.lag_ns for one in found if one is not None])
    assert (waited[2:4] > 90_000_000).all() and (waited[4:] > 190_000_000).all()
    assert (lag[2:] < waited[2:] / 2).all()


def test_a_client_that_is_kept_from_sending_shows_it_as_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client too slow for its rate: each query takes it 4 ms, and the answers are there when it looks for them."""
    send = Client._send
    clock = FakeClock()
    clock.reading_ns = 0

    def slow_send(self: Client, one: PooledConnection) -> None:
        send(self, one)
        # However long the server really takes, to the client it is idle.
        select.select([one.socket], [], [])
        clock.pass_ms(4.0)

    with serving(echo) as server:
        address = parse_url(server.url)
        client = Client(address, 2, HOUR_NS)
        client.open(10.0)
        monkeypatch.setattr(http_client_open_loop, "now_ns", clock)
        monkeypatch.setattr(pool, "now_ns", clock)
        monkeypatch.setattr(Client, "_send", slow_send)
        found: dict[int, Outcome] = {}
        due = [clock.now + index * 1_000_000 for index in range(100)]
        request = request_bytes(address, "/", {}, b"{}")
        assert client.run([request] * 100, due, found.__setitem__)
        client.close()
    # 100 queries in 0.1 s take 0.4 s: the k-th is 3 k ms late, and all of that is the client's.
    late_ms = [(found[index].sent_ns - due[index]) / 1e6 for index in range(100)]
    lag_ms = [found[index].lag_ns / 1e6 for index in range(100)]
    assert late_ms == lag_ms == [3.0 * index for index in range(100)]


def test_what_finds_no_connection_in_time_was_not_sent() -> None:
    def busy(request: Request) -> Answer:
        time.sleep(0.5)
        return answer(200, {})

    with serving(busy) as server:
        found, due, done, _ = drive(server.url, [0.0, 0.0, 0.0], connections=1, timeout_s=0.2)
    codes = [one.outcome for one in found if one is not None]
    assert codes == [TIMED_OUT, NOT_SENT, NOT_SENT]
    assert done
    assert all(one is not None and one.end_ns - at >= 200_000_000 for one, at in zip(found, due, strict=True))


def test_a_server_that_nobody_listens_for_is_not_connected() -> None:
    with serving(echo) as server:
        pass
    found, _, done, _ = drive(server.url, [0.0, 0.01, 0.02])
    assert [one.outcome for one in found if one is not None] == [NOT_CONNECTED] * 3
    assert done


def test_giving_up_keeps_what_was_due_and_leaves_out_the_rest() -> None:
    with serving(echo) as server:
        found, _, done, _ = drive(server.url, [0.0, 0.01, 30.0, 31.0], give_up_s=0.3)
    assert not done
    assert [None if one is None else one.outcome for one in found] == [ANSWERED, ANSWERED, None, None]


def test_another_thread_may_end_it() -> None:
    with serving(echo) as server:
        address = parse_url(server.url)
        one = Client(address, 2, HOUR_NS)
        one.open(1.0)
        start = now_ns()
        due = [start + index * 10_000_000 for index in range(100_000)]
        found: dict[int, Outcome] = {}
        request = request_bytes(address, "/", {}, b"")
        thread = threading.Thread(target=one.run, args=([request] * len(due), due, found.__setitem__))
        thread.start()
        time.sleep(0.2)
        one.until_ns = now_ns()
        thread.join(timeout=10)
        assert not thread.is_alive()
        one.close()
    assert 1 <= len(found) <= 2000
    assert sorted(found) == list(range(len(found)))


def test_large_requests_and_answers_pass_in_pieces() -> None:
    body = b"x" * 3_000_000

    def large(request: Request) -> Answer:
        assert request.body == body
        return answer(200, body)

    with serving(large) as server:
        address = parse_url(server.url)
        one = Client(address, 2, HOUR_NS)
        one.open(1.0)
        found: dict[int, Outcome] = {}
        requests = [request_bytes(address, "/", {}, body)] * 4
        start = now_ns()
        assert one.run(requests, [start] * 4, found.__setitem__)
        one.close()
    for outcome in found.values():
        assert outcome.outcome == ANSWERED and outcome.reply is not None
        assert outcome.reply.body == body
        assert outcome.first_ns < outcome.end_ns


def test_a_name_that_stands_for_nothing_is_named() -> None:
    from evalspec.runtimes.http_client.wire import HttpError

    with pytest.raises(HttpError, match="not known"):
        Client(Address("no-such-host.invalid", 80, ""), 1, HOUR_NS)


@pytest.mark.proof
def test_samples_show_first_byte_and_wait(tmp_path: Path) -> None:
    def late_end(request: Request) -> Answer:
        from tests.runtimes.servers import linear

        whole = linear(request)
        assert isinstance(whole, bytes)
        if request.path.endswith("/infer"):
            request.connection.sendall(whole[:20])
            time.sleep(0.05)
            return whole[20:]
        return whole

    with serving(late_end) as server, client(server, tmp_path) as rows:
        samples = open_loop(rows, tmp_path, 20, 100.0, connections=2)
    assert counts(samples) == {"answered": 20}
    assert samples.first_ns is not None
    assert (samples.end_ns - samples.first_ns > 40_000_000).all()
    # 100 a second over two connections that are busy for 50 ms: they wait, and that is no lag of the client's.
    waited, lag = samples.details["waited_for_connection_p99_ms"], samples.details["generator_lag_p99_ms"]
    assert isinstance(waited, float) and isinstance(lag, float)
    assert waited > 100 > lag


@pytest.mark.proof
def test_sent_times_keep_to_the_schedule(tmp_path: Path) -> None:
    with serving() as server, client(server, tmp_path) as rows:
        samples = open_loop(rows, tmp_path, 200, 400.0)
    assert counts(samples) == {"answered": 200}
    np.testing.assert_array_equal(np.diff(samples.intended_ns), 2_500_000)
    assert samples.answers is not None and np.isfinite(samples.answers).all()


@pytest.mark.proof
def test_a_query_with_several_rows_is_one_request(tmp_path: Path) -> None:
    sizes = np.array([1, 3, 20, 2] * 5)
    items = np.arange(20)
    seen: list[int] = []

    def counting(request: Request) -> Answer:
        if request.path.endswith("/infer"):
            seen.append(len(read_rows(request)))
        return linear(request)

    with serving(counting) as server, client(server, tmp_path) as rows:
        asked = Schedule(
            kind="open_loop", queries=20, batch=4, seed=5, warmup_queries=1, warmup_s=0.0, sizes=sizes, items=items,
            arrivals_ns=5_000_000 * np.arange(20, dtype=np.int64), connections=1,
        )  # fmt: skip
        session = Session(rows, asked, tmp_path / "s")
        session.warm_up()
        seen.clear()
        session.block(0, 20, 0.0)
        session.finish()
        samples = read_samples(tmp_path / "s", model="m", process=0)
        # One connection keeps their order.
        assert seen == sizes.tolist()
        assert samples.sizes is not None and samples.sizes.tolist() == sizes.tolist()
        assert samples.answers is not None
        for answers, own, size in zip(
            samples.answers, rows_of_queries(samples.items, 4, rows.n, 5), sizes.tolist(), strict=True
        ):
            kept = own[: min(size, 4)]
            assert answers[: len(kept)] == pytest.approx(X[kept].sum(axis=1), rel=1e-5)
            assert np.isnan(answers[len(kept) :]).all()


def test_a_server_of_one_row_a_request_is_asked_for_no_more(tmp_path: Path) -> None:
    from evalspec.errors import InputError

    with serving() as server, client(server, tmp_path) as rows:
        rows.loaded.fixed_batch = 1
        asked = Schedule(
            kind="open_loop", queries=2, batch=2, sizes=np.array([1, 2]), arrivals_ns=np.array([0, 1], dtype=np.int64)
        )
        with pytest.raises(InputError, match="the model takes 1 row at once and no other number, and a query of the"):
            Session(rows, asked, tmp_path / "s").warm_up()
