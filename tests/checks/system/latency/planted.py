"""Planted defects of `latency`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.latency.spec import Latency
from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs, samples


def _queries(folder: Path, slow: float, queries: int | None = None) -> Case:
    """Latencies about 2 ms; a share of them waits 20 ms more."""
    rng = np.random.default_rng(2)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        count = schedule.queries if queries is None else queries
        made = []
        for process in range(schedule.processes):
            spent = rng.gamma(50.0, 0.04, count) + 20.0 * (rng.random(count) < slow)
            made.append(samples(spent, process=process, model=model))
        return made

    check = Latency.model_validate({"check": "latency", "dataset": "test", "require": ["latency_p99 <= 5 ms"]})
    return FakeInputs(evidence=folder, samples=make), check


PLANTED = (
    Planted(
        "latency",
        "latency_p99",
        "latency_p99 <= 5 ms",
        lambda f: _queries(f, 0.0),
        lambda f: _queries(f, 0.04),
        lambda f, n: _queries(f, 0.0, n),
        "one query in 25 waits",
    ),
)
