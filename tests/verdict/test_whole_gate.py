"""Error rates of a gate of 25 requirements, each by another estimator, from sample to word.

A limit on a rate is the count that a true rate of 5 % exceeds once in 1,000: 131 of 2,000.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.evidence.estimate import Side
from evalspec.verdict import decide
from tests.verdict.populations import ALPHA_FAIL, POPULATIONS, Population
from tests.verdict.test_decide import a_check, a_record, a_test

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]

SPECS = 2000
ALLOWED = 131
BY_NAME = {one.name: one for one in POPULATIONS}


def drawn(population: Population, truth: float, rng: np.random.Generator) -> tuple[float, float]:
    """p_pass and p_fail of a sample; 1 where there is no bound."""
    estimate = population.draw(truth, rng)
    passing: Side = "upper" if population.requirement.upper else "lower"
    failing: Side = "lower" if population.requirement.upper else "upper"
    p_pass, p_fail = (estimate.p_value(population.threshold, side) for side in (passing, failing))
    return 1.0 if p_pass is None else p_pass, 1.0 if p_fail is None else p_fail


def p_values(population: Population, truth: float, seed: int, specs: int = SPECS) -> NDArray[np.float64]:
    """p_pass and p_fail of many samples, shape (specs, 2)."""
    rng = np.random.default_rng(seed)
    return np.array([drawn(population, truth, rng) for _ in range(specs)])


@pytest.fixture(scope="module", params=[one.name for one in POPULATIONS])
def at_the_limit(request: pytest.FixtureRequest) -> tuple[Population, NDArray[np.float64]]:
    """Each estimator, its truth exactly at the threshold."""
    population = BY_NAME[request.param]
    return population, p_values(population, population.threshold, seed=31)


def test_whichever_requirement_is_violated_ready_is_rare(at_the_limit: tuple[Population, NDArray[np.float64]]) -> None:
    """The other 24 hold with ease: READY is a PASS of the one that does not; and it hardly ever FAILs at its limit."""
    population, found = at_the_limit
    assert np.sum(found[:, 0] <= 0.05) <= ALLOWED, population.name
    # Of 2,000, what a true rate of 1 % exceeds once in 1,000.
    assert np.sum(found[:, 1] <= ALPHA_FAIL) <= 35, population.name


def test_the_word_follows_from_the_p_values() -> None:
    """25 requirements at their limits at once, through the rules themselves: NOT READY is rare, READY does not come."""
    columns = [p_values(one, one.threshold, seed=32, specs=400) for one in POPULATIONS]
    failed = ready = 0
    for row in range(400):
        pairs = zip(POPULATIONS, (found[row] for found in columns), strict=True)
        tests = [
            a_test(f"r{index}", sentence=one.sentence, p_pass=float(p[0]), p_fail=float(p[1]))
            for index, (one, p) in enumerate(pairs)
        ]
        word = decide(a_record(*(a_check(test, id=test.check) for test in tests))).word
        failed += word == "NOT READY"
        ready += word == "READY"
    # Of 400, what a true rate of 5 % exceeds once in 1,000.
    assert failed <= 34
    assert ready == 0
