"""Queues whose percentiles are known exactly: how often `load` passes and fails them at the true threshold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from evalspec.checks.system.load.arrivals import Arrivals
from evalspec.checks.system.load.one_process import Driven
from evalspec.checks.system.load.one_rate import AtRate
from evalspec.checks.system.load.schedule import traffic
from evalspec.language.inputs import Schedule
from tests.checks.system.queueing import constant, exponential, md1_quantile, mm1_quantile, served, sojourns
from tests.stats.simulated import mostly, until_settled

PROCESSES = 5


def one_run(kind: str, utilization: float, n: int, rng: np.random.Generator) -> AtRate:
    """As the check runs it: five processes, each of which starts with an empty queue and a lead-in."""
    rate, runs = 1000.0 * utilization, []
    for _ in range(PROCESSES):
        traffic_ = traffic(Arrivals(), rate, n // PROCESSES, rng)
        times = traffic_.times_ns
        schedule = Schedule(kind="open_loop", queries=len(times), arrivals_ns=times, timeout_s=1e6)
        samples = served(schedule, exponential(1.0) if kind == "M/M/1" else constant(1.0), rng)
        runs.append(Driven(traffic_, samples, schedule))
    found = AtRate("rate", tuple(runs))
    assert found.latency("latency_p99").n == n
    return found


def decided(kind: str, utilization: float, n: int, seed: int) -> Iterator[tuple[bool, bool]]:
    """PASS and FAIL with the threshold at the true p99, each side at 5 %; what withholds a PASS makes only fewer."""
    truth = (mm1_quantile if kind == "M/M/1" else md1_quantile)(utilization, 0.99)
    rng = np.random.default_rng(seed)
    while True:
        estimate = one_run(kind, utilization, n, rng).latency("latency_p99")
        p_pass, p_fail = estimate.p_value(truth, "upper"), estimate.p_value(truth, "lower")
        yield p_pass is not None and p_pass <= 0.05, p_fail is not None and p_fail <= 0.05


@pytest.mark.parametrize(
    ("utilization", "p", "truth"), [(0.5, 0.99, 9.21034), (0.8, 0.99, 23.02585), (0.8, 0.5, 3.46574)]
)
def test_the_quantile_of_mm1(utilization: float, p: float, truth: float) -> None:
    assert mm1_quantile(utilization, p) == pytest.approx(truth, abs=1e-5)


@pytest.mark.parametrize(("utilization", "truth"), [(0.5, 4.3356), (0.8, 11.3556)])
def test_the_quantile_of_md1(utilization: float, truth: float) -> None:
    """Against two million simulated queries, and the mean wait of Pollaczek and Khinchine."""
    rng = np.random.default_rng(5)
    n = 2_000_000
    spent = sojourns(rng.exponential(1.0 / utilization, n), np.ones(n))
    assert md1_quantile(utilization, 0.99) == pytest.approx(truth, abs=1e-3)
    assert float(np.quantile(spent, 0.99)) == pytest.approx(truth, rel=0.03)
    assert float(spent.mean()) == pytest.approx(1.0 + utilization / (2.0 * (1.0 - utilization)), rel=0.02)


def test_waits_are_those_of_the_recursion_query_by_query() -> None:
    rng = np.random.default_rng(6)
    gaps, service = rng.exponential(1.2, 500), rng.exponential(1.0, 500)
    wait, found = 0.0, []
    for gap, own, before in zip(gaps, service, np.append(0.0, service[:-1]), strict=True):
        wait = max(0.0, wait + before - gap)
        found.append(wait + own)
    assert sojourns(gaps, service) == pytest.approx(found)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["M/M/1", "M/D/1"])
@pytest.mark.parametrize(("utilization", "n", "repeats", "most"), [(0.5, 20_000, 1_000, 72), (0.8, 100_000, 250, 20)])
def test_at_the_truth_few_runs_pass_and_few_fail(
    kind: str, utilization: float, n: int, repeats: int, most: int
) -> None:
    """A true rate of 5 % exceeds 72 of 1,000 once in 1,000, and 20 of 250 (8 %) once in 60."""
    limits = np.full(2, most / repeats)
    found = until_settled(decided(kind, utilization, n, seed=7), lambda one: one, limits, repeats)
    assert (np.mean(found, axis=0) <= limits).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["M/M/1", "M/D/1"])
def test_too_few_queries_of_a_busy_queue_decide_nothing(kind: str) -> None:
    undecided = (not (passed or failed) for passed, failed in decided(kind, 0.8, 5_000, seed=8))
    assert mostly(undecided, 0.9, 400) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "side"), [(2.0, "passed"), (0.6, "failed")])
def test_far_from_the_truth_it_decides(factor: float, side: str) -> None:
    """At utilization 0.5 with 20,000 queries, a threshold of twice the p99 is nearly always passed."""
    rng = np.random.default_rng(9)
    truth = factor * mm1_quantile(0.5, 0.99)
    shown = 0
    for _ in range(60):
        run = one_run("M/M/1", 0.5, 20_000, rng)
        p = run.latency("latency_p99").p_value(truth, "upper" if side == "passed" else "lower")
        # What withholds a PASS counts here: a steady queue neither climbs nor steps.
        shown += p is not None and p <= 0.05 and (side == "failed" or run.withhold is None)
    assert shown >= 54
