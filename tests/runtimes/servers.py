"""Small servers for the tests: one that answers right, and one that does everything wrong that it is told to."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Answer = bytes | None
"""Bytes to send and keep the connection; None: it is closed, and all else was dealt with."""


@dataclass
class Request:
    """One request as it was read.

    Args:
        method, path: Of its first line.
        headers: By name in small letters.
        body: Its bytes.
        connection: To misbehave on.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: socket.socket


def answer(status: int, body: Any, headers: dict[str, str] | None = None, *, close: bool = False) -> bytes:
    """An answer's bytes; what is not bytes becomes JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines += ["Connection: close"] if close else []
    return "\r\n".join([*lines, "", ""]).encode() + content


def linear(request: Request) -> bytes:
    """An OIP model of the sum over each row, ``s``, and a label, ``up`` where the sum is over 0."""
    if request.path == "/v2":
        return answer(200, {"name": "stub", "version": "1.2", "extensions": []})
    if request.path == "/v2/models/m/ready":
        return answer(200, {"ready": True})
    if request.path == "/v2/models/m":
        return answer(
            200,
            {
                "name": "m",
                "versions": ["3"],
                "platform": "stub",
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
                "outputs": [{"name": "s", "datatype": "FP64", "shape": [-1]}],
            },
        )
    if request.path != "/v2/models/m/infer":
        return answer(404, {"error": f"no {request.path}"})
    rows = read_rows(request)
    sums = [sum(row) for row in rows]
    if "inference-header-content-length" in request.headers:
        data = struct.pack(f"<{len(sums)}d", *sums)
        head = json.dumps(
            {
                "model_name": "m",
                "outputs": [
                    {
                        "name": "s",
                        "shape": [len(sums)],
                        "datatype": "FP64",
                        "parameters": {"binary_data_size": len(data)},
                    }
                ],
            }
        ).encode()
        return answer(200, head + data, {"Inference-Header-Content-Length": str(len(head))})
    return answer(200, outputs(sums))


def outputs(sums: list[float], shape: list[int] | None = None) -> dict[str, Any]:
    """An OIP answer in JSON."""
    return {
        "model_name": "m",
        "outputs": [{"name": "s", "shape": shape or [len(sums)], "datatype": "FP64", "data": sums}],
    }


def read_rows(request: Request) -> list[list[float]]:
    """The rows of the OIP input ``x``, from JSON or bytes."""
    length = request.headers.get("inference-header-content-length")
    head = json.loads(request.body if length is None else request.body[: int(length)])
    tensor = head["inputs"][0]
    count, width = tensor["shape"]
    flat = tensor["data"] if length is None else struct.unpack(f"<{count * width}f", request.body[int(length) :])
    return [list(flat[row * width : (row + 1) * width]) for row in range(count)]


@dataclass
class Server:
    """A server on loopback, a thread for each connection.

    Args:
        handle: Request -> answer.
        tls: Speak https.
    """

    handle: Callable[[Request], Answer]
    tls: ssl.SSLContext | None = None
    requests: int = 0
    accepted: int = 0
    seen: list[str] = field(default_factory=list)
    """Handshakes that were begun and requests that were read, in their order."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    open_: list[socket.socket] = field(default_factory=list)
    dead: bool = False
    listener: socket.socket = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self.listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.accepted += 1
            self._keep(connection)
            threading.Thread(target=self._connection, args=(connection,), daemon=True).start()

    def die(self) -> None:
        """As when the process is killed: nobody listens, every connection breaks."""
        # A thread that waits in accept holds the socket open; shutting it down wakes it.
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            self.dead = True
            for connection in self.open_:
                self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        # Each is closed by its own thread: another one may be about to write to it, and its number would be another's.
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def _keep(self, connection: socket.socket) -> None:
        with self.lock:
            self.open_.append(connection)
            if self.dead:
                self._end(connection)

    def _connection(self, connection: socket.socket) -> None:
        buffer = b""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                connection = self._secured(connection, self.tls)
            while True:
                found = _read(connection, buffer)
                if found is None:
                    break
                request, buffer = found
                with self.lock:
                    self.requests += 1
                    self.seen.append(request.path)
                reply = self.handle(request)
                if reply is None:
                    return
                connection.sendall(reply)
                if b"\r\nConnection: close\r\n" in reply[:400]:
                    break
        except OSError:
            pass
        finally:
            connection.close()

    def _secured(self, connection: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
        with self.lock:
            self.seen.append("handshake")
        secured = tls.wrap_socket(connection, server_side=True)
        self._keep(secured)
        return secured


def reset(connection: socket.socket) -> None:
    """Close with a reset, as a crashed process does."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


def _read(connection: socket.socket, buffer: bytes) -> tuple[Request, bytes] | None:
    while b"\r\n\r\n" not in buffer:
        data = connection.recv(65536)
        if not data:
            return None
        buffer += data
    head, _, rest = buffer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    length = int(headers.get("content-length", 0))
    while len(rest) < length:
        data = connection.recv(65536)
        if not data:
            return None
        rest += data
    method, path, _ = lines[0].split(" ")
    return Request(method, path, headers, rest[:length], connection), rest[length:]


@contextmanager
def serving(handle: Callable[[Request], Answer] = linear, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server for as long as the context lasts."""
    server = Server(handle, tls)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.die()
        thread.join(timeout=5)
