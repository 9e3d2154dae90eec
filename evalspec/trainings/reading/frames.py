"""Frames of TFRecord files, in which TensorBoard keeps events: a length, its sum, the content, its sum."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache

from evalspec.errors import InputError

CHECKED_BYTES = 64 * 2**10
"""A frame above this is a picture or a graph, mostly: its sum is computed by `check` alone."""
_HEAD, _SUM = struct.Struct("<QI"), struct.Struct("<I")


class Frames:
    """Frames of one file.

    Args:
        content: Of the file.
        name: As it is told to people.
    """

    def __init__(self, content: bytes, name: str) -> None:
        self._content, self._name = memoryview(content), name
        self.torn = False
        """The last frame is not whole, as of a process that was killed while it wrote. Known once all are read."""
        self._last = (0, 0)

    def __iter__(self) -> Iterator[memoryview]:
        """Contents of the frames that are whole.

        Raises:
            InputError: One of them is damaged, and it is not the last.
        """
        place, size = 0, len(self._content)
        while place < size:
            if size - place < _HEAD.size:
                self.torn = True
                return
            length, total = _HEAD.unpack_from(self._content, place)
            if masked_sum(self._content[place : place + 8]) != total:
                raise self._damaged(place) if place else self._foreign()
            end = place + _HEAD.size + length + _SUM.size
            if end > size:
                self.torn = True
                return
            content = self._content[place + _HEAD.size : end - _SUM.size]
            self._last = (place, end)
            if length <= CHECKED_BYTES and not self._sound():
                if end < size:
                    raise self._damaged(place)
                self.torn = True
                return
            yield content
            place = end

    def check(self) -> None:
        """Compute the sum of the last frame, however large it is.

        Raises:
            InputError: It is damaged.
        """
        if not self._sound():
            raise self._damaged(self._last[0])

    def _sound(self) -> bool:
        place, end = self._last
        content = self._content[place + _HEAD.size : end - _SUM.size]
        return masked_sum(content) == int(_SUM.unpack_from(self._content, end - _SUM.size)[0])

    def _foreign(self) -> InputError:
        remedy = "name event files, such as events.out.tfevents.1726000000.host, or the folder of a run"
        return InputError(f"{self._name} does not begin as an event file of TensorBoard does", remedy=remedy)

    def _damaged(self, place: int) -> InputError:
        message = f"{self._name} is damaged: the sum of the frame at byte {place:,} does not match its content"
        return InputError(message, remedy="copy the log again, as it was written")


def masked_sum(content: memoryview | bytes) -> int:
    """CRC-32C, masked as in TFRecord."""
    value, table = 0xFFFFFFFF, _table()
    for byte in content:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    value ^= 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """Remainders of all bytes by the polynomial of Castagnoli."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)
