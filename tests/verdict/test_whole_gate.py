"""Error rates of a gate of 25 requirements, each by another estimator, from sample to word.

A limit on a rate is the count that the true rate exceeds once in 1,000: of 5 % that is 131 of 2,000 samples.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from evalspec.evidence.estimate import Side
from evalspec.verdict import decide
from tests.shared import shared_array
from tests.verdict.populations import ALPHA_FAIL, POPULATIONS, Population
from tests.verdict.test_decide import a_check, a_record, a_test

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]

SPECS = 2000
SLOW = {"Wasserstein distance": 250, "resampled ratio": 250, "kappa": 600, "total variation": 600}
"""Of these so many: each of their samples takes 10 to 200 ms."""
RARELY = 0.001
BY_NAME = {one.name: one for one in POPULATIONS}


def drawn(population: Population, truth: float, rng: np.random.Generator) -> tuple[float, float]:
    """p_pass and p_fail of a sample; 1 where there is no bound."""
    estimate = population.draw(truth, rng)
    passing: Side = "upper" if population.requirement.upper else "lower"
    failing: Side = "lower" if population.requirement.upper else "upper"
    p_pass, p_fail = (estimate.p_value(population.threshold, side) for side in (passing, failing))
    return 1.0 if p_pass is None else p_pass, 1.0 if p_fail is None else p_fail


def at_the_limit(name: str, factory: pytest.TempPathFactory) -> NDArray[np.float64]:
    """p_pass and p_fail of many samples, the truth exactly at the threshold; shape (samples, 2)."""
    return shared_array(factory, f"at the limit: {name}", lambda: _at_the_limit(name))


def _at_the_limit(name: str) -> NDArray[np.float64]:
    population, rng = BY_NAME[name], np.random.default_rng([31, list(BY_NAME).index(name)])
    return np.array([drawn(population, population.threshold, rng) for _ in range(SLOW.get(name, SPECS))])


def allowed(samples: int, rate: float) -> int:
    """The count that a true rate exceeds once in 1,000."""
    return int(binom.isf(RARELY, samples, rate))


@pytest.mark.parametrize("name", list(BY_NAME))
def test_whichever_requirement_is_violated_ready_is_rare(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The other 24 hold with ease: READY is a PASS of the one that does not; and it hardly ever FAILs at its limit."""
    found = at_the_limit(name, tmp_path_factory)
    assert np.sum(found[:, 0] <= 0.05) <= allowed(len(found), 0.05)
    assert np.sum(found[:, 1] <= ALPHA_FAIL) <= allowed(len(found), 0.01)


def test_the_word_follows_from_the_p_values(tmp_path_factory: pytest.TempPathFactory) -> None:
    """25 requirements at their limits at once, through the rules themselves: NOT READY is rare, READY does not come."""
    columns = [at_the_limit(one.name, tmp_path_factory) for one in POPULATIONS]
    specs = min(len(column) for column in columns)
    failed = ready = 0
    for row in range(specs):
        pairs = zip(POPULATIONS, (found[row] for found in columns), strict=True)
        tests = [
            a_test(f"r{index}", sentence=one.sentence, p_pass=float(p[0]), p_fail=float(p[1]))
            for index, (one, p) in enumerate(pairs)
        ]
        word = decide(a_record(*(a_check(test, id=test.check) for test in tests))).word
        failed += word == "NOT READY"
        ready += word == "READY"
    assert failed <= allowed(specs, 0.05)
    assert ready == 0
