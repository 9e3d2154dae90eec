"""Planted defects of `throughput`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.throughput.spec import Throughput
from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs, samples


def _batches(folder: Path, ms: float, batches: int | None = None) -> Case:
    """Batches back to back, so many milliseconds an item."""
    rng = np.random.default_rng(6)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        count = max(schedule.queries, 50) if batches is None else batches
        made = []
        for process in range(schedule.processes):
            spent = schedule.batch * ms * rng.normal(1.0, 0.02) * rng.gamma(400.0, 1 / 400.0, count)
            made.append(samples(spent, process=process, model=model, batch=schedule.batch))
        return made

    check = Throughput.model_validate(
        {"check": "throughput", "dataset": "test", "batch_sizes": [8], "require": ["throughput >= 500 samples/s"]}
    )
    return FakeInputs(evidence=folder, samples=make), check


PLANTED = (
    Planted(
        "throughput",
        "throughput",
        "throughput >= 500 samples/s",
        lambda f: _batches(f, 0.5),
        lambda f: _batches(f, 3.0),
        lambda f, n: _batches(f, 0.5, n),
        "six times slower",
    ),
)
