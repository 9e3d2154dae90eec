"""Servers that end a connection right after an answer, and don't say so."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from evalspec.runtimes.http_client.closed_loop import Busy
from evalspec.runtimes.http_client.connection import Connection, Keeping
from evalspec.runtimes.http_client.pool import Outcome
from evalspec.runtimes.http_client.wire import Address, HttpError, parse_url, request_bytes

BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=5, max=100\r\n\r\nok"
QUERIES = 60


@contextmanager
def serving(ends: Callable[[int], bool], wait_s: float = 0.0) -> Iterator[tuple[Address, list[int]]]:
    """A server; after its k-th answer it ends the connection where ``ends`` says so, and reads nothing more of it."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    answered: list[int] = []
    lock = threading.Lock()

    def talk(link: socket.socket) -> None:
        with link:
            while True:
                data = b""
                while b"\r\n\r\n" not in data:
                    try:
                        more = link.recv(65536)
                    except OSError:
                        return
                    if not more:
                        return
                    data += more
                link.sendall(BODY)
                with lock:
                    answered.append(1)
                    last = ends(len(answered))
                if last:
                    time.sleep(wait_s)
                    return

    def accept() -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(link,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield parse_url(f"http://127.0.0.1:{listening.getsockname()[1]}"), answered
    finally:
        listening.close()


def asked(address: Address, queries: int, keeping: Keeping) -> tuple[list[Outcome], int]:
    """Queries one after the other over a pool of one connection; and how often it was opened again."""
    client = Busy(address, 1, 5_000_000_000)
    client.keeping = keeping
    ended: list[Outcome] = []
    request = request_bytes(address, "/", {})
    try:
        client.open(5.0)
        client.run(lambda number: request if number < queries else None, lambda _, outcome: ended.append(outcome))
    finally:
        client.close()
    return ended, client.reconnected


@pytest.mark.parametrize("wait_s", [0.0, 0.002])
def test_a_server_that_ends_each_connection_is_asked_over_a_new_one(wait_s: float) -> None:
    keeping = Keeping()
    with serving(lambda _: True, wait_s) as (address, _):
        ended, again = asked(address, QUERIES, keeping)
    # What was under way when it was first seen can't be sent twice.
    assert sum(one.outcome != 0 for one in ended) <= 1
    assert len(ended) == QUERIES and again >= QUERIES - 2 and not keeping.keeps
    with serving(lambda _: True, wait_s) as (address, _):
        ended, _ = asked(address, QUERIES, keeping)
    assert [one.outcome for one in ended] == [0] * QUERIES


def test_one_that_keeps_them_is_asked_over_one() -> None:
    keeping = Keeping()
    with serving(lambda _: False) as (address, _):
        ended, again = asked(address, QUERIES, keeping)
    assert [one.outcome for one in ended] == [0] * QUERIES and again == 0 and keeping.keeps


def test_a_fresh_connection_that_breaks_is_a_failure_each_time() -> None:
    """Nothing is excused: over a connection of its own a request that gets no answer has failed."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)

    def refuse() -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            with link:
                link.recv(65536)

    threading.Thread(target=refuse, daemon=True).start()
    address = parse_url(f"http://127.0.0.1:{listening.getsockname()[1]}")
    keeping = Keeping()
    try:
        ended, _ = asked(address, 10, keeping)
    finally:
        listening.close()
    assert len(ended) == 10 and all(one.outcome != 0 for one in ended) and keeping.keeps


def test_a_single_connection_learns_it_too() -> None:
    with serving(lambda _: True, 0.001) as (address, answered):
        connection = Connection(address, 5.0)
        failed = 0
        for _ in range(QUERIES):
            try:
                connection.ask(request_bytes(address, "/", {}))
            except HttpError:
                failed += 1
        connection.close()
    assert failed <= 1 and not connection.keeping.keeps and len(answered) >= QUERIES - 5


def test_one_that_was_idle_for_long_says_nothing_of_the_server() -> None:
    keeping = Keeping()
    keeping.closed(0)
    assert keeping.keeps
    from evalspec.clocks import now_ns

    keeping.closed(now_ns() - 2_000_000_000)
    assert keeping.keeps
    keeping.closed(now_ns())
    assert not keeping.keeps
