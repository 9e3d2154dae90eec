"""The change between two runs, from what each of them recorded."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from evalspec.stats.run_to_run import Bounded, Change, change
from evalspec.stats.shares.proportion import Proportion

REPEATS = 4_000
LIMIT = 0.065


def shares(p: float, n: int, rng: np.random.Generator) -> list[Bounded]:
    """Shares of n rows with Clopper-Pearson's bounds at 95 %; each count is made once."""
    counts = rng.binomial(n, p, REPEATS)
    made = {}
    for count in np.unique(counts):
        one = Proportion.of_counts(int(count), n)
        assert one.value is not None
        made[count] = Bounded(one.value, one.bound(0.95, "lower"), one.bound(0.95, "upper"), 0.95)
    return [made[count] for count in counts]


def means(true: float, processes: int, rng: np.random.Generator) -> list[Bounded]:
    """Means over processes that differ by 3 %, with Student's bounds at 95 %."""
    each = true * np.exp(rng.normal(0.0, 0.03, (REPEATS, processes)))
    centre, spread = each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(processes)
    reach = float(student.ppf(0.95, processes - 1)) * spread
    return [
        Bounded(float(value), float(value - half), float(value + half), 0.95, processes - 1.0)
        for value, half in zip(centre, reach, strict=True)
    ]


def missed(found: list[Change], truth: float) -> tuple[float, float]:
    lower = np.array([one.lower for one in found], dtype=np.float64)
    upper = np.array([one.upper for one in found], dtype=np.float64)
    return float((lower > truth).mean()), float((upper < truth).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("p", "n"), [(0.5, 50), (0.9, 200), (0.98, 1000)])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_differences_of_shares_err_no_more_often_than_they_may(p: float, n: int, alpha: float) -> None:
    rng = np.random.default_rng(5)
    found = [change(a, b, alpha, ratio=False) for a, b in zip(shares(p, n, rng), shares(p, n, rng), strict=True)]
    assert max(missed(found, 0.0)) <= LIMIT * alpha / 0.05


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_ratios_over_processes_err_no_more_often_than_they_may(alpha: float) -> None:
    rng = np.random.default_rng(6)
    found = [change(a, b, alpha, ratio=True) for a, b in zip(means(2.0, 5, rng), means(2.2, 5, rng), strict=True)]
    assert max(missed(found, 1.1)) <= LIMIT * alpha / 0.05


def test_without_a_bound_there_is_none_of_the_change() -> None:
    sure, open_ = Bounded(2.0, 1.9, 2.1, 0.95), Bounded(2.0, None, 2.1, 0.95)
    one = change(sure, open_, 0.05, ratio=False)
    assert one.lower is None and one.upper is not None
    assert change(Bounded(0.0, 0.0, 0.1, 0.95), sure, 0.05, ratio=False).value == 2.0
    assert change(Bounded(2.0, -0.1, 2.1, 0.95), sure, 0.05, ratio=True).upper is None
    alone = Bounded(2.0, 1.9, 2.1, 0.95, degrees=0.0)
    assert change(alone, sure, 0.05, ratio=True).lower is None


def test_bounds_at_their_own_level_are_carried_as_they_are() -> None:
    one = change(Bounded(1.0, 1.0, 1.0, 0.95), Bounded(2.0, 1.8, 2.4, 0.95), 0.05, ratio=False)
    assert (one.value, one.lower, one.upper) == pytest.approx((1.0, 0.8, 1.4))
