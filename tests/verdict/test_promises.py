"""What a plan prints from an earlier record comes true: PASS at the headroom, FAIL at the violation, in a gate of 25.

First runs have noise of their own, and with it what is printed: a share of PASS is one over first runs, of which half
are at a truth that holds with ease and half at one between it and the threshold, and over later runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest

from evalspec.evidence.estimate import Side
from evalspec.evidence.record import Record
from evalspec.evidence.test import Test
from evalspec.evidence.units import from_unit
from evalspec.planning.explain import Detects, detects
from evalspec.planning.plan import Plan
from evalspec.running.requirements import SignificanceLevels, _estimate
from tests.shared import shared_array
from tests.stats.simulated import mostly
from tests.verdict.populations import ALPHA_FAIL, POPULATIONS, Population

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]

FIRST_RUNS = 40
LATER = {
    "Wasserstein distance": 3,
    "resampled ratio": 8,
    "deadline misses": 10,
    "total variation": 10,
    "kappa": 10,
    "ECE": 10,
    "rms calibration": 10,
    "classwise ECE": 10,
    "p99": 40,
    "p90 of processes that differ": 40,
    "macro recall": 40,
}
"""Later runs for each first one where they take long; of others `MANY`."""
MANY = 100
BY_NAME = {one.name: one for one in POPULATIONS}
UNTOLD = ("drifted columns",)
"""Of these a record tells no headroom: how many columns drift moves in whole columns."""
CALIBRATION = ("ECE", "rms calibration", "classwise ECE")
PROMISED = tuple(name for name in BY_NAME if name not in (*UNTOLD, *CALIBRATION))


def a_first_run(population: Population, truth: float, rng: np.random.Generator) -> Test:
    """What a run writes of a requirement, through the runner's own code."""
    one = population.requirement
    start = Test(
        name=one.name("check"),
        check="check",
        sentence=one.sentence,
        metric=one.metric,
        op=one.op,
        threshold=one.factor if one.is_ratio else one.threshold,
        unit=one.unit,
        against=one.model,
    )
    return _estimate(start, population.draw(truth, rng), SignificanceLevels(0.95, ALPHA_FAIL))


def printed(population: Population, test: Test) -> Detects:
    """What a plan of 25 requirements prints from it."""
    one = population.requirement
    check: Any = SimpleNamespace(
        name="check",
        requirements=(one,),
        blocking=(one,),
        metric=lambda _: population.metric,
        dataset=None,
        assumed_design_effect=None,
    )
    plan: Any = SimpleNamespace(
        checks=(SimpleNamespace(check=check),),
        family=tuple(POPULATIONS),
        family_warn=(),
        alpha=0.05,
        spec=SimpleNamespace(policy=SimpleNamespace(confidence=0.95), headers={}, datasets={}),
    )
    record: Any = SimpleNamespace(
        checks=(SimpleNamespace(status="measured", reason=None, tests=(test,), ended_early=False),)
    )
    return detects(cast(Plan, plan), cast(Record, record))[0]


def first_runs(population: Population, rng: np.random.Generator) -> list[Detects]:
    """What plans print from runs at a truth that holds with ease, and at one half as far from the threshold."""
    halfway = 0.5 * (population.easy + population.threshold)
    truths = [population.easy, halfway] * (FIRST_RUNS // 2)
    return [printed(population, a_first_run(population, truth, rng)) for truth in truths]


def told(name: str, which: Literal["headroom", "violation"], factory: pytest.TempPathFactory) -> list[float]:
    """Distances that plans print from first runs, in fractions where the metric is one."""
    both = shared_array(factory, f"promises: {name}", lambda: _told(name))
    found = both[:, 0 if which == "headroom" else 1]
    # Now and then a first run is too noisy to promise anything.
    assert np.sum(~np.isnan(found)) >= 0.8 * FIRST_RUNS, name
    return [float(one) for one in found[~np.isnan(found)]]


def _told(name: str) -> list[list[float]]:
    population = BY_NAME[name]
    runs = first_runs(population, np.random.default_rng(41))
    unit = population.requirement.unit
    return [
        [math.nan if one is None else from_unit(one, unit) for one in (run.headroom, run.violation)] for run in runs
    ]


def shown(
    name: str, which: Literal["headroom", "violation"], factory: pytest.TempPathFactory
) -> tuple[Iterator[bool], int]:
    """Whether PASS comes out at the headrooms in print, or FAIL at the violations; and how many later runs there are.

    Of each first run one is made after the other.
    """
    population, distances = BY_NAME[name], told(name, which, factory)
    rng, later = np.random.default_rng([43, which == "headroom"]), LATER.get(name, MANY)
    upper, passing = population.requirement.upper, which == "headroom"
    side: Side = "upper" if upper == passing else "lower"
    level, sign = (0.05 if passing else ALPHA_FAIL) * (1.0 + 1e-9), -1.0 if upper == passing else 1.0

    def runs() -> Iterator[bool]:
        for one in distances * later:
            p = population.draw(population.threshold + sign * one, rng).p_value(population.threshold, side)
            yield p is not None and p <= level

    return runs(), len(distances) * later


@pytest.mark.parametrize("name", PROMISED)
def test_a_violation_in_print_fails_in_three_of_four_gates(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    failed, runs = shown(name, "violation", tmp_path_factory)
    assert mostly(failed, 0.75, runs) >= 0.75


def test_a_gate_whose_truths_lie_at_the_headrooms_in_print_is_ready_in_nine_of_ten(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """READY takes a PASS of each, and samples of different requirements are independent."""
    passed = {name: float(np.mean(list(shown(name, "headroom", tmp_path_factory)[0]))) for name in PROMISED}
    assert math.prod(passed.values()) >= 0.9, passed


@pytest.mark.parametrize("name", UNTOLD)
def test_what_a_record_does_not_tell_is_not_printed(name: str) -> None:
    population = BY_NAME[name]
    told = printed(population, a_first_run(population, population.easy, np.random.default_rng(42)))
    assert (told.headroom, told.violation) == (None, None)
    assert "whole parts" in told.note
