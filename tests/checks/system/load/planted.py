"""Planted defects of `load`, each with its clean twin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evalspec.checks.system.load.spec import Load
from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import Case, Planted
from tests.checks.system.queueing import exponential, served
from tests.checks.system.streamed import GAP_MS, streamed
from tests.fakes import FakeInputs


def _traffic_on_a_server(folder: Path, service_ms: float, failing: float = 0.0, queries: int | None = None) -> Case:
    """Poisson arrivals at one server with exponential service times; a share of queries fails."""
    rng = np.random.default_rng(8)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        if queries is not None:
            assert schedule.arrivals_ns is not None
            schedule = replace(schedule, arrivals_ns=schedule.arrivals_ns[:queries])
        if queries == 0:
            return []
        count = len(schedule.arrivals_ns) if schedule.arrivals_ns is not None else 0
        return [served(schedule, exponential(service_ms), rng, fails=rng.random(count) < failing, model=model)]

    check = Load.model_validate(
        {
            "check": "load", "dataset": "test", "rates": ["100 qps", "400 qps"], "queries": 30_000, "search": False,
            "arrivals": {"spike": {"factor": 2, "duration": "30 s"}}, "caching_audit": False,
            "slo": "latency_p99 <= 20 ms",
            "require": [
                "max_rate >= 400 qps", "goodput(400 qps) >= 390 qps", "error_rate <= 1 %",
                "spike_factor(400 qps) <= 8 x",
                "latency_p50(400 qps) <= 5 ms",
            ],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, samples=make), check


def _answers_on_a_server(folder: Path, queries: int | None = None, **answers: float) -> Case:
    """Poisson arrivals at one server that streams what it answers."""
    rng = np.random.default_rng(9)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        if queries is not None:
            assert schedule.arrivals_ns is not None
            schedule = replace(schedule, arrivals_ns=schedule.arrivals_ns[:queries])
        if queries == 0:
            return []
        one = served(schedule, exponential(10.0), rng, model=model)
        timings = replace(one, details={**one.details, "kind": schedule.kind})
        return [streamed(timings, rng, gap_ms=GAP_MS, **answers)]

    check = Load.model_validate(
        {
            "check": "load", "dataset": "test", "rates": ["20 qps"], "queries": 2000, "search": False,
            "caching_audit": False,
            "require": [
                "gap_p99 <= 20 ms", "cached_share(20 qps) <= 5 %", "token_counts_differ <= 1 %",
                "tokens_per_piece >= 0.5", "output_rate(20 qps) >= 300 tokens/s",
            ],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, samples=make), check


PLANTED = (
    Planted(
        "load",
        "gap_p99",
        "gap_p99 <= 20 ms",
        lambda f: _answers_on_a_server(f),
        lambda f: _answers_on_a_server(f, stalls=0.1),
        lambda f, n: _answers_on_a_server(f, n),
        "one answer in ten stalls at half of its pieces",
    ),
    Planted(
        "load",
        "cached_share",
        "cached_share(20 qps) <= 5 %",
        lambda f: _answers_on_a_server(f),
        lambda f: _answers_on_a_server(f, cached=0.9),
        lambda f, n: _answers_on_a_server(f, n),
        "the server knows the prompts from before",
    ),
    Planted(
        "load",
        "token_counts_differ",
        "token_counts_differ <= 1 %",
        lambda f: _answers_on_a_server(f),
        lambda f: _answers_on_a_server(f, reported=3.0),
        lambda f, n: _answers_on_a_server(f, n),
        "three times the tokens are reported",
    ),
    Planted(
        "load",
        "tokens_per_piece",
        "tokens_per_piece >= 0.5",
        lambda f: _answers_on_a_server(f),
        lambda f: _answers_on_a_server(f, by_piece=0.25),
        lambda f, n: _answers_on_a_server(f, n),
        "a token comes in four pieces",
    ),
    Planted(
        "load",
        "output_rate",
        "output_rate(20 qps) >= 300 tokens/s",
        lambda f: _answers_on_a_server(f),
        lambda f: _answers_on_a_server(f, tokens=10),
        lambda f, n: _answers_on_a_server(f, n),
        "answers are half as long as they should be",
    ),
    Planted(
        "load",
        "latency_p99",
        "latency_p99 <= 20 ms",
        lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 2.2),
        lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "queries wait for each other at 400 qps, and not at 100",
    ),
    Planted(
        "load",
        "max_rate",
        "max_rate >= 400 qps",
        lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 4.0),
        lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "it serves 250 qps",
    ),
    Planted(
        "load",
        "goodput",
        "goodput(400 qps) >= 390 qps",
        lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 2.4),
        lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "answers come too late to be of use",
    ),
    Planted(
        "load",
        "error_rate",
        "error_rate <= 1 %",
        lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 1.0, 0.03),
        lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "3 queries in 100 fail, fast",
    ),
    Planted(
        "load",
        "spike_factor",
        "spike_factor(400 qps) <= 8 x",
        lambda f: _traffic_on_a_server(f, 0.7),
        lambda f: _traffic_on_a_server(f, 1.3),
        lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "twice the rate is more than it serves",
    ),
)
