from __future__ import annotations

from types import SimpleNamespace
from typing import NoReturn, cast

import numpy as np
import pytest

from evalspec.errors import WorkerError
from evalspec.language.inputs import Schedule
from evalspec.running import timing
from evalspec.running.children.jobs import CheckJob
from evalspec.running.timing import Workers, _named


def test_people_who_wait_are_told_the_rate() -> None:
    closed = Schedule(kind="single_stream", queries=3)
    opened = Schedule(kind="open_loop", queries=3, arrivals_ns=np.array([0, 10_000_000, 20_000_000]))
    assert _named("candidate", closed) == "candidate, process"
    assert _named("candidate", opened) == "candidate at 150 qps, process"


def test_workers_whose_start_or_memory_is_measured_import_all(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, bool]] = []

    def started(job: object, model: str, log: str, read: object, *, whole: bool = False) -> NoReturn:
        begun.append((log, whole))
        raise WorkerError("not here")

    monkeypatch.setattr(timing, "started", started)
    model = SimpleNamespace(served=True, device="cpu")
    job = SimpleNamespace(
        check=SimpleNamespace(name="check"), parts=SimpleNamespace(models={"candidate": model}, kept={}), model_facts={}
    )
    workers = Workers(cast(CheckJob, job))
    with pytest.raises(WorkerError):
        workers.probe("first_inference", "test", "candidate", 1, {}, None, lambda *_: None)
    with pytest.raises(WorkerError):
        workers.measure(Schedule(kind="single_stream", queries=3), "test", "candidate", lambda *_: None)
    assert begun == [("timing-check-candidate-0", True), ("timing-check-candidate-0", False)]
