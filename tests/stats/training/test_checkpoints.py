"""Checkpoints: worked numbers, and failures by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.training.checkpoints import checkpoint_interval, lost_share

HOUR = 3_600.0


@pytest.mark.parametrize(
    ("size", "rate", "hours", "write_s", "every_s", "lost"),
    [(5.29e12, 100e9, 3, 53, 1_069, 0.099), (912e9, 20e9, 12, 46, 1_985, 0.046)],
    ids=["1T parameters", "70B parameters"],
)
def test_young_and_daly(size: float, rate: float, hours: float, write_s: float, every_s: float, lost: float) -> None:
    """Checkpoints of MLPerf Storage at two rates."""
    write = size / rate
    assert write == pytest.approx(write_s, abs=0.5)
    assert checkpoint_interval(write, hours * HOUR) == pytest.approx(every_s, abs=0.5)
    assert lost_share(write, hours * HOUR) == pytest.approx(lost, abs=5e-4)
    best = checkpoint_interval(write, hours * HOUR)
    assert all(lost_share(write, hours * HOUR, best * off) > lost_share(write, hours * HOUR) for off in (0.5, 0.9, 1.2))


def test_the_share_is_that_of_a_training_with_failures() -> None:
    """Two million seconds of work with exponential failures: what is lost is what is told, a little more or less."""
    draw, write, mean = np.random.default_rng(1), 20.0, 20_000.0
    every = checkpoint_interval(write, mean)
    work, elapsed, done = 2e6, 0.0, 0.0
    while done < work:
        until = draw.exponential(mean)
        pieces = int(until // (every + write))
        done, elapsed = done + every * pieces, elapsed + until
    assert 1.0 - done / elapsed == pytest.approx(lost_share(write, mean), abs=0.006)
