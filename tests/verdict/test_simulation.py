"""Error rates of the whole verdict, from sample to word, at a fixed seed.

A limit on a rate is the count that a true rate of 5 % exceeds once in 1,000: 41 of 500, 73 of 1,000, 131 of 2,000.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from evalspec.evidence.test import Test
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import Proportion
from evalspec.verdict import decide
from tests.verdict.test_decide import a_check, a_record, a_test, status_of

pytestmark = pytest.mark.slow

N = 1000


@cache
def proportion_test(name: str, hits: int, threshold: float) -> Test:
    estimate = Proportion.of_counts(hits, N)
    return a_test(
        name,
        threshold=threshold,
        value=hits / N,
        p_pass=estimate.p_value(threshold, "lower"),
        p_fail=estimate.p_value(threshold, "upper"),
    )


@pytest.mark.proof
def test_twenty_requirements_at_their_thresholds_rarely_fail() -> None:
    rng = np.random.default_rng(20)
    truths = np.resize([0.5, 0.9, 0.95, 0.98, 0.99], 20)
    any_fail = 0
    for hits in rng.binomial(N, truths, size=(1000, 20)):
        tests = [proportion_test(f"r{i}", int(k), float(t)) for i, (k, t) in enumerate(zip(hits, truths, strict=True))]
        verdict = decide(a_record(*(a_check(test, id=test.check) for test in tests)))
        any_fail += verdict.word == "NOT READY"
    assert any_fail <= 73


@pytest.mark.proof
def test_ready_is_rare_when_one_requirement_is_violated() -> None:
    """Nineteen hold with ease, one lies exactly at its threshold: an intersection-union test."""
    rng = np.random.default_rng(21)
    ready = 0
    # Samples with equally many hits are one record, and get one word.
    for hits, samples in zip(*np.unique(rng.binomial(N, 0.95, size=2000), return_counts=True), strict=True):
        tests = [proportion_test(f"r{i}", 990, 0.95) for i in range(19)] + [proportion_test("last", int(hits), 0.95)]
        word = decide(a_record(*(a_check(test, id=test.check) for test in tests))).word
        ready += int(samples) if word == "READY" else 0
    assert ready <= 131


def test_a_three_point_drop_is_failed_among_twenty() -> None:
    """2,000 pairs, 5 % discordance, `accuracy >= baseline - 1 pp`, FAIL after Holm over 20 in at least 88 %."""
    rng = np.random.default_rng(22)
    others = [proportion_test(f"r{i}", 990, 0.95) for i in range(19)]
    failed = 0
    for lost, won in rng.multinomial(2000, [0.04, 0.01, 0.95], size=300)[:, :2]:
        baseline = np.ones(2000, dtype=bool)
        candidate = np.ones(2000, dtype=bool)
        candidate[:lost] = False
        baseline[lost : lost + won] = False
        pair = paired_proportion(candidate, baseline, rng=rng, alpha=0.05 / 20).difference(1.0, -0.01)
        drop = a_test(
            threshold=-1.0, unit="pp", p_pass=pair.p_value(-0.01, "lower"), p_fail=pair.p_value(-0.01, "upper")
        )
        verdict = decide(a_record(a_check(drop), *(a_check(test, id=test.check) for test in others)))
        failed += status_of(verdict, "quality/accuracy") == "FAIL"
    assert failed >= 0.88 * 300
