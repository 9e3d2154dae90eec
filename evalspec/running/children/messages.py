"""Messages between our own processes: a length, then JSON. One question, progress lines, one answer."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

Message = dict[str, Any]
Progress = Callable[[float, float, str], None]

_HEADER = struct.Struct("!Q")
MAX_BYTES = 1 << 30
BLOCKS = "blocks"
"""Field of an answer with blocks of bytes, which follow it: tables of Arrow."""


def send(channel: socket.socket, message: Mapping[str, Any]) -> None:
    """Write one message."""
    body = json.dumps(message, allow_nan=False).encode()
    channel.sendall(_HEADER.pack(len(body)) + body)


def send_bytes(channel: socket.socket, body: bytes | memoryview) -> None:
    """Write one block of bytes: the job, from parent to child, or one of an answer."""
    channel.sendall(_HEADER.pack(len(body)))
    channel.sendall(body)


def receive_bytes(channel: socket.socket) -> bytes | None:
    """Read one block; None where the other side has gone."""
    header = _read(channel, _HEADER.size)
    if header is None:
        return None
    (length,) = _HEADER.unpack(header)
    return _read(channel, length) if length <= MAX_BYTES else None


def receive(channel: socket.socket) -> Message | None:
    """Read one message; None where the other side has gone or wrote something else."""
    body = receive_bytes(channel)
    if body is None:
        return None
    try:
        message = json.loads(body)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _read(channel: socket.socket, length: int) -> bytes | None:
    chunks: list[bytes] = []
    while length:
        try:
            chunk = channel.recv(min(length, 1 << 20))
        except ConnectionError:
            return None
        if not chunk:
            return None
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)
