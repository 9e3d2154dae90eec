"""Tensors as the Open Inference Protocol, version 2, has them: as JSON, and by its binary extension.

References:
    Open Inference Protocol, https://github.com/kserve/open-inference-protocol; binary tensor data extension of the
    Triton Inference Server, protocol/extension_binary_data.md.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from evalspec.language.timings import NOT_UNDERSTOOD, OTHER_SHAPE
from evalspec.pipeline.loaded import Tensor
from evalspec.runtimes.http_client.wire import HttpError, Reply, parse_json

TYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
"""numpy's name of a type: the protocol's. Text is BYTES."""
NUMPY = {name: kind for kind, name in TYPES.items()}
JSON_LENGTH = "Inference-Header-Content-Length"
MOST_DIMENSIONS = 32


def encode(
    arrays: Mapping[str, NDArray[Any]], outputs: Sequence[str] = (), *, binary: bool = False
) -> tuple[bytes, dict[str, str]]:
    """The body of a request, and the headers that belong to it.

    Args:
        arrays: Tensor: shape (rows, ...).
        outputs: What is asked for; empty: everything.
        binary: Tensors follow the JSON as bytes.

    Raises:
        HttpError: A type that the protocol has not, or a number that JSON has not.
    """
    if not binary:
        inputs = [_described(name, array) | {"data": _flat(name, array)} for name, array in arrays.items()]
        return to_json({"inputs": inputs} | _asked(outputs, {})), {"Content-Type": "application/json"}
    pieces = {name: _bytes(array) for name, array in arrays.items()}
    inputs = [
        _described(name, array) | {"parameters": {"binary_data_size": len(pieces[name])}}
        for name, array in arrays.items()
    ]
    # Either of the two, as Triton's own client has it.
    wanted = _asked(outputs, {"binary_data": True}) or {"parameters": {"binary_data_output": True}}
    head = to_json({"inputs": inputs} | wanted)
    headers = {"Content-Type": "application/octet-stream", JSON_LENGTH: str(len(head))}
    return b"".join([head, *pieces.values()]), headers


def decode(reply: Reply) -> dict[str, NDArray[Any]]:
    """The tensors of an answer, in JSON or binary as the server chose.

    Raises:
        HttpError: It is no answer of the protocol, or a tensor has not as many numbers as its shape says.
    """
    body, rest = reply.body, b""
    length = reply.headers.get(JSON_LENGTH.lower().encode())
    if length is not None:
        if not length.isdigit() or int(length) > len(body):
            raise HttpError(NOT_UNDERSTOOD, f"the answer's header {JSON_LENGTH} is {length.decode('latin-1')!r}")
        body, rest = body[: int(length)], body[int(length) :]
    found = parse_json(body)
    outputs = found.get("outputs") if isinstance(found, dict) else None
    if not isinstance(outputs, list) or not outputs:
        raise HttpError(
            NOT_UNDERSTOOD, "the answer has no `outputs`, so it does not follow the Open Inference Protocol"
        )
    arrays = {}
    for output in outputs:
        name, array, used = _tensor(output, rest)
        arrays[name], rest = array, rest[used:]
    return arrays


def stated_tensors(metadata: Mapping[str, Any]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Inputs, and names of the outputs, as a model's metadata states them; empty where it does not."""
    tensors = {}
    for one in _listed(metadata, "inputs"):
        shape = one.get("shape")
        sizes = None
        if isinstance(shape, list) and shape and all(isinstance(size, int) for size in shape):
            sizes = tuple(size if size >= 0 else None for size in shape)
        kind = "str" if one.get("datatype") == "BYTES" else NUMPY.get(str(one.get("datatype")))
        tensors[str(one["name"])] = Tensor(sizes, kind)
    return tensors, tuple(str(one["name"]) for one in _listed(metadata, "outputs"))


def _listed(metadata: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = metadata.get(key)
    return [one for one in found if isinstance(one, dict) and "name" in one] if isinstance(found, list) else []


def _asked(outputs: Sequence[str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    extra = {"parameters": dict(parameters)} if parameters else {}
    return {"outputs": [{"name": name} | extra for name in outputs]} if outputs else {}


def _described(name: str, array: NDArray[Any]) -> dict[str, Any]:
    kind = "BYTES" if array.dtype.kind in "OUT" else TYPES.get(array.dtype.name)
    if kind is None:
        raise HttpError(NOT_UNDERSTOOD, f"the input {name!r} is of {array.dtype}, which the protocol does not have")
    return {"name": name, "shape": list(array.shape), "datatype": kind}


def _flat(name: str, array: NDArray[Any]) -> list[Any]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise HttpError(
            NOT_UNDERSTOOD, f"the input {name!r} holds a number that is not finite, which JSON can't express",
            remedy="fill the gaps with a stage of `preprocess`, or send tensors as bytes (binary: true)",
        )  # fmt: skip
    flat: list[Any] = array.reshape(-1).tolist()
    return flat


def _bytes(array: NDArray[Any]) -> bytes:
    if array.dtype.kind not in "OUT":
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
    texts = ["" if value is None else str(value) for value in array.reshape(-1).tolist()]
    return b"".join(struct.pack("<I", len(text)) + text for text in (one.encode() for one in texts))


def _tensor(output: Any, rest: bytes) -> tuple[str, NDArray[Any], int]:
    """Name, array and how many of the bytes after the JSON it took."""
    if not isinstance(output, dict) or not isinstance(output.get("name"), str):
        raise HttpError(NOT_UNDERSTOOD, "an output of the answer has no name")
    name, shape, kind = output["name"], output.get("shape"), output.get("datatype")
    if not _is_shape(shape):
        raise HttpError(NOT_UNDERSTOOD, f"the output {name!r} of the answer has the shape {shape!r}")
    parameters = output.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        flat = _from_list(name, output.get("data"), kind)
    elif isinstance(size, int) and 0 <= size <= len(rest):
        flat = _from_bytes(name, rest[:size], kind)
    else:
        raise HttpError(NOT_UNDERSTOOD, f"the bytes of the output {name!r} are incomplete")
    assert isinstance(shape, list)
    if flat.size != int(np.prod(shape, dtype=np.int64)):
        raise HttpError(OTHER_SHAPE, f"the output {name!r} has {flat.size} numbers, but its shape is {shape}")
    return name, flat.reshape(shape), size or 0


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= MOST_DIMENSIONS
        and all(isinstance(size, int) and 0 <= size < 2**31 for size in shape)
    )


def _from_list(name: str, data: Any, kind: Any) -> NDArray[Any]:
    """Numbers or text, flat or nested as the protocol lets servers choose."""
    try:
        array = np.asarray(data, dtype=object if kind == "BYTES" else NUMPY[kind])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise HttpError(NOT_UNDERSTOOD, f"the data of the output {name!r} is not {kind!r}") from error
    return array.reshape(-1)


def _from_bytes(name: str, data: bytes, kind: Any) -> NDArray[Any]:
    if kind == "BYTES":
        return np.array(_texts(name, data), dtype=object)
    if not isinstance(kind, str) or kind not in NUMPY:
        raise HttpError(NOT_UNDERSTOOD, f"the output {name!r} is of {kind!r}, which is not supported")
    dtype = np.dtype(NUMPY[kind]).newbyteorder("<")
    if len(data) % dtype.itemsize:
        raise HttpError(OTHER_SHAPE, f"the output {name!r} has {len(data)} bytes, which are not {kind}s")
    return np.frombuffer(data, dtype=dtype).astype(NUMPY[kind])


def _texts(name: str, data: bytes) -> list[str]:
    texts, place = [], 0
    while place < len(data):
        end = place + 4 + int.from_bytes(data[place : place + 4], "little")
        if end > len(data):
            raise HttpError(NOT_UNDERSTOOD, f"the texts of the output {name!r} are incomplete")
        texts.append(data[place + 4 : end].decode(errors="replace"))
        place = end
    return texts
