"""Planted defects of `sustained`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.sustained.spec import Sustained
from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs, samples
from tests.meters import telemetry, times_of, with_meter


def _long(folder: Path, slower: float, batches: int | None = None) -> Case:
    """30 s of batches; from the 20th second on each may take longer, and the device says that it throttles."""
    rng = np.random.default_rng(10)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = []
        for process in range(schedule.processes):
            spent = np.full(2000, 10.0 * np.exp(0.01 * rng.standard_normal())) * rng.gamma(400.0, 1 / 400.0, 2000)
            spent = np.concatenate((spent, slower * rng.permutation(spent)[: round(1000 / slower)]))[:batches]
            one = samples(spent, process=process, model=model, batch=schedule.batch)
            events = np.maximum(0.0, times_of(30.0, 0.5) - 20.0) * (slower > 1)
            made.append(with_meter(one, telemetry(0.0, 30.0, counter=None, every_s=0.5,
                                                  more={"cpu_throttle_count": events})))  # fmt: skip
        return made

    check = Sustained.model_validate(
        {"check": "sustained", "dataset": "test", "require": ["sustained_ratio >= 0.9x", "throttled == 0"]}
    )
    return FakeInputs(evidence=folder, samples=make), check


PLANTED = (
    Planted(
        "sustained",
        "sustained_ratio",
        "sustained_ratio >= 0.9x",
        lambda f: _long(f, 1.0),
        lambda f: _long(f, 2.0),
        lambda f, n: _long(f, 1.0, n),
        "half as fast after 20 s",
    ),
    Planted(
        "sustained",
        "throttled",
        "throttled == 0",
        lambda f: _long(f, 1.0),
        lambda f: _long(f, 1.05),
        lambda f, n: _long(f, 1.0, n),
        "it says that it throttles",
    ),
)
