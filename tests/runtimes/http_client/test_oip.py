"""The Open Inference Protocol's tensors, held against bytes that Triton's own client (tritonclient 2.73.0) made."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from evalspec.runtimes.http_client import oip
from evalspec.runtimes.http_client.wire import HttpError, Reply

ARRAYS: dict[str, Any] = {
    "FP16": np.array([[1.0, -2.5, 65504.0]], dtype=np.float16),
    "FP64": np.array([[0.1]], dtype=np.float64),
    "BOOL": np.array([[True, False, True]]),
    "INT8": np.array([[-128, 0, 127]], dtype=np.int8),
    "UINT32": np.array([[1, 2**32 - 1]], dtype=np.uint32),
    "BYTES": np.array([["a", "zwölf", ""]], dtype=object),
}
BYTES = {
    "FP16": b"\x00\x3c\x00\xc1\xff\x7b",
    "FP64": b"\x9a\x99\x99\x99\x99\x99\xb9\x3f",
    "BOOL": b"\x01\x00\x01",
    "INT8": b"\x80\x00\x7f",
    "UINT32": b"\x01\x00\x00\x00\xff\xff\xff\xff",
    "BYTES": b"\x01\x00\x00\x00a\x06\x00\x00\x00zw\xc3\xb6lf\x00\x00\x00\x00",
}


def head(kind: str, end: str) -> bytes:
    """The JSON before the bytes."""
    shape = list(ARRAYS[kind].shape)
    return (
        f'{{"inputs":[{{"name":"x","shape":[{shape[0]},{shape[1]}],"datatype":"{kind}",'
        f'"parameters":{{"binary_data_size":{len(BYTES[kind])}}}}}],{end}}}'
    ).encode()


@pytest.mark.parametrize("kind", ARRAYS)
def test_a_request_is_byte_by_byte_that_of_tritons_client(kind: str) -> None:
    for outputs, end in (
        ((), '"parameters":{"binary_data_output":true}'),
        (("y",), '"outputs":[{"name":"y","parameters":{"binary_data":true}}]'),
    ):
        body, headers = oip.encode({"x": ARRAYS[kind]}, outputs, binary=True)
        first = head(kind, end)
        assert body == first + BYTES[kind]
        assert headers == {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(first)),
        }


def test_arrays_in_another_order_of_bytes_or_numbers_are_sent_alike() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    plain, _ = oip.encode({"x": np.ascontiguousarray(whole.T)}, binary=True)
    for same in (whole.T, np.asfortranarray(whole.T), whole.T.astype(">f4")):
        assert oip.encode({"x": same}, binary=True)[0] == plain


def reply(*outputs: tuple[str, str, list[int], bytes | str]) -> Reply:
    """Bytes follow the JSON; text is the JSON of ``data``."""
    described, rest = [], b""
    for name, kind, shape, data in outputs:
        if isinstance(data, bytes):
            rest += data
            held = f'"parameters":{{"binary_data_size":{len(data)}}}'
        else:
            held = f'"data":{data}'
        described.append(f'{{"name":"{name}","datatype":"{kind}","shape":{shape},{held}}}')
    first = ('{"model_name":"m","outputs":[' + ",".join(described) + "]}").encode()
    return Reply(200, {oip.JSON_LENGTH.lower().encode(): str(len(first)).encode()}, first + rest)


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_answer_is_read_as_it_was_sent(kind: str) -> None:
    expected = ARRAYS[kind]
    found = oip.decode(reply(("y", kind, list(expected.shape), BYTES[kind])))["y"]
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


def test_bytes_and_json_stand_side_by_side_in_one_answer() -> None:
    found = oip.decode(
        reply(
            ("a", "INT8", [3], BYTES["INT8"]), ("b", "BOOL", [2], "[true,false]"), ("c", "FP64", [1, 1], BYTES["FP64"])
        )
    )
    assert {name: array.tolist() for name, array in found.items()} == {
        "a": [-128, 0, 127], "b": [True, False], "c": [[0.1]],
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["BF16", "FP8", None, 7, ["FP32"]])
def test_a_type_that_is_not_known_is_refused(kind: Any) -> None:
    for data in (b"\x00\x00", "[1.0]"):
        one = reply(("y", "KIND", [1], data))
        raw = one.body.replace(b'"KIND"', json.dumps(kind).encode())
        length = len(raw) - (len(data) if isinstance(data, bytes) else 0)
        with pytest.raises(HttpError, match="output 'y'"):
            oip.decode(Reply(200, {oip.JSON_LENGTH.lower().encode(): str(length).encode()}, raw))


def test_a_type_that_the_protocol_has_not_is_refused() -> None:
    with pytest.raises(HttpError, match="complex64, which the protocol does not have"):
        oip.encode({"x": np.ones((1, 1), dtype=np.complex64)}, binary=True)
