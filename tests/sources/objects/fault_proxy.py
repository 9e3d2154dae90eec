"""Stands before a server of object storage: hands requests on, and has some of them go wrong."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("503", "reset", "slow")
SLOW_S = 0.5


class Faults:
    """What goes wrong.

    Args:
        rate: Share of the requests.
        seed: Of the draw which.
    """

    def __init__(self, rate: float = 0.0, seed: int = 0) -> None:
        self.rate, self._random = rate, random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.before: Callable[[str, str], tuple[int, str] | None] = lambda method, path: None
        """Method and path -> status and code to answer with; None: as the server does."""

    def next(self) -> str:
        fault = self._random.choice(FAULTS) if self._random.random() < self.rate else ""
        self.seen[fault] += 1
        return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: int
    faults: Faults

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        said = self.faults.before(self.command, self.path)
        fault = self.faults.next()
        if fault == "503":
            said = (503, "SlowDown")
        if said is not None:
            self._answer(said[0], {}, f"<Error><Code>{said[1]}</Code></Error>".encode())
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        with contextlib.closing(connection):
            # The name of the host is signed.
            connection.request(self.command, self.path, headers=dict(self.headers.items()))
            answer = connection.getresponse()
            content = answer.read()
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in HOP}
        if fault == "slow":
            time.sleep(SLOW_S)
        self._answer(answer.status, headers, content, cut=fault == "reset")

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        headers.setdefault("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(b"" if self.command == "HEAD" else content[: len(content) // 2] if cut else content)
        if cut:
            self.wfile.flush()
            # Nothing is sent after that, and the other side hears of it.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True


HOP = {"connection", "transfer-encoding", "date", "server", "keep-alive"}


@contextlib.contextmanager
def before(upstream: int, faults: Faults) -> Iterator[str]:
    """URL of the proxy."""
    handler = type("ProxyHandler", (_Handler,), {"upstream": upstream, "faults": faults})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
