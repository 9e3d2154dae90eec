"""A small server of one ONNX model over the Open Inference Protocol, version 2, in JSON and with its binary extension.

    python serve.py MODEL PORT

One process, one thread: asyncio from the standard library, and onnxruntime for the model. It is here so that the suite
needs nothing else; for production take MLServer, Triton or KServe, which speak the same protocol.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

NAME = "digits"
TYPES = {"FP32": "<f4"}
HEADER = b"inference-header-content-length"


class Model:
    """The session, and what it says of itself."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.input, self.output = self.session.get_inputs()[0], self.session.get_outputs()[0]

    def metadata(self) -> dict[str, object]:
        """As the protocol has it."""

        def tensor(one: object) -> dict[str, object]:
            shape = [size if isinstance(size, int) else -1 for size in one.shape]
            return {"name": one.name, "datatype": "FP32", "shape": shape}

        return {
            "name": NAME,
            "versions": ["1"],
            "platform": "onnxruntime_onnxv1",
            "inputs": [tensor(self.input)],
            "outputs": [tensor(self.output)],
        }

    def infer(self, body: bytes, json_length: int | None) -> tuple[bytes, int | None]:
        """The body of the answer, and how much of it is JSON where tensors follow as bytes."""
        head = json.loads(body if json_length is None else body[:json_length])
        tensor = head["inputs"][0]
        if tensor["name"] != self.input.name or tensor["datatype"] not in TYPES:
            raise ValueError(f"the input is {self.input.name!r} of FP32")
        if json_length is None:
            array = np.array(tensor["data"], dtype=np.float32)
        else:
            array = np.frombuffer(body[json_length:], dtype=TYPES[tensor["datatype"]])
        (scores,) = self.session.run([self.output.name], {self.input.name: array.reshape(tensor["shape"])})
        answer = {"name": self.output.name, "datatype": "FP32", "shape": list(scores.shape)}
        if not wants_bytes(head):
            return encoded({"model_name": NAME, "outputs": [answer | {"data": scores.ravel().tolist()}]}), None
        data = scores.astype("<f4").tobytes()
        answer["parameters"] = {"binary_data_size": len(data)}
        first = encoded({"model_name": NAME, "outputs": [answer]})
        return first + data, len(first)


def wants_bytes(head: dict[str, object]) -> bool:
    """The request asks for tensors as bytes: for the output that it names, or for all where it names none."""
    for output in head.get("outputs", ()):
        if "binary_data" in output.get("parameters", {}):
            return bool(output["parameters"]["binary_data"])
    return bool(head.get("parameters", {}).get("binary_data_output"))


def encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def answered(model: Model, method: bytes, path: bytes, headers: dict[bytes, bytes], body: bytes) -> bytes:
    """The whole answer to one request."""
    base = f"/v2/models/{NAME}".encode()
    length: int | None = None
    status = b"200 OK"
    if (method, path) == (b"GET", b"/v2"):
        content = encoded({"name": "serve.py", "version": "1", "extensions": ["binary_tensor_data"]})
    elif (method, path) == (b"GET", b"/v2/health/ready") or (method, path) == (b"GET", base + b"/ready"):
        content = encoded({"name": NAME, "ready": True})
    elif (method, path) == (b"GET", base):
        content = encoded(model.metadata())
    elif (method, path) == (b"POST", base + b"/infer"):
        try:
            content, length = model.infer(body, int(headers[HEADER]) if HEADER in headers else None)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            status, content = b"400 Bad Request", encoded({"error": f"{type(error).__name__}: {error}"})
    else:
        status, content = b"404 Not Found", encoded({"error": "no such path"})
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(content), b"Content-Type: application/json"]
    if length is not None:
        lines.append(b"Inference-Header-Content-Length: %d" % length)
    return b"\r\n".join([*lines, b"", b""]) + content


class Connection(asyncio.Protocol):
    """One connection: requests are answered as they become whole."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            first, *lines = head.split(b"\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
            length = int(headers.get(b"content-length", 0))
            if len(rest) < length:
                return
            body, self.buffer = rest[:length], rest[length:]
            method, path, _ = first.split(b" ", 2)
            self.transport.write(answered(self.model, method, path, headers, body))


async def main(path: Path, port: int) -> None:
    model = Model(path)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(model), "127.0.0.1", port, backlog=256)
    print(f"{path.name} on http://127.0.0.1:{port}/v2/models/{NAME}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
