"""A model that waits for text: a real server on loopback, asked in JSON and, its clean twin, in bytes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.checks.system.stages.spec import Stages
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from evalspec.language.requirement import Requirement
from evalspec.measure.probes.stages import probe
from evalspec.runtimes.http import Http
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs
from tests.measure.probes.contexts import context
from tests.runtimes.servers import Request, answer, serving
from tests.runtimes.test_http import OIP

WIDTH = 8000
INFERENCE_S = 0.002
NEEDED = Requirement("stage_share(inference) >= 40 %", "stage_share", "inference", ">=", 40.0, "%")


def upscale(request: Request) -> bytes:
    """Gives back as many numbers as it is given, after 2 ms; says what it did with the time."""
    if request.path != "/v2/models/m/infer":
        return answer(200, {"name": "m", "inputs": [], "outputs": [{"name": "s"}]})
    marks = [time.perf_counter()]
    length = request.headers.get("inference-header-content-length")
    head = json.loads(request.body if length is None else request.body[: int(length)])
    shape = head["inputs"][0]["shape"]
    data = head["inputs"][0]["data"] if length is None else request.body[int(length) :]
    marks.append(time.perf_counter())
    time.sleep(INFERENCE_S)
    marks.append(time.perf_counter())
    output: dict[str, Any] = {"name": "s", "shape": shape, "datatype": "FP32"}
    headers = {}
    if length is None:
        body = json.dumps({"outputs": [output | {"data": data}]}).encode()
    else:
        first = json.dumps({"outputs": [output | {"parameters": {"binary_data_size": len(data)}}]}).encode()
        body = first + data
        headers["Inference-Header-Content-Length"] = str(len(first))
    marks.append(time.perf_counter())
    spent = [1e3 * (end - begin) for begin, end in pairwise(marks)]
    names = ("parse", "infer", "serialize")
    headers["Server-Timing"] = ", ".join(f"{name};dur={ms:.4f}" for name, ms in zip(names, spent, strict=True))
    return answer(200, body, headers)


@pytest.mark.proof
@pytest.mark.parametrize(("binary", "expected"), [(False, "FAIL"), (True, "PASS")], ids=["as JSON", "as bytes"])
def test_text_takes_more_of_a_query_than_the_model(binary: bool, expected: str, tmp_path: Path) -> None:
    """What the check shows, what the requirement comes to and what is said of it; with bytes nothing of the sort."""
    rows = np.random.default_rng(0).normal(size=(25, WIDTH)).astype(np.float32)

    def processes(name: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        made = []
        for process in range(5):
            with serving(upscale) as server:
                asked = Http.model_validate(
                    OIP | {"url": server.url, "binary": binary, "outputs": {"embedding": "s"},
                           "preprocess": [{"cast": "float32"}]}
                )  # fmt: skip
                given = context(asked, tmp_path, rows, {**options, "warmup_s": 0.0})
                made.append(probe(given).as_probe(name, model, process))
                given.rows.loaded.close()  # type: ignore[attr-defined]  # it is a RemoteRows
        return made

    check = Stages.model_validate({"check": "stages", "dataset": "test", "queries": 100, "warmup": 3})
    result = check.run(FakeInputs(tmp_path, probes=processes))
    assert result.conditions["server_stages"] == "server_parse, inference, server_serialize, transfer"
    assert outcome(result, NEEDED) == expected
    waits = [note for note in result.notes if "the model waits for text" in note]
    assert len(waits) == (0 if binary else 1)
    assert all("(serialize, parse, server_serialize, server_parse) takes" in note for note in waits)
    assert 0.6 < float(str(result.conditions["stages_sum_share"])) < 1.6, "undivided it holds what its stages hold"
