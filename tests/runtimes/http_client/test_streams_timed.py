"""Streams of a real server on loopback under the other checks that time: batches, stages, kills."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evalspec.checks.system.stages.server_time import apart
from evalspec.language.abilities import KillPlan, ServerTiming
from evalspec.language.inputs import Probe, Schedule
from evalspec.language.parts import Access
from evalspec.measure.probes import Context
from evalspec.measure.probes.stages import probe
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.server_timing import with_decoding
from evalspec.timing.budget import DECODE_RATE, OUTPUT_RATE
from evalspec.timing.token_rates import rate_of
from tests.runtimes.http_client.test_openai import FIRST_MS, GAP_MS, TABLE, TOKENS, fields
from tests.runtimes.llm_server import Playing, playing

WHOLE_MS = FIRST_MS + (TOKENS - 1) * GAP_MS
SLEEPS = "import time; time.sleep(60)"


@pytest.fixture(scope="module")
def server() -> Iterator[Playing]:
    with playing(first_ms=FIRST_MS, gap_ms=GAP_MS, tokens=TOKENS) as running:
        yield running


def model_of(server: Playing, mode: str = "none", **others: Any) -> Http:
    """Without a tokenizer: the server counts."""
    asked = fields(server, mode, **others)
    del asked["tokenizer"]
    return Http.model_validate(asked)


def served_by(model: Http, folder: Path, *, trust: bool = False) -> Served:
    access = Access(folder, trust=trust)
    return Served(model, model.load(access), access, DatasetFacts("d"))


def test_tokens_of_all_connections_are_counted_together(server: Playing, tmp_path: Path) -> None:
    served = served_by(model_of(server), tmp_path)
    schedule = Schedule(
        kind="offline", queries=32, processes=1, warmup_queries=3, warmup_s=0.0, settle=False, connections=4
    )
    try:
        session = Session(served.rows(TABLE), schedule, tmp_path / "raw.samples")
        session.block(0, 32, 0.0)
        details = session.finish()
    finally:
        served.loaded.close()
    samples = read_samples(tmp_path / "raw.samples", model="m", process=0, details=details)
    assert samples.streams is not None and samples.ok.all() and (np.diff(samples.streams.offsets) == TOKENS).all()
    alone = 1e3 * TOKENS / WHOLE_MS
    output, decode = rate_of(samples, OUTPUT_RATE), rate_of(samples, DECODE_RATE)
    assert isinstance(output, float) and isinstance(decode, float)
    assert 2.4 * alone < output < 4.6 * alone
    assert 0.6e3 / GAP_MS < decode < 1.05e3 / GAP_MS


def staged(server: Playing, folder: Path, mode: str = "none") -> Any:
    """What a process finds that divides its queries."""
    model = model_of(server, mode)
    served = served_by(model, folder)
    options = {"queries": 10, "batch": 1, "warmup": 3, "warmup_s": 0.0}
    context = Context(
        model=model, loaded=served.loaded, rows=served.rows(TABLE), tensors=lambda _: {}, access=Access(folder),
        options=options, seed=1, progress=lambda *_: None,
    )  # fmt: skip
    try:
        return probe(context).as_probe("stages", "m", 0)
    finally:
        served.loaded.close()


@pytest.mark.proof
def test_a_client_tells_prefill_from_decode_and_says_what_is_in_it(server: Playing, tmp_path: Path) -> None:
    found = staged(server, tmp_path)
    assert found.facts["told_by"] == "stream"
    stages = apart([found], found.texts["stages"])
    assert stages.names == ("decode", "prefill")
    decode, prefill = (float(np.median(stages.series_ns[0][name])) / 1e6 for name in stages.names)
    assert WHOLE_MS - FIRST_MS - 1 < decode < 1.6 * (WHOLE_MS - FIRST_MS)
    assert FIRST_MS - 1 < prefill < 1.6 * FIRST_MS
    assert "the server's waiting and the network included" in stages.notes[0]


@pytest.mark.proof
def test_an_answer_that_is_not_streamed_stays_one_stage(server: Playing, tmp_path: Path) -> None:
    found = staged(server, tmp_path, "whole")
    stages = apart([found], found.texts["stages"])
    assert stages.names == () and stages.waits == "server"


def test_what_a_header_tells_stands_beside_what_the_stream_tells() -> None:
    """Waiting and prefill are then apart, and a total that was told before the stream is none."""
    reply: Any = SimpleNamespace(arrivals=((10, 40_000_000), (90, 100_000_000)))
    read: Any = lambda _: SimpleNamespace(piece_ns=(40_000_000, 90_000_000))  # noqa: E731
    said = ServerTiming(1, {"queue": 5e6, "prefill": 20e6}, total_ns=25e6)
    found = with_decoding(said, [reply], read)
    assert found.parts_ns == {"queue": 5e6, "prefill": 20e6, "decode": 60e6} and found.total_ns is None
    none: Any = lambda _: SimpleNamespace(piece_ns=())  # noqa: E731
    assert with_decoding(said, [reply], none) == said
    series = {
        "end_to_end_ns": np.full(8, 110e6), "told_wait_ns": np.full(8, 100e6), "told_total_ns": np.full(8, np.nan),
        "told_requests_sent": np.ones(8), "told_requests_counted": np.ones(8),
        **{f"told_ns:{name}": np.full(8, ns) for name, ns in found.parts_ns.items()},
    }  # fmt: skip
    texts = {"stages": ("serialize", "server", "parse"), "waits": ("server",), "told": tuple(found.parts_ns)}
    stages = apart([Probe("stages", "m", 0, {"told_by": "stream"}, series, texts)], texts["stages"])
    assert stages.names == ("queue", "prefill", "decode", "transfer")
    assert float(stages.series_ns[0]["transfer"][0]) == pytest.approx(15e6)
    assert "queue, prefill by its header Server-Timing" in stages.notes[0]


def test_the_first_token_after_a_kill_is_timed_from_the_kill(server: Playing, tmp_path: Path) -> None:
    """What stands for the server that runs is killed; what answers lives in this process, and stays up."""
    model = model_of(server, start=["python", "-c", SLEEPS])
    served = served_by(model, tmp_path, trust=True)
    with subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True) as victim:
        kill = KillPlan(
            repeats=1, rate_qps=40.0, kill_after_s=0.3, within_s=10.0, settle_s=0.8, timeout_s=3.0, connections=16,
            seed=1, pid=victim.pid, log=tmp_path / "log",
        )  # fmt: skip
        try:
            (found,) = served.loaded.recover(served.rows(TABLE), kill, Access(tmp_path, trust=True), lambda *_: None)  # type: ignore[attr-defined]
        finally:
            victim.kill()
            served.loaded.close()
    assert found.first_token_s is not None and found.healthy_s is not None
    # It never was away, so the first query after the kill is answered: some are due each 25 ms.
    assert FIRST_MS / 1e3 < found.first_token_s < 2.0
