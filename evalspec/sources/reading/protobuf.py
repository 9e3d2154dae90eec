"""The wire format of protocol buffers, as far as reading a model's structure or a log takes: fields and their extents.

The onnx package would read all weights into memory and take a quarter of a second to import, for what `validate` only
has to look up; logs of TensorBoard would need TensorBoard.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED = {FIXED64: 8, FIXED32: 4}
LONGEST_VARINT = 10


class Message:
    """Fields of one message inside a buffer; nothing is copied.

    Args:
        data: The buffer that the message lies in, from its first byte to its last.
    """

    def __init__(self, data: memoryview) -> None:
        self.data = data

    def fields(self) -> Iterator[tuple[int, int | memoryview]]:
        """Number and value of each field: a whole number, or the bytes of a text, message or packed list.

        Raises:
            ValueError: It is no message, or a truncated one.
        """
        place = 0
        while place < len(self.data):
            tag, place = _varint(self.data, place)
            number, kind = tag >> 3, tag & 7
            if number == 0:
                raise ValueError("a field without a number")
            if kind == VARINT:
                value, place = _varint(self.data, place)
                yield number, value
                continue
            if kind == BYTES:
                size, place = _varint(self.data, place)
            elif kind in FIXED:
                size = FIXED[kind]
            else:
                raise ValueError(f"a field of the unknown wire type {kind}")
            if place + size > len(self.data):
                raise ValueError("it ends in the middle of a field")
            yield number, self.data[place : place + size]
            place += size

    def messages(self, number: int) -> Iterator[Message]:
        """Messages under a field.

        Raises:
            ValueError: Something else stands there.
        """
        for found, value in self.fields():
            if found == number:
                yield Message(_bytes(value))

    def text(self, number: int) -> str:
        """The text under a field, the last if there are several; empty if there is none.

        Raises:
            ValueError: It is no text.
        """
        found = [value for other, value in self.fields() if other == number]
        return bytes(_bytes(found[-1])).decode() if found else ""

    def number(self, number: int) -> int:
        """The whole number under a field; 0 if there is none.

        Raises:
            ValueError: It is none.
        """
        found = [value for other, value in self.fields() if other == number]
        if found and not isinstance(found[-1], int):
            raise ValueError("a whole number was expected")
        return found[-1] if found and isinstance(found[-1], int) else 0

    def numbers(self, number: int) -> list[int]:
        """Whole numbers under a field, packed or one by one.

        Raises:
            ValueError: They are cut off.
        """
        listed: list[int] = []
        for found, value in self.fields():
            if found != number:
                continue
            if isinstance(value, int):
                listed.append(value)
                continue
            place = 0
            while place < len(value):
                one, place = _varint(value, place)
                listed.append(one)
        return listed


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("there is a number where a text or a message should be")
    return value


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for index in range(LONGEST_VARINT):
        if place + index >= len(data):
            raise ValueError("it ends in the middle of a number")
        byte = data[place + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            return value, place + index + 1
    raise ValueError("a number is too long")
