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
from tests.stats.simulated import until_settled
from tests.verdict.populations import ALPHA_FAIL, POPULATIONS, Population
from tests.verdict.test_decide import a_check, a_record, a_test

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]

SPECS, TOGETHER = 2000, 250
"""Samples of each requirement at most, and those of which gates are made."""
SLOW = {"Wasserstein distance": TOGETHER, "resampled ratio": TOGETHER, "kappa": 600, "total variation": 600}
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
    samples = (drawn(population, population.threshold, rng) for _ in range(SPECS))
    return np.array(until_settled(samples, claimed, most(name), SLOW.get(name, SPECS), TOGETHER))


def claimed(p: tuple[float, float]) -> tuple[bool, bool]:
    """PASS and FAIL."""
    return p[0] <= 0.05, p[1] <= ALPHA_FAIL


def most(name: str) -> NDArray[np.float64]:
    """Shares of PASS and of FAIL that all samples may show."""
    samples = SLOW.get(name, SPECS)
    return np.array([allowed(samples, rate) for rate in (0.05, 0.01)]) / samples


def allowed(samples: int, rate: float) -> int:
    """The count that a true rate exceeds once in 1,000."""
    return int(binom.isf(RARELY, samples, rate))


@pytest.mark.parametrize("name", list(BY_NAME))
def test_whichever_requirement_is_violated_ready_is_rare(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The other 24 hold with ease: READY is a PASS of the one that does not; and it hardly ever FAILs at its limit."""
    found = at_the_limit(name, tmp_path_factory)
    assert (np.mean([claimed((p[0], p[1])) for p in found], axis=0) <= most(name)).all()


def test_the_word_follows_from_the_p_values(tmp_path_factory: pytest.TempPathFactory) -> None:
    """25 requirements at their limits at once, through the rules themselves: NOT READY is rare, READY does not come."""
    columns = [at_the_limit(one.name, tmp_path_factory) for one in POPULATIONS]
    failed = ready = 0
    for row in range(TOGETHER):
        pairs = zip(POPULATIONS, (found[row] for found in columns), strict=True)
        tests = [
            a_test(f"r{index}", sentence=one.sentence, p_pass=float(p[0]), p_fail=float(p[1]))
            for index, (one, p) in enumerate(pairs)
        ]
        word = decide(a_record(*(a_check(test, id=test.check) for test in tests))).word
        failed += word == "NOT READY"
        ready += word == "READY"
    assert failed <= allowed(TOGETHER, 0.05)
    assert ready == 0
