"""The protocol's binary extension held against the Triton Inference Server and against its own client."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from evalspec.checks.system.stages.server_time import apart, typical
from evalspec.language.inputs import Schedule
from evalspec.language.parts import Access
from evalspec.language.timings import REFUSED
from evalspec.measure.probes import stages
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client import oip
from evalspec.runtimes.http_client.loaded import LoadedHttp
from evalspec.runtimes.http_client.process import ServerProcess
from evalspec.runtimes.http_client.rows import RemoteRows
from evalspec.runtimes.http_client.wire import HttpError, Reply
from tests.measure.probes.contexts import context
from tests.runtimes.environments import environment, free_ports
from tests.runtimes.http_client.test_faults import counts

pytestmark = [pytest.mark.slow, pytest.mark.served, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
TEXTS = np.array([["a", "zwölf"], ["", "日本語 \x00 \n"]], dtype=object)


def tensors() -> dict[str, NDArray[Any]]:
    """One of each type of the protocol, with the numbers that are most easily spoilt on the way."""
    found: dict[str, NDArray[Any]] = {"BYTES": TEXTS, "BOOL": np.array([[True, False, True], [False, False, True]])}
    for kind, name in oip.TYPES.items():
        dtype = np.dtype(kind)
        if dtype.kind in "iu":
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            found[name] = np.array([[least, 0, 1], [most, most - 1, 2]], dtype=dtype)
        elif dtype.kind == "f":
            tiny = np.finfo(dtype).smallest_subnormal
            found[name] = np.array([[np.nan, -0.0, np.inf], [np.finfo(dtype).max, tiny, 1 / 3]], dtype=dtype)
    return found


def finite(kind: str) -> NDArray[Any]:
    """As `tensors`, with numbers that JSON has."""
    array = tensors()[kind]
    return np.where(np.isfinite(array), array, array.dtype.type(2)) if array.dtype.kind == "f" else array


@pytest.fixture(scope="module")
def home() -> Path:
    """The server, and with it its client."""
    return environment("triton", "nvidia-pytriton==0.7.0")


@pytest.fixture(scope="module")
def triton(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's URL."""
    folder = tmp_path_factory.mktemp("triton")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [str(home / "bin" / "python"), str(HERE / "triton_server.py"), str(port)]
    model = Http.model_validate({"kind": "http", "url": url, "model_name": "fp32", "start": command})
    server = ServerProcess(model, Access(folder, trust=True), folder / "server.log")
    try:
        server.wait_ready({}, 300.0)
        yield url
    finally:
        server.stop()


def loaded(url: str, kind: str, folder: Path, **fields: Any) -> LoadedHttp:
    name = "string" if kind == "BYTES" else kind.lower()
    model = Http.model_validate({"kind": "http", "url": url, "model_name": name, **fields})
    found = model.load(Access(folder))
    assert isinstance(found, LoadedHttp)
    return found


def reference(home: Path, what: str, folder: Path) -> None:
    subprocess.run([home / "bin" / "python", HERE / "triton_client.py", what, folder], check=True)


@pytest.mark.parametrize("outputs", [(), ("y",)], ids=["all outputs", "a named output"])
def test_requests_are_those_of_its_client_byte_by_byte(home: Path, tmp_path: Path, outputs: tuple[str, ...]) -> None:
    for kind, array in tensors().items():
        np.save(tmp_path / f"{kind}.npy", array, allow_pickle=True)
    reference(home, "encode", tmp_path)
    for kind, array in tensors().items():
        name = f"{kind}-y" if outputs else kind
        body, headers = oip.encode({"x": array}, outputs, binary=True)
        assert body == (tmp_path / f"{name}.body").read_bytes(), kind
        assert headers[oip.JSON_LENGTH] == (tmp_path / f"{name}.length").read_text(), kind


@pytest.mark.parametrize("kind", [*oip.TYPES.values(), "BYTES"])
def test_every_type_comes_back_as_it_was_sent(kind: str, triton: str, tmp_path: Path) -> None:
    one, array = loaded(triton, kind, tmp_path, binary=True), tensors()[kind]
    try:
        reply = one.ask(one.request({"x": array}))
        assert oip.JSON_LENGTH.lower().encode() in reply.headers, "the answer is binary too"
        found = one.decoded(reply, len(array))["y"]
        assert one.tensors["x"].dtype == ("str" if kind == "BYTES" else array.dtype.name)
    finally:
        one.close()
    assert found.shape == array.shape
    if kind == "BYTES":
        assert found.tolist() == array.tolist()
    else:
        assert found.dtype == array.dtype and found.tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", [one for one in (*oip.TYPES.values(), "BYTES") if one != "FP16"])
def test_every_type_but_one_comes_back_as_json(kind: str, triton: str, tmp_path: Path) -> None:
    one, array = loaded(triton, kind, tmp_path), finite(kind)
    try:
        found = one.predict({"x": array})["y"]
    finally:
        one.close()
    assert found.tolist() == array.tolist()


def test_sixteen_bits_are_refused_as_json_and_the_server_says_why(triton: str, tmp_path: Path) -> None:
    one = loaded(triton, "FP16", tmp_path)
    with pytest.raises(HttpError, match=r"HTTP 400: .*FP16 data via JSON is not supported") as error:
        one.predict({"x": finite("FP16")})
    one.close()
    assert error.value.outcome == REFUSED


def test_its_own_client_reads_the_same_from_its_answers(home: Path, triton: str, tmp_path: Path) -> None:
    found = {}
    for kind, array in tensors().items():
        one = loaded(triton, kind, tmp_path, binary=True)
        reply = one.ask(one.request({"x": array}))
        one.close()
        (tmp_path / f"{kind}.answer").write_bytes(reply.body)
        (tmp_path / f"{kind}.header").write_bytes(reply.headers[oip.JSON_LENGTH.lower().encode()])
        found[kind] = oip.decode(reply)["y"]
    reference(home, "decode", tmp_path)
    for kind, array in found.items():
        theirs = np.load(tmp_path / f"{kind}.read.npy", allow_pickle=True)
        if kind == "BYTES":
            assert array.tolist() == [[text.decode() for text in row] for row in theirs.tolist()]
        else:
            assert array.dtype == theirs.dtype and array.tobytes() == theirs.tobytes() and array.shape == theirs.shape


@pytest.mark.parametrize("kind", ["open_loop", "offline", "single_stream"])
def test_every_way_to_ask_measures_it(kind: Any, triton: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    model = Http.model_validate(
        {"kind": "http", "url": triton, "model_name": "fp32", "binary": True, "outputs": {"value": "y"},
         "preprocess": [{"cast": "float32"}]}
    )  # fmt: skip
    access = Access(tmp_path)
    one = Served(model, model.load(access), access, DatasetFacts("d"))
    assert str(one.loaded.observed["framework"]).startswith("served by triton")
    rows = one.rows(pa.table({"x": pa.array(list(x[:, :1]))}))
    assert isinstance(rows, RemoteRows)
    times = (np.arange(100) * 10_000_000).astype(np.int64) if kind == "open_loop" else None
    schedule = Schedule(kind, 100, arrivals_ns=times, warmup_s=0.0, warmup_queries=5, connections=8)
    session = Session(rows, schedule, tmp_path / "samples")
    session.warm_up()
    session.block(0, 100, 0.0)
    samples = read_samples(tmp_path / "samples", model="m", process=0, details=session.finish())
    one.loaded.close()
    assert counts(samples) == {"answered": 100} and samples.answers is not None
    np.testing.assert_array_equal(samples.answers[:, 0], x[samples.items, 0])


@pytest.mark.parametrize("binary", [True, False])
def test_its_statistics_part_the_wait_for_it(binary: bool, triton: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32)
    model = Http.model_validate(
        {"kind": "http", "url": triton, "model_name": "fp32", "binary": binary, "outputs": {"embedding": "y"},
         "inputs": {"x": "x"}, "preprocess": [{"cast": "float32"}]}
    )  # fmt: skip
    options = {"queries": 100, "batch": 1, "warmup": 10, "warmup_s": 0.0}
    made = context(model, tmp_path, x, options)
    found = stages.probe(made).as_probe("stages", "m", 0)
    made.rows.loaded.close()  # type: ignore[attr-defined]  # it is a RemoteRows
    assert found.facts["told_by"] == "counters"
    np.testing.assert_array_equal(found.series["told_requests_sent"], np.full(10, 10.0))
    np.testing.assert_array_equal(found.series["told_requests_counted"], np.full(10, 10.0))
    told = apart([found], found.texts["stages"])
    assert told.names == ("queue", "compute_input", "inference", "compute_output", "server_other", "transfer"), told
    assert all(typical(told.series_ns[0][name]) > 0 for name in told.names)


def test_an_answer_that_is_cut_off_is_no_answer(triton: str, tmp_path: Path) -> None:
    one = loaded(triton, "BYTES", tmp_path, binary=True)
    reply = one.ask(one.request({"x": TEXTS}))
    one.close()
    for lost in (1, 5, 20):
        with pytest.raises(HttpError):
            oip.decode(Reply(reply.status, reply.headers, reply.body[:-lost]))
