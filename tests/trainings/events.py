"""Event files of TensorBoard, made field by field; the sums come from a slow definition of CRC-32C of their own."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

START_S = 1_726_000_000.0
Value = tuple[str, bytes]
"""A tag, and the field of a Summary.Value with its number."""


def crc32c(content: bytes) -> int:
    """By long division, bit by bit, over bytes that are turned round: no table, no reflected polynomial."""
    bits = 0xFFFFFFFF
    for byte in content:
        bits ^= int(f"{byte:08b}"[::-1], 2) << 24
        for _ in range(8):
            bits = ((bits << 1) ^ (0x1EDC6F41 if bits & 0x80000000 else 0)) & 0xFFFFFFFF
    return int(f"{bits ^ 0xFFFFFFFF:032b}"[::-1], 2)


def masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(content: bytes) -> bytes:
    head = struct.pack("<Q", len(content))
    return head + masked(head) + content + masked(content)


def varint(value: int) -> bytes:
    value, out = value % 2**64, b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def simple(value: float) -> bytes:
    """``simple_value`` of TensorFlow 1 and PyTorch."""
    return varint(2 << 3 | 5) + struct.pack("<f", value)


def tensor(content: bytes, dtype: int = 1, shape: Sequence[int] = (), *, listed: int | None = None) -> bytes:
    """A tensor of TensorFlow 2, its numbers as bytes, or packed under the field ``listed``."""
    dims = b"".join(field(2, varint(1 << 3) + varint(size)) for size in shape)
    body = varint(1 << 3) + varint(dtype) + field(2, dims) + field(4 if listed is None else listed, content)
    return field(8, body)


def event(time_s: float, step: int, values: Iterable[Value] = (), other: bytes = b"") -> bytes:
    """An event with scalars; ``other`` fields follow."""
    summary = b"".join(field(1, field(1, tag.encode()) + value) for tag, value in values)
    body = varint(1 << 3 | 1) + struct.pack("<d", time_s) + (varint(2 << 3) + varint(step) if step else b"")
    return body + (field(5, summary) if summary else b"") + other


def write_events(
    path: Path,
    evaluations: Sequence[tuple[float, float, float]],
    *,
    tag: str = "val/accuracy",
    begun_min: float = 0.0,
    first_step: int = 10,
    tail: bytes = b"",
) -> None:
    """An event file of a run.

    Args:
        path: Where.
        evaluations: Minutes, value, samples; the latter under the tag `seen`.
        tag: Of the value.
        begun_min: When the file was begun.
        first_step: Steps rise by 10 from there.
        tail: Bytes after the last frame.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = [frame(event(START_S + 60 * begun_min, 0, other=field(3, b"brain.Event:2")))]
    for place, (minutes, value, samples) in enumerate(evaluations):
        values = [(tag, simple(value)), ("seen", tensor(struct.pack("<f", samples)))]
        frames.append(frame(event(START_S + 60 * minutes, first_step + 10 * place, values)))
    path.write_bytes(b"".join(frames) + tail)
