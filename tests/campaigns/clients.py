"""Clients of a server that says anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.rows import RemoteRows
from tests.runtimes.http_client.test_faults import TABLE
from tests.runtimes.http_client.test_faults import client as oip
from tests.runtimes.servers import Server

QUESTIONS = pa.table({"question": [f"What is {k}?" for k in range(40)], "id": list(range(40))})


@contextmanager
def client(server: Server, folder: Path, protocol: str) -> Iterator[RemoteRows]:
    """Rows of a model that the server serves."""
    if protocol == "oip":
        assert len(TABLE) == 40
        with oip(server, folder, timeout="0.5 s") as rows:
            yield rows
        return
    model = Http.model_validate({
        "kind": "http", "protocol": "openai", "url": f"{server.url}/v1", "model_name": "m", "timeout": "0.5 s",
        "inputs": {"question": "question"}, "prompt": {"user": "{question}"}, "generate": {"max_tokens": 8},
    })  # fmt: skip
    access = Access(folder)
    loaded = model.load(access)
    rows = Served(model, loaded, access, DatasetFacts("d")).rows(QUESTIONS)
    assert isinstance(rows, RemoteRows)
    try:
        yield rows
    finally:
        loaded.close()
