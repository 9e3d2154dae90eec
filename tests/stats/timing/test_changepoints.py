"""Steps and periods: found where they are, and not in queues that merely wait."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.stats.timing.changepoints import period, slow_period, step
from tests.checks.system.queueing import sojourns


def queued(utilization: float, n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Latencies and due times of M/M/1 with a service of 1 ms; ms and s."""
    gaps = rng.exponential(1.0 / utilization, n)
    return sojourns(gaps, rng.exponential(1.0, n)), np.cumsum(gaps) / 1e3


def test_a_step_is_found_with_its_time_and_size() -> None:
    rng = np.random.default_rng(1)
    when = np.arange(6000) / 100.0
    spent = rng.lognormal(1.0, 0.2, 6000) * np.where(when < 20.0, 1.0, 1.6)
    found = step(spent, when)
    assert found is not None
    assert found.at_s == pytest.approx(20.0, abs=1.5) and found.change == pytest.approx(0.6, abs=0.1)
    down = step(spent[::-1], when)
    assert down is not None and down.change < 0
    assert step(rng.lognormal(1.0, 0.2, 6000) * np.where(when < 20.0, 1.0, 1.05), when) is None
    assert step(spent[:30], when[:30]) is None


@pytest.mark.parametrize("every", [0.5, 2.0, 5.0])
def test_a_period_is_found(every: float) -> None:
    rng = np.random.default_rng(2)
    when = np.sort(rng.random(30_000)) * 60.0
    slow = (when % every < 0.02) | (rng.random(30_000) < 0.0002)
    found = period(slow, when)
    assert found is not None and found.every_s == pytest.approx(every, rel=0.03) and found.p_value < 1e-3


def test_collections_are_found_among_other_slow_queries() -> None:
    rng = np.random.default_rng(4)
    when = np.arange(10_000) / 500.0
    spent = rng.lognormal(1.0, 0.3, 10_000)
    spent[::500] += 40.0
    found = slow_period(spent, when)
    assert found is not None and found.every_s == pytest.approx(1.0, rel=0.03)
    spent[:] = np.inf
    assert slow_period(spent, when) is None


def test_too_few_spells_are_no_period() -> None:
    when = np.arange(6000) / 100.0
    assert period(when % 12.0 < 0.01, when) is None
    assert period(np.zeros(6000, dtype=bool), when) is None
    assert period(np.zeros(0, dtype=bool), np.empty(0)) is None


@pytest.mark.slow
@pytest.mark.parametrize("utilization", [0.3, 0.8, 0.95])
def test_queues_have_neither(utilization: float) -> None:
    rng = np.random.default_rng(3)
    steps = periods = 0
    for _ in range(200):
        spent, when = queued(utilization, 20_000, rng)
        steps += step(spent, when) is not None
        periods += slow_period(spent, when) is not None
    # Close to saturation a queue wanders for as long as the run lasts: a step there is not always false.
    assert periods <= 2 and steps <= (10 if utilization > 0.9 else 2)
