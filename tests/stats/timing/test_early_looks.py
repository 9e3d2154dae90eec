"""Looks at 3 and 4 of 5 processes: what they add to how often a percentile, or a mean over processes, errs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.evidence.estimate import Estimate, Side
from evalspec.running.children.looks import FARTHER, FARTHER_BESIDE, STRICTER
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.processes import over_processes, paired_log_ratio
from evalspec.timing.looks import looks_at
from tests.stats.simulated import allowed, until_settled
from tests.stats.timing import designs
from tests.stats.timing.designs import Design

RUNS, PROOF_RUNS = 150, 1000
K, QUERIES = 5, 600
LEVELS: dict[Side, float] = {"upper": 0.05, "lower": 0.002}
EVERY = {
    **designs.STALLS, **designs.LEVELS, **designs.IN_TIME,
    "five bursts": designs.few_bursts(1440, 5), "five regimes": designs.few_regimes(1440, 5),
}  # fmt: skip
"""Bursts by the queries that are planned: nothing passes at a look without 1.25 times as many (`Latency.expected`)."""


def shown(estimate: Estimate, threshold: float, side: Side, by: float = 1.0) -> bool:
    """The side is shown, at a level and against a threshold that are so many times as strict."""
    strict = 1.0 if by == 1.0 else STRICTER
    p = estimate.p_value(threshold / by if side == "upper" else threshold * by, side)
    return p is not None and p <= LEVELS[side] / strict


def at_the_end(design: Design, series: list[NDArray[np.float64]], side: Side) -> bool:
    """The side is shown by all processes at the p99, which is the threshold."""
    at = design.truth(0.99)
    return shown(percentile(series, 0.99), at * (1.0 - 1e-9 * (side == "upper")), side)


def runs_of(design: Design, seed: int) -> Iterator[tuple[list[NDArray[np.float64]], NDArray[np.bool_]]]:
    """Processes of one run after the other, and whether a look at them shows (PASS, FAIL) at the p99."""
    rng, at = np.random.default_rng(seed), design.truth(0.99)
    while True:
        series = list(design.draw(rng, K, QUERIES))
        looks = [percentile(series[:some], 0.99) for some in looks_at(K)]
        yield series, np.array([any(shown(one, at, side, FARTHER) for one in looks) for side in LEVELS])


def added_by_looks(design: Design, seed: int, most: tuple[float, float]) -> NDArray[np.float64]:
    """Shares of runs with a PASS, and a FAIL, that only looks make wrong, `until_settled` that both are no more."""
    added = (
        [one and not at_the_end(design, series, side) for one, side in zip(early, LEVELS, strict=True)]
        for series, early in runs_of(design, seed)
    )
    return np.mean(until_settled(added, lambda one: one, most, PROOF_RUNS), axis=0)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["levels normal .1", "shares differ .6", "five bursts", "drift .05"])
def test_looks_keep_the_levels_of_percentiles(name: str) -> None:
    """PASS errs in at most 6.5 %, FAIL at 99.8 % in at most 1 %, or as without looks, as far as runs can tell."""
    with_looks, without = np.zeros(2), np.zeros(2)
    for series, early in islice(runs_of(EVERY[name], 1), RUNS):
        ends = np.array([at_the_end(EVERY[name], series, side) for side in LEVELS])
        with_looks, without = with_looks + (early | ends) / RUNS, without + ends / RUNS
    assert (with_looks <= np.maximum(allowed(RUNS, np.array([0.065, 0.01])), without + 0.015)).all()
    assert with_looks[0] - without[0] <= 0.02


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(EVERY))
def test_looks_keep_the_levels_of_percentiles_in_all_designs(name: str) -> None:
    """How often bounds err without looks is what `test_designs` is about."""
    most = (0.015, 0.003)
    assert (added_by_looks(EVERY[name], 2, most) <= most).all()


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(designs.HEAVY))
def test_looks_add_nothing_where_five_processes_show_too_little(name: str) -> None:
    """Without looks a p99 at its limit passes in up to 27 % of runs here."""
    most = (0.01, 0.003)
    assert (added_by_looks(designs.HEAVY[name], 3, most) <= most).all()


@pytest.mark.proof
@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("kind", ["rate", "time", "pairs"])
def test_looks_keep_the_levels_of_means_over_processes(kind: str, spread: float) -> None:
    """Rates by t, times also as lognormal, ratios of pairs: up to 4,000 runs of lognormal processes."""
    rng, runs = np.random.default_rng(4), 4000
    truth = 1.0 if kind == "pairs" else float(np.exp(0.5 * spread**2))
    better: Side = "lower" if kind == "rate" else "upper"
    sides: tuple[tuple[Side, float], ...] = ((better, 0.05), ("upper" if better == "lower" else "lower", 0.002))

    def wrong(row: NDArray[np.float64]) -> list[bool]:
        """PASS and FAIL, at a look or at the end."""
        return [any(shows(row[:some], side, level) for some in (*looks_at(K), K)) for side, level in sides]

    def shows(values: NDArray[np.float64], side: Side, level: float) -> bool:
        last = len(values) == K
        estimate: Estimate | None = (
            paired_log_ratio(values, np.ones(len(values))).ratio()
            if kind == "pairs"
            else over_processes(values, least=0.0, skewed=kind == "time")
        )
        assert estimate is not None
        by = 1.0 if last else FARTHER_BESIDE if kind == "pairs" else FARTHER
        p = estimate.p_value(truth / by if side == "upper" else truth * by, side)
        return p is not None and p <= level / (1.0 if last else STRICTER)

    most = allowed(runs, np.array([0.065, 0.01]))
    found = (wrong(row) for row in np.exp(spread * rng.standard_normal((runs, K))))
    assert (np.mean(until_settled(found, lambda one: one, most, runs), axis=0) <= most).all()


@pytest.mark.parametrize(("name", "times"), [("calm", 8.0), ("levels normal .05", 10.0), ("levels normal .1", 16.0)])
def test_what_is_far_ends_at_a_look(name: str, times: float) -> None:
    """With three processes how far they differ is known so badly that they must be far indeed where they do."""
    rng, at = np.random.default_rng(5), times * EVERY[name].truth(0.99)
    ended = 0
    for _ in range(60):
        series = list(EVERY[name].draw(rng, looks_at(K)[-1], QUERIES))
        ended += any(shown(percentile(series[:some], 0.99), at, "upper", FARTHER) for some in looks_at(K))
    assert ended >= 54
