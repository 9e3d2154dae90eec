"""The audit for caching, of models that take long."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evalspec.language.inputs import Inputs, Samples, Schedule
from evalspec.language.parts import Check
from evalspec.measure import loop
from evalspec.measure.loop import single_stream
from evalspec.measure.samples import Sink, read_samples
from evalspec.measure.servable import Rotation
from evalspec.timing.caching_audit import AMPLE_S, ITEMS, LEAST_ITEMS, Audit, audit
from tests.measure.fakes import FakeClock, FakeServable


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """In place of the real one."""
    fake = FakeClock()
    monkeypatch.setattr(loop, "now_ns", fake)
    return fake


def audited(folder: Path, clock: FakeClock, first_ms: float, again_ms: float, fails: int = 0) -> tuple[Audit, int]:
    """Audit of a model in process, and queries that it took; the first so many of every 10 queries fail."""
    servable = FakeServable(
        clock, n=1000, takes_ms=lambda call: again_ms if call % 2 else first_ms, fails=lambda call: call % 10 < fails
    )
    queries: list[int] = []

    def measure(schedule: Schedule, dataset: str, model: str) -> list[Samples]:
        sink = Sink(folder / "samples", schedule.batch, schedule.queries)
        single_stream(servable, schedule, sink, Rotation(servable.n, schedule.batch, schedule.seed))
        sink.close()
        samples = read_samples(folder / "samples", model=model, process=0)
        queries.append(len(samples.ok))
        return [samples]

    inputs: Any = SimpleNamespace(measure=measure, model_facts=lambda _: {}, confidence=0.95)
    check: Any = SimpleNamespace(name="latency", model_fields_set={"caching_audit"})
    return audit(cast(Inputs, inputs), cast(Check, check), "test", "candidate", 0.0), queries[0]


@pytest.mark.parametrize("slow_ms", [2.0, 30.0, 100.0, 600.0, 5000.0])
def test_a_cache_is_seen_however_slow_the_model(tmp_path: Path, clock: FakeClock, slow_ms: float) -> None:
    found, queries = audited(tmp_path, clock, slow_ms, 0.1 * slow_ms)
    assert found.invalid is not None and found.gain == pytest.approx(0.9, abs=0.01)
    assert 2 * LEAST_ITEMS <= queries <= 2 * ITEMS
    assert queries == 2 * LEAST_ITEMS or queries * 0.55 * slow_ms / 1e3 <= AMPLE_S + slow_ms / 1e3


@pytest.mark.parametrize("slow_ms", [2.0, 600.0])
def test_one_that_remembers_nothing_passes_its_audit(tmp_path: Path, clock: FakeClock, slow_ms: float) -> None:
    found, _ = audited(tmp_path, clock, slow_ms, slow_ms)
    assert found.invalid is None and found.withhold is None and found.query_ms == pytest.approx(slow_ms, rel=0.01)


def test_some_queries_of_a_slow_model_may_fail(tmp_path: Path, clock: FakeClock) -> None:
    found, _ = audited(tmp_path, clock, 600.0, 60.0, fails=2)
    assert found.invalid is not None
