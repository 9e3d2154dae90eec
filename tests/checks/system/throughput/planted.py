"""Planted defects of `throughput`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.throughput.spec import Throughput
from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import Case, Planted
from tests.checks.system.streamed import prefilled
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


def _streams(folder: Path, queries: int | None = None, slower: float = 1.0, **answers: float) -> Case:
    """Requests one after the other: 1 ms for a token of the prompt, 4 ms for one of the answer."""
    rng = np.random.default_rng(7)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        count = 200 if queries is None else queries
        made = []
        for process in range(schedule.processes):
            prompts = rng.integers(20, 200, count)
            timings = samples(slower * prompts + 120.0, process=process, model=model)
            made.append(prefilled(timings, prompts, rng, slower=slower, **answers))
        return made

    check = Throughput.model_validate(
        {
            "check": "throughput", "dataset": "test", "batch_sizes": [1], "connections": 1,
            "require": [
                "output_rate >= 50 tokens/s", "prefill_rate >= 800 tokens/s", "decode_rate(batch 1) >= 200 tokens/s",
            ],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, samples=make), check


PLANTED = (
    Planted(
        "throughput",
        "output_rate",
        "output_rate >= 50 tokens/s",
        lambda f: _streams(f),
        lambda f: _streams(f, tokens=8),
        lambda f, n: _streams(f, n),
        "answers have a third of their tokens",
    ),
    Planted(
        "throughput",
        "prefill_rate",
        "prefill_rate >= 800 tokens/s",
        lambda f: _streams(f),
        lambda f: _streams(f, slower=2.0),
        lambda f, n: _streams(f, n),
        "each token of a prompt takes twice as long",
    ),
    Planted(
        "throughput",
        "decode_rate",
        "decode_rate(batch 1) >= 200 tokens/s",
        lambda f: _streams(f),
        lambda f: _streams(f, gap_ms=8.0),
        lambda f, n: _streams(f, n),
        "each token of an answer takes twice as long",
    ),
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
