"""Events of TensorBoard: scalars with their time and step, as TensorFlow 1, TensorFlow 2 and PyTorch write them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evalspec.sources.reading.protobuf import Message

WALL_TIME, STEP, SUMMARY = 1, 2, 5
"""Fields of an Event."""
VALUE, TAG, SIMPLE_VALUE, TENSOR = 1, 1, 2, 8
"""Field of a Summary, and those of its values."""
DTYPE, SHAPE, CONTENT = 1, 2, 4
"""Fields of a TensorProto."""
NUMBERS: Mapping[int, tuple[str, int]] = {1: ("<f", 5), 2: ("<d", 6), 3: ("<i", 7), 9: ("<q", 10), 19: ("<e", 13)}
"""Type of a tensor: format of a number of its content, and field with its values one by one."""
BFLOAT16, HALF = 14, 19


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of a tag.

    Args:
        tag: Its name.
        value: May be NaN.
        time_s: Since 1970.
        step: Of the training.
    """

    tag: str
    value: float
    time_s: float
    step: int


def scalars(event: memoryview) -> tuple[float | None, list[Scalar]]:
    """Time of an event, None where it has none, and its scalars; what else it holds is passed by.

    Args:
        event: An Event as it is stored.

    Raises:
        ValueError: It is none.
    """
    time_s: float | None = None
    step, summaries = 0, []
    for number, value in Message(event).fields():
        if number == WALL_TIME and not isinstance(value, int):
            time_s = float(struct.unpack("<d", _exactly(value, 8))[0])
        elif number == STEP and isinstance(value, int):
            step = _signed(value)
        elif number == SUMMARY and not isinstance(value, int):
            summaries.append(Message(value))
    listed = list[Scalar]()
    for summary in summaries:
        for one in summary.messages(VALUE):
            found = _value(one)
            if found is None:
                continue
            if time_s is None or not math.isfinite(time_s):
                raise ValueError("a value without a time")
            tag = one.text(TAG)
            if not tag.strip() or not tag.isprintable():
                raise ValueError(f"a value under the tag {tag[:40]!r}")
            listed.append(Scalar(tag, found, time_s, step))
    return time_s, listed


def _value(one: Message) -> float | None:
    """The number of a value of a summary; None: it is a picture, a text or a histogram."""
    for number, value in one.fields():
        if isinstance(value, int):
            continue
        if number == SIMPLE_VALUE:
            return float(struct.unpack("<f", _exactly(value, 4))[0])
        if number == TENSOR:
            return _single(Message(value))
    return None


def _single(tensor: Message) -> float | None:
    """The number of a tensor that holds one alone."""
    dtype = tensor.number(DTYPE)
    if any(any(number == 2 for number, _ in shape.fields()) for shape in tensor.messages(SHAPE)):
        return None
    content = b"".join(
        bytes(value) for number, value in tensor.fields() if number == CONTENT and not isinstance(value, int)
    )
    if dtype == BFLOAT16:
        bits = int.from_bytes(content, "little") if len(content) == 2 else next(iter(tensor.numbers(13)), None)
        return None if bits is None else float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    if dtype not in NUMBERS:
        return None
    form, field = NUMBERS[dtype]
    if content:
        return float(struct.unpack(form, _exactly(content, struct.calcsize(form)))[0])
    return next(_listed(tensor, dtype, form, field), None)


def _listed(tensor: Message, dtype: int, form: str, field: int) -> Iterator[float]:
    """Values of a tensor that are listed one by one."""
    if dtype == HALF:
        yield from (float(struct.unpack(form, struct.pack("<H", bits))[0]) for bits in tensor.numbers(field))
    elif form in ("<f", "<d"):
        width = struct.calcsize(form)
        for number, value in tensor.fields():
            if number == field and not isinstance(value, int) and len(value) >= width:
                yield float(struct.unpack(form, value[:width])[0])
    else:
        yield from (float(_signed(one)) for one in tensor.numbers(field))


def _signed(value: int) -> int:
    value %= 2**64
    return value - 2**64 if value >= 2**63 else value


def _exactly(value: memoryview | bytes, size: int) -> memoryview | bytes:
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes where {size} should be")
    return value
