"""Bounds of timings where processes differ, stall in bursts, or have tails: how often they claim too much, and pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from evalspec.stats.power import detectable
from evalspec.stats.recorded_design import recorded_percentile, recorded_student
from evalspec.stats.timing.failing_pairs import FewEpisodes, paired_quantiles
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.processes import over_processes
from evalspec.stats.timing.share_over import share_over
from tests.stats.simulated import allowed, mostly, until_settled
from tests.stats.timing import designs
from tests.stats.timing.designs import Design, evidence, p_values

RUNS = 1000
PROOF_RUNS, FEW_RUNS = 500, 200
LIMIT_MS = 20.0
"""Far over the 2.9 ms that the p99 of `tailed` is: 0.02 % of all queries take longer."""


def held(
    design: Design, p: float, k: int, q: int, runs: int, seed: int, passing: float = 0.065, failing: float = 0.01
) -> bool:
    """PASS at 95 % and FAIL at 95 and 99.8 % err no more often than that, as far as so many runs can tell."""
    most = allowed(runs, np.array([passing, 0.065, failing]))

    def wrong(found: tuple[float, float]) -> tuple[bool, bool, bool]:
        return found[1] <= 0.05, found[0] <= 0.05, found[0] <= 0.002

    found = until_settled(evidence(design, p, k, q, seed), wrong, most, runs)
    return bool((np.mean([wrong(one) for one in found], axis=0) <= most).all())


@pytest.mark.proof
@pytest.mark.parametrize("name", ["shares differ .6", "shares beta(.5)"])
def test_processes_that_stall_unlike_fail_no_percentile_that_holds(name: str) -> None:
    """S3: 22 and 29 % of runs at 95 %, 7 and 20 % at 99.8 %, by counting and the levels alone."""
    assert held(designs.STALLS[name], 0.99, 20, 734, FEW_RUNS, 1)


def test_nor_does_a_share_over_a_deadline_fail_then() -> None:
    """S3, read the other way round."""
    rng, draw = np.random.default_rng(2), designs.STALLS["shares beta(.5)"].draw
    found = [share_over(list(draw(rng, 20, 734)), designs.OVER_MS).p_value(0.01, "lower") for _ in range(100)]
    assert sum(p is not None and p <= 0.05 for p in found) <= 8


def test_a_clear_violation_of_processes_that_differ_is_still_shown() -> None:
    """S3: a p99 1.4 times its limit, levels of five processes with a spread of 10 %."""
    found = p_values(designs.LEVELS["levels normal .1"], 0.99, 5, 734, FEW_RUNS, 3, 1.0 / 1.4)
    assert np.mean(found[:, 0] <= 0.05) >= 0.97 and np.mean(found[:, 0] <= 0.002) >= 0.6


@pytest.mark.parametrize("design", [designs.few_bursts(3000, 5), designs.few_regimes(3000, 5)])
def test_few_bursts_of_unequal_length_pass_no_percentile_that_is_violated(design: Design) -> None:
    """S6: 12 and 9 % of runs, by the design effect as it is seen."""
    assert held(design, 0.99, 5, 600, 300, 4)


def heavier(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """2 % of answers are slow and vary much."""
    return np.where(rng.random(n) < 0.02, np.exp(0.5 + 0.6 * rng.standard_normal(n)), rng.lognormal(0, 0.1, n))


def spread(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Lognormal, five times as wide as the baseline."""
    return rng.lognormal(0, 0.5, n)


def ratio_passes(candidate: Callable[[int, np.random.Generator], NDArray[np.float64]], n: int, runs: int) -> float:
    """Share of runs that pass a ratio of p99s that the candidate exceeds by nothing."""
    rng = np.random.default_rng(5)
    at = float(np.quantile(candidate(4_000_000, rng), 0.99) / np.exp(0.1 * 2.3263479))
    wrong = 0
    for _ in range(runs):
        factors = np.exp(0.02 * rng.standard_normal((5, 2)))
        sides = [candidate(n, rng) * one for one, _ in factors], [rng.lognormal(0, 0.1, n) * one for _, one in factors]
        ratio = paired_quantiles(*sides, 0.99).ratio()
        p = None if ratio is None else ratio.p_value(at, "upper")
        wrong += p is not None and p <= 0.05
    return wrong / runs


@pytest.mark.parametrize("candidate", [heavier, spread])
def test_a_heavier_tail_passes_no_comparison_at_its_limit(candidate: Callable[..., NDArray[np.float64]]) -> None:
    """S4: 18 and 12 % of runs with nearest ranks, 400 queries a side."""
    assert ratio_passes(candidate, 400, 150) <= allowed(150, np.array([0.065]))[0]


def test_one_burst_in_all_pairs_passes_no_comparison() -> None:
    """S4: 20 of 2,000 queries are slow and stand together: that happened once."""
    rng = np.random.default_rng(6)
    ours, theirs = (list(designs.calm(rng, 5, 400)) for _ in range(2))
    ours[2][100:125] *= 4.0
    ratio = paired_quantiles(ours, theirs, 0.99).ratio()
    assert isinstance(ratio, FewEpisodes)
    assert ratio.p_value(2.0, "upper") is None and ratio.bound(0.95, "upper") is None
    assert "separate episode" in ratio.method and "of the candidate's" in ratio.method
    needed = ratio.n_to_decide(2.0, 0.05)
    assert needed is not None and needed.unit == "queries" and needed > needed.now == 2000
    # That it is slower may still be shown.
    assert ratio.p_value(0.5, "lower") == ratio.over_pairs.p_value(0.5, "lower")


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_skewed_times_of_five_processes_pass_no_mean_that_is_violated(spread: float) -> None:
    """S8: 8.6 and 23 % of runs by t alone."""
    rng = np.random.default_rng(7)
    drawn, mean = rng.lognormal(0, spread, (RUNS, 5)), float(np.exp(0.5 * spread**2))
    found = [over_processes(values, skewed=True).p_value(mean, "upper") for values in drawn]
    assert np.mean([p is not None and p <= 0.05 for p in found]) <= allowed(RUNS, np.array([0.05]))[0]


def test_bounds_of_skewed_times_are_where_their_evidence_begins() -> None:
    estimate = over_processes([1.0, 1.1, 1.0, 1.2, 2.4], skewed=True)
    for confidence in (0.6, 0.95, 0.998):
        bound = estimate.bound(confidence, "upper")
        assert bound is not None
        assert estimate.p_value(bound * (1 + 1e-9), "upper") <= 1 - confidence  # type: ignore[operator]
        assert estimate.p_value(bound * (1 - 1e-6), "upper") > 1 - confidence  # type: ignore[operator]


def passes(spread: float, k: int, runs: int) -> float:
    """Share of runs that pass a limit far over the p99, where only the tails of processes differ."""
    rng, draw, found = np.random.default_rng(8), designs.tailed(spread), []
    for _ in range(runs):
        found.append(percentile(list(draw(rng, k, 734)), 0.99).p_value(LIMIT_MS, "upper"))
    return float(np.mean([p is not None and p <= 0.05 for p in found]))


@pytest.mark.parametrize(("spread", "k", "least"), [(0.6, 5, 0.75), (0.82, 5, 0.5), (0.82, 10, 0.9)])
def test_processes_whose_bulk_agrees_pass_a_limit_far_above(spread: float, k: int, least: float) -> None:
    """50, 27 and 55 % while a slow tail moves all queries of a process."""
    assert passes(spread, k, 100) >= least


def followed(design: Design, q: int, at_ms: float, least: float, runs: int) -> tuple[float, set[str]]:
    """Of runs that do not pass: the share that passes by what they say, and the units that they say it in."""
    units: set[str] = set()

    def done() -> Iterator[bool]:
        rng = np.random.default_rng(9)
        for _ in range(runs):
            first = percentile(list(design.draw(rng, 5, q)), 0.99)
            p, needed = first.p_value(at_ms, "upper"), first.n_to_decide(at_ms, 0.05)
            if (p is not None and p <= 0.05) or needed is None or needed > 20 * needed.now:
                continue
            units.add(needed.unit)
            k, each = (int(needed), q) if needed.unit == "processes" else (5, int(needed) // 5)
            p = percentile(list(design.draw(rng, k, each)), 0.99).p_value(at_ms, "upper")
            yield p is not None and p <= 0.05

    return mostly(done(), least, runs), units


def test_what_would_decide_is_told_in_processes_and_does() -> None:
    """The latency case: 27,900 queries of five processes pass it in 30 % of runs, 38 processes in nearly all."""
    share, units = followed(Design(designs.tailed(0.82)), 734, LIMIT_MS, 0.75, 60)
    assert units == {"processes"} and share >= 0.75


@pytest.mark.proof
@pytest.mark.parametrize("name", ["levels normal .1", "levels normal .1, queries .03", "calm", "AR(1) .5"])
def test_what_would_decide_does(name: str) -> None:
    one = (designs.LEVELS | designs.IN_TIME)[name]
    share, _ = followed(one, 400, (1.3 if "levels" in name else 1.07) * one.truth(0.99), 0.7, 300)
    assert share >= 0.7


@pytest.mark.proof
@pytest.mark.parametrize(("k", "q"), [(5, 400), (10, 734), (20, 400), (5, 4000)])
@pytest.mark.parametrize("name", list(designs.LEVELS | designs.IN_TIME))
def test_bounds_of_a_percentile_hold(name: str, k: int, q: int) -> None:
    """Both sides, at the p99 itself; 500 runs. A true 6.5 % stays below 10.2 % in 99.9 % of cases."""
    assert held((designs.LEVELS | designs.IN_TIME)[name], 0.99, k, q, PROOF_RUNS, 10)


@pytest.mark.proof
@pytest.mark.parametrize(("k", "q"), [(5, 734), (10, 734), (20, 734), (10, 4000)])
@pytest.mark.parametrize("name", list(designs.STALLS))
def test_bounds_of_a_percentile_hold_where_processes_stall_unlike(name: str, k: int, q: int) -> None:
    """Ten processes show it; what one in five is like, five miss in a third of runs, so that they pass in 8 to 14 %."""
    assert held(designs.STALLS[name], 0.99, k, q, PROOF_RUNS, 11, 0.065 if k > 5 else 0.15, 0.015)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("n", "count", "p"), [(3000, 5, 0.99), (3000, 10, 0.99), (5000, 8, 0.99), (2000, 6, 0.9), (30_000, 8, 0.999)]
)
@pytest.mark.parametrize("kind", ["geometric", "fixed", "regimes"])
def test_bounds_hold_with_few_bursts(kind: str, n: int, count: float, p: float) -> None:
    one = designs.few_regimes(n, count, p) if kind == "regimes" else designs.few_bursts(
        n, count, p, geometric=kind == "geometric"
    )  # fmt: skip
    assert held(one, p, 5, n // 5, 500, 12)


@pytest.mark.proof
@pytest.mark.parametrize(("k", "most"), [(5, 0.45), (20, 0.45)])
@pytest.mark.parametrize("name", list(designs.HEAVY))
def test_what_the_page_says_of_heavier_levels(name: str, k: int, most: float) -> None:
    """No bound can know of levels that were not drawn: the page gives the figures, and a violation is still none."""
    assert held(designs.HEAVY[name], 0.99, k, 400, PROOF_RUNS, 13, most)


@pytest.mark.proof
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("q", [400, 2000])
def test_plans_from_an_earlier_run_come_true(p: float, q: int) -> None:
    """Calm queries: PASS in 9 of 10 runs at the headroom that one run lets expect, FAIL in 4 of 5 at the violation."""
    truth = float(np.exp(designs.WITHIN * norm.ppf(p)))

    def come_true() -> Iterator[tuple[bool, bool]]:
        rng = np.random.default_rng(14)
        while True:
            first, second = (percentile(list(designs.calm(rng, 5, q)), p) for _ in range(2))
            bounds = first.bound(0.95, "upper"), first.bound(0.95, "lower")
            assert first.value is not None and bounds[0] is not None and bounds[1] is not None
            seen, counted = (bounds[0], bounds[1]), not first.differ
            student = recorded_student(first.value, seen, 0.95, "upper", 5, (0.0, np.inf), log=True, counted=counted)
            design = recorded_percentile(student, first.value, counted=counted)
            found = detectable(design, truth, "lower", alpha_pass=0.05, alpha_fail=0.05, family=1)
            assert found.headroom is not None and found.violation is not None
            pass_p, fail_p = (
                second.p_value(truth + found.headroom, "upper"),
                second.p_value(truth - found.violation, "lower"),
            )
            yield pass_p is not None and pass_p <= 0.05, fail_p is not None and fail_p <= 0.05

    # 90 and 75 % stay over these in 99.9 % of cases.
    least = np.array([0.83, 0.65])
    found = until_settled(come_true(), np.logical_not, 1.0 - least, 200)
    assert (np.mean(found, axis=0) >= least).all()
