"""Planted defects of `latency`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.latency.spec import Latency
from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import Case, Planted
from tests.checks.system.streamed import GAP_MS, streamed
from tests.fakes import CANDIDATE, FakeInputs, samples


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


STREAMED = [
    "gap_p99 <= 20 ms", "cached_share <= 5 %", "token_counts_differ <= 1 %", "tokens_per_piece >= 0.5",
    "ttft_p90 <= 1.2x baseline",
]  # fmt: skip


def _streams(folder: Path, queries: int | None = None, slower: float = 1.0, **answers: float) -> Case:
    """Requests of about 80 ms, streamed, beside a baseline's."""
    rng = np.random.default_rng(3)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        count = schedule.queries if queries is None else queries
        times = slower if model == CANDIDATE else 1.0
        made = []
        for process in range(schedule.processes):
            spent = times * rng.gamma(200.0, 0.4, count)
            made.append(streamed(samples(spent, process=process, model=model), rng, gap_ms=GAP_MS, **answers))
        return made

    check = Latency.model_validate(
        {"check": "latency", "dataset": "test", "require": STREAMED, "caching_audit": False, "queries": 1000}
    )
    return FakeInputs(evidence=folder, samples=make), check


PLANTED = (
    Planted(
        "latency",
        "gap_p99",
        "gap_p99 <= 20 ms",
        lambda f: _streams(f),
        lambda f: _streams(f, stalls=0.1),
        lambda f, n: _streams(f, n),
        "one answer in ten stalls at half of its pieces",
    ),
    Planted(
        "latency",
        "cached_share",
        "cached_share <= 5 %",
        lambda f: _streams(f),
        lambda f: _streams(f, cached=0.9),
        lambda f, n: _streams(f, n),
        "the server knows the prompts from before",
    ),
    Planted(
        "latency",
        "token_counts_differ",
        "token_counts_differ <= 1 %",
        lambda f: _streams(f),
        lambda f: _streams(f, reported=3.0),
        lambda f, n: _streams(f, n),
        "three times the tokens are reported",
    ),
    Planted(
        "latency",
        "tokens_per_piece",
        "tokens_per_piece >= 0.5",
        lambda f: _streams(f),
        lambda f: _streams(f, by_piece=0.25),
        lambda f, n: _streams(f, n),
        "a token comes in four pieces",
    ),
    Planted(
        "latency",
        "ttft_p90",
        "ttft_p90 <= 1.2x baseline",
        lambda f: _streams(f),
        lambda f: _streams(f, slower=1.5),
        lambda f, n: _streams(f, n),
        "first tokens come half as late again as the baseline's",
    ),
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
