"""Small real pictures for records: handwritten digits, 8 x 8 in 16 greys, as PNG in base64."""

from __future__ import annotations

import base64
import struct
import zlib

DIGITS = {
    "0": "005d910000dfaf5003f20b8004c008800580098004b01c7002e5ac00006da000",
    "1": "000cd500000bf900003ff60007fff200001ff300001ff600001ff600000bfa00",
    "2": "0004fc00003ffe00008d8f000016fb00018df10009ff500003dffb500003bf90",
    "3": "007fd10008d6f400021dd000002fb1000001cc1000001a8000845e90007dd900",
    "4": "0001b00000078000001d6220007f098005fa0f6004ffdf100003fa000002f400",
    "5": "00ca000000effe0000dffa1000bff70000047f7000004f900054cf40009ffa00",
    "8": "009e810000ceec00009a0f40003fce20004ff20003f8ad2001f13f8000bffb10",
    "9": "00bc000002fffd0003fcae0001f1cf0000df9f20000309b000009f40009cd300",
}


def png(digit: str, shade: float = 1.0) -> str:
    """A grey 8 x 8 PNG of a digit in base64; ``shade`` below 1 makes it darker."""
    greys = [int(int(nibble, 16) * 17 * shade) for nibble in DIGITS[digit]]
    rows = b"".join(b"\x00" + bytes(greys[start : start + 8]) for start in range(0, 64, 8))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
