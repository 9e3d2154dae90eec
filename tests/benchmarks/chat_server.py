"""A healthy server of the OpenAI protocol for benchmarks: words at known times, by one thread.

By hand: ``python chat_server.py PORT FIRST_MS GAP_MS TOKENS``.
"""

from __future__ import annotations

import heapq
import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
IDLE_S = 0.5
SPIN_NS = 60_000


def event(body: object) -> bytes:
    """A chunk of a stream."""
    data = b"data: " + json.dumps(body).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


@dataclass
class Peer:
    """A connection and what it has sent so far of a request."""

    connection: socket.socket
    held: bytes = field(default=b"")


class ChatServer:
    """Answers every request with the same words: the first after ``first_ms``, then one each ``gap_ms``."""

    def __init__(self, port: int, first_ms: float, gap_ms: float, tokens: int) -> None:
        choice = {"index": 0, "delta": {"content": " word"}, "finish_reason": None}
        piece = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        last = piece | {"choices": [choice | {"delta": {}, "finish_reason": "stop"}]}
        count = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": tokens + 8}
        usage = piece | {"choices": [], "usage": count}
        done = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
        self.first_ns, self.gap_ns, self.tokens = round(first_ms * 1e6), round(gap_ms * 1e6), tokens
        self.piece, self.end = event(piece), event(last) + event(usage) + done
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.due: list[tuple[int, int, int, Peer]] = []
        self.count = 0

    def run(self) -> None:
        """Until the process ends."""
        while True:
            now = time.monotonic_ns()
            while self.due and self.due[0][0] <= now:
                self._send(*heapq.heappop(self.due))
            wait = IDLE_S if not self.due else max(0.0, (self.due[0][0] - time.monotonic_ns() - SPIN_NS) / 1e9)
            for key, _ in self.selector.select(wait):
                if key.fileobj is self.listener:
                    self._accept()
                else:
                    self._read(key.data)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(connection, selectors.EVENT_READ, Peer(connection))

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.connection.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self.selector.unregister(peer.connection)
            peer.connection.close()
            return
        peer.held += data
        head, found, body = peer.held.partition(b"\r\n\r\n")
        if not found:
            return
        lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0]) if lengths else 0
        if len(body) < length:
            return
        peer.held = body[length:]
        if head.startswith(b"GET"):
            peer.connection.send(PLAIN % (len(MODELS), MODELS))
            return
        self.count += 1
        heapq.heappush(self.due, (time.monotonic_ns() + self.first_ns, self.count, 0, peer))

    def _send(self, at: int, number: int, sent: int, peer: Peer) -> None:
        data = (HEAD if sent == 0 else b"") + self.piece
        last = sent + 1 == self.tokens
        try:
            peer.connection.send(data + self.end if last else data)
        except OSError:
            return
        if not last:
            heapq.heappush(self.due, (at + self.gap_ns, number, sent + 1, peer))


if __name__ == "__main__":
    ChatServer(int(sys.argv[1]), *map(float, sys.argv[2:4]), int(sys.argv[4])).run()
